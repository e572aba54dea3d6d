//! Whether pods, pools and node classes fit together.

mod access_modes;
pub(crate) mod access_point_forbids_chown;
pub(crate) mod auto_mode_device_plugin;
pub(crate) mod auto_mode_ingress_annotation;
pub(crate) mod auto_mode_load_balancer;
pub(crate) mod auto_mode_volume_driver;
pub(crate) mod bucket_closed_to_user;
pub(crate) mod daemonset_may_not_fit;
pub(crate) mod feature_gate_off;
pub(crate) mod general_pool_admits_gpu;
pub(crate) mod gpu_device_plugin_missing;
pub(crate) mod gpu_helper_missing;
pub(crate) mod gpu_label_set_late;
pub(crate) mod gpu_label_unset;
pub(crate) mod gpus_offered_twice;
pub(crate) mod headroom_never_taken;
mod helper_charts;
pub(crate) mod interruption_queue_invalid;
pub(crate) mod karpenter_on_own_nodes;
pub(crate) mod karpenter_setting_invalid;
pub(crate) mod karpenter_setting_missing;
pub(crate) mod kubelet_port_taken;
pub(crate) mod kueue_cohort_missing;
pub(crate) mod kueue_flavor_unmatched;
pub(crate) mod kueue_flavors_alike;
pub(crate) mod kueue_topology_request_invalid;
pub(crate) mod kueue_waits_for_nodes;
pub(crate) mod limit_range_rejects;
pub(crate) mod load_balancer_controller_without_vpc;
pub(crate) mod memory_unit_missing;
pub(crate) mod min_values_on_zone;
pub(crate) mod nim_pull_secret_missing;
pub(crate) mod node_class_missing;
pub(super) mod node_helpers;
pub(crate) mod node_overlay_conflict;
pub(crate) mod node_terms_exclude_nothing;
pub(crate) mod operator_watches_elsewhere;
pub(crate) mod placeholder_pods_expendable;
pub(crate) mod pod_fits_no_pool;
pub(crate) mod pod_security_rejects;
pub(crate) mod pool_limit_exceeded;
pub(crate) mod pool_overlap;
pub(crate) mod pool_purpose_mixed;
pub(crate) mod pool_unreachable;
mod priority;
pub(crate) mod priority_class_default;
pub(crate) mod priority_expander_unread;
pub(crate) mod quota_below_replicas;
pub(crate) mod quota_key_inert;
pub(crate) mod reference_missing;
pub(crate) mod requests_missing_on_karpenter;
pub(crate) mod role_annotation_unread;
pub(crate) mod scheduler_unknown;
pub(crate) mod security_group_pods_unplaced;
pub(crate) mod spread_exceeds_domains;
pub(crate) mod spread_idles_gpus;
pub(crate) mod spread_selects_no_pod;
pub(crate) mod static_pool_exceeded;
pub(crate) mod storage_class_binds_early;
pub(crate) mod storage_class_parameter_invalid;
pub(crate) mod termination_handler_beside_karpenter;
pub(crate) mod toleration_unmatched;
pub(crate) mod topology_key_of_other_cloud;
pub(crate) mod volume_attribute_missing;
pub(crate) mod volume_claim_unbindable;
pub(crate) mod volume_mounted_twice;

use crate::cluster::pod_policies::POD_POLICIES;
use crate::cluster::queues::QUEUE_KINDS;
use crate::fit::VOLUME_KINDS;
use crate::rules::prelude::*;

/// What decides where pods run, apart from the workloads.
const PLACING: &[Kind] = kinds![
    [
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::AUTO_MODE_NODE_CLASS,
        Kind::RUNTIME_CLASS,
        Kind::NODE_OVERLAY,
        Kind::SECURITY_GROUP_POLICY
    ],
    VOLUME_KINDS,
    QUEUE_KINDS,
    CHART_KINDS,
    POD_POLICIES
];

/// What decides where the pods of a workload run.
pub(in crate::rules) const PLACEMENT_READS: &[Kind] = kinds![PLACING, WORKLOAD_KINDS];

/// What decides where the pods of a workload run, and how many there are.
pub(super) const AROUND_PODS: &[Kind] = kinds![PLACING, [Kind::SCALED_OBJECT, Kind::HPA], WORKLOAD_KINDS];

/// Whether the pods of a workload are those that it states, for a scheduler that places each by itself: pods of a DaemonSet run
/// on the nodes that exist, and the runtime of an InferenceService adds to its pods.
pub(super) fn states_its_pods(object: &Object) -> bool {
    !object.is_partial()
        && !object.is_incomplete()
        && !object.is(Kind::DAEMON_SET)
        && !object.is(Kind::INFERENCE_SERVICE)
        && object.controller().is_none()
}

/// Maximum number of pools that a rule compares pods with. An input with more has those of several clusters.
pub(super) const MAX_POOLS: usize = 256;

/// All pools of the input. `None` if there are too many, or if some may be those of another cluster than the object's: pools of
/// unrelated folders.
pub(super) fn all_pools(most: usize, ctx: &Context<'_>) -> Option<Vec<Object>> {
    let pools: Vec<Object> = ctx.cluster().of(Kind::NODE_POOL).take(most + 1).cloned().collect();
    (pools.len() <= most && pools.iter().all(|pool| ctx.pairs_with(pool))).then_some(pools)
}

/// Whether a scheduler looks at the pods of a template: no node is named, and no gate holds them back.
pub(super) fn is_scheduled(template: &Template<'_>) -> bool {
    let spec = &template.spec;
    !spec.get("nodeName").is_set() && spec.get("schedulingGates").items().next().is_none()
}

/// Whether all nodes of a pool have accelerators, and some of them NVIDIA GPUs.
pub(super) fn has_nvidia_gpus(pool: &NodePool<'_>) -> bool {
    let nvidia =
        || pool.types().is_some_and(|types| types.iter().any(|one| one.devices("nvidia.com/gpu") > 0));
    pool.hardware() == Hardware::Accelerated && nvidia()
}
