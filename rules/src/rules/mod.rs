//! Every rule, in the order of reports and of the manual: by group, then by id.

use crate::rule::Rule;

mod autoscaling;
mod gpu;
mod manifest;
mod migration;
mod nodepool;
mod suppression;

/// The table that everything else is derived from.
pub static RULES: &[&Rule] = &[
    &manifest::duplicate_object::RULE,
    &manifest::yaml_duplicate_key::RULE,
    &manifest::yaml_limit_exceeded::RULE,
    &manifest::yaml_syntax::RULE,
    &manifest::yaml_text_after_end::RULE,
    &migration::karpenter_legacy_annotation::RULE,
    &migration::karpenter_legacy_api::RULE,
    &migration::keda_legacy_api::RULE,
    &nodepool::gpu_pool_untainted::RULE,
    &autoscaling::keda_hpa_conflict::RULE,
    &autoscaling::keda_replica_bounds::RULE,
    &gpu::gpu_limit_mismatch::RULE,
    &suppression::suppression_expired::RULE,
    &suppression::suppression_invalid::RULE,
    &suppression::suppression_unused::RULE,
];
