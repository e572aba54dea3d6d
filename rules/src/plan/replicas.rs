//! How many pods the workloads of both sides run.

use std::collections::{BTreeMap, BTreeSet};

use crate::fit::counts;
use crate::object::{Object, ObjectKey};
use crate::plan::View;
use crate::plan::pods::by_key;
use crate::workload::template::templates;

/// A pair of numbers: with the fewest and with the most replicas.
pub type Range = (u64, u64);

/// Each workload of a side with the number of its pods; `None` if that is not known.
pub(super) type Counts<'v> = BTreeMap<ObjectKey, (&'v Object, Option<Range>)>;

/// The number of pods of a workload on a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCount {
    /// There is no such workload.
    Absent,
    Unknown,
    /// With the fewest and the most replicas.
    Known(Range),
}

/// A workload that is new or gone, or runs another number of pods.
#[derive(Clone, Debug)]
pub struct Resized {
    /// The new version, or the old one if the workload is gone.
    pub workload: Object,
    pub before: PodCount,
    pub after: PodCount,
}

/// The number of pods of each workload for which Karpenter starts nodes.
pub(super) fn of<'v>(view: &View<'v>) -> Counts<'v> {
    let cluster = view.side.cluster;
    let sum = |workload: &Object| {
        templates(workload).iter().try_fold((0_u64, 0_u64), |sum, template| {
            let one: Range = counts(cluster, workload, template)?;
            Some((sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
        })
    };
    by_key(view).into_iter().map(|(key, workload)| (key, (workload, sum(workload)))).collect()
}

/// The workloads whose number of pods differs. One that is known on one side only says nothing.
pub(super) fn resized(before: &Counts<'_>, after: &Counts<'_>) -> Vec<Resized> {
    let count = |side: &Counts<'_>, key: &ObjectKey| match side.get(key) {
        None => PodCount::Absent,
        Some((_, None)) => PodCount::Unknown,
        Some((_, Some(range))) => PodCount::Known(*range),
    };
    let keys: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).collect();
    let one = |key: &ObjectKey| {
        let (old, new) = (count(before, key), count(after, key));
        let is_told = match (old, new) {
            (PodCount::Absent, _) | (_, PodCount::Absent) => true,
            (PodCount::Known(old), PodCount::Known(new)) => old != new,
            _ => false,
        };
        let (workload, _) = after.get(key).or(before.get(key))?;
        is_told.then(|| Resized { workload: (*workload).clone(), before: old, after: new })
    };
    keys.into_iter().filter_map(one).collect()
}
