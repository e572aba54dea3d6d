//! Pod templates of workloads: their paths, number of pods, and how long these run.
//!
//! The paths come from the kind table. `class` infers the class of work, `gpu` has the requests of containers.

pub use crate::kind::{WORKLOAD_KINDS, WorkloadKind};

use crate::kind::Kind;
use crate::object::{Memo, Object};
use crate::tree::Tree;
use crate::tree::node::{Node, NodeId};
use crate::workload::workflow;

/// The field of affinities and anti-affinities that the scheduler must satisfy.
pub const REQUIRED_AFFINITY: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The field of affinities and anti-affinities that the scheduler satisfies where it can.
pub const PREFERRED_AFFINITY: &str = "preferredDuringSchedulingIgnoredDuringExecution";

#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// The mapping with `labels` and `annotations`.
    pub(crate) metadata: Node<'a>,
    pub spec: Node<'a>,
    /// The object, and the number of the template among its templates.
    pub(crate) place: (&'a Object, usize),
}

/// The seconds that a pod has to end if its specification does not say: `DefaultTerminationGracePeriodSeconds` of Kubernetes.
pub(crate) const DEFAULT_GRACE: i64 = 30;

impl<'a> Template<'a> {
    pub(crate) fn annotation(&self, key: &str) -> Node<'a> {
        self.metadata.get("annotations").get(key)
    }

    pub fn labels(&self) -> Vec<(&'a str, Node<'a>)> {
        self.metadata.get("labels").entries()
    }

    /// The labels of the template, and the one with the name of the object that its operator gives to each pod.
    pub(crate) fn pod_labels(&self) -> Vec<(&'a str, Node<'a>)> {
        let mut labels = self.labels();
        let (object, _) = self.place;
        let name = object.path(&["metadata", "name"]);
        let key = match (object.group(), object.kind()) {
            ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") => "leaderworkerset.sigs.k8s.io/name",
            ("jobset.x-k8s.io", "JobSet") => "jobset.sigs.k8s.io/jobset-name",
            ("ray.io", "RayCluster") => "ray.io/cluster",
            _ => return labels,
        };
        if name.is_set() && !labels.iter().any(|(label, _)| *label == key) {
            labels.push((key, name));
        }
        labels
    }

    /// Whether it is that of the leaders of a LeaderWorkerSet, which has one of its own for the workers.
    pub(crate) fn is_of_leaders(&self) -> bool {
        self.is_below("leaderTemplate")
    }

    /// Whether it is that of the workers of a LeaderWorkerSet alone. Without `leaderTemplate` leaders have it as well.
    pub(crate) fn is_of_workers(&self) -> bool {
        let (object, _) = self.place;
        self.is_below("workerTemplate")
            && object.path(&["spec", "leaderWorkerTemplate", "leaderTemplate"]).is_set()
    }

    fn is_below(&self, field: &str) -> bool {
        let (object, _) = self.place;
        object.is(Kind::LEADER_WORKER_SET) && self.spec.pointer().steps().iter().any(|step| step == field)
    }

    /// The seconds that its pods have to end. `None` if they are unknown.
    pub(crate) fn grace_seconds(&self) -> Option<i64> {
        self.spec.get("terminationGracePeriodSeconds").int_or(DEFAULT_GRACE)
    }

    /// The terms of the required node affinity.
    pub(crate) fn required_terms(&self) -> Node<'a> {
        self.spec.path(&["affinity", "nodeAffinity", REQUIRED_AFFINITY, "nodeSelectorTerms"])
    }

    /// Ordinary containers, and the model of an InferenceService's predictor, which is a container under another name.
    pub(crate) fn containers(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let model = self.spec.has("model").then(|| self.spec.get("model")).filter(Node::is_mapping);
        self.spec.items_at(&["containers"]).chain(model)
    }

    /// Init containers that run as long as the ordinary ones.
    pub(crate) fn sidecars(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let init = self.spec.items_at(&["initContainers"]);
        init.filter(|container| container.get("restartPolicy").text() == Some("Always"))
    }

    /// The containers that listen as long as the pod runs, in the order in which Kubernetes looks for a port by its name
    /// (`FindPort`).
    pub(crate) fn lasting_containers(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.containers().chain(self.sidecars())
    }

    /// Init containers and ordinary ones.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let init = self.spec.items_at(&["initContainers"]);
        init.chain(self.containers())
    }
}

/// Whether a container is the model of an InferenceService, to which its runtime adds what it does not say.
pub(crate) fn is_model_of_runtime(container: &Node<'_>) -> bool {
    let pointer = container.pointer();
    matches!(pointer.steps(), [.., parent, last] if last == "model" && parent == "predictor")
}

/// The entry of the kind table with the pod templates of an object; `None` for kinds without any.
pub fn workload_kind(object: &Object) -> Option<&'static WorkloadKind> {
    object.workload()
}

/// The positions of the pod templates of an object, in its tree or in one that was made from it.
struct Found {
    made: Option<Tree>,
    ids: Box<[(NodeId, NodeId)]>,
}

/// The pod templates of an object, in the order of the paths in the kind table.
pub fn templates(object: &Object) -> Vec<Template<'_>> {
    static TEMPLATES: Memo<Found> = Memo::new();
    let Some(row) = workload_kind(object) else {
        return Vec::new();
    };
    let found = object.memo(&TEMPLATES, || find(object, row));
    let tree = found.made.as_ref().unwrap_or(object.tree().0);
    let ids = found.ids.iter().enumerate();
    ids.map(|(number, (metadata, spec))| Template {
        metadata: Node::from_id(tree, metadata),
        spec: Node::from_id(tree, spec),
        place: (object, number),
    })
    .collect()
}

/// Whether an object is a workflow of Argo, whose templates are the steps of one run.
pub(crate) fn is_workflow(object: &Object) -> bool {
    workload_kind(object).is_some_and(|row| row.workflow().is_some())
}

/// The specification of a workflow of Argo, which has the templates. `None` for other kinds.
pub(crate) fn workflow_spec(object: &Object) -> Option<Node<'_>> {
    let steps: Vec<&str> = workload_kind(object)?.workflow()?.split('.').collect();
    Some(object.path(&steps))
}

fn find(object: &Object, row: &WorkloadKind) -> Found {
    let mut ids = Vec::new();
    let whole = |node: &Node<'_>| (node.get("metadata").id(), node.get("spec").id());
    if let Some(workflow) = workflow_spec(object) {
        let made = workflow::pod_templates(object, &workflow);
        ids.extend(Node::new(&made, 0).items().map(|node| whole(&node)));
        return Found { ids: ids.into(), made: Some(made) };
    }
    for path in row.templates {
        match path.strip_suffix('!') {
            Some(path) => walk(object.root(), path, &mut |node| ids.push((node.id(), node.id()))),
            None => walk(object.root(), path, &mut |node| ids.push(whole(&node))),
        }
    }
    Found { ids: ids.into(), made: None }
}

/// Visits each node at a path of the kind table.
fn walk<'a>(node: Node<'a>, path: &str, visit: &mut impl FnMut(Node<'a>)) {
    if !node.is_set() {
        return;
    }
    if path.is_empty() {
        visit(node);
        return;
    }
    // A simple byte loop: `str::find` costs more than it saves for such short texts.
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

/// `spec.replicas`, or its default of 1; `None` if it is unknown, or the kind has no replicas.
pub fn replicas(object: &Object) -> Option<i64> {
    let row = workload_kind(object)?;
    if row.replicas.is_empty() || object.is_scaled_by_kustomize() {
        return None;
    }
    let node = object.path(row.replicas);
    if node.is_set() {
        node.int()
    } else if object.is_partial() {
        None
    } else {
        Some(1)
    }
}

/// Whether the pods run until they are stopped, such as those of a Deployment, unlike those of a Job.
pub(crate) fn runs_forever(object: &Object) -> bool {
    workload_kind(object).is_some_and(|row| !row.replicas.is_empty() && !row.runs_to_completion)
}

/// Deadline in seconds below which an interruption of the run loses little work.
const SHORT_SECONDS: i64 = 15 * 60;

/// The longest run in seconds that holds a node no longer than a drain may take.
const SOME_HOURS: i64 = 6 * 3600;

/// The fields of a workload, outside of its pod templates, that end a run after a number of seconds.
fn deadlines(object: &Object) -> [Node<'_>; 5] {
    let spec = object.get("spec");
    [
        spec.get("activeDeadlineSeconds"),
        spec.path(&["runPolicy", "activeDeadlineSeconds"]),
        spec.path(&["jobTemplate", "spec", "activeDeadlineSeconds"]),
        spec.path(&["jobTargetRef", "activeDeadlineSeconds"]),
        spec.path(&["workflowSpec", "activeDeadlineSeconds"]),
    ]
}

/// Whether the workload itself has a short deadline. That of a pod template is in its pod spec.
pub(crate) fn is_short_lived(object: &Object) -> bool {
    deadlines(object).iter().any(is_short_deadline)
}

/// The seconds after which the shortest deadline of a workload or of its pods ends a run. `None` without a deadline, or if
/// one is unknown.
pub(crate) fn run_limit(object: &Object) -> Option<i64> {
    let of_jobs = object.path(&["spec", "replicatedJobs"]);
    let of_jobs = of_jobs.items().map(|job| job.path(&["template", "spec", "activeDeadlineSeconds"]));
    let of_pods = templates(object).into_iter().map(|template| template.spec.get("activeDeadlineSeconds"));
    let all = deadlines(object).into_iter().chain(of_jobs).chain(of_pods).filter(Node::is_set);
    let all: Option<Vec<i64>> = all.map(|deadline| deadline.int()).collect();
    all?.into_iter().min()
}

/// Whether a run ends by itself within hours.
pub(crate) fn ends_within_hours(object: &Object) -> bool {
    run_limit(object).is_some_and(|limit| limit <= SOME_HOURS)
}

/// Whether a deadline in seconds is short, or may be because it is unknown.
pub(crate) fn is_short_deadline(deadline: &Node<'_>) -> bool {
    deadline.is_unknown() || deadline.int().is_some_and(|s| s < SHORT_SECONDS)
}
