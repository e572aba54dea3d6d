//! Every rule, in the order of reports and of the manual: by group, then by id.

use serde_json::Value;

use crate::lint::config::{self, Config, ConfigError};
use crate::lint::engine::Engine;
use crate::lint::rule::Rule;
use crate::lint::settings::Settings;

mod autoscaling;
mod availability;
mod class_reason;
mod disruption;
mod gpu;
mod kept;
mod manifest;
mod migration;
mod monitoring;
mod nodeclass;
mod nodepool;
mod precedence;
mod prelude;
mod scheduling;
mod spot;
mod suppression;
mod training;
mod webhook_safety;

/// The table that everything else is derived from.
pub static RULES: &[&Rule] = &[
    &manifest::api_version_unknown::RULE,
    &manifest::cel_syntax_error::RULE,
    &manifest::cluster_scoped_namespace::RULE,
    &manifest::crd_validation_rule::RULE,
    &manifest::duplicate_object::RULE,
    &manifest::field_needs_newer_version::RULE,
    &manifest::invalid_value::RULE,
    &manifest::manifest_incomplete::RULE,
    &manifest::placeholder_unexpanded::RULE,
    &manifest::step_limit_exceeded::RULE,
    &manifest::unknown_field::RULE,
    &manifest::yaml_duplicate_key::RULE,
    &manifest::yaml_limit_exceeded::RULE,
    &manifest::yaml_syntax::RULE,
    &manifest::yaml_text_after_end::RULE,
    &migration::deprecated_node_label::RULE,
    &migration::dra_api_version::RULE,
    &migration::karpenter_legacy_annotation::RULE,
    &migration::karpenter_legacy_api::RULE,
    &migration::karpenter_legacy_label::RULE,
    &migration::karpenter_legacy_taint::RULE,
    &migration::karpenter_managed_metadata::RULE,
    &migration::karpenter_metric_renamed::RULE,
    &migration::keda_legacy_api::RULE,
    &migration::keda_metric_renamed::RULE,
    &migration::keda_pod_identity_removed::RULE,
    &migration::keda_removed_field::RULE,
    &migration::keda_rollout_strategy_removed::RULE,
    &migration::removed_api_version::RULE,
    &nodepool::capacity_type_invalid::RULE,
    &nodepool::capacity_type_unspecified::RULE,
    &nodepool::consolidate_after_missing::RULE,
    &nodepool::crashes_karpenter::RULE,
    &nodepool::duration_undecodable::RULE,
    &nodepool::gfd_label_declared::RULE,
    &nodepool::gpu_memory_boundary::RULE,
    &nodepool::gpu_pool_arch_unpinned::RULE,
    &nodepool::gpu_pool_fractional_gpus::RULE,
    &nodepool::gpu_pool_mixed_vendors::RULE,
    &nodepool::gpu_pool_single_instance_type::RULE,
    &nodepool::gpu_pool_untainted::RULE,
    &nodepool::gpu_pool_without_limit::RULE,
    &nodepool::instance_label_other_provider::RULE,
    &nodepool::limit_below_any_instance::RULE,
    &nodepool::limit_key_unknown::RULE,
    &nodepool::limits_inconsistent::RULE,
    &nodepool::min_values_unsatisfiable::RULE,
    &nodepool::node_class_ref_incomplete::RULE,
    &nodepool::node_class_ref_unserved::RULE,
    &nodepool::object_name_too_long::RULE,
    &nodepool::pool_without_limits::RULE,
    &nodepool::requirement_admits_cpu_nodes::RULE,
    &nodepool::requirement_arity::RULE,
    &nodepool::requirement_bound_invalid::RULE,
    &nodepool::requirement_contradiction::RULE,
    &nodepool::requirement_key_lookalike::RULE,
    &nodepool::requirement_key_restricted::RULE,
    &nodepool::requirement_range_empty::RULE,
    &nodepool::requirement_value_dead::RULE,
    &nodepool::requirement_value_not_offered::RULE,
    &nodepool::requirement_value_syntax::RULE,
    &nodepool::requirement_value_unknown::RULE,
    &nodepool::requirements_match_nothing::RULE,
    &nodepool::reserved_capacity_mismatch::RULE,
    &nodepool::spot_pool_low_diversity::RULE,
    &nodepool::static_pool_conflict::RULE,
    &nodepool::taint_duplicate::RULE,
    &nodepool::taint_invalid::RULE,
    &nodepool::taint_operator_as_value::RULE,
    &nodepool::training_pool_on_spot::RULE,
    &disruption::ami_unpinned::RULE,
    &disruption::budget_blocks_forever::RULE,
    &disruption::budget_schedule_invalid::RULE,
    &disruption::budget_shadowed::RULE,
    &disruption::budget_unlimited_outside_window::RULE,
    &disruption::budget_utc::RULE,
    &disruption::consolidation_defaulted_on_gpu::RULE,
    &disruption::consolidation_disrupts_training::RULE,
    &disruption::consolidation_never::RULE,
    &disruption::do_not_disrupt_invalid_value::RULE,
    &disruption::do_not_disrupt_misplaced::RULE,
    &disruption::do_not_disrupt_missing::RULE,
    &disruption::do_not_disrupt_on_daemonset::RULE,
    &disruption::do_not_disrupt_on_serving::RULE,
    &disruption::do_not_disrupt_on_spot::RULE,
    &disruption::do_not_disrupt_without_grace_period::RULE,
    &disruption::drain_deadlock::RULE,
    &disruption::expire_after_short::RULE,
    &disruption::expiry_kills_training::RULE,
    &disruption::tolerates_disruption_taint::RULE,
    &disruption::training_pool_without_budget::RULE,
    &nodeclass::ami_alias_invalid::RULE,
    &nodeclass::ami_family_mismatch::RULE,
    &nodeclass::ami_name_spans_versions::RULE,
    &nodeclass::ami_unsupported_by_eks::RULE,
    &nodeclass::block_device_incomplete::RULE,
    &nodeclass::block_device_invalid::RULE,
    &nodeclass::bottlerocket_data_volume_unmapped::RULE,
    &nodeclass::efa_driver_without_interface::RULE,
    &nodeclass::efa_public_ip::RULE,
    &nodeclass::eviction_soft_unpaired::RULE,
    &nodeclass::gpu_ami_mismatch::RULE,
    &nodeclass::gpu_root_volume_small::RULE,
    &nodeclass::imds_exposed::RULE,
    &nodeclass::instance_store_unused::RULE,
    &nodeclass::kubelet_field_unsupported::RULE,
    &nodeclass::node_class_ami_terms::RULE,
    &nodeclass::node_class_identity::RULE,
    &nodeclass::node_class_kubelet::RULE,
    &nodeclass::node_class_restricted_tag::RULE,
    &nodeclass::node_class_selector_term::RULE,
    &nodeclass::root_volume_unencrypted::RULE,
    &nodeclass::unregistered_taint_missing::RULE,
    &nodeclass::user_data_suspect::RULE,
    &nodeclass::volume_outlives_node::RULE,
    &nodeclass::volume_performance_invalid::RULE,
    &autoscaling::autoscaler_without_range::RULE,
    &autoscaling::crashes_keda_operator::RULE,
    &autoscaling::gpu_scaled_on_cpu::RULE,
    &autoscaling::hpa_metric_unservable::RULE,
    &autoscaling::hpa_replica_bounds::RULE,
    &autoscaling::keda_activation_above_threshold::RULE,
    &autoscaling::keda_auth_deprecated::RULE,
    &autoscaling::keda_auth_invalid::RULE,
    &autoscaling::keda_auth_missing::RULE,
    &autoscaling::keda_average_of_ratio::RULE,
    &autoscaling::keda_behavior_invalid::RULE,
    &autoscaling::keda_cached_metrics_unsupported::RULE,
    &autoscaling::keda_cannot_wake::RULE,
    &autoscaling::keda_container_metric_dropped::RULE,
    &autoscaling::keda_empty_result_hides_failure::RULE,
    &autoscaling::keda_fallback_ineffective::RULE,
    &autoscaling::keda_fallback_missing::RULE,
    &autoscaling::keda_fallback_out_of_bounds::RULE,
    &autoscaling::keda_formula_invalid::RULE,
    &autoscaling::keda_hpa_conflict::RULE,
    &autoscaling::keda_hpa_ownership_misplaced::RULE,
    &autoscaling::keda_idle_replicas_invalid::RULE,
    &autoscaling::keda_metadata_not_text::RULE,
    &autoscaling::keda_metric_type_invalid::RULE,
    &autoscaling::keda_modifiers_invalid::RULE,
    &autoscaling::keda_name_too_long::RULE,
    &autoscaling::keda_oauth_invalid::RULE,
    &autoscaling::keda_paused::RULE,
    &autoscaling::keda_prometheus_address_invalid::RULE,
    &autoscaling::keda_query_many_series::RULE,
    &autoscaling::keda_replica_bounds::RULE,
    &autoscaling::keda_replicas_implicit::RULE,
    &autoscaling::keda_scale_to_zero_serving::RULE,
    &autoscaling::keda_setting_inert::RULE,
    &autoscaling::keda_target_invalid::RULE,
    &autoscaling::keda_target_missing::RULE,
    &autoscaling::keda_trigger_invalid::RULE,
    &autoscaling::keda_trigger_key_ignored::RULE,
    &autoscaling::keda_trigger_name_duplicate::RULE,
    &autoscaling::keda_trigger_type_unknown::RULE,
    &autoscaling::keda_unsafe_ssl::RULE,
    &autoscaling::llm_scaling_signal::RULE,
    &autoscaling::missing_resource_request::RULE,
    &autoscaling::replicas_with_autoscaler::RULE,
    &autoscaling::scale_down_too_fast::RULE,
    &autoscaling::scale_threshold_off_class::RULE,
    &autoscaling::scale_up_too_slow::RULE,
    &autoscaling::scaled_job_kills_running_jobs::RULE,
    &availability::drain_endpoint_unknown::RULE,
    &availability::gpu_rollout_needs_surge::RULE,
    &availability::graceful_shutdown_missing::RULE,
    &availability::image_tag_latest::RULE,
    &availability::liveness_kills_model_load::RULE,
    &availability::pdb_blocks_evictions::RULE,
    &availability::pdb_invalid::RULE,
    &availability::pdb_missing::RULE,
    &availability::pdb_on_job::RULE,
    &availability::pdb_overlap::RULE,
    &availability::pdb_selector::RULE,
    &availability::pdb_unhealthy_policy::RULE,
    &availability::probe_missing::RULE,
    &availability::service_name_breaks_server::RULE,
    &availability::service_selects_nothing::RULE,
    &availability::spot_grace_exceeds_notice::RULE,
    &availability::termination_budget::RULE,
    &availability::volume_blocks_rollout::RULE,
    &availability::zone_spread_missing::RULE,
    &gpu::argument_with_blank::RULE,
    &gpu::dra_allocation_invalid::RULE,
    &gpu::dra_and_device_plugin::RULE,
    &gpu::dra_claim_reference::RULE,
    &gpu::dra_claim_shared::RULE,
    &gpu::dra_claim_unused::RULE,
    &gpu::dra_device_class_name::RULE,
    &gpu::dra_device_class_unknown::RULE,
    &gpu::dra_mig_without_profile::RULE,
    &gpu::dra_not_provisioned::RULE,
    &gpu::dra_request_shape::RULE,
    &gpu::dra_selector::RULE,
    &gpu::gpu_count_unsatisfiable::RULE,
    &gpu::gpu_cpu_memory_unrequested::RULE,
    &gpu::gpu_limit_mismatch::RULE,
    &gpu::gpu_operator_driver_on_eks_ami::RULE,
    &gpu::gpu_process_count::RULE,
    &gpu::gpu_resource_not_provisioned::RULE,
    &gpu::gpu_resource_unknown::RULE,
    &gpu::gpu_sharing_config_invalid::RULE,
    &gpu::gpu_taint_tolerated_without_gpu::RULE,
    &gpu::gpu_toleration_missing::RULE,
    &gpu::mig_incapable_gpu::RULE,
    &gpu::mig_strategy_mismatch::RULE,
    &gpu::privileged_gpu_pod::RULE,
    &gpu::request_overflows_instance::RULE,
    &gpu::shared_memory_over_limit::RULE,
    &gpu::shared_memory_small::RULE,
    &gpu::time_slicing_for_serving::RULE,
    &gpu::visible_devices_all::RULE,
    &training::bare_gpu_pod::RULE,
    &training::checkpoint_storage::RULE,
    &training::checkpoint_volume_not_shared::RULE,
    &training::efa_not_requested::RULE,
    &training::finished_job_kept::RULE,
    &training::gpu_cronjob_overlap::RULE,
    &training::gpu_job_unbounded::RULE,
    &training::indexed_job_required::RULE,
    &training::job_backoff_implicit::RULE,
    &training::job_failure_policy::RULE,
    &training::job_rendezvous_mismatch::RULE,
    &training::notebook_idle_gpu::RULE,
    &training::training_grace_too_short::RULE,
    &training::training_on_spot::RULE,
    &training::training_restart_policy::RULE,
    &training::training_topology::RULE,
    &scheduling::node_class_missing::RULE,
    &monitoring::dcgm_exporter_config::RULE,
    &monitoring::framebuffer_ratio::RULE,
    &monitoring::gpu_alert_without_for::RULE,
    &monitoring::gpu_memory_alert_always_fires::RULE,
    &monitoring::gpu_metric_labels::RULE,
    &monitoring::gpu_metric_unknown::RULE,
    &monitoring::idle_gpu_alert_missing::RULE,
    &monitoring::promql_invalid::RULE,
    &monitoring::promql_rate_of_gauge::RULE,
    &monitoring::service_monitor_selects_nothing::RULE,
    &monitoring::threshold_unit_mismatch::RULE,
    &webhook_safety::webhook_blocks_nodes::RULE,
    &webhook_safety::webhook_self_dependency::RULE,
    &webhook_safety::webhook_timeout_long::RULE,
    &suppression::suppression_expired::RULE,
    &suppression::suppression_invalid::RULE,
    &suppression::suppression_unused::RULE,
    &suppression::suppression_without_reason::RULE,
];

/// The rule with an id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

impl Engine {
    /// Creates an engine with all rules and a configuration.
    #[must_use]
    pub fn new(settings: Settings) -> Engine {
        Engine::with_rules(settings, RULES)
    }
}

impl Config {
    /// Parses a configuration. An empty file is the default configuration.
    ///
    /// # Errors
    /// All errors in it, in the order of the text.
    pub fn parse(path: &str, text: &str) -> Result<Config, Vec<ConfigError>> {
        Config::parse_for(path, text, RULES)
    }

    /// The JSON Schema of `gpulint.yaml`.
    #[must_use]
    pub fn schema() -> Value {
        config::schema(RULES)
    }
}
