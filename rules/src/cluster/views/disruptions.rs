//! The number of pods that a PodDisruptionBudget keeps available, and the number that it selects.

use crate::cluster::Cluster;
use crate::cluster::views::Workload;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::workload_kind;

#[derive(Clone, Copy)]
pub(crate) enum IntOrPercent {
    Count(i64),
    /// A percentage, 0 to 100.
    Percent(i64),
}

impl IntOrPercent {
    /// Parses a number without quotes, or a percentage in quotes; anything else is rejected.
    pub(crate) fn read(node: &Node<'_>) -> Option<IntOrPercent> {
        if let Some(count) = node.int() {
            return Some(IntOrPercent::Count(count));
        }
        let digits = node.text()?.strip_suffix('%')?;
        let percent: i64 = digits.parse().ok()?;
        (0..=100).contains(&percent).then_some(IntOrPercent::Percent(percent))
    }

    /// The value for a number of pods; a percentage is rounded up or down.
    pub(crate) fn of(self, pods: i64, up: bool) -> i64 {
        match self {
            IntOrPercent::Count(count) => count,
            IntOrPercent::Percent(percent) => {
                let share = i128::from(pods) * i128::from(percent) + if up { 99 } else { 0 };
                i64::try_from(share / 100).unwrap_or(i64::MAX)
            }
        }
    }

    /// Number of `pods` that may be disrupted while all are healthy; percentages are rounded up.
    pub(crate) fn disruptions_allowed(self, pods: i64) -> i64 {
        pods.saturating_sub(self.of(pods, true))
    }
}

pub(crate) struct SelectedPods {
    pub(crate) floor: i64,
    pub(crate) ceiling: i64,
    /// Whether an autoscaler sets the number.
    pub(crate) scaled: bool,
    /// Whether the manifests state every number.
    pub(crate) written: bool,
}

/// The number of pods of the workloads. `None` if the kind or number of one is unknown.
pub(crate) fn selected_pods(workloads: &[&Workload], cluster: &Cluster) -> Option<SelectedPods> {
    if workloads.is_empty() {
        return None;
    }
    let mut pods = SelectedPods { floor: 0, ceiling: 0, scaled: false, written: true };
    for workload in workloads {
        let object = &workload.object;
        let row = workload_kind(object)?;
        // The replicas of a LeaderWorkerSet are groups.
        if row.replicas.is_empty() || object.is(Kind::LEADER_WORKER_SET) {
            return None;
        }
        let replicas = cluster.views().replicas(object)?;
        pods.floor = pods.floor.checked_add(replicas.min)?;
        pods.ceiling = pods.ceiling.checked_add(replicas.max)?;
        pods.scaled |= replicas.autoscaled;
        pods.written &= replicas.autoscaled || object.path(row.replicas).is_set();
    }
    Some(pods)
}

/// Whether a PDB certainly never allows an eviction, whatever the health of its pods.
pub(crate) fn never_allows_eviction(pdb: &Object, cluster: &Cluster) -> bool {
    let spec = pdb.get("spec");
    let most = spec.get("maxUnavailable");
    let least = spec.get("minAvailable");
    if !spec.get("selector").is_set() || pdb.is_partial() || spec.is_unknown() {
        return false;
    }
    match (most.is_set(), least.is_set()) {
        // The API server rejects a PDB that sets both.
        (true, true) => false,
        (false, false) => true,
        (true, false) => {
            matches!(IntOrPercent::read(&most), Some(IntOrPercent::Count(0) | IntOrPercent::Percent(0)))
        }
        (false, true) => match IntOrPercent::read(&least) {
            None => false,
            Some(IntOrPercent::Percent(100)) => true,
            Some(keep) => {
                let (workloads, unknown) = cluster.views().selected_by(pdb);
                !unknown
                    && selected_pods(&workloads, cluster)
                        .is_some_and(|pods| pods.ceiling > 0 && keep.disruptions_allowed(pods.ceiling) <= 0)
            }
        },
    }
}

/// Whether the pods of a workload belong to a Job, which has no `scale` subresource: the disruption controller then
/// cannot compute `maxUnavailable` and percentages.
pub(crate) fn runs_as_job(workload: &Object) -> bool {
    const JOBS: [Kind; 4] = [Kind::JOB, Kind::CRON_JOB, Kind::SCALED_JOB, Kind::JOB_SET];
    JOBS.iter().any(|kind| workload.is(*kind))
}

/// Whether a PDB selects pods by a label that only the Job controller sets.
pub(crate) fn selects_by_job_label(pdb: &Object) -> bool {
    const LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
    let labels = pdb.path(&["spec", "selector", "matchLabels"]);
    LABELS.iter().any(|label| labels.get(label).is_set())
}

/// Whether the spec alone allows no eviction, whatever the number of pods.
pub(crate) fn allows_none(pdb: &Object) -> bool {
    let spec = pdb.get("spec");
    let most = IntOrPercent::read(&spec.get("maxUnavailable"));
    let least = IntOrPercent::read(&spec.get("minAvailable"));
    matches!(most, Some(IntOrPercent::Count(0) | IntOrPercent::Percent(0)))
        || matches!(least, Some(IntOrPercent::Percent(100)))
}
