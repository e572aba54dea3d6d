//! NodePools by the EC2NodeClass that they use.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::catalog::TypeSet;
use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::table::{View, ViewSlot};
use crate::cluster::together::{Company, company};
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

pub(crate) struct ClassPools;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClassPoolKey {
    Class(String),
    /// Patches and fragments, by the name of the class: they contain only part of a pool.
    PartialOfClass(String),
    /// Pools with an unknown class: they may use any.
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

#[derive(Clone, Debug, Default)]
pub(crate) struct PoolsOfClass {
    /// The known pools, in the order of their names.
    pub(crate) pools: Vec<Object>,
    /// Whether other pools, with an incomplete definition, may use the class.
    pub(crate) incomplete: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct PoolsByClass<'i>(pub(super) &'i Cluster);

impl PoolsByClass<'_> {
    /// The pools that use a class. If the input has several classes of one name, a pool uses the one that is most
    /// certainly applied together with it, preferring its own file.
    pub(crate) fn pools_of(self, class: &Object) -> PoolsOfClass {
        let cluster = self.0;
        let name = class.name().to_owned();
        let classes = classes_named(cluster, &name);
        // A patch and a class under review are not among the classes of the cluster.
        let is_known = classes.iter().any(|other| other.ptr_eq(class));
        let is_only = class.origin().is_none() || classes.len() == usize::from(is_known);
        let nearest = if is_only { Arc::default() } else { cluster.query::<NearestClasses>(&name) };
        let table = cluster.table::<ClassPools>();
        let mut found = PoolsOfClass {
            pools: Vec::new(),
            incomplete: table.contains(&ClassPoolKey::PartialOfClass(name.clone()))
                || table.contains(&ClassPoolKey::UnknownClass),
        };
        for (number, pool) in table.get(&ClassPoolKey::Class(name)).iter().enumerate() {
            let order = match nearest.get(number) {
                None => Ordering::Less,
                Some(nearest) => match nearest.only {
                    Some(only) if only == class.ptr_id() => Ordering::Less,
                    Some(_) if is_known => Ordering::Greater,
                    _ => company(pool, class).cmp(&nearest.company),
                },
            };
            match order {
                Ordering::Less if cluster.pairs(class, pool) => found.pools.push(pool.clone()),
                Ordering::Greater => {}
                // The pool may use this class or another.
                _ => found.incomplete = true,
            }
        }
        found
    }
}

fn classes_named<'c>(cluster: &'c Cluster, name: &str) -> &'c [Object] {
    let kind = Kind::EC2_NODE_CLASS;
    cluster.all(kind.group, kind.kind, "default", name)
}

/// The class with the name in a pool's reference that is most certainly applied together with the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NearestClass {
    /// How certain that is.
    company: Company,
    /// The [`Object::ptr_id`] of the class; `None` if it is equally certain for several.
    only: Option<usize>,
}

impl NearestClass {
    fn of(pool: &Object, classes: &[Object]) -> Option<NearestClass> {
        let nearest =
            |class: &Object| NearestClass { company: company(pool, class), only: Some(class.ptr_id()) };
        classes.iter().map(nearest).reduce(|best, other| match other.company.cmp(&best.company) {
            Ordering::Less => other,
            Ordering::Equal => NearestClass { only: None, ..best },
            Ordering::Greater => best,
        })
    }
}

/// The nearest class of each pool that refers to a name, in the order of the pools. Repositories of examples have a
/// class of the same name in each folder: each pair of a pool and a class is compared once for all classes of the
/// name.
struct NearestClasses;

impl Query for NearestClasses {
    const SLOT: QuerySlot = QuerySlot::NearestClasses;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS];
    type Key = String;
    type Value = Arc<[NearestClass]>;

    fn compute(cluster: &Cluster, name: &String) -> Arc<[NearestClass]> {
        let classes = classes_named(cluster, name);
        let pools = cluster.table::<ClassPools>().get(&ClassPoolKey::Class(name.clone()));
        pools.iter().filter_map(|pool| NearestClass::of(pool, classes)).collect()
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

    /// The types of every pool that uses the class. `None` if there is no pool, or if the types of one are unknown.
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

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use super::{ClassPoolKey, ClassPools, PoolsByClass};
    use crate::cluster::Cluster;
    use crate::cluster::sets::Bond;
    use crate::cluster::together::company;
    use crate::file::File;
    use crate::kind::Kind;
    use crate::object::Object;
    use crate::source::{KustomizeRoute, Source};

    /// A class or a pool named `gpu` in a file, reached by some kustomizations.
    fn object(path: &str, kind: Kind, number: usize, roots: &[&str]) -> Object {
        let name = if kind == Kind::NODE_POOL { format!("pool-{number}") } else { "gpu".to_owned() };
        let text = format!(
            "apiVersion: {}/v1\nkind: {}\nmetadata:\n  name: {name}\nspec:\n  template:\n    spec:\n      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n",
            kind.group, kind.kind
        );
        let routes: Vec<KustomizeRoute> = (roots.iter())
            .map(|root| KustomizeRoute {
                root: Arc::from(*root),
                namespace: None,
                affixes: Arc::default(),
                renames: false,
            })
            .collect();
        File::read(Source::from_text(path, &text).with_routes(routes)).objects[0].clone()
    }

    #[test]
    fn a_pool_uses_the_class_that_is_nearest() {
        const PATHS: [&str; 12] = [
            "a.yaml",
            "b.yaml",
            "x/a.yaml",
            "x/b.yaml",
            "x/y/a.yaml",
            "x/y/z/a.yaml",
            "xy/a.yaml",
            "../a.yaml",
            "/x/a.yaml",
            "/x/y/a.yaml",
            "w/a.yaml",
            "w/v/a.yaml",
        ];
        const ROOTS: [&[&str]; 8] =
            [&[], &[], &[], &["prod"], &["prod", "dev"], &["dev"], &["dev", "test"], &[]];
        let mut state = 7_usize;
        let mut random = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for round in 0..200 {
            let bond = [Bond::Folders, Bond::Certain][round % 2];
            let mut cluster = Cluster::new(round % 7 == 0).with_bond(bond);
            let paths = 1 + random(PATHS.len());
            for number in 0..random(20) {
                let (path, roots) = (PATHS[random(paths)], ROOTS[random(ROOTS.len())]);
                cluster.apply(object(path, Kind::EC2_NODE_CLASS, number, roots));
            }
            for number in 0..random(20) {
                let (path, roots) = (PATHS[random(PATHS.len())], ROOTS[random(ROOTS.len())]);
                cluster.apply(object(path, Kind::NODE_POOL, number, roots));
            }
            let mut classes = super::classes_named(&cluster, "gpu").to_vec();
            // Classes with the name that are not in the cluster.
            for number in 0..4 {
                let (path, roots) = (PATHS[random(PATHS.len())], ROOTS[random(ROOTS.len())]);
                classes.push(object(path, Kind::EC2_NODE_CLASS, number, roots));
            }
            for class in &classes {
                let found = PoolsByClass(&cluster).pools_of(class);
                let names: Vec<&str> = found.pools.iter().map(Object::name).collect();
                let wanted = compared(&cluster, class);
                assert_eq!((names, found.incomplete), wanted, "{round}");
            }
        }
    }

    /// The pools of a class, found by comparing each pool with all classes of the name, and whether other pools may
    /// use it.
    fn compared<'c>(cluster: &'c Cluster, class: &Object) -> (Vec<&'c str>, bool) {
        let (mut names, mut incomplete) = (Vec::new(), false);
        let key = ClassPoolKey::Class("gpu".to_owned());
        for pool in cluster.table::<ClassPools>().get(&key) {
            let others = super::classes_named(cluster, "gpu").iter().filter(|other| !other.ptr_eq(class));
            let nearest = others.map(|other| company(pool, other)).min();
            match nearest.map(|other| company(pool, class).cmp(&other)) {
                None | Some(Ordering::Less) if cluster.pairs(class, pool) => names.push(pool.name()),
                Some(Ordering::Greater) => {}
                _ => incomplete = true,
            }
        }
        (names, incomplete)
    }
}
