//! Whether pods, pools and node classes fit together.

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
