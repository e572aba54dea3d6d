//! Kinds: their names, and the one table of what is known of each.

use std::fmt;

pub(crate) mod api_versions;
pub mod definitions;
mod table;

pub use table::{
    KINDS, KindInfo, KindSchema, SCHEMA_KINDS, SchemaSource, WORKLOAD_KINDS, WorkloadKind, find,
};

/// A group and a kind in any version: what a rule matches. The kind alone is not enough, because the same
/// name exists in several groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
}

impl Kind {
    /// A kind from its group and name.
    #[must_use]
    pub const fn new(group: &'static str, kind: &'static str) -> Kind {
        Kind { group, kind }
    }

    /// Its row in the kind table.
    #[must_use]
    pub fn info(self) -> Option<&'static KindInfo> {
        find(self.group, self.kind)
    }

    /// Karpenter's NodePool.
    pub const NODE_POOL: Kind = Kind::new("karpenter.sh", "NodePool");
    /// Karpenter's NodeClaim.
    pub const NODE_CLAIM: Kind = Kind::new("karpenter.sh", "NodeClaim");
    /// Karpenter's NodeOverlay.
    pub const NODE_OVERLAY: Kind = Kind::new("karpenter.sh", "NodeOverlay");
    /// The AWS provider's node class.
    pub const EC2_NODE_CLASS: Kind = Kind::new("karpenter.k8s.aws", "EC2NodeClass");
    /// EKS Auto Mode's node class.
    pub const AUTO_MODE_NODE_CLASS: Kind = Kind::new("eks.amazonaws.com", "NodeClass");
    /// KEDA's ScaledObject.
    pub const SCALED_OBJECT: Kind = Kind::new("keda.sh", "ScaledObject");
    /// KEDA's ScaledJob.
    pub const SCALED_JOB: Kind = Kind::new("keda.sh", "ScaledJob");
    /// HorizontalPodAutoscaler.
    pub const HPA: Kind = Kind::new("autoscaling", "HorizontalPodAutoscaler");
    /// PodDisruptionBudget.
    pub const PDB: Kind = Kind::new("policy", "PodDisruptionBudget");
    /// Pod.
    pub const POD: Kind = Kind::new("", "Pod");
    /// Deployment.
    pub const DEPLOYMENT: Kind = Kind::new("apps", "Deployment");
    /// StatefulSet.
    pub const STATEFUL_SET: Kind = Kind::new("apps", "StatefulSet");
    /// DaemonSet.
    pub const DAEMON_SET: Kind = Kind::new("apps", "DaemonSet");
    /// Job.
    pub const JOB: Kind = Kind::new("batch", "Job");
    /// CronJob.
    pub const CRON_JOB: Kind = Kind::new("batch", "CronJob");
    /// Node.
    pub const NODE: Kind = Kind::new("", "Node");
    /// Namespace.
    pub const NAMESPACE: Kind = Kind::new("", "Namespace");
    /// RuntimeClass.
    pub const RUNTIME_CLASS: Kind = Kind::new("node.k8s.io", "RuntimeClass");
    /// Flux's HelmRelease.
    pub const HELM_RELEASE: Kind = Kind::new("helm.toolkit.fluxcd.io", "HelmRelease");
    /// Argo CD's Application.
    pub const ARGO_APPLICATION: Kind = Kind::new("argoproj.io", "Application");
    /// Service.
    pub const SERVICE: Kind = Kind::new("", "Service");
    /// ReplicaSet.
    pub const REPLICA_SET: Kind = Kind::new("apps", "ReplicaSet");
    /// KEDA's TriggerAuthentication.
    pub const TRIGGER_AUTHENTICATION: Kind = Kind::new("keda.sh", "TriggerAuthentication");
    /// KEDA's ClusterTriggerAuthentication.
    pub const CLUSTER_TRIGGER_AUTHENTICATION: Kind = Kind::new("keda.sh", "ClusterTriggerAuthentication");
    /// ResourceClaim of dynamic resource allocation.
    pub const RESOURCE_CLAIM: Kind = Kind::new("resource.k8s.io", "ResourceClaim");
    /// ResourceClaimTemplate of dynamic resource allocation.
    pub const RESOURCE_CLAIM_TEMPLATE: Kind = Kind::new("resource.k8s.io", "ResourceClaimTemplate");
    /// DeviceClass of dynamic resource allocation.
    pub const DEVICE_CLASS: Kind = Kind::new("resource.k8s.io", "DeviceClass");
    /// ValidatingWebhookConfiguration.
    pub const VALIDATING_WEBHOOK_CONFIGURATION: Kind =
        Kind::new("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
    /// MutatingWebhookConfiguration.
    pub const MUTATING_WEBHOOK_CONFIGURATION: Kind =
        Kind::new("admissionregistration.k8s.io", "MutatingWebhookConfiguration");
    /// ValidatingAdmissionPolicy.
    pub const VALIDATING_ADMISSION_POLICY: Kind =
        Kind::new("admissionregistration.k8s.io", "ValidatingAdmissionPolicy");
    /// MutatingAdmissionPolicy.
    pub const MUTATING_ADMISSION_POLICY: Kind =
        Kind::new("admissionregistration.k8s.io", "MutatingAdmissionPolicy");
    /// The Provisioner of Karpenter before v0.33.
    pub const PROVISIONER: Kind = Kind::new("karpenter.sh", "Provisioner");
    /// The AWSNodeTemplate of Karpenter before v0.33.
    pub const AWS_NODE_TEMPLATE: Kind = Kind::new("karpenter.k8s.aws", "AWSNodeTemplate");
}

/// Every version that a kind ever had, the preferred one first; the one version of the kind table for kinds of
/// groups that are not closed.
#[must_use]
pub fn versions(info: &'static KindInfo) -> &'static [&'static str] {
    match api_versions::versions_of(info.kind.group, info.kind.kind) {
        api_versions::VersionsOfKind::Known(versions) => versions,
        _ => std::slice::from_ref(&info.version),
    }
}

/// The names of all kinds that gpulint knows, some of them twice.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|info| info.kind.kind).chain(api_versions::kinds())
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}
