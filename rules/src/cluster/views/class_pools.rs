//! NodePools by the EC2NodeClass that they use.

use std::cmp::Ordering;

use crate::catalog::TypeSet;
use crate::cluster::Cluster;
use crate::cluster::table::{View, ViewSlot};
use crate::cluster::together::company;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// NodePools by the EC2NodeClass that they use.
pub(crate) struct ClassPools;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClassPoolKey {
    /// By the name of the class.
    Class(String),
    /// Patches and fragments, by the name of the class: they contain only part of a pool.
    PartialOfClass(String),
    /// Pools whose class is not known, so that they may use any class.
    UnknownClass,
}

impl View for ClassPools {
    const SLOT: ViewSlot = ViewSlot::ClassPools;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    const PARTIAL: bool = true;
    type Row = Object;
    type Key = ClassPoolKey;

    fn keys(object: &Object) -> Vec<ClassPoolKey> {
        match class_ref(object) {
            ClassRef::Named(name) if object.is_partial() => {
                vec![ClassPoolKey::PartialOfClass(name.to_owned())]
            }
            ClassRef::Named(name) => vec![ClassPoolKey::Class(name.to_owned())],
            ClassRef::Unknown if !object.is_partial() => vec![ClassPoolKey::UnknownClass],
            ClassRef::Unknown | ClassRef::Other => Vec::new(),
        }
    }
}

/// The NodePools of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolsOfClass {
    /// The known pools, in the order of their names.
    pub pools: Vec<Object>,
    /// Whether other pools may use the class, whose definition is incomplete.
    pub incomplete: bool,
}

/// The NodePools of each EC2NodeClass.
#[derive(Clone, Copy)]
pub(crate) struct PoolsByClass<'i>(pub(super) &'i Cluster);

impl PoolsByClass<'_> {
    /// The pools that use a class. Of several classes of one name in the input a pool uses the one that is surest
    /// to be applied together with it: that of its own file first.
    pub(crate) fn pools_of(self, class: &Object) -> PoolsOfClass {
        let table = self.0.table::<ClassPools>();
        let name = || class.name().to_owned();
        let kind = Kind::EC2_NODE_CLASS;
        let classes = self.0.all(kind.group, kind.kind, "default", class.name());
        let mut found = PoolsOfClass {
            pools: Vec::new(),
            incomplete: table.contains(&ClassPoolKey::PartialOfClass(name()))
                || table.contains(&ClassPoolKey::UnknownClass),
        };
        for pool in table.get(&ClassPoolKey::Class(name())) {
            let others = classes.iter().filter(|other| !other.ptr_eq(class) && class.origin().is_some());
            let nearest = others.map(|other| company(pool, other)).min();
            match nearest.map(|other| company(pool, class).cmp(&other)) {
                None | Some(Ordering::Less) if self.0.pairs(class, pool) => found.pools.push(pool.clone()),
                Some(Ordering::Greater) => {}
                // It may use this class or another.
                _ => found.incomplete = true,
            }
        }
        found
    }
}

impl PoolsOfClass {
    /// The pools whose types are known, with their types.
    pub(crate) fn with_types(&self) -> impl Iterator<Item = (&Object, TypeSet)> {
        self.pools.iter().filter_map(|object| {
            let types = NodePool::new(object)?.types()?;
            (!types.is_empty()).then_some((object, types))
        })
    }

    /// The types of every pool that uses the class. `None` if there is no pool, or if the types of one are
    /// not known.
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
        // The API server rejects a pool whose reference has no group and kind.
        Some(_) if !group.is_unknown() && !kind.is_unknown() => ClassRef::Other,
        Some(_) => ClassRef::Unknown,
        None if name.is_unknown() || reference.is_unknown() => ClassRef::Unknown,
        None => ClassRef::Other,
    }
}
