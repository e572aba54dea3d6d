//! The kinds that the rules are asked about and read, and how the API server names them.
//!
//! Both lists follow from the rule table; the names of resources cannot be derived from a kind, so
//! they stand here. From this table come the webhooks' rules, the RBAC and the watches.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use gpulint_rules::{Index, Kind, RULES, Rule};

/// How the API server names a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The kind.
    pub kind: Kind,
    /// The version that is watched; the webhooks match every version.
    pub version: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Resource {
    Resource { kind: Kind::new(group, kind), version, plural, namespaced: true }
}

const fn cluster_scoped(row: Resource) -> Resource {
    Resource { namespaced: false, ..row }
}

/// Every kind that a rule may name. Kinds that no API server has any more (the Provisioner) have
/// a row too: an old cluster serves them.
static RESOURCES: &[Resource] = &[
    cluster_scoped(row("", "v1", "Namespace", "namespaces")),
    cluster_scoped(row("", "v1", "Node", "nodes")),
    row("", "v1", "ConfigMap", "configmaps"),
    row("", "v1", "LimitRange", "limitranges"),
    row("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    row("", "v1", "ResourceQuota", "resourcequotas"),
    row("", "v1", "ServiceAccount", "serviceaccounts"),
    row("networking.k8s.io", "v1", "Ingress", "ingresses"),
    cluster_scoped(row("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")),
    row("", "v1", "Pod", "pods"),
    row("", "v1", "ReplicationController", "replicationcontrollers"),
    row("", "v1", "Service", "services"),
    cluster_scoped(row(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    )),
    cluster_scoped(row(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )),
    row("apps", "v1", "DaemonSet", "daemonsets"),
    row("apps", "v1", "Deployment", "deployments"),
    row("apps", "v1", "ReplicaSet", "replicasets"),
    row("apps", "v1", "StatefulSet", "statefulsets"),
    row("argoproj.io", "v1alpha1", "Rollout", "rollouts"),
    row("argoproj.io", "v1alpha1", "Workflow", "workflows"),
    row("argoproj.io", "v1alpha1", "WorkflowTemplate", "workflowtemplates"),
    row("argoproj.io", "v1alpha1", "CronWorkflow", "cronworkflows"),
    row("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    row("batch", "v1", "CronJob", "cronjobs"),
    row("batch", "v1", "Job", "jobs"),
    row("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
    cluster_scoped(row("eks.amazonaws.com", "v1", "NodeClass", "nodeclasses")),
    row("extensions", "v1beta1", "DaemonSet", "daemonsets"),
    row("extensions", "v1beta1", "Deployment", "deployments"),
    row("extensions", "v1beta1", "ReplicaSet", "replicasets"),
    cluster_scoped(row("resource.k8s.io", "v1alpha2", "ResourceClass", "resourceclasses")),
    row("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    cluster_scoped(row("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses")),
    cluster_scoped(row("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate", "awsnodetemplates")),
    cluster_scoped(row("karpenter.sh", "v1", "NodeClaim", "nodeclaims")),
    cluster_scoped(row("karpenter.sh", "v1alpha5", "Machine", "machines")),
    cluster_scoped(row("provisioner.karpenter.sh", "v1alpha1", "Provisioner", "provisioners")),
    cluster_scoped(row("provisioning.karpenter.sh", "v1alpha1", "Provisioner", "provisioners")),
    row("keda.k8s.io", "v1alpha1", "ScaledJob", "scaledjobs"),
    row("keda.k8s.io", "v1alpha1", "ScaledObject", "scaledobjects"),
    row("keda.k8s.io", "v1alpha1", "TriggerAuthentication", "triggerauthentications"),
    cluster_scoped(row("karpenter.sh", "v1", "NodePool", "nodepools")),
    cluster_scoped(row("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays")),
    cluster_scoped(row("karpenter.sh", "v1alpha5", "Provisioner", "provisioners")),
    cluster_scoped(row(
        "keda.sh",
        "v1alpha1",
        "ClusterTriggerAuthentication",
        "clustertriggerauthentications",
    )),
    row("keda.sh", "v1alpha1", "ScaledJob", "scaledjobs"),
    row("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
    row("keda.sh", "v1alpha1", "TriggerAuthentication", "triggerauthentications"),
    row("kubeflow.org", "v1", "JAXJob", "jaxjobs"),
    row("kubeflow.org", "v1", "MPIJob", "mpijobs"),
    row("kubeflow.org", "v1", "Notebook", "notebooks"),
    row("kubeflow.org", "v1", "PaddleJob", "paddlejobs"),
    row("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    row("kubeflow.org", "v1", "TFJob", "tfjobs"),
    row("kubeflow.org", "v1", "XGBoostJob", "xgboostjobs"),
    row("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
    row("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
    row("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
    row("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    row("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    row("grafana.integreatly.org", "v1beta1", "GrafanaDashboard", "grafanadashboards"),
    row("operator.victoriametrics.com", "v1beta1", "VMRule", "vmrules"),
    row("operator.victoriametrics.com", "v1beta1", "VMPodScrape", "vmpodscrapes"),
    row("operator.victoriametrics.com", "v1beta1", "VMServiceScrape", "vmservicescrapes"),
    row("monitoring.coreos.com", "v1", "Probe", "probes"),
    row("monitoring.coreos.com", "v1alpha1", "ScrapeConfig", "scrapeconfigs"),
    row("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    row("ray.io", "v1", "RayCluster", "rayclusters"),
    row("ray.io", "v1", "RayJob", "rayjobs"),
    row("ray.io", "v1", "RayService", "rayservices"),
    cluster_scoped(row("resource.k8s.io", "v1", "DeviceClass", "deviceclasses")),
    row("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    row("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    cluster_scoped(row("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")),
    row("serving.knative.dev", "v1", "Service", "services"),
    row("serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices"),
    row("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications"),
    cluster_scoped(row("storage.k8s.io", "v1", "StorageClass", "storageclasses")),
    cluster_scoped(row(
        "trainer.kubeflow.org",
        "v1alpha1",
        "ClusterTrainingRuntime",
        "clustertrainingruntimes",
    )),
    row("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"),
    row("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes"),
];

/// How the API server names a kind; `None` where the table has no row for it.
#[must_use]
pub fn resource(kind: Kind) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.kind == kind)
}

/// The kinds that rules are asked about, in order.
#[must_use]
pub fn checked() -> &'static [Kind] {
    static CHECKED: OnceLock<Vec<Kind>> = OnceLock::new();
    CHECKED.get_or_init(|| collect_kinds(|rule| rule.kinds))
}

/// The kinds that rules read from the index, in order: what is watched.
#[must_use]
pub fn watched() -> &'static [Kind] {
    static WATCHED: OnceLock<Vec<Kind>> = OnceLock::new();
    WATCHED.get_or_init(|| collect_kinds(|rule| rule.reads))
}

/// Whether a rule is asked about objects of this group and kind.
#[must_use]
pub fn is_checked(group: &str, kind: &str) -> bool {
    checked().iter().any(|k| k.group == group && k.kind == kind)
}

/// Whether a rule about the kind has a fix that could be sent as a patch.
#[must_use]
pub fn is_mutated(kind: Kind) -> bool {
    RULES.iter().any(|rule| rule.fix.is_some() && rule.kinds.contains(&kind))
}

/// Whether the index knows every kind that rules about this kind read.
#[must_use]
pub(crate) fn is_synced_for(index: &Index, group: &str, kind: &str) -> bool {
    if index.is_complete() {
        return true;
    }
    let asked = |rule: &&&Rule| rule.kinds.iter().any(|k| k.group == group && k.kind == kind);
    let mut rules = RULES.iter().filter(asked);
    rules.all(|rule| rule.reads.iter().all(|read| index.is_complete_for(*read)))
}

fn collect_kinds(of: impl Fn(&gpulint_rules::Rule) -> &'static [Kind]) -> Vec<Kind> {
    let kinds: BTreeSet<Kind> = RULES.iter().flat_map(|rule| of(rule)).copied().collect();
    kinds.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_the_rule_table_has_a_resource() {
        let kinds = checked().iter().chain(watched());
        let missing: Vec<String> =
            kinds.filter(|kind| resource(**kind).is_none()).map(ToString::to_string).collect();
        assert!(missing.is_empty(), "no row for {}", missing.join(", "));
    }

    #[test]
    fn no_kind_has_two_rows() {
        let kinds: BTreeSet<Kind> = RESOURCES.iter().map(|r| r.kind).collect();
        assert_eq!(kinds.len(), RESOURCES.len());
    }
}
