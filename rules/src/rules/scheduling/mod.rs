//! Whether pods, pools and node classes fit together.

pub(crate) mod auto_mode_device_plugin;
pub(crate) mod auto_mode_volume_driver;
pub(crate) mod feature_gate_off;
pub(crate) mod general_pool_admits_gpu;
pub(crate) mod gpu_device_plugin_missing;
pub(crate) mod gpu_helper_missing;
pub(crate) mod gpu_label_set_late;
mod helper_charts;
pub(crate) mod karpenter_on_own_nodes;
pub(crate) mod kueue_cohort_missing;
pub(crate) mod load_balancer_controller_without_vpc;
pub(crate) mod memory_unit_missing;
pub(crate) mod node_class_missing;
mod node_helpers;
pub(crate) mod node_overlay_conflict;
pub(crate) mod pod_fits_no_pool;
pub(crate) mod pool_limit_exceeded;
pub(crate) mod pool_overlap;
pub(crate) mod pool_purpose_mixed;
pub(crate) mod pool_unreachable;
pub(crate) mod quota_below_replicas;
pub(crate) mod reference_missing;
pub(crate) mod spread_exceeds_domains;
pub(crate) mod static_pool_exceeded;
pub(crate) mod volume_claim_unbindable;

use crate::cluster::queues::QUEUE_KINDS;
use crate::fit::VOLUME_KINDS;
use crate::karpenter::installation::INSTALLERS;
use crate::rules::prelude::*;

/// What decides where pods run, apart from the workloads.
const PLACING: [Kind; 13] = [
    Kind::NODE_POOL,
    Kind::EC2_NODE_CLASS,
    Kind::AUTO_MODE_NODE_CLASS,
    Kind::RUNTIME_CLASS,
    Kind::NODE_OVERLAY,
    VOLUME_KINDS[0],
    VOLUME_KINDS[1],
    VOLUME_KINDS[2],
    QUEUE_KINDS[0],
    QUEUE_KINDS[1],
    QUEUE_KINDS[2],
    INSTALLERS[1],
    INSTALLERS[2],
];

/// What decides where the pods of a workload run.
pub(in crate::rules) static PLACEMENT_READS: [Kind; PLACING.len() + WORKLOAD_KINDS.len()] =
    with_workloads(&PLACING);

/// What decides where the pods of a workload run, and how many there are.
pub(super) static AROUND_PODS: [Kind; PLACING.len() + 2 + WORKLOAD_KINDS.len()] = with_workloads(&{
    let mut kinds = [Kind::HPA; PLACING.len() + 2];
    let mut at = 0;
    while at < PLACING.len() {
        kinds[at] = PLACING[at];
        at += 1;
    }
    kinds[at] = Kind::SCALED_OBJECT;
    kinds
});

/// Whether all nodes of a pool have accelerators, and some of them NVIDIA GPUs.
pub(super) fn has_nvidia_gpus(pool: &NodePool<'_>) -> bool {
    let nvidia =
        || pool.types().is_some_and(|types| types.iter().any(|one| one.devices("nvidia.com/gpu") > 0));
    pool.hardware() == Hardware::Accelerated && nvidia()
}
