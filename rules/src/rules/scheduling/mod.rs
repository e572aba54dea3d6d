//! Whether pods, pools and node classes fit together.

pub(crate) mod auto_mode_device_plugin;
pub(crate) mod feature_gate_off;
pub(crate) mod general_pool_admits_gpu;
pub(crate) mod gpu_device_plugin_missing;
pub(crate) mod gpu_helper_missing;
pub(crate) mod gpu_label_set_late;
pub(crate) mod kueue_cohort_missing;
pub(crate) mod node_class_missing;
mod node_helpers;
pub(crate) mod node_overlay_conflict;
pub(crate) mod pod_fits_no_pool;
pub(crate) mod pool_overlap;
pub(crate) mod pool_purpose_mixed;
pub(crate) mod pool_unreachable;
pub(crate) mod quota_below_replicas;
pub(crate) mod reference_missing;
pub(crate) mod static_pool_exceeded;
pub(crate) mod volume_claim_unbindable;

use crate::rules::prelude::*;

/// Whether all nodes of a pool have accelerators, and some of them NVIDIA GPUs.
pub(super) fn has_nvidia_gpus(pool: &NodePool<'_>) -> bool {
    let nvidia =
        || pool.types().is_some_and(|types| types.iter().any(|one| one.devices("nvidia.com/gpu") > 0));
    pool.hardware() == Hardware::Accelerated && nvidia()
}
