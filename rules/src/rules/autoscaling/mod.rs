//! KEDA and HPA.

pub(crate) mod autoscaler_without_range;
pub(crate) mod crashes_keda_operator;
pub(crate) mod external_metrics_served_twice;
pub(crate) mod gpu_scaled_on_cpu;
pub(crate) mod hpa_metric_unservable;
pub(crate) mod hpa_replica_bounds;
pub(crate) mod hpa_selector_overlaps;
pub(crate) mod hpa_target_missing;
pub(crate) mod hpa_target_type_mismatch;
pub(crate) mod http_scaled_object_without_hosts;
mod injected_sidecars;
pub(crate) mod keda_activation_above_threshold;
pub(crate) mod keda_activation_skips_one;
pub(crate) mod keda_address_loopback;
pub(crate) mod keda_address_without_namespace;
pub(crate) mod keda_auth_deprecated;
pub(crate) mod keda_auth_invalid;
pub(crate) mod keda_auth_missing;
pub(crate) mod keda_auth_mode_missing;
pub(crate) mod keda_auth_source_missing;
pub(crate) mod keda_auth_unused;
pub(crate) mod keda_auth_value_newline;
pub(crate) mod keda_auth_value_repeated;
pub(crate) mod keda_average_of_ratio;
pub(crate) mod keda_behavior_invalid;
pub(crate) mod keda_cached_metrics_unsupported;
pub(crate) mod keda_cannot_wake;
pub(crate) mod keda_container_metric_dropped;
pub(crate) mod keda_cron_alone_activates;
pub(crate) mod keda_cron_replicas_ineffective;
pub(crate) mod keda_cron_window_unintended;
pub(crate) mod keda_empty_result_hides_failure;
pub(crate) mod keda_fallback_ineffective;
pub(crate) mod keda_fallback_missing;
pub(crate) mod keda_fallback_out_of_bounds;
pub(crate) mod keda_formula_invalid;
pub(crate) mod keda_hpa_conflict;
pub(crate) mod keda_hpa_ownership_misplaced;
pub(crate) mod keda_idle_replicas_invalid;
pub(crate) mod keda_in_flight_ignored;
pub(crate) mod keda_kafka_security_off;
pub(crate) mod keda_metadata_not_text;
pub(crate) mod keda_metric_type_invalid;
pub(crate) mod keda_modifiers_invalid;
pub(crate) mod keda_name_too_long;
pub(crate) mod keda_oauth_invalid;
pub(crate) mod keda_paused;
pub(crate) mod keda_pods_elsewhere;
pub(crate) mod keda_prometheus_address_invalid;
pub(crate) mod keda_query_counts_others;
pub(crate) mod keda_query_job_mismatch;
pub(crate) mod keda_query_many_series;
pub(crate) mod keda_query_returns_null;
pub(crate) mod keda_region_mismatch;
pub(crate) mod keda_replica_bounds;
pub(crate) mod keda_replicas_implicit;
pub(crate) mod keda_scale_to_zero_serving;
pub(crate) mod keda_setting_inert;
pub(crate) mod keda_target_invalid;
pub(crate) mod keda_target_missing;
pub(crate) mod keda_trigger_invalid;
pub(crate) mod keda_trigger_key_ignored;
pub(crate) mod keda_trigger_name_duplicate;
pub(crate) mod keda_trigger_type_unknown;
pub(crate) mod keda_trigger_unused;
pub(crate) mod keda_unsafe_ssl;
pub(crate) mod keda_window_short;
pub(crate) mod llm_scaling_signal;
pub(crate) mod max_replicas_exceed_gpu_limit;
pub(crate) mod memory_target_below_heap;
pub(crate) mod missing_resource_request;
pub(crate) mod ray_group_without_cpu;
pub(crate) mod replicas_beyond_partitions;
pub(crate) mod replicas_with_autoscaler;
pub(crate) mod scale_down_disabled;
pub(crate) mod scale_down_kills_work;
pub(crate) mod scale_down_too_fast;
mod scale_target;
pub(crate) mod scale_threshold_off_class;
pub(crate) mod scale_up_too_slow;
pub(crate) mod scaled_in_volumes_kept;
pub(crate) mod scaled_job_kills_running_jobs;
pub(crate) mod scaled_job_on_cron;
pub(crate) mod scaled_job_strategy_mismatch;
pub(crate) mod scaled_on_memory_alone;
pub(super) mod scraped_labels;
mod signals;
mod target_missing;
pub(crate) mod total_as_value;
pub(crate) mod utilization_unreachable;
pub(crate) mod vpa_above_nodes;
pub(crate) mod vpa_hpa_conflict;
pub(crate) mod vpa_never_acts;
pub(crate) mod vpa_overlap;
pub(crate) mod vpa_scales_limits;

pub(in crate::rules) use target_missing::{is_made_by_operator, is_named_after};

use crate::rules::prelude::*;
use crate::workload::server::likely_server_of;

/// The workloads that run a model server, whichever.
struct ModelServers;

impl Predicate for ModelServers {
    const SLOT: QuerySlot = QuerySlot::ModelServers;
    const KINDS: &'static [Kind] = SCALABLE_KINDS;

    fn is_satisfied(workload: &Object) -> bool {
        let all = templates(workload);
        all.iter().flat_map(Template::containers).any(|container| likely_server_of(&container).is_some())
    }
}

fn report_below(node: &Node<'_>, least: i64, authority: Option<Authority>, ctx: &mut Context<'_>) {
    if let Some(value) = node.int().filter(|value| *value < least) {
        let name = node.pointer().steps().last().cloned().unwrap_or_default();
        ctx.report(node, format!("`{name}` {value} is below {least}"))
            .help(format!("write {least} or more"))
            .rejected_by(authority);
    }
}

/// The behavior of an HPA, or of the HPA that KEDA creates for a ScaledObject.
fn hpa_behavior(object: &Object) -> Node<'_> {
    if object.is(Kind::HPA) {
        object.path(&["spec", "behavior"])
    } else {
        object.path(&["spec", "advanced", "horizontalPodAutoscalerConfig", "behavior"])
    }
}
