//! A cluster in which objects of old APIs of Karpenter stand as what they become in the current one, so that what is derived from
//! pools and node classes knows them as well.
//!
//! The manifests are those that a user is about to convert: what the rules say of them then is what is left to do afterwards.
//! An object that cannot be converted stays as it is, and is unknown to all that read pools.

use std::collections::BTreeSet;

use crate::cluster::dependencies::{Read, untracked};
use crate::cluster::{Cluster, Replaced};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;

/// An object of an old API, and what it becomes: first its successor, then what has to be created beside it.
#[derive(Clone, Debug)]
pub(crate) struct Successor {
    pub(crate) written: Object,
    pub(crate) objects: Vec<Object>,
}

/// Converts the objects of old APIs of a cluster.
pub(crate) type Convert = fn(&Cluster) -> Vec<Successor>;

/// The cluster after the conversion.
pub(crate) struct Converted {
    cluster: Cluster,
    successors: Vec<Successor>,
    convert: Convert,
}

/// The kinds of Karpenter that no current version has.
const FORMER_KINDS: [Kind; 3] = [Kind::PROVISIONER, Kind::AWS_NODE_TEMPLATE, Kind::MACHINE];
/// The kinds of Karpenter that had other versions than `v1`.
const CURRENT_KINDS: [Kind; 3] = [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NODE_CLAIM];

/// Whether an object has an API that Karpenter no longer serves.
pub(crate) fn has_old_api(object: &Object) -> bool {
    FORMER_KINDS.iter().any(|kind| object.is(*kind))
        || object.version() != "v1" && CURRENT_KINDS.iter().any(|kind| object.is(*kind))
}

fn has_objects_of_old_apis(cluster: &Cluster) -> bool {
    FORMER_KINDS.iter().any(|kind| cluster.has_any(*kind))
        || CURRENT_KINDS.iter().any(|kind| cluster.of(*kind).any(|object| object.version() != "v1"))
}

impl Converted {
    /// The cluster with the successors in the place of the objects that become them.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What an object of an old API becomes. Empty if it cannot be converted, or is not in the cluster.
    pub(crate) fn successors_of(&self, written: &Object) -> &[Object] {
        let found = self.successors.iter().find(|one| one.written.ptr_eq(written));
        found.map_or(&[], |one| one.objects.as_slice())
    }

    fn new(cluster: &Cluster, convert: Convert) -> Converted {
        let successors = convert(cluster);
        let mut converted = Cluster {
            outside: cluster.outside.clone(),
            incremental: cluster.incremental,
            admissions: cluster.admissions.clone(),
            ..cluster.excerpt()
        };
        let replaced = written(&successors);
        for object in cluster.objects().iter().filter(|object| !replaced.contains(&object.ptr_id())) {
            converted.apply(object.clone());
        }
        for object in successors.iter().flat_map(|one| &one.objects) {
            converted.apply(object.clone());
        }
        converted.take_versions_of(cluster);
        Converted { cluster: converted, successors, convert }
    }

    /// Follows a change of the written objects. `all` has them after it.
    fn replace(&mut self, all: &Cluster, old: &[Object], new: &[Object]) -> Replaced {
        let is_of_karpenter = |object: &Object| object.group().starts_with("karpenter");
        let before = written(&self.successors);
        let mut now = match old.iter().chain(new).any(is_of_karpenter) {
            true => untracked(|| steps::unlimited(|| (self.convert)(all))),
            false => self.successors.clone(),
        };
        // One that became the same stays the same object.
        for one in &mut now {
            let known = self.successors.iter().find(|known| known.written.ptr_eq(&one.written));
            if let Some(known) = known.filter(|known| are_equal(&known.objects, &one.objects)) {
                one.objects.clone_from(&known.objects);
            }
        }
        let after = written(&now);
        let ids = |objects: &[Object]| objects.iter().map(Object::ptr_id).collect::<BTreeSet<_>>();
        let (removed, added) = (ids(old), ids(new));
        let made = |all: &[Successor]| all.iter().flat_map(|one| one.objects.clone()).collect::<Vec<_>>();
        let (made_before, made_now) = (made(&self.successors), made(&now));
        let (known, kept) = (ids(&made_before), ids(&made_now));
        // Besides the successors, an object that could not be converted before, or cannot now, is another one.
        let leaves = |object: &&Object| !before.contains(&object.ptr_id());
        let enters = |object: &&Object| !after.contains(&object.ptr_id());
        let begins = |one: &&Successor| {
            let id = one.written.ptr_id();
            !before.contains(&id) && !added.contains(&id)
        };
        let ends = |one: &&Successor| {
            let id = one.written.ptr_id();
            !after.contains(&id) && !removed.contains(&id)
        };
        let gone = old.iter().filter(leaves).chain(now.iter().filter(begins).map(|one| &one.written));
        let gone = gone.chain(made_before.iter().filter(|object| !kept.contains(&object.ptr_id())));
        let come =
            new.iter().filter(enters).chain(self.successors.iter().filter(ends).map(|one| &one.written));
        let come = come.chain(made_now.iter().filter(|object| !known.contains(&object.ptr_id())));
        let (gone, come): (Vec<Object>, Vec<Object>) = (gone.cloned().collect(), come.cloned().collect());
        self.successors = now;
        let replaced = self.cluster.replace(&gone, &come);
        self.cluster.take_versions_of(all);
        replaced
    }
}

/// The objects that successors stand for.
fn written(successors: &[Successor]) -> BTreeSet<usize> {
    successors.iter().map(|one| one.written.ptr_id()).collect()
}

fn are_equal(one: &[Object], other: &[Object]) -> bool {
    let are_equal = |(a, b): (&Object, &Object)| a.root().to_json() == b.root().to_json();
    one.len() == other.len() && one.iter().zip(other).all(are_equal)
}

impl Cluster {
    /// The cluster with the objects of old APIs as what they become. `None` if there are none: nearly always, and where the
    /// objects are not those of files, because an API server converts what it stores.
    pub(crate) fn converted(&self, convert: Convert) -> Option<&Converted> {
        self.outside.as_ref()?;
        let compute = || {
            let found = has_objects_of_old_apis(self).then(|| Converted::new(self, convert));
            found.map(Box::new)
        };
        self.converted.get_or_init(|| untracked(|| steps::unlimited(compute))).as_deref()
    }

    /// The versions that the objects as written show are those of the cluster.
    fn take_versions_of(&mut self, written: &Cluster) {
        self.shown = written.shown().cloned().map(Into::into).unwrap_or_default();
    }

    /// Follows a change of objects with the cluster of successors, if anything was read from it. `reads` are those that give
    /// other results for the objects as written.
    pub(super) fn replace_converted(
        &mut self,
        before: Option<Box<Converted>>,
        old: &[Object],
        new: &[Object],
        mut reads: Vec<Read>,
    ) -> Replaced {
        let has_any = untracked(|| has_objects_of_old_apis(self));
        let mut converted = match (before, has_any) {
            (Some(converted), true) => converted,
            (None, false) => return Replaced::Reads(reads),
            // Without such objects, all rules read the objects as written.
            _ => return Replaced::Everything,
        };
        match converted.replace(self, old, new) {
            Replaced::Everything => Replaced::Everything,
            Replaced::Reads(of_successors) => {
                self.converted = Some(converted).into();
                reads.extend(of_successors);
                reads.sort_unstable();
                reads.dedup();
                Replaced::Reads(reads)
            }
        }
    }
}
