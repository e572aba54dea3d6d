//! The number of pods that a PodDisruptionBudget keeps available, and the number that it selects.

use crate::cluster::Cluster;
use crate::cluster::views::Workload;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::{is_workflow, workload_kind};

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
    /// Whether all are Pods without a controller. The disruption controller counts them for a whole number in
    /// `minAvailable`; for `maxUnavailable` and percentages it expects no pods at all, and then allows no eviction.
    pub(crate) bare: bool,
}

impl SelectedPods {
    /// Number of pods that may be evicted while `pods` of them run and are healthy.
    pub(crate) fn disruptions_allowed(&self, keep: IntOrPercent, pods: i64) -> i64 {
        match keep {
            IntOrPercent::Percent(_) if self.bare => 0,
            _ => keep.disruptions_allowed(pods),
        }
    }
}

/// The number of pods of the workloads. `None` if the kind or number of one is unknown, or if Pods without a controller
/// are among others.
pub(crate) fn selected_pods(workloads: &[&Workload], cluster: &Cluster) -> Option<SelectedPods> {
    if workloads.is_empty() {
        return None;
    }
    if workloads.iter().all(|workload| is_lasting_bare_pod(&workload.object)) {
        let count = i64::try_from(workloads.len()).ok()?;
        return Some(SelectedPods {
            floor: count,
            ceiling: count,
            scaled: false,
            written: false,
            bare: true,
        });
    }
    let mut pods = SelectedPods { floor: 0, ceiling: 0, scaled: false, written: true, bare: false };
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

/// Whether an object is a Pod without a controller that runs until it is deleted.
fn is_lasting_bare_pod(object: &Object) -> bool {
    let restarts = object.path(&["spec", "restartPolicy"]);
    object.is(Kind::POD)
        && !object.is_owned()
        && !object.is_partial()
        && (restarts.is_absent() || restarts.text() == Some("Always"))
}

/// Whether a PDB certainly never allows an eviction, whatever the health of its pods.
pub(crate) fn never_allows_eviction(pdb: &Object, cluster: &Cluster) -> bool {
    let spec = pdb.get("spec");
    let most = spec.get("maxUnavailable");
    let least = spec.get("minAvailable");
    if !spec.get("selector").is_set() || pdb.is_partial() || spec.is_unknown() {
        return false;
    }
    let selected = || {
        let (workloads, unknown) = cluster.views().selected_by(pdb);
        if unknown { None } else { selected_pods(&workloads, cluster) }
    };
    match (most.is_set(), least.is_set()) {
        // The API server rejects a PDB that sets both.
        (true, true) => false,
        (false, false) => true,
        (true, false) => match IntOrPercent::read(&most) {
            None => false,
            Some(IntOrPercent::Count(0) | IntOrPercent::Percent(0)) => true,
            Some(_) => selected().is_some_and(|pods| pods.bare),
        },
        (false, true) => match IntOrPercent::read(&least) {
            None => false,
            Some(IntOrPercent::Percent(100)) => true,
            Some(keep) => selected()
                .is_some_and(|pods| pods.ceiling > 0 && pods.disruptions_allowed(keep, pods.ceiling) <= 0),
        },
    }
}

const JOB: &str = "a Job";
const RAY_CLUSTER: &str = "a RayCluster";

/// The kinds whose pods belong to objects without a `scale` subresource, with the kind of these owners (the CRDs of KubeRay
/// 1.7, the Spark Operator, Volcano and the runners of GitHub have `status` alone).
const OWNERS_WITHOUT_SCALE: [(Kind, &str); 12] = [
    (Kind::JOB, JOB),
    (Kind::CRON_JOB, JOB),
    (Kind::SCALED_JOB, JOB),
    (Kind::JOB_SET, JOB),
    (Kind::TRAIN_JOB, JOB),
    (Kind::DAEMON_SET, "a DaemonSet"),
    (Kind::RAY_CLUSTER, RAY_CLUSTER),
    (Kind::RAY_JOB, RAY_CLUSTER),
    (Kind::RAY_SERVICE, RAY_CLUSTER),
    (Kind::VOLCANO_JOB, "a Volcano Job"),
    (Kind::SPARK_APPLICATION, "a SparkApplication"),
    (Kind::AUTOSCALING_RUNNER_SET, "an EphemeralRunner"),
];

/// The owner of the pods of a workload, as in "a Job", if it has no `scale` subresource: the disruption controller
/// (`getScaleController`) then cannot compute `maxUnavailable` and percentages. `None` for other owners.
pub(crate) fn owner_without_scale(workload: &Object) -> Option<&'static str> {
    if is_workflow(workload) {
        return Some("a Workflow");
    }
    OWNERS_WITHOUT_SCALE.iter().find(|(kind, _)| workload.is(*kind)).map(|(_, owner)| *owner)
}

/// Whether the pods of a workload belong to a Job.
pub(crate) fn runs_as_job(workload: &Object) -> bool {
    owner_without_scale(workload) == Some(JOB)
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
