//! NodePools by the EC2NodeClass that they use.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::catalog::TypeSet;
use crate::cluster::Cluster;
use crate::cluster::dependencies::{Digest, digest};
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::table::{View, ViewSlot};
use crate::cluster::together::{Company, company, folder, of_folders, routes};
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
        let kind = Kind::EC2_NODE_CLASS;
        let classes = self.0.all(kind.group, kind.kind, "default", class.name());
        if classes.len() <= MAX_COMPARED {
            return self.compare(class, classes);
        }
        let name = class.name().to_owned();
        let known = self.0.query_part::<PoolsOfClasses>(&name, digest(class.ptr_id()));
        match known.by_handle.get(&class.ptr_id()) {
            Some(known) => known.clone(),
            // A patch is none of them, and a class under review may not be either.
            None if class.origin().is_some() => self.compare_with_nearest(class, &name),
            None => self.compare(class, classes),
        }
    }

    /// The same for a class that is none of those of its name that are known.
    fn compare_with_nearest(self, class: &Object, name: &String) -> PoolsOfClass {
        let known = self.0.query::<PoolsOfClasses>(name);
        let pools = self.0.table::<ClassPools>().get(&ClassPoolKey::Class(name.clone()));
        if known.nearest.len() != pools.len() {
            let kind = Kind::EC2_NODE_CLASS;
            return self.compare(class, self.0.all(kind.group, kind.kind, "default", name));
        }
        let mut found = PoolsOfClass { pools: Vec::new(), incomplete: has_unknown_users(self.0, name) };
        for (pool, nearest) in pools.iter().zip(&known.nearest) {
            match company(pool, class).cmp(nearest) {
                Ordering::Less if self.0.pairs(class, pool) => found.pools.push(pool.clone()),
                Ordering::Greater => {}
                _ => found.incomplete = true,
            }
        }
        found
    }

    /// The same, by a comparison of all classes of the name for each pool.
    fn compare(self, class: &Object, classes: &[Object]) -> PoolsOfClass {
        let table = self.0.table::<ClassPools>();
        let mut found =
            PoolsOfClass { pools: Vec::new(), incomplete: has_unknown_users(self.0, class.name()) };
        for pool in table.get(&ClassPoolKey::Class(class.name().to_owned())) {
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

/// With so many classes of one name each pool is compared.
const MAX_COMPARED: usize = 8;

/// Whether pools that are not known in full may use the classes of a name.
fn has_unknown_users(cluster: &Cluster, name: &str) -> bool {
    let table = cluster.table::<ClassPools>();
    table.contains(&ClassPoolKey::PartialOfClass(name.to_owned()))
        || table.contains(&ClassPoolKey::UnknownClass)
}

/// The pools of all classes of a name at once, by where the files of classes are: many folders may each have a class of
/// one name.
struct PoolsOfClasses;

/// The pools of each class. Empty if one of the objects is of no file.
#[derive(Debug, Default)]
struct PoolsByHandle {
    /// By the [`Object::ptr_id`] of the class.
    by_handle: HashMap<usize, PoolsOfClass>,
    /// For each pool that names the class, in their order, how near the nearest class is.
    nearest: Vec<Company>,
}

impl PartialEq for PoolsByHandle {
    fn eq(&self, other: &PoolsByHandle) -> bool {
        self.nearest == other.nearest && PoolsOfClasses::changed(self, other).next().is_none()
    }
}

impl PoolsOfClasses {
    /// The classes whose pools are not the same in both.
    fn changed<'v>(old: &'v PoolsByHandle, new: &'v PoolsByHandle) -> impl Iterator<Item = usize> {
        let is_same = |a: &PoolsOfClass, b: &PoolsOfClass| {
            a.incomplete == b.incomplete
                && a.pools.len() == b.pools.len()
                && a.pools.iter().zip(&b.pools).all(|(a, b)| a.ptr_eq(b))
        };
        let differs = move |class: &&usize| match (old.by_handle.get(class), new.by_handle.get(class)) {
            (Some(a), Some(b)) => !is_same(a, b),
            (a, b) => a.is_some() != b.is_some(),
        };
        let mut all: Vec<&usize> = old.by_handle.keys().chain(new.by_handle.keys()).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().filter(differs).copied()
    }
}

impl Query for PoolsOfClasses {
    const SLOT: QuerySlot = QuerySlot::ClassPools;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS];
    type Key = String;
    type Value = Arc<PoolsByHandle>;

    fn compute(cluster: &Cluster, name: &String) -> Arc<PoolsByHandle> {
        let kind = Kind::EC2_NODE_CLASS;
        let classes = cluster.all(kind.group, kind.kind, "default", name);
        let pools = cluster.table::<ClassPools>().get(&ClassPoolKey::Class(name.clone()));
        if classes.iter().chain(pools).any(|object| object.origin().is_none()) {
            return Arc::default();
        }
        let incomplete = has_unknown_users(cluster, name);
        let mut found: Vec<PoolsOfClass> =
            classes.iter().map(|_| PoolsOfClass { pools: Vec::new(), incomplete }).collect();
        let mut places = ClassPlaces::of(classes);
        let mut nearest = Vec::with_capacity(pools.len());
        for pool in pools {
            let (company, those) = places.nearest(pool);
            nearest.push(company);
            match those {
                Nearest::One(class) if cluster.pairs(&classes[class], pool) => {
                    found[class].pools.push(pool.clone());
                }
                Nearest::One(class) => found[class].incomplete = true,
                Nearest::Several(those) => {
                    those.iter().for_each(|class| found[*class].incomplete = true);
                }
                Nearest::SeveralAgain => {}
            }
        }
        let handles = classes.iter().map(Object::ptr_id);
        Arc::new(PoolsByHandle { by_handle: handles.zip(found).collect(), nearest })
    }

    fn changed_parts(old: &Arc<PoolsByHandle>, new: &Arc<PoolsByHandle>) -> Vec<Digest> {
        PoolsOfClasses::changed(old, new).map(digest).collect()
    }
}

/// Where the classes of one name are, by their positions among them. All of them, and all pools, are of files, and of no
/// namespace.
struct ClassPlaces<'c> {
    by_file: HashMap<&'c str, Vec<usize>>,
    by_root: HashMap<&'c str, Vec<usize>>,
    by_folder: BTreeMap<&'c str, Vec<usize>>,
    count: usize,
    /// What is nearest for pools of a folder whose file, kustomizations and folder have no class.
    around: HashMap<&'c str, (Company, Around)>,
    /// The places whose classes are all as near as any other one for some pool.
    told: HashSet<(Company, String)>,
}

/// The classes that are nearest to a folder that has none.
enum Around {
    One(usize),
    Several(Vec<usize>),
}

/// The classes that are nearest to a pool.
enum Nearest {
    One(usize),
    Several(Vec<usize>),
    /// Several, which were given before.
    SeveralAgain,
}

impl<'c> ClassPlaces<'c> {
    fn of(classes: &'c [Object]) -> ClassPlaces<'c> {
        let mut places = ClassPlaces {
            by_file: HashMap::new(),
            by_root: HashMap::new(),
            by_folder: BTreeMap::new(),
            count: classes.len(),
            around: HashMap::new(),
            told: HashSet::new(),
        };
        for (at, class) in classes.iter().enumerate() {
            let path = path(class);
            places.by_file.entry(path).or_default().push(at);
            places.by_folder.entry(folder(path)).or_default().push(at);
            for route in routes(class) {
                let of_root = places.by_root.entry(&*route.root).or_default();
                if of_root.last() != Some(&at) {
                    of_root.push(at);
                }
            }
        }
        places
    }

    /// The classes that are nearest to a pool, and how near they are.
    fn nearest(&mut self, pool: &'c Object) -> (Company, Nearest) {
        let path = path(pool);
        if let Some(those) = self.by_file.get(path) {
            return tell(&mut self.told, those, || (Company::File, path.to_owned()));
        }
        let roots = routes(pool).iter().map(|route| &*route.root);
        let mut reached: Vec<&str> = roots.filter(|root| self.by_root.contains_key(root)).collect();
        reached.sort_unstable();
        reached.dedup();
        if let [first, more @ ..] = reached.as_slice() {
            let place = || (Company::Kustomization, reached.join("\n"));
            if more.is_empty() {
                return tell(&mut self.told, &self.by_root[first], place);
            }
            if self.told.contains(&place()) {
                return (Company::Kustomization, Nearest::SeveralAgain);
            }
            let mut those: Vec<usize> =
                reached.iter().flat_map(|root| &self.by_root[root]).copied().collect();
            those.sort_unstable();
            those.dedup();
            return tell(&mut self.told, &those, place);
        }
        let here = folder(path);
        if let Some(those) = self.by_folder.get(here) {
            return tell(&mut self.told, those, || (Company::Folder, here.to_owned()));
        }
        let (company, around) = self.around.entry(here).or_insert_with(|| {
            let near = self.by_folder.iter().filter(|(there, _)| of_folders(here, there) == Company::Below);
            let mut near: Vec<usize> = near.flat_map(|(_, those)| those).copied().collect();
            let company = if near.is_empty() { Company::Apart } else { Company::Below };
            if near.is_empty() && (self.count == 1 || self.told.insert((Company::Apart, String::new()))) {
                near = (0..self.count).collect();
            }
            match near.as_slice() {
                [one] => (company, Around::One(*one)),
                _ => (company, Around::Several(near)),
            }
        });
        let nearest = match around {
            Around::One(class) => Nearest::One(*class),
            Around::Several(those) => {
                let those = std::mem::take(those);
                if those.is_empty() { Nearest::SeveralAgain } else { Nearest::Several(those) }
            }
        };
        (*company, nearest)
    }
}

/// What is nearest where those of a place are.
fn tell(
    told: &mut HashSet<(Company, String)>,
    those: &[usize],
    place: impl Fn() -> (Company, String),
) -> (Company, Nearest) {
    let place = place();
    let company = place.0;
    let nearest = match those {
        [one] => Nearest::One(*one),
        _ if told.insert(place) => Nearest::Several(those.to_vec()),
        _ => Nearest::SeveralAgain,
    };
    (company, nearest)
}

fn path(object: &Object) -> &str {
    object.source().map_or("", |source| source.path())
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::PoolsByClass;
    use crate::cluster::Cluster;
    use crate::cluster::sets::Bond;
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
    fn pools_of_many_classes_are_those_that_a_comparison_gives() {
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
            for number in 0..9 + random(12) {
                let (path, roots) = (PATHS[random(paths)], ROOTS[random(ROOTS.len())]);
                cluster.apply(object(path, Kind::EC2_NODE_CLASS, number, roots));
            }
            for number in 0..random(20) {
                let (path, roots) = (PATHS[random(PATHS.len())], ROOTS[random(ROOTS.len())]);
                cluster.apply(object(path, Kind::NODE_POOL, number, roots));
            }
            let kind = Kind::EC2_NODE_CLASS;
            let classes = cluster.all(kind.group, kind.kind, "default", "gpu");
            let pools = PoolsByClass(&cluster);
            assert!(classes.len() > super::MAX_COMPARED);
            for class in classes {
                let names = |found: super::PoolsOfClass| {
                    let names: Vec<String> = found.pools.iter().map(|pool| pool.name().to_owned()).collect();
                    (names, found.incomplete)
                };
                assert_eq!(names(pools.pools_of(class)), names(pools.compare(class, classes)), "{round}");
            }
            // Others of the name, which the cluster does not have.
            for number in 0..4 {
                let (path, roots) = (PATHS[random(PATHS.len())], ROOTS[random(ROOTS.len())]);
                let other = object(path, Kind::EC2_NODE_CLASS, number, roots);
                let names = |found: super::PoolsOfClass| {
                    let names: Vec<String> = found.pools.iter().map(|pool| pool.name().to_owned()).collect();
                    (names, found.incomplete)
                };
                assert_eq!(names(pools.pools_of(&other)), names(pools.compare(&other, classes)), "{round}");
            }
        }
    }
}
