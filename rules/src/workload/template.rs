//! Which kinds carry a pod template, and where.
//!
//! One table row a kind. The paths are facts of the kinds' own CRDs; what class of work a
//! workload does is `class`'s question, and what a container asks for is `gpu`'s.

use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// A kind that carries pod templates.
#[derive(Debug)]
pub struct WorkloadKind {
    /// The kind.
    pub kind: Kind,
    /// Where its templates are: `[]` is every item, `*` every entry. A path that ends in `!` is
    /// an inline pod spec without metadata of its own.
    templates: &'static [&'static str],
    /// Where its number of replicas is; empty where it has none.
    pub replicas: &'static [&'static str],
    /// What a missing number of replicas means.
    pub default_replicas: Option<i64>,
    /// Whether its pods end by themselves.
    pub runs_to_completion: bool,
}

const fn row(group: &'static str, kind: &'static str, templates: &'static [&'static str]) -> WorkloadKind {
    WorkloadKind {
        kind: Kind::new(group, kind),
        templates,
        replicas: &[],
        default_replicas: None,
        runs_to_completion: false,
    }
}

const fn service(
    group: &'static str,
    kind: &'static str,
    templates: &'static [&'static str],
    replicas: &'static [&'static str],
) -> WorkloadKind {
    WorkloadKind { replicas, default_replicas: Some(1), ..row(group, kind, templates) }
}

const fn job(group: &'static str, kind: &'static str, templates: &'static [&'static str]) -> WorkloadKind {
    WorkloadKind { runs_to_completion: true, ..row(group, kind, templates) }
}

const SPEC_REPLICAS: &[&str] = &["spec", "replicas"];
const TEMPLATE: &[&str] = &["spec.template"];
const RAY_CLUSTER: &[&str] = &["spec.headGroupSpec.template", "spec.workerGroupSpecs.[].template"];

/// Every kind that carries pod templates.
pub static WORKLOADS: &[WorkloadKind] = &[
    row("", "Pod", &[""]),
    service("", "ReplicationController", TEMPLATE, SPEC_REPLICAS),
    service("apps", "Deployment", TEMPLATE, SPEC_REPLICAS),
    service("apps", "StatefulSet", TEMPLATE, SPEC_REPLICAS),
    service("apps", "ReplicaSet", TEMPLATE, SPEC_REPLICAS),
    row("apps", "DaemonSet", TEMPLATE),
    job("batch", "Job", TEMPLATE),
    job("batch", "CronJob", &["spec.jobTemplate.spec.template"]),
    job("keda.sh", "ScaledJob", &["spec.jobTargetRef.template"]),
    job("jobset.x-k8s.io", "JobSet", &["spec.replicatedJobs.[].template.spec.template"]),
    service(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        &["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"],
        SPEC_REPLICAS,
    ),
    job("kubeflow.org", "PyTorchJob", &["spec.pytorchReplicaSpecs.*.template"]),
    job("kubeflow.org", "TFJob", &["spec.tfReplicaSpecs.*.template"]),
    job("kubeflow.org", "XGBoostJob", &["spec.xgbReplicaSpecs.*.template"]),
    job("kubeflow.org", "PaddleJob", &["spec.paddleReplicaSpecs.*.template"]),
    job("kubeflow.org", "JAXJob", &["spec.jaxReplicaSpecs.*.template"]),
    job("kubeflow.org", "MPIJob", &["spec.mpiReplicaSpecs.*.template"]),
    row("kubeflow.org", "Notebook", &["spec.template"]),
    // No template of its own: the runtime has it.
    job("trainer.kubeflow.org", "TrainJob", &[]),
    row(
        "trainer.kubeflow.org",
        "TrainingRuntime",
        &["spec.template.spec.replicatedJobs.[].template.spec.template"],
    ),
    row(
        "trainer.kubeflow.org",
        "ClusterTrainingRuntime",
        &["spec.template.spec.replicatedJobs.[].template.spec.template"],
    ),
    row("ray.io", "RayCluster", RAY_CLUSTER),
    job(
        "ray.io",
        "RayJob",
        &[
            "spec.rayClusterSpec.headGroupSpec.template",
            "spec.rayClusterSpec.workerGroupSpecs.[].template",
            "spec.submitterPodTemplate",
        ],
    ),
    row(
        "ray.io",
        "RayService",
        &[
            "spec.rayClusterConfig.headGroupSpec.template",
            "spec.rayClusterConfig.workerGroupSpecs.[].template",
        ],
    ),
    row("serving.kserve.io", "InferenceService", &["spec.predictor!"]),
    row("serving.knative.dev", "Service", TEMPLATE),
    service("argoproj.io", "Rollout", TEMPLATE, SPEC_REPLICAS),
    row("argoproj.io", "Workflow", &["spec.templates.[]!"]),
    job("batch.volcano.sh", "Job", &["spec.tasks.[].template"]),
    row("sparkoperator.k8s.io", "SparkApplication", &["spec.driver.template", "spec.executor.template"]),
];

/// The kinds of [`WORKLOADS`], for the `kinds` of a rule.
pub const WORKLOAD_KINDS: &[Kind] = &[
    Kind::POD,
    Kind::new("", "ReplicationController"),
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::new("apps", "ReplicaSet"),
    Kind::DAEMON_SET,
    Kind::JOB,
    Kind::CRON_JOB,
    Kind::SCALED_JOB,
    Kind::new("jobset.x-k8s.io", "JobSet"),
    Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    Kind::new("kubeflow.org", "PyTorchJob"),
    Kind::new("kubeflow.org", "TFJob"),
    Kind::new("kubeflow.org", "XGBoostJob"),
    Kind::new("kubeflow.org", "PaddleJob"),
    Kind::new("kubeflow.org", "JAXJob"),
    Kind::new("kubeflow.org", "MPIJob"),
    Kind::new("kubeflow.org", "Notebook"),
    Kind::new("trainer.kubeflow.org", "TrainJob"),
    Kind::new("trainer.kubeflow.org", "TrainingRuntime"),
    Kind::new("trainer.kubeflow.org", "ClusterTrainingRuntime"),
    Kind::new("ray.io", "RayCluster"),
    Kind::new("ray.io", "RayJob"),
    Kind::new("ray.io", "RayService"),
    Kind::new("serving.kserve.io", "InferenceService"),
    Kind::new("serving.knative.dev", "Service"),
    Kind::new("argoproj.io", "Rollout"),
    Kind::new("argoproj.io", "Workflow"),
    Kind::new("batch.volcano.sh", "Job"),
    Kind::new("sparkoperator.k8s.io", "SparkApplication"),
];

/// Other kinds with those of [`WORKLOAD_KINDS`], `N` in all.
pub(crate) const fn with_workloads<const N: usize>(others: &[Kind]) -> [Kind; N] {
    assert!(N == others.len() + WORKLOAD_KINDS.len());
    let mut kinds = [Kind::POD; N];
    let mut at = 0;
    while at < N {
        kinds[at] = if at < others.len() { others[at] } else { WORKLOAD_KINDS[at - others.len()] };
        at += 1;
    }
    kinds
}

/// A pod template, or a pod itself.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// What holds `labels` and `annotations`.
    pub metadata: Node<'a>,
    /// The pod spec.
    pub spec: Node<'a>,
}

impl<'a> Template<'a> {
    /// An annotation of the pods.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Node<'a> {
        self.metadata.get("annotations").get(key)
    }

    /// The labels of the pods.
    #[must_use]
    pub fn labels(&self) -> Vec<(&'a str, Node<'a>)> {
        self.metadata.get("labels").entries()
    }

    /// Ordinary containers.
    pub fn containers(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.spec.get("containers").items()
    }

    /// Init containers and ordinary ones.
    pub fn all_containers(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let init = self.spec.get("initContainers").items();
        init.chain(self.spec.get("containers").items())
    }
}

/// The row of an object's kind.
#[must_use]
pub fn workload_kind(object: &Object) -> Option<&'static WorkloadKind> {
    object.workload()
}

/// The pod templates of an object, in the order of the table; none for other kinds.
#[must_use]
pub fn templates(object: &Object) -> Vec<Template<'_>> {
    match workload_kind(object) {
        Some(row) => object.templates(|| find(object, row)),
        None => Vec::new(),
    }
}

fn find<'a>(object: &'a Object, row: &WorkloadKind) -> Vec<Template<'a>> {
    let mut out = Vec::new();
    for path in row.templates {
        let (path, inline) = match path.strip_suffix('!') {
            Some(path) => (path, true),
            None => (*path, false),
        };
        walk(object.root(), path, &mut |node| {
            out.push(if inline {
                Template { metadata: node.clone(), spec: node }
            } else {
                Template { metadata: node.get("metadata"), spec: node.get("spec") }
            });
        });
    }
    out
}

/// Visits what is written at a path of the table.
fn walk<'a>(node: Node<'a>, path: &str, visit: &mut impl FnMut(Node<'a>)) {
    if !node.is_set() {
        return;
    }
    if path.is_empty() {
        visit(node);
        return;
    }
    // Paths are short: a search made for long texts costs more than it saves.
    let dot = path.bytes().position(|byte| byte == b'.');
    let (step, rest) = dot.map_or((path, ""), |at| (&path[..at], &path[at + 1..]));
    match step {
        "" => walk(node, rest, visit),
        "[]" => node.items().for_each(|item| walk(item, rest, visit)),
        "*" => {
            for (_, entry) in node.entries() {
                walk(entry, rest, visit);
            }
        }
        name => walk(node.get(name), rest, visit),
    }
}

/// The number of replicas as written, or the default; `None` where it is not known.
#[must_use]
pub fn replicas(object: &Object) -> Option<i64> {
    let row = workload_kind(object)?;
    if row.replicas.is_empty() {
        return None;
    }
    let node = object.path(row.replicas);
    if node.is_set() {
        node.int()
    } else if object.is_partial() {
        None
    } else {
        row.default_replicas
    }
}

/// Whether the pods of a workload run until somebody stops them: those of a service, not of a job.
pub(crate) fn runs_forever(object: &Object) -> bool {
    workload_kind(object).is_some_and(|row| !row.replicas.is_empty() && !row.runs_to_completion)
}

/// A run that ends within this many seconds loses little, and is worth no protected node.
const SHORT_SECONDS: i64 = 15 * 60;

/// Whether a deadline of the workload itself ends its run early; that of a template is in its spec.
pub(crate) fn is_short_lived(object: &Object) -> bool {
    let spec = object.get("spec");
    [
        spec.get("activeDeadlineSeconds"),
        spec.path(&["runPolicy", "activeDeadlineSeconds"]),
        spec.path(&["jobTemplate", "spec", "activeDeadlineSeconds"]),
        spec.path(&["jobTargetRef", "activeDeadlineSeconds"]),
    ]
    .iter()
    .any(is_short_deadline)
}

/// Whether a deadline, in seconds, is early; one that is not known may be.
pub(crate) fn is_short_deadline(deadline: &Node<'_>) -> bool {
    deadline.is_unknown() || deadline.int().is_some_and(|s| s < SHORT_SECONDS)
}
