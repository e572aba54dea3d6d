//! Kinds: their names, and a table of their properties.

use std::fmt;

pub(crate) mod api_versions;
pub mod definitions;
mod table;

pub use table::{KINDS, KindInfo, KindSchema, WORKLOAD_KINDS, WorkloadKind, find};
pub(crate) use table::{REPLICATED_KINDS, SCALABLE_KINDS, SCHEMA_KINDS, SchemaSource, VALIDATED_KINDS};

/// The kinds of several lists, one after the other: `kinds![[Kind::NAMESPACE], WORKLOAD_KINDS]`.
macro_rules! kinds {
    ($($list:expr),+ $(,)?) => {{
        const JOINED_LISTS: &[&[$crate::kind::Kind]] = &[$(&$list),+];
        const JOINED_KINDS: [$crate::kind::Kind; $crate::kind::total(JOINED_LISTS)] =
            $crate::kind::concatenated(JOINED_LISTS);
        &JOINED_KINDS
    }};
}
pub(crate) use kinds;

/// The number of kinds of some lists.
pub(crate) const fn total(mut lists: &[&[Kind]]) -> usize {
    let mut total = 0;
    while let [first, rest @ ..] = lists {
        total += first.len();
        lists = rest;
    }
    total
}

/// The kinds of some lists; `N` is their [`total`].
pub(crate) const fn concatenated<const N: usize>(mut lists: &[&[Kind]]) -> [Kind; N] {
    let mut kinds = [Kind::POD; N];
    let mut at = 0;
    while let [first, rest @ ..] = lists {
        let mut of_first = 0;
        while of_first < first.len() {
            kinds[at] = first[of_first];
            at += 1;
            of_first += 1;
        }
        lists = rest;
    }
    kinds
}

/// A group and a kind in any version: the unit that a rule matches. The kind alone is ambiguous, because the same name
/// exists in several groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    pub kind: &'static str,
}

/// The group that files of Prometheus have here. They have no `apiVersion`, and no API server knows them.
pub(crate) const FILE_GROUP: &str = "file.prometheus.io";

impl Kind {
    /// Whether it stands for files of another program, which are in no cluster.
    pub fn is_of_file(self) -> bool {
        self.group == FILE_GROUP
    }

    pub const fn new(group: &'static str, kind: &'static str) -> Kind {
        Kind { group, kind }
    }

    pub fn info(self) -> Option<&'static KindInfo> {
        find(self.group, self.kind)
    }

    pub const NODE_POOL: Kind = Kind::new("karpenter.sh", "NodePool");
    pub const NODE_CLAIM: Kind = Kind::new("karpenter.sh", "NodeClaim");
    pub const NODE_OVERLAY: Kind = Kind::new("karpenter.sh", "NodeOverlay");
    pub const EC2_NODE_CLASS: Kind = Kind::new("karpenter.k8s.aws", "EC2NodeClass");
    pub const AUTO_MODE_NODE_CLASS: Kind = Kind::new("eks.amazonaws.com", "NodeClass");
    pub const SCALED_OBJECT: Kind = Kind::new("keda.sh", "ScaledObject");
    pub const SCALED_JOB: Kind = Kind::new("keda.sh", "ScaledJob");
    pub const HPA: Kind = Kind::new("autoscaling", "HorizontalPodAutoscaler");
    pub const PDB: Kind = Kind::new("policy", "PodDisruptionBudget");
    pub const POD: Kind = Kind::new("", "Pod");
    pub const DEPLOYMENT: Kind = Kind::new("apps", "Deployment");
    pub const STATEFUL_SET: Kind = Kind::new("apps", "StatefulSet");
    pub const DAEMON_SET: Kind = Kind::new("apps", "DaemonSet");
    pub const JOB: Kind = Kind::new("batch", "Job");
    pub const CRON_JOB: Kind = Kind::new("batch", "CronJob");
    pub(crate) const NODE: Kind = Kind::new("", "Node");
    pub const NAMESPACE: Kind = Kind::new("", "Namespace");
    pub const RUNTIME_CLASS: Kind = Kind::new("node.k8s.io", "RuntimeClass");
    pub const HELM_RELEASE: Kind = Kind::new("helm.toolkit.fluxcd.io", "HelmRelease");
    /// Where Flux gets a chart, or manifests, from a registry of images.
    pub(crate) const OCI_REPOSITORY: Kind = Kind::new("source.toolkit.fluxcd.io", "OCIRepository");
    /// A chart that Flux gets from a repository of charts, of files, or from a bucket. K3s has a kind of this name too.
    pub(crate) const FLUX_HELM_CHART: Kind = Kind::new("source.toolkit.fluxcd.io", "HelmChart");
    pub(crate) const VPA: Kind = Kind::new("autoscaling.k8s.io", "VerticalPodAutoscaler");
    /// The HTTP add-on of KEDA, which makes a ScaledObject of it.
    pub const HTTP_SCALED_OBJECT: Kind = Kind::new("http.keda.sh", "HTTPScaledObject");
    /// The object that follows it, which only routes: a ScaledObject of one's own scales.
    pub(crate) const INTERCEPTOR_ROUTE: Kind = Kind::new("http.keda.sh", "InterceptorRoute");
    /// The runners of GitHub Actions that the Actions Runner Controller starts for the jobs of a scale set.
    pub(crate) const AUTOSCALING_RUNNER_SET: Kind = Kind::new("actions.github.com", "AutoscalingRunnerSet");
    /// Runners of its legacy mode, as a set and as a StatefulSet.
    pub(crate) const RUNNER_DEPLOYMENT: Kind = Kind::new("actions.summerwind.dev", "RunnerDeployment");
    pub(crate) const RUNNER_SET: Kind = Kind::new("actions.summerwind.dev", "RunnerSet");
    pub(crate) const CANARY: Kind = Kind::new("flagger.app", "Canary");
    pub(crate) const ARGO_PROJECT: Kind = Kind::new("argoproj.io", "AppProject");
    pub const ARGO_APPLICATION: Kind = Kind::new("argoproj.io", "Application");
    pub const SERVICE: Kind = Kind::new("", "Service");
    pub(crate) const NETWORK_POLICY: Kind = Kind::new("networking.k8s.io", "NetworkPolicy");
    /// Policies for the network of pods beside those of Kubernetes: of Cilium, of its admins, of EKS and of Calico.
    pub(crate) const OTHER_NETWORK_POLICIES: [Kind; 8] = [
        Kind::new("cilium.io", "CiliumNetworkPolicy"),
        Kind::new("cilium.io", "CiliumClusterwideNetworkPolicy"),
        Kind::new("policy.networking.k8s.io", "AdminNetworkPolicy"),
        Kind::new("policy.networking.k8s.io", "ClusterNetworkPolicy"),
        Kind::new("networking.k8s.aws", "ApplicationNetworkPolicy"),
        Kind::new("networking.k8s.aws", "ClusterNetworkPolicy"),
        Kind::new("projectcalico.org", "NetworkPolicy"),
        Kind::new("projectcalico.org", "GlobalNetworkPolicy"),
    ];
    pub(crate) const INGRESS: Kind = Kind::new("networking.k8s.io", "Ingress");
    pub(crate) const INGRESS_CLASS: Kind = Kind::new("networking.k8s.io", "IngressClass");
    /// What the AWS Load Balancer Controller reads for all Ingresses of a class.
    pub(crate) const INGRESS_CLASS_PARAMS: Kind = Kind::new("elbv2.k8s.aws", "IngressClassParams");
    pub(crate) const AUTO_MODE_INGRESS_CLASS_PARAMS: Kind =
        Kind::new("eks.amazonaws.com", "IngressClassParams");
    pub(crate) const HTTP_ROUTE: Kind = Kind::new("gateway.networking.k8s.io", "HTTPRoute");
    pub(crate) const GRPC_ROUTE: Kind = Kind::new("gateway.networking.k8s.io", "GRPCRoute");
    pub(crate) const GATEWAY: Kind = Kind::new("gateway.networking.k8s.io", "Gateway");
    pub(crate) const GATEWAY_CLASS: Kind = Kind::new("gateway.networking.k8s.io", "GatewayClass");
    /// The pods of a model, which an endpoint picker chooses from.
    pub(crate) const INFERENCE_POOL: Kind = Kind::new("inference.networking.k8s.io", "InferencePool");
    /// The group that it had before its version v1.
    pub(crate) const INFERENCE_POOL_ALPHA: Kind = Kind::new("inference.networking.x-k8s.io", "InferencePool");
    /// A route of Envoy AI Gateway, which makes an HTTPRoute of it.
    pub(crate) const AI_GATEWAY_ROUTE: Kind = Kind::new("aigateway.envoyproxy.io", "AIGatewayRoute");
    pub(crate) const AI_SERVICE_BACKEND: Kind = Kind::new("aigateway.envoyproxy.io", "AIServiceBackend");
    pub(crate) const ENVOY_BACKEND: Kind = Kind::new("gateway.envoyproxy.io", "Backend");
    pub(crate) const BACKEND_TRAFFIC_POLICY: Kind =
        Kind::new("gateway.envoyproxy.io", "BackendTrafficPolicy");
    pub(crate) const ENVOY_PATCH_POLICY: Kind = Kind::new("gateway.envoyproxy.io", "EnvoyPatchPolicy");
    pub const REPLICA_SET: Kind = Kind::new("apps", "ReplicaSet");
    pub const TRIGGER_AUTHENTICATION: Kind = Kind::new("keda.sh", "TriggerAuthentication");
    pub const CLUSTER_TRIGGER_AUTHENTICATION: Kind = Kind::new("keda.sh", "ClusterTriggerAuthentication");
    /// ResourceClaim of dynamic resource allocation.
    pub const RESOURCE_CLAIM: Kind = Kind::new("resource.k8s.io", "ResourceClaim");
    /// ResourceClaimTemplate of dynamic resource allocation.
    pub const RESOURCE_CLAIM_TEMPLATE: Kind = Kind::new("resource.k8s.io", "ResourceClaimTemplate");
    pub const DEVICE_CLASS: Kind = Kind::new("resource.k8s.io", "DeviceClass");
    /// DeviceTaintRule of dynamic resource allocation.
    pub(crate) const DEVICE_TAINT_RULE: Kind = Kind::new("resource.k8s.io", "DeviceTaintRule");
    pub(crate) const VALIDATING_WEBHOOK_CONFIGURATION: Kind =
        Kind::new("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
    pub const MUTATING_WEBHOOK_CONFIGURATION: Kind =
        Kind::new("admissionregistration.k8s.io", "MutatingWebhookConfiguration");
    pub(crate) const VALIDATING_ADMISSION_POLICY: Kind =
        Kind::new("admissionregistration.k8s.io", "ValidatingAdmissionPolicy");
    pub(crate) const MUTATING_ADMISSION_POLICY: Kind =
        Kind::new("admissionregistration.k8s.io", "MutatingAdmissionPolicy");
    pub(crate) const KYVERNO_CLUSTER_POLICY: Kind = Kind::new("kyverno.io", "ClusterPolicy");
    pub(crate) const KYVERNO_POLICY: Kind = Kind::new("kyverno.io", "Policy");
    /// A policy of Kyverno 1.15 and later.
    pub(crate) const MUTATING_POLICY: Kind = Kind::new("policies.kyverno.io", "MutatingPolicy");
    pub(crate) const NAMESPACED_MUTATING_POLICY: Kind =
        Kind::new("policies.kyverno.io", "NamespacedMutatingPolicy");
    pub(crate) const GATEKEEPER_ASSIGN: Kind = Kind::new("mutations.gatekeeper.sh", "Assign");
    pub(crate) const GATEKEEPER_MODIFY_SET: Kind = Kind::new("mutations.gatekeeper.sh", "ModifySet");
    pub const CONFIG_MAP: Kind = Kind::new("", "ConfigMap");
    pub(crate) const LIMIT_RANGE: Kind = Kind::new("", "LimitRange");
    pub(crate) const PERSISTENT_VOLUME: Kind = Kind::new("", "PersistentVolume");
    pub(crate) const PERSISTENT_VOLUME_CLAIM: Kind = Kind::new("", "PersistentVolumeClaim");
    pub const REPLICATION_CONTROLLER: Kind = Kind::new("", "ReplicationController");
    pub const SECRET: Kind = Kind::new("", "Secret");
    pub const CUSTOM_RESOURCE_DEFINITION: Kind =
        Kind::new("apiextensions.k8s.io", "CustomResourceDefinition");
    pub(crate) const EXTERNAL_SECRET: Kind = Kind::new("external-secrets.io", "ExternalSecret");
    pub const SEALED_SECRET: Kind = Kind::new("bitnami.com", "SealedSecret");
    pub const SERVICE_ACCOUNT: Kind = Kind::new("", "ServiceAccount");
    pub const PRIORITY_CLASS: Kind = Kind::new("scheduling.k8s.io", "PriorityClass");
    /// The subnet and the groups of the pods of a zone, for custom networking of the VPC CNI.
    pub(crate) const ENI_CONFIG: Kind = Kind::new("crd.k8s.amazonaws.com", "ENIConfig");
    /// Security groups for pods, which Amazon's VPC resource controller reads.
    pub(crate) const SECURITY_GROUP_POLICY: Kind = Kind::new("vpcresources.k8s.aws", "SecurityGroupPolicy");
    pub(crate) const STORAGE_CLASS: Kind = Kind::new("storage.k8s.io", "StorageClass");
    pub const ARGO_APPLICATION_SET: Kind = Kind::new("argoproj.io", "ApplicationSet");
    pub const ROLLOUT: Kind = Kind::new("argoproj.io", "Rollout");
    pub const ARGO_WORKFLOW: Kind = Kind::new("argoproj.io", "Workflow");
    pub const VOLCANO_JOB: Kind = Kind::new("batch.volcano.sh", "Job");
    /// A query of Datadog, which its Cluster Agent serves to HPAs.
    pub(crate) const DATADOG_METRIC: Kind = Kind::new("datadoghq.com", "DatadogMetric");
    pub(crate) const DATADOG_POD_AUTOSCALER: Kind = Kind::new("datadoghq.com", "DatadogPodAutoscaler");
    pub(crate) const SPARK_APPLICATION: Kind = Kind::new("sparkoperator.k8s.io", "SparkApplication");
    pub(crate) const SCHEDULED_SPARK_APPLICATION: Kind =
        Kind::new("sparkoperator.k8s.io", "ScheduledSparkApplication");
    pub(crate) const GRAFANA_DASHBOARD: Kind = Kind::new("grafana.integreatly.org", "GrafanaDashboard");
    pub const JOB_SET: Kind = Kind::new("jobset.x-k8s.io", "JobSet");
    pub const JAX_JOB: Kind = Kind::new("kubeflow.org", "JAXJob");
    pub const MPI_JOB: Kind = Kind::new("kubeflow.org", "MPIJob");
    pub(crate) const NOTEBOOK: Kind = Kind::new("kubeflow.org", "Notebook");
    pub(crate) const POD_DEFAULT: Kind = Kind::new("kubeflow.org", "PodDefault");
    pub const PADDLE_JOB: Kind = Kind::new("kubeflow.org", "PaddleJob");
    pub const PYTORCH_JOB: Kind = Kind::new("kubeflow.org", "PyTorchJob");
    pub const TF_JOB: Kind = Kind::new("kubeflow.org", "TFJob");
    pub const XGBOOST_JOB: Kind = Kind::new("kubeflow.org", "XGBoostJob");
    pub(crate) const ADMISSION_CHECK: Kind = Kind::new("kueue.x-k8s.io", "AdmissionCheck");
    pub(crate) const CLUSTER_QUEUE: Kind = Kind::new("kueue.x-k8s.io", "ClusterQueue");
    pub(crate) const LOCAL_QUEUE: Kind = Kind::new("kueue.x-k8s.io", "LocalQueue");
    pub(crate) const RESOURCE_FLAVOR: Kind = Kind::new("kueue.x-k8s.io", "ResourceFlavor");
    pub(crate) const FLUX_KUSTOMIZATION: Kind = Kind::new("kustomize.toolkit.fluxcd.io", "Kustomization");
    pub const LEADER_WORKER_SET: Kind = Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet");
    /// What Datadog's operator runs.
    pub(crate) const DATADOG_AGENT: Kind = Kind::new("datadoghq.com", "DatadogAgent");
    /// Brokers of Strimzi.
    pub(crate) const KAFKA: Kind = Kind::new("kafka.strimzi.io", "Kafka");
    /// A database of CloudNativePG, and of the product of EDB that is built on it.
    pub(crate) const CNPG_CLUSTER: Kind = Kind::new("postgresql.cnpg.io", "Cluster");
    pub(crate) const EDB_CLUSTER: Kind = Kind::new("postgresql.k8s.enterprisedb.io", "Cluster");
    /// A topic of Strimzi.
    pub(crate) const KAFKA_TOPIC: Kind = Kind::new("kafka.strimzi.io", "KafkaTopic");
    pub(crate) const POD_MONITOR: Kind = Kind::new("monitoring.coreos.com", "PodMonitor");
    pub(crate) const OPENSHIFT_ROUTE: Kind = Kind::new("route.openshift.io", "Route");
    pub(crate) const PROBE: Kind = Kind::new("monitoring.coreos.com", "Probe");
    pub(crate) const PROMETHEUS: Kind = Kind::new("monitoring.coreos.com", "Prometheus");
    pub(crate) const PROMETHEUS_RULE: Kind = Kind::new("monitoring.coreos.com", "PrometheusRule");
    /// A rule file of Prometheus, which is not an object of Kubernetes: a ConfigMap is made of it, or a volume.
    pub const PROMETHEUS_RULE_FILE: Kind = Kind::new(FILE_GROUP, "RuleFile");
    /// A configuration file of Prometheus, `prometheus.yml`.
    pub const PROMETHEUS_CONFIGURATION: Kind = Kind::new(FILE_GROUP, "Configuration");
    pub(crate) const SCRAPE_CONFIG: Kind = Kind::new("monitoring.coreos.com", "ScrapeConfig");
    pub(crate) const SERVICE_MONITOR: Kind = Kind::new("monitoring.coreos.com", "ServiceMonitor");
    pub(crate) const CLUSTER_POLICY: Kind = Kind::new("nvidia.com", "ClusterPolicy");
    /// The volume of a model for NIMServices.
    pub(crate) const NIM_CACHE: Kind = Kind::new("apps.nvidia.com", "NIMCache");
    pub(crate) const DATA_VOLUME: Kind = Kind::new("cdi.kubevirt.io", "DataVolume");
    pub(crate) const FLUID_DATASET: Kind = Kind::new("data.fluid.io", "Dataset");
    pub(crate) const REPLICATION_DESTINATION: Kind = Kind::new("volsync.backube", "ReplicationDestination");
    pub(crate) const NIM_SERVICE: Kind = Kind::new("apps.nvidia.com", "NIMService");
    pub(crate) const OPENTELEMETRY_COLLECTOR: Kind = Kind::new("opentelemetry.io", "OpenTelemetryCollector");
    pub(crate) const VM_AGENT: Kind = Kind::new("operator.victoriametrics.com", "VMAgent");
    pub(crate) const VM_ALERT: Kind = Kind::new("operator.victoriametrics.com", "VMAlert");
    pub(crate) const VM_POD_SCRAPE: Kind = Kind::new("operator.victoriametrics.com", "VMPodScrape");
    pub(crate) const VM_SERVICE_SCRAPE: Kind = Kind::new("operator.victoriametrics.com", "VMServiceScrape");
    pub(crate) const VM_RULE: Kind = Kind::new("operator.victoriametrics.com", "VMRule");
    pub(crate) const VM_SINGLE: Kind = Kind::new("operator.victoriametrics.com", "VMSingle");
    pub const RAY_CLUSTER: Kind = Kind::new("ray.io", "RayCluster");
    pub const RAY_JOB: Kind = Kind::new("ray.io", "RayJob");
    pub const RAY_SERVICE: Kind = Kind::new("ray.io", "RayService");
    /// The object from which Knative's operator installs Knative Serving.
    pub(crate) const KNATIVE_SERVING: Kind = Kind::new("operator.knative.dev", "KnativeServing");
    pub const KNATIVE_SERVICE: Kind = Kind::new("serving.knative.dev", "Service");
    pub(crate) const CLUSTER_SERVING_RUNTIME: Kind = Kind::new("serving.kserve.io", "ClusterServingRuntime");
    /// The container with which KServe downloads models.
    pub(crate) const CLUSTER_STORAGE_CONTAINER: Kind =
        Kind::new("serving.kserve.io", "ClusterStorageContainer");
    pub const INFERENCE_SERVICE: Kind = Kind::new("serving.kserve.io", "InferenceService");
    pub(crate) const LLM_INFERENCE_SERVICE: Kind = Kind::new("serving.kserve.io", "LLMInferenceService");
    /// A model that KServe keeps on disks of nodes.
    pub(crate) const LOCAL_MODEL_CACHE: Kind = Kind::new("serving.kserve.io", "LocalModelCache");
    pub(crate) const SERVING_RUNTIME: Kind = Kind::new("serving.kserve.io", "ServingRuntime");
    pub(crate) const CLUSTER_TRAINING_RUNTIME: Kind =
        Kind::new("trainer.kubeflow.org", "ClusterTrainingRuntime");
    pub const TRAIN_JOB: Kind = Kind::new("trainer.kubeflow.org", "TrainJob");
    pub(crate) const TRAINING_RUNTIME: Kind = Kind::new("trainer.kubeflow.org", "TrainingRuntime");
    /// The Machine of Karpenter before v0.32, now a NodeClaim.
    pub(crate) const MACHINE: Kind = Kind::new("karpenter.sh", "Machine");
    /// The Provisioner of Karpenter before v0.33.
    pub(crate) const PROVISIONER: Kind = Kind::new("karpenter.sh", "Provisioner");
    /// The AWSNodeTemplate of Karpenter before v0.33.
    pub(crate) const AWS_NODE_TEMPLATE: Kind = Kind::new("karpenter.k8s.aws", "AWSNodeTemplate");
}

/// The versions that a kind ever had, the preferred one first. For kinds in groups that are not closed: the version in
/// the kind table.
pub fn versions(info: &'static KindInfo) -> &'static [&'static str] {
    match api_versions::versions_of(info.kind.group, info.kind.kind) {
        api_versions::VersionsOfKind::Known(versions) => versions,
        _ => std::slice::from_ref(&info.version),
    }
}

/// The names of all kinds that gpulint knows, with duplicates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|info| info.kind.kind).chain(api_versions::kinds())
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}
