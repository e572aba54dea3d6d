//! The kind table: resource names in the API, paths of pod templates, and schemas.
//!
//! One row per kind that a rule names. Rules get their lists of workloads and of kinds with a schema from it, the
//! webhook its watches, RBAC and webhook rules. Plurals and scopes come from each project's published CRDs, or from
//! the `+genclient` markers of `k8s.io/api`. To add a kind, add a row; to add a schema, write the file and name it in
//! the row. The versions that built-in, Karpenter and KEDA kinds ever had are in `api_versions.tsv`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Kind;

#[derive(Debug)]
pub struct KindInfo {
    pub kind: Kind,
    /// The version that is watched in a cluster. Webhook rules match every version.
    pub version: &'static str,
    /// The resource name in API paths.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// The paths of its pod templates; `None` for kinds that create no pods from a template of their own.
    pub workload: Option<WorkloadKind>,
    /// Its definitions by version; `None` for kinds that the schema rules skip.
    pub schemas: Option<&'static [KindSchema]>,
}

#[derive(Clone, Copy, Debug)]
pub struct WorkloadKind {
    /// Paths of the templates, steps separated by dots: `[]` is every item of a list, `*` every entry of a map. A path
    /// that ends in `!` is an inline pod spec whose metadata is next to its fields, and one that ends in `?` the spec of
    /// an Argo workflow, whose templates `workload::workflow` completes. Empty if another object has the template.
    pub(crate) templates: &'static [&'static str],
    /// Path of the number of replicas, which defaults to 1; empty without such a field.
    pub replicas: &'static [&'static str],
    /// Whether its pods terminate by themselves.
    pub(crate) runs_to_completion: bool,
}

impl WorkloadKind {
    /// The path of the spec of an Argo workflow, whose templates have fields in common.
    pub(crate) fn workflow(&self) -> Option<&'static str> {
        self.templates.first()?.strip_suffix('?')
    }
}

#[derive(Debug)]
pub struct KindSchema {
    pub version: &'static str,
    pub(crate) source: SchemaSource,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SchemaSource {
    /// The text of a structural schema, `openAPIV3Schema` of a CRD, in YAML.
    Crd(&'static str),
    /// The name of a type in the OpenAPI document of Kubernetes.
    Core(&'static str),
    /// The generated schemas of operators, by the kind and its version.
    Operator,
}

const fn crd(version: &'static str, text: &'static str) -> KindSchema {
    KindSchema { version, source: SchemaSource::Crd(text) }
}

const fn core(version: &'static str, name: &'static str) -> KindSchema {
    KindSchema { version, source: SchemaSource::Core(name) }
}

const fn operator(version: &'static str) -> KindSchema {
    KindSchema { version, source: SchemaSource::Operator }
}

const fn namespaced(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> KindInfo {
    KindInfo {
        kind: Kind::new(group, kind),
        version,
        plural,
        namespaced: true,
        workload: None,
        schemas: None,
    }
}

const fn cluster_scoped(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> KindInfo {
    KindInfo { namespaced: false, ..namespaced(group, version, kind, plural) }
}

impl KindInfo {
    const fn pods(self, templates: &'static [&'static str]) -> KindInfo {
        let workload = WorkloadKind { templates, replicas: &[], runs_to_completion: false };
        KindInfo { workload: Some(workload), ..self }
    }

    const fn replicated(self, templates: &'static [&'static str]) -> KindInfo {
        let replicas = &["spec", "replicas"];
        let workload = WorkloadKind { templates, replicas, runs_to_completion: false };
        KindInfo { workload: Some(workload), ..self }
    }

    const fn job(self, templates: &'static [&'static str]) -> KindInfo {
        let workload = WorkloadKind { templates, replicas: &[], runs_to_completion: true };
        KindInfo { workload: Some(workload), ..self }
    }

    const fn schemas(self, schemas: &'static [KindSchema]) -> KindInfo {
        KindInfo { schemas: Some(schemas), ..self }
    }

    /// Whether its objects are checked as the API server does in Go code, beside the schema.
    pub fn has_core_schema(&self) -> bool {
        let mut schemas = self.schemas.unwrap_or_default().iter();
        schemas.any(|schema| matches!(schema.source, SchemaSource::Core(_)))
    }
}

const TEMPLATE: &[&str] = &["spec.template"];
const TRAINING_RUNTIME: &[&str] = &["spec.template.spec.replicatedJobs.[].template.spec.template"];

/// Every kind that a rule names, grouped by project. Views sort workloads in this order.
pub static KINDS: &[KindInfo] = &[
    // Kubernetes.
    namespaced("", "v1", "Pod", "pods").pods(&[""]).schemas(&[core("v1", "io.k8s.api.core.v1.Pod")]),
    namespaced("", "v1", "ReplicationController", "replicationcontrollers").replicated(TEMPLATE),
    namespaced("apps", "v1", "Deployment", "deployments")
        .replicated(TEMPLATE)
        .schemas(&[core("v1", "io.k8s.api.apps.v1.Deployment")]),
    namespaced("apps", "v1", "StatefulSet", "statefulsets")
        .replicated(TEMPLATE)
        .schemas(&[core("v1", "io.k8s.api.apps.v1.StatefulSet")]),
    namespaced("apps", "v1", "ReplicaSet", "replicasets")
        .replicated(TEMPLATE)
        .schemas(&[core("v1", "io.k8s.api.apps.v1.ReplicaSet")]),
    namespaced("apps", "v1", "DaemonSet", "daemonsets")
        .pods(TEMPLATE)
        .schemas(&[core("v1", "io.k8s.api.apps.v1.DaemonSet")]),
    namespaced("batch", "v1", "Job", "jobs").job(TEMPLATE).schemas(&[core("v1", "io.k8s.api.batch.v1.Job")]),
    namespaced("batch", "v1", "CronJob", "cronjobs")
        .job(&["spec.jobTemplate.spec.template"])
        .schemas(&[core("v1", "io.k8s.api.batch.v1.CronJob")]),
    namespaced("", "v1", "ConfigMap", "configmaps"),
    namespaced("", "v1", "LimitRange", "limitranges"),
    cluster_scoped("", "v1", "Namespace", "namespaces"),
    cluster_scoped("", "v1", "Node", "nodes"),
    cluster_scoped("", "v1", "PersistentVolume", "persistentvolumes"),
    namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    namespaced("", "v1", "ResourceQuota", "resourcequotas"),
    namespaced("", "v1", "Secret", "secrets"),
    namespaced("", "v1", "Service", "services").schemas(&[core("v1", "io.k8s.api.core.v1.Service")]),
    namespaced("", "v1", "ServiceAccount", "serviceaccounts"),
    cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
    ),
    cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    ),
    cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    )
    .schemas(&[core("v1", "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration")]),
    cluster_scoped(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
    .schemas(&[core("v1", "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration")]),
    namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers").schemas(&[
        core("v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"),
        core("v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler"),
    ]),
    namespaced("extensions", "v1beta1", "DaemonSet", "daemonsets"),
    namespaced("extensions", "v1beta1", "Deployment", "deployments"),
    namespaced("extensions", "v1beta1", "ReplicaSet", "replicasets"),
    namespaced("networking.k8s.io", "v1", "Ingress", "ingresses"),
    cluster_scoped("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
    namespaced("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    namespaced("cilium.io", "v2", "CiliumNetworkPolicy", "ciliumnetworkpolicies"),
    cluster_scoped("cilium.io", "v2", "CiliumClusterwideNetworkPolicy", "ciliumclusterwidenetworkpolicies"),
    cluster_scoped("policy.networking.k8s.io", "v1alpha1", "AdminNetworkPolicy", "adminnetworkpolicies"),
    cluster_scoped("policy.networking.k8s.io", "v1alpha2", "ClusterNetworkPolicy", "clusternetworkpolicies"),
    namespaced("networking.k8s.aws", "v1alpha1", "ApplicationNetworkPolicy", "applicationnetworkpolicies"),
    cluster_scoped("networking.k8s.aws", "v1alpha1", "ClusterNetworkPolicy", "clusternetworkpolicies"),
    namespaced("projectcalico.org", "v3", "NetworkPolicy", "networkpolicies"),
    cluster_scoped("projectcalico.org", "v3", "GlobalNetworkPolicy", "globalnetworkpolicies"),
    cluster_scoped("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
    namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .schemas(&[core("v1", "io.k8s.api.policy.v1.PodDisruptionBudget")]),
    cluster_scoped("resource.k8s.io", "v1", "DeviceClass", "deviceclasses").schemas(&[
        core("v1", "io.k8s.api.resource.v1.DeviceClass"),
        core("v1beta2", "io.k8s.api.resource.v1beta2.DeviceClass"),
        core("v1beta1", "io.k8s.api.resource.v1beta1.DeviceClass"),
    ]),
    namespaced("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims").schemas(&[
        core("v1", "io.k8s.api.resource.v1.ResourceClaim"),
        core("v1beta2", "io.k8s.api.resource.v1beta2.ResourceClaim"),
        core("v1beta1", "io.k8s.api.resource.v1beta1.ResourceClaim"),
    ]),
    namespaced("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates").schemas(&[
        core("v1", "io.k8s.api.resource.v1.ResourceClaimTemplate"),
        core("v1beta2", "io.k8s.api.resource.v1beta2.ResourceClaimTemplate"),
        core("v1beta1", "io.k8s.api.resource.v1beta1.ResourceClaimTemplate"),
    ]),
    cluster_scoped("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules").schemas(&[
        core("v1", "io.k8s.api.resource.v1.DeviceTaintRule"),
        core("v1beta2", "io.k8s.api.resource.v1beta2.DeviceTaintRule"),
    ]),
    cluster_scoped("resource.k8s.io", "v1alpha2", "ResourceClass", "resourceclasses"),
    cluster_scoped("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
    cluster_scoped("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    // Karpenter and EKS Auto Mode.
    cluster_scoped("karpenter.sh", "v1", "NodePool", "nodepools")
        .schemas(&[crd("v1", include_str!("../../schemas/karpenter.sh/v1/NodePool.yaml"))]),
    cluster_scoped("karpenter.sh", "v1", "NodeClaim", "nodeclaims")
        .schemas(&[crd("v1", include_str!("../../schemas/karpenter.sh/v1/NodeClaim.yaml"))]),
    cluster_scoped("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays")
        .schemas(&[crd("v1alpha1", include_str!("../../schemas/karpenter.sh/v1alpha1/NodeOverlay.yaml"))]),
    cluster_scoped("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses")
        .schemas(&[crd("v1", include_str!("../../schemas/karpenter.k8s.aws/v1/EC2NodeClass.yaml"))]),
    cluster_scoped("elbv2.k8s.aws", "v1beta1", "IngressClassParams", "ingressclassparams"),
    cluster_scoped("eks.amazonaws.com", "v1", "IngressClassParams", "ingressclassparams"),
    cluster_scoped("eks.amazonaws.com", "v1", "NodeClass", "nodeclasses")
        .schemas(&[crd("v1", include_str!("../../schemas/eks.amazonaws.com/v1/NodeClass.yaml"))]),
    // Karpenter before 0.33, which old clusters serve.
    cluster_scoped("karpenter.sh", "v1alpha5", "Provisioner", "provisioners"),
    cluster_scoped("karpenter.sh", "v1alpha5", "Machine", "machines"),
    cluster_scoped("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate", "awsnodetemplates"),
    cluster_scoped("provisioner.karpenter.sh", "v1alpha1", "Provisioner", "provisioners"),
    cluster_scoped("provisioning.karpenter.sh", "v1alpha1", "Provisioner", "provisioners"),
    // KEDA.
    namespaced("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
        .schemas(&[crd("v1alpha1", include_str!("../../schemas/keda.sh/v1alpha1/ScaledObject.yaml"))]),
    namespaced("keda.sh", "v1alpha1", "ScaledJob", "scaledjobs")
        .job(&["spec.jobTargetRef.template"])
        .schemas(&[crd("v1alpha1", include_str!("../../schemas/keda.sh/v1alpha1/ScaledJob.yaml"))]),
    namespaced("keda.sh", "v1alpha1", "TriggerAuthentication", "triggerauthentications").schemas(&[crd(
        "v1alpha1",
        include_str!("../../schemas/keda.sh/v1alpha1/TriggerAuthentication.yaml"),
    )]),
    cluster_scoped("keda.sh", "v1alpha1", "ClusterTriggerAuthentication", "clustertriggerauthentications")
        .schemas(&[crd(
            "v1alpha1",
            include_str!("../../schemas/keda.sh/v1alpha1/TriggerAuthentication.yaml"),
        )]),
    namespaced("http.keda.sh", "v1alpha1", "HTTPScaledObject", "httpscaledobjects")
        .schemas(&[operator("v1alpha1")]),
    namespaced("http.keda.sh", "v1beta1", "InterceptorRoute", "interceptorroutes")
        .schemas(&[operator("v1beta1")]),
    // The group of KEDA 1.
    namespaced("keda.k8s.io", "v1alpha1", "ScaledObject", "scaledobjects"),
    namespaced("keda.k8s.io", "v1alpha1", "TriggerAuthentication", "triggerauthentications"),
    // Operators that run pods.
    namespaced("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
        .job(&["spec.replicatedJobs.[].template.spec.template"])
        .schemas(&[operator("v1alpha2")]),
    namespaced("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
        .replicated(&["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"])
        .schemas(&[operator("v1")]),
    namespaced("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
        .job(&["spec.pytorchReplicaSpecs.*.template"])
        .schemas(&[operator("v1")]),
    namespaced("kubeflow.org", "v1", "TFJob", "tfjobs")
        .job(&["spec.tfReplicaSpecs.*.template"])
        .schemas(&[operator("v1")]),
    namespaced("kubeflow.org", "v1", "XGBoostJob", "xgboostjobs")
        .job(&["spec.xgbReplicaSpecs.*.template"])
        .schemas(&[operator("v1")]),
    namespaced("kubeflow.org", "v1", "PaddleJob", "paddlejobs")
        .job(&["spec.paddleReplicaSpecs.*.template"])
        .schemas(&[operator("v1")]),
    namespaced("kubeflow.org", "v1", "JAXJob", "jaxjobs")
        .job(&["spec.jaxReplicaSpecs.*.template"])
        .schemas(&[operator("v1")]),
    // v1 is of the Training Operator, v2beta1 of the MPI Operator.
    namespaced("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
        .job(&["spec.mpiReplicaSpecs.*.template"])
        .schemas(&[operator("v2beta1"), operator("v1")]),
    namespaced("kubeflow.org", "v1", "Notebook", "notebooks").pods(TEMPLATE),
    namespaced("kubeflow.org", "v1alpha1", "PodDefault", "poddefaults"),
    // The TrainingRuntime has the pod template: `cluster::runtimes` writes its Jobs into the TrainJob.
    namespaced("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")
        .job(&["spec.replicatedJobs.[].template.spec.template"])
        .schemas(&[operator("v1alpha1")]),
    namespaced("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes")
        .pods(TRAINING_RUNTIME)
        .schemas(&[operator("v1alpha1")]),
    cluster_scoped("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes")
        .pods(TRAINING_RUNTIME)
        .schemas(&[operator("v1alpha1")]),
    namespaced("ray.io", "v1", "RayCluster", "rayclusters")
        .pods(&["spec.headGroupSpec.template", "spec.workerGroupSpecs.[].template"])
        .schemas(&[operator("v1"), operator("v1alpha1")]),
    namespaced("ray.io", "v1", "RayJob", "rayjobs")
        .job(&[
            "spec.rayClusterSpec.headGroupSpec.template",
            "spec.rayClusterSpec.workerGroupSpecs.[].template",
            "spec.submitterPodTemplate",
        ])
        .schemas(&[operator("v1"), operator("v1alpha1")]),
    namespaced("ray.io", "v1", "RayService", "rayservices")
        .pods(&[
            "spec.rayClusterConfig.headGroupSpec.template",
            "spec.rayClusterConfig.workerGroupSpecs.[].template",
        ])
        .schemas(&[operator("v1"), operator("v1alpha1")]),
    namespaced("ray.io", "v1", "RayCronJob", "raycronjobs").schemas(&[operator("v1")]),
    namespaced("serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices")
        .pods(&["spec.predictor!", "spec.predictor.workerSpec!", "spec.transformer!", "spec.explainer!"])
        .schemas(&[operator("v1beta1")]),
    namespaced("serving.kserve.io", "v1alpha2", "LLMInferenceService", "llminferenceservices")
        .pods(&["spec.template!", "spec.worker!", "spec.prefill.template!", "spec.prefill.worker!"])
        .schemas(&[operator("v1alpha2"), operator("v1alpha1")]),
    namespaced("serving.kserve.io", "v1alpha2", "LLMInferenceServiceConfig", "llminferenceserviceconfigs")
        .schemas(&[operator("v1alpha2"), operator("v1alpha1")]),
    namespaced("serving.kserve.io", "v1alpha1", "ServingRuntime", "servingruntimes")
        .schemas(&[operator("v1alpha1")]),
    cluster_scoped("serving.kserve.io", "v1alpha1", "ClusterServingRuntime", "clusterservingruntimes")
        .schemas(&[operator("v1alpha1")]),
    cluster_scoped("serving.kserve.io", "v1alpha1", "ClusterStorageContainer", "clusterstoragecontainers"),
    cluster_scoped("serving.kserve.io", "v1alpha1", "LocalModelCache", "localmodelcaches"),
    namespaced("serving.kserve.io", "v1alpha1", "InferenceGraph", "inferencegraphs")
        .schemas(&[operator("v1alpha1")]),
    namespaced("serving.kserve.io", "v1alpha1", "TrainedModel", "trainedmodels")
        .schemas(&[operator("v1alpha1")]),
    // The operator has the pod template: `cluster::runtimes` writes it into the NIMService.
    namespaced("apps.nvidia.com", "v1alpha1", "NIMService", "nimservices").replicated(TEMPLATE),
    namespaced("apps.nvidia.com", "v1alpha1", "NIMCache", "nimcaches"),
    // Their controllers make claims.
    namespaced("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes"),
    namespaced("data.fluid.io", "v1alpha1", "Dataset", "datasets"),
    namespaced("volsync.backube", "v1alpha1", "ReplicationDestination", "replicationdestinations"),
    namespaced("serving.knative.dev", "v1", "Service", "services").pods(TEMPLATE),
    namespaced("operator.knative.dev", "v1beta1", "KnativeServing", "knativeservings"),
    namespaced("argoproj.io", "v1alpha1", "Rollout", "rollouts").replicated(TEMPLATE),
    namespaced("argoproj.io", "v1alpha1", "Workflow", "workflows").job(&["spec?"]),
    namespaced("argoproj.io", "v1alpha1", "WorkflowTemplate", "workflowtemplates").job(&["spec?"]),
    cluster_scoped("argoproj.io", "v1alpha1", "ClusterWorkflowTemplate", "clusterworkflowtemplates")
        .job(&["spec?"]),
    namespaced("argoproj.io", "v1alpha1", "CronWorkflow", "cronworkflows").job(&["spec.workflowSpec?"]),
    namespaced("batch.volcano.sh", "v1alpha1", "Job", "jobs")
        .job(&["spec.tasks.[].template"])
        .schemas(&[operator("v1alpha1")]),
    namespaced("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications")
        .pods(&["spec.driver.template", "spec.executor.template"]),
    namespaced("sparkoperator.k8s.io", "v1beta2", "ScheduledSparkApplication", "scheduledsparkapplications"),
    namespaced("actions.github.com", "v1alpha1", "AutoscalingRunnerSet", "autoscalingrunnersets")
        .job(TEMPLATE),
    // The controller adds the container of the runner to these two.
    namespaced("actions.summerwind.dev", "v1alpha1", "RunnerDeployment", "runnerdeployments"),
    namespaced("actions.summerwind.dev", "v1alpha1", "RunnerSet", "runnersets"),
    namespaced("kafka.strimzi.io", "v1beta2", "KafkaTopic", "kafkatopics"),
    namespaced("postgresql.cnpg.io", "v1", "Cluster", "clusters"),
    namespaced("datadoghq.com", "v2alpha1", "DatadogAgent", "datadogagents"),
    namespaced("kafka.strimzi.io", "v1beta2", "Kafka", "kafkas"),
    namespaced("postgresql.k8s.enterprisedb.io", "v1", "Cluster", "clusters"),
    // The object that installs NVIDIA's GPU Operator.
    cluster_scoped("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies").schemas(&[operator("v1")]),
    cluster_scoped("nvidia.com", "v1alpha1", "NVIDIADriver", "nvidiadrivers")
        .schemas(&[operator("v1alpha1")]),
    cluster_scoped("nvidia.com", "v1alpha1", "GPUCluster", "gpuclusters").schemas(&[operator("v1alpha1")]),
    namespaced("resource.nvidia.com", "v1beta1", "ComputeDomain", "computedomains")
        .schemas(&[operator("v1beta1")]),
    // Capacity and queues.
    namespaced("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers")
        .schemas(&[operator("v1beta1"), operator("v1alpha1")]),
    namespaced("autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests")
        .schemas(&[operator("v1"), operator("v1beta1")]),
    cluster_scoped("scheduling.run.ai", "v2", "Queue", "queues"),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    namespaced("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts").schemas(&[
        operator("v1beta2"),
        operator("v1beta1"),
        operator("v1alpha1"),
    ]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "Topology", "topologies").schemas(&[
        operator("v1beta2"),
        operator("v1beta1"),
        operator("v1alpha1"),
    ]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "AdmissionCheck", "admissionchecks")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "ProvisioningRequestConfig", "provisioningrequestconfigs")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "MultiKueueConfig", "multikueueconfigs")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    cluster_scoped("kueue.x-k8s.io", "v1beta2", "MultiKueueCluster", "multikueueclusters")
        .schemas(&[operator("v1beta2"), operator("v1beta1")]),
    namespaced("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups").schemas(&[operator("v1beta1")]),
    cluster_scoped("scheduling.volcano.sh", "v1beta1", "Queue", "queues").schemas(&[operator("v1beta1")]),
    namespaced("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows").schemas(&[operator("v1alpha1")]),
    cluster_scoped("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes")
        .schemas(&[operator("v1alpha1")]),
    cluster_scoped("crd.k8s.amazonaws.com", "v1alpha1", "ENIConfig", "eniconfigs"),
    namespaced("vpcresources.k8s.aws", "v1beta1", "SecurityGroupPolicy", "securitygrouppolicies"),
    namespaced("external-secrets.io", "v1", "ExternalSecret", "externalsecrets"),
    namespaced("bitnami.com", "v1alpha1", "SealedSecret", "sealedsecrets"),
    namespaced("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases"),
    namespaced("source.toolkit.fluxcd.io", "v1", "OCIRepository", "ocirepositories"),
    namespaced("source.toolkit.fluxcd.io", "v1", "HelmChart", "helmcharts"),
    namespaced("argoproj.io", "v1alpha1", "AnalysisTemplate", "analysistemplates"),
    cluster_scoped("argoproj.io", "v1alpha1", "ClusterAnalysisTemplate", "clusteranalysistemplates"),
    namespaced("argoproj.io", "v1alpha1", "AppProject", "appprojects"),
    namespaced("argoproj.io", "v1alpha1", "Application", "applications"),
    namespaced("argoproj.io", "v1alpha1", "ApplicationSet", "applicationsets"),
    namespaced("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers"),
    namespaced("flagger.app", "v1beta1", "Canary", "canaries"),
    namespaced("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations"),
    // Policies that change pods.
    cluster_scoped("kyverno.io", "v1", "ClusterPolicy", "clusterpolicies"),
    namespaced("kyverno.io", "v1", "Policy", "policies"),
    cluster_scoped("policies.kyverno.io", "v1beta1", "MutatingPolicy", "mutatingpolicies"),
    namespaced("policies.kyverno.io", "v1beta1", "NamespacedMutatingPolicy", "namespacedmutatingpolicies"),
    cluster_scoped("mutations.gatekeeper.sh", "v1", "Assign", "assign"),
    cluster_scoped("mutations.gatekeeper.sh", "v1", "ModifySet", "modifyset"),
    // The Gateway API, its extension for inference, and Envoy.
    namespaced("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
    namespaced("gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes"),
    namespaced("gateway.networking.k8s.io", "v1", "Gateway", "gateways"),
    cluster_scoped("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses"),
    namespaced("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools"),
    namespaced("inference.networking.x-k8s.io", "v1alpha2", "InferencePool", "inferencepools"),
    namespaced("aigateway.envoyproxy.io", "v1alpha1", "AIGatewayRoute", "aigatewayroutes"),
    namespaced("aigateway.envoyproxy.io", "v1alpha1", "AIServiceBackend", "aiservicebackends"),
    namespaced("gateway.envoyproxy.io", "v1alpha1", "Backend", "backends"),
    namespaced("gateway.envoyproxy.io", "v1alpha1", "BackendTrafficPolicy", "backendtrafficpolicies"),
    namespaced("gateway.envoyproxy.io", "v1alpha1", "EnvoyPatchPolicy", "envoypatchpolicies"),
    namespaced("route.openshift.io", "v1", "Route", "routes"),
    // Monitoring.
    namespaced("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors").schemas(&[operator("v1")]),
    namespaced("monitoring.coreos.com", "v1", "Probe", "probes").schemas(&[operator("v1")]),
    namespaced("monitoring.coreos.com", "v1", "Prometheus", "prometheuses"),
    namespaced("monitoring.coreos.com", "v1alpha1", "PrometheusAgent", "prometheusagents"),
    namespaced("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules").schemas(&[operator("v1")]),
    namespaced("monitoring.coreos.com", "v1alpha1", "ScrapeConfig", "scrapeconfigs")
        .schemas(&[operator("v1alpha1")]),
    namespaced("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors").schemas(&[operator("v1")]),
    namespaced("monitoring.coreos.com", "v1", "ThanosRuler", "thanosrulers"),
    namespaced("datadoghq.com", "v1alpha1", "DatadogMetric", "datadogmetrics"),
    namespaced("datadoghq.com", "v1alpha2", "DatadogPodAutoscaler", "datadogpodautoscalers"),
    namespaced("grafana.integreatly.org", "v1beta1", "GrafanaDashboard", "grafanadashboards"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMAgent", "vmagents"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMAlert", "vmalerts"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMCluster", "vmclusters"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMPodScrape", "vmpodscrapes"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMRule", "vmrules"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMServiceScrape", "vmservicescrapes"),
    namespaced("operator.victoriametrics.com", "v1beta1", "VMSingle", "vmsingles"),
    namespaced("monitoring.googleapis.com", "v1", "PodMonitoring", "podmonitorings"),
    cluster_scoped("monitoring.googleapis.com", "v1", "ClusterPodMonitoring", "clusterpodmonitorings"),
    namespaced("opentelemetry.io", "v1beta1", "OpenTelemetryCollector", "opentelemetrycollectors"),
];

static BY_NAME: LazyLock<HashMap<(&'static str, &'static str), &'static KindInfo>> =
    LazyLock::new(|| KINDS.iter().map(|info| ((info.kind.group, info.kind.kind), info)).collect());

pub fn find(group: &str, kind: &str) -> Option<&'static KindInfo> {
    BY_NAME.get(&(group, kind)).copied()
}

const fn is_workload(info: &KindInfo) -> bool {
    info.workload.is_some()
}

const WORKLOAD_COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < KINDS.len() {
        count += is_workload(&KINDS[at]) as usize;
        at += 1;
    }
    count
};

/// Workloads with replicas that run until they are stopped, and are scaled.
pub(crate) const REPLICATED_KINDS: &[Kind] =
    &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::LEADER_WORKER_SET, Kind::ROLLOUT];

/// Targets of autoscalers whose pod templates are known.
pub(crate) const SCALABLE_KINDS: &[Kind] =
    &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::REPLICA_SET, Kind::LEADER_WORKER_SET, Kind::ROLLOUT];

/// The kinds with pod templates, for the `kinds` of a rule.
pub const WORKLOAD_KINDS: &[Kind] = &{
    let mut kinds = [Kind::POD; WORKLOAD_COUNT];
    let (mut to, mut at) = (0, 0);
    while at < KINDS.len() {
        if is_workload(&KINDS[at]) {
            kinds[to] = KINDS[at].kind;
            to += 1;
        }
        at += 1;
    }
    kinds
};

const SCHEMA_COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < KINDS.len() {
        count += KINDS[at].schemas.is_some() as usize;
        at += 1;
    }
    count
};

const fn is_validated(info: &KindInfo) -> bool {
    info.schemas.is_some() || info.workload.is_some()
}

const VALIDATED_COUNT: usize = {
    let (mut count, mut at) = (0, 0);
    while at < KINDS.len() {
        count += is_validated(&KINDS[at]) as usize;
        at += 1;
    }
    count
};

/// The kinds with a schema or with pod templates, which are validated as pods, for the `kinds` of a rule.
pub(crate) const VALIDATED_KINDS: &[Kind] = &{
    let mut kinds = [Kind::POD; VALIDATED_COUNT];
    let (mut to, mut at) = (0, 0);
    while at < KINDS.len() {
        if is_validated(&KINDS[at]) {
            kinds[to] = KINDS[at].kind;
            to += 1;
        }
        at += 1;
    }
    kinds
};

/// The kinds that the schema rules check, for the `kinds` of a rule.
pub(crate) const SCHEMA_KINDS: &[Kind] = &{
    let mut kinds = [Kind::POD; SCHEMA_COUNT];
    let (mut to, mut at) = (0, 0);
    while at < KINDS.len() {
        if KINDS[at].schemas.is_some() {
            kinds[to] = KINDS[at].kind;
            to += 1;
        }
        at += 1;
    }
    kinds
};

#[cfg(test)]
mod tests {
    use super::{BY_NAME, KINDS, SCHEMA_KINDS, WORKLOAD_KINDS, find};
    use crate::kind::Kind;
    use crate::kind::api_versions::{VersionsOfKind, versions_of};

    #[test]
    fn each_kind_has_one_row() {
        assert_eq!(BY_NAME.len(), KINDS.len());
        assert!(find("apps", "Deployment").is_some_and(|info| info.plural == "deployments"));
        assert!(find("", "Deployment").is_none());
    }

    #[test]
    fn lists_follow_from_the_rows() {
        assert!(WORKLOAD_KINDS.contains(&Kind::JOB) && !WORKLOAD_KINDS.contains(&Kind::SERVICE));
        assert!(SCHEMA_KINDS.contains(&Kind::SERVICE) && !SCHEMA_KINDS.contains(&Kind::NAMESPACE));
    }

    #[test]
    fn versions_of_rows_are_served_versions() {
        for info in KINDS {
            let used = info.schemas.unwrap_or_default().iter().map(|s| s.version).chain([info.version]);
            match versions_of(info.kind.group, info.kind.kind) {
                VersionsOfKind::Known(versions) => {
                    for version in used {
                        assert!(versions.contains(&version), "{} {version}", info.kind);
                    }
                }
                VersionsOfKind::NoSuchKind => panic!("{}", info.kind),
                VersionsOfKind::OtherGroup => {}
            }
        }
    }
}
