//! Which NodePools use which EC2NodeClass.

use crate::catalog::TypeSet;
use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use super::Kept;
use crate::cluster::relation::{Change, Counts, Relation};

/// The NodePools of every EC2NodeClass.
#[derive(Debug)]
pub(crate) struct ClassPools {
    /// By the name of the class.
    pools: Relation<1, Object>,
    /// Names of classes in patches and fragments, which say little about the pool that they become
    /// part of.
    partial: Counts<String>,
    /// Pools that refer to a class whose name is not known, so that they may use any.
    unknown: Counts<()>,
}

/// The NodePools of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    /// The pools that are known, in the order of their names.
    pub pools: Vec<Object>,
    /// Whether others may use the class that are seen, but not well enough.
    pub more: bool,
}

impl Kept for ClassPools {
    fn new(index: &Index) -> ClassPools {
        let mut out = ClassPools {
            pools: Relation::new("pools of a class"),
            partial: Counts::new("parts of pools of a class"),
            unknown: Counts::new("pools of an unknown class"),
        };
        for object in index.objects() {
            out.change(Change::Come, object, &mut Touched::unwanted());
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if !object.is(Kind::NODE_POOL) {
            return;
        }
        match class_name(object) {
            Class::Named(name) if object.is_partial() => {
                self.partial.change(change, name.to_owned(), touched);
            }
            Class::Named(name) => self.pools.change(change, [name], object, touched),
            Class::Unknown if !object.is_partial() => self.unknown.change(change, (), touched),
            Class::Unknown | Class::Other => {}
        }
    }
}

impl ClassPools {
    /// The pools that use a class.
    pub(crate) fn of(&self, class: &Object) -> Users {
        let name = class.name();
        Users {
            pools: self.pools.get([name]).to_vec(),
            more: self.partial.has(&name.to_owned()) || self.unknown.has(&()),
        }
    }
}

impl Users {
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
        let all = !self.more && !known.is_empty() && known.len() == self.pools.len();
        all.then_some(known)
    }
}

enum Class<'a> {
    Named(&'a str),
    Unknown,
    Other,
}

fn class_name(pool: &Object) -> Class<'_> {
    let reference = pool.path(&["spec", "template", "spec", "nodeClassRef"]);
    let (group, kind) = (reference.get("group"), reference.get("kind"));
    let differs = |node: &Node<'_>, word: &str| node.text().is_some_and(|text| text != word);
    if differs(&group, Kind::EC2_NODE_CLASS.group) || differs(&kind, Kind::EC2_NODE_CLASS.kind) {
        return Class::Other;
    }
    let name = reference.get("name");
    match name.text() {
        Some(name) if group.text().is_some() && kind.text().is_some() => Class::Named(name),
        // Without group and kind the API server takes no pool.
        Some(_) if !group.is_unknown() && !kind.is_unknown() => Class::Other,
        Some(_) => Class::Unknown,
        None if name.is_unknown() || reference.is_unknown() => Class::Unknown,
        None => Class::Other,
    }
}
