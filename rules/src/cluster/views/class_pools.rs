//! Which NodePools use which EC2NodeClass.

use crate::catalog::TypeSet;
use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use super::View;
use crate::cluster::relation::{MultiIndex, Multiset, ObjectChange};

/// The NodePools of every EC2NodeClass.
#[derive(Debug)]
pub(crate) struct ClassPools {
    /// By the name of the class.
    pools: MultiIndex<1, Object>,
    /// Names of classes in patches and fragments, which say little about the pool that they become
    /// part of.
    partial: Multiset<String>,
    /// Pools that refer to a class whose name is not known, so that they may use any.
    unknown: Multiset<()>,
}

/// The NodePools of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolsOfClass {
    /// The pools that are known, in the order of their names.
    pub pools: Vec<Object>,
    /// Whether others may use the class that are seen, but not well enough.
    pub incomplete: bool,
}

impl View for ClassPools {
    fn new(index: &Index) -> ClassPools {
        let mut out = ClassPools {
            pools: MultiIndex::new("pools of a class"),
            partial: Multiset::new("parts of pools of a class"),
            unknown: Multiset::new("pools of an unknown class"),
        };
        for object in index.objects() {
            out.apply(ObjectChange::Added, object, &mut Invalidations::disabled());
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if !object.is(Kind::NODE_POOL) {
            return;
        }
        match class_ref(object) {
            ClassRef::Named(name) if object.is_partial() => {
                self.partial.apply(change, name.to_owned(), touched);
            }
            ClassRef::Named(name) => self.pools.apply(change, [name], object, touched),
            ClassRef::Unknown if !object.is_partial() => self.unknown.apply(change, (), touched),
            ClassRef::Unknown | ClassRef::Other => {}
        }
    }
}

impl ClassPools {
    /// The pools that use a class.
    pub(crate) fn pools_of(&self, class: &Object) -> PoolsOfClass {
        let name = class.name();
        PoolsOfClass {
            pools: self.pools.get([name]).to_vec(),
            incomplete: self.partial.contains(&name.to_owned()) || self.unknown.contains(&()),
        }
    }
}

impl PoolsOfClass {
    /// The pools of which the types are known, with these types.
    pub(crate) fn with_types(&self) -> impl Iterator<Item = (&Object, TypeSet)> {
        self.pools.iter().filter_map(|object| {
            let types = NodePool::new(object)?.types()?;
            (!types.is_empty()).then_some((object, types))
        })
    }

    /// The types of every pool that uses the class: `None` where there is no pool, or where the
    /// types of one are not known.
    pub(crate) fn all_types(&self) -> Option<Vec<(&Object, TypeSet)>> {
        let known: Vec<(&Object, TypeSet)> = self.with_types().collect();
        let all = !self.incomplete && !known.is_empty() && known.len() == self.pools.len();
        all.then_some(known)
    }
}

enum ClassRef<'a> {
    Named(&'a str),
    Unknown,
    Other,
}

fn class_ref(pool: &Object) -> ClassRef<'_> {
    let reference = pool.path(&["spec", "template", "spec", "nodeClassRef"]);
    let (group, kind) = (reference.get("group"), reference.get("kind"));
    let differs = |node: &Node<'_>, word: &str| node.text().is_some_and(|text| text != word);
    if differs(&group, Kind::EC2_NODE_CLASS.group) || differs(&kind, Kind::EC2_NODE_CLASS.kind) {
        return ClassRef::Other;
    }
    let name = reference.get("name");
    match name.text() {
        Some(name) if group.text().is_some() && kind.text().is_some() => ClassRef::Named(name),
        // Without group and kind the API server takes no pool.
        Some(_) if !group.is_unknown() && !kind.is_unknown() => ClassRef::Other,
        Some(_) => ClassRef::Unknown,
        None if name.is_unknown() || reference.is_unknown() => ClassRef::Unknown,
        None => ClassRef::Other,
    }
}
