//! What a PodDisruptionBudget keeps, and of how many pods.

use crate::cluster::objects::Index;
use crate::cluster::views::Workload;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::workload_kind;

/// How many pods a PDB wants to keep.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    /// A number.
    Count(i64),
    /// A share of them, from 0 to 100.
    Percent(i64),
}

impl Keep {
    /// A number without quotes, or a percentage in them; anything else is refused.
    pub(crate) fn read(node: &Node<'_>) -> Option<Keep> {
        if let Some(count) = node.int() {
            return Some(Keep::Count(count));
        }
        let digits = node.text()?.strip_suffix('%')?;
        let percent: i64 = digits.parse().ok()?;
        (0..=100).contains(&percent).then_some(Keep::Percent(percent))
    }

    /// How many of `pods` may go while all are healthy; percentages are rounded up.
    pub(crate) fn spare(self, pods: i64) -> i64 {
        match self {
            Keep::Count(count) => pods.saturating_sub(count),
            Keep::Percent(percent) => {
                let kept = i128::from(pods) * i128::from(percent);
                let kept = i64::try_from((kept + 99) / 100).unwrap_or(i64::MAX);
                pods.saturating_sub(kept)
            }
        }
    }
}

/// The pods that a PDB selects.
pub(crate) struct Pods {
    /// The fewest.
    pub floor: i64,
    /// The most.
    pub ceiling: i64,
    /// Whether an autoscaler says so.
    pub scaled: bool,
    /// Whether every number is written.
    pub written: bool,
}

/// How many pods the workloads run; `None` where one is of a kind or a number that is not known.
pub(crate) fn pods(workloads: &[&Workload], index: &Index) -> Option<Pods> {
    if workloads.is_empty() {
        return None;
    }
    let mut pods = Pods { floor: 0, ceiling: 0, scaled: false, written: true };
    for workload in workloads {
        let object = &workload.object;
        let row = workload_kind(object)?;
        // The replicas of a LeaderWorkerSet are groups.
        if row.replicas.is_empty() || object.id().kind == "LeaderWorkerSet" {
            return None;
        }
        let replicas = index.views().replicas(object)?;
        pods.floor = pods.floor.checked_add(replicas.floor)?;
        pods.ceiling = pods.ceiling.checked_add(replicas.ceiling)?;
        pods.scaled |= replicas.scaled;
        pods.written &= replicas.scaled || object.path(row.replicas).exists();
    }
    Some(pods)
}

/// Whether a PDB is sure to allow no eviction at any time, whatever the health of its pods.
pub(crate) fn never_allows(pdb: &Object, index: &Index) -> bool {
    let spec = pdb.get("spec");
    let most = spec.get("maxUnavailable");
    let least = spec.get("minAvailable");
    if !spec.get("selector").exists() || pdb.is_partial() || spec.is_unknown() {
        return false;
    }
    match (most.exists(), least.exists()) {
        // The API server refuses both.
        (true, true) => false,
        (false, false) => true,
        (true, false) => matches!(Keep::read(&most), Some(Keep::Count(0) | Keep::Percent(0))),
        (false, true) => match Keep::read(&least) {
            None => false,
            Some(Keep::Percent(100)) => true,
            Some(keep) => {
                let (workloads, unknown) = index.views().selected_by(pdb);
                !unknown
                    && pods(&workloads, index)
                        .is_some_and(|pods| pods.ceiling > 0 && keep.spare(pods.ceiling) <= 0)
            }
        },
    }
}

/// Whether the spec alone allows no eviction, whatever the number of pods.
pub(crate) fn is_shut(pdb: &Object) -> bool {
    let spec = pdb.get("spec");
    let most = Keep::read(&spec.get("maxUnavailable"));
    let least = Keep::read(&spec.get("minAvailable"));
    matches!(most, Some(Keep::Count(0) | Keep::Percent(0))) || matches!(least, Some(Keep::Percent(100)))
}
