//! The old APIs of Karpenter, KEDA and Kubernetes.

pub(crate) mod deprecated_node_label;
pub(crate) mod dra_api_version;
pub(crate) mod karpenter_kubernetes_unsupported;
pub(crate) mod karpenter_legacy_annotation;
pub(crate) mod karpenter_legacy_api;
pub(crate) mod karpenter_legacy_label;
pub(crate) mod karpenter_legacy_taint;
pub(crate) mod karpenter_managed_metadata;
pub(crate) mod karpenter_metric_renamed;
pub(crate) mod keda_legacy_api;
pub(crate) mod keda_metric_renamed;
pub(crate) mod keda_pod_identity_removed;
pub(crate) mod keda_removed_field;
pub(crate) mod keda_rollout_strategy_removed;
pub(crate) mod removed_api_version;
mod rename_label;
pub(in crate::rules) mod successors;
