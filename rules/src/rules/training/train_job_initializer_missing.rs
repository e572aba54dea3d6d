//! A TrainJob configures a job or a container that its runtime does not have.
//!
//! # Why
//! `spec.initializer.dataset` and `.model` configure the replicated jobs `dataset-initializer` and
//! `model-initializer` of the runtime. Without a job of that name the admission webhook of Kubeflow Trainer
//! rejects the TrainJob. The runtimes that are only meant for training, such as `torch-distributed`, have no
//! initializers. The same holds for the jobs that `runtimePatches` change, `podTemplateOverrides` and
//! `podSpecOverrides` in older releases, for the containers there, and for variables of the containers `node`,
//! `dataset-initializer` and `model-initializer`, which belong into `spec.trainer.env` and the initializers.
//!
//! # Fix
//! Name a runtime with the initializer, add the job to the runtime, or load the data in the trainer and leave the
//! initializer out. Write the names that the runtime has.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: trainer.kubeflow.org/v1alpha1
//! kind: TrainJob
//! metadata: {name: summarizer, namespace: nlp}
//! spec:
//!   runtimeRef: {kind: TrainingRuntime, name: two-nodes}
//!   initializer:
//!     dataset: {storageUri: "hf://example/news"} # <-
//!   trainer: {numNodes: 2}
//! ---
//! apiVersion: trainer.kubeflow.org/v1alpha1
//! kind: TrainingRuntime
//! metadata: {name: two-nodes, namespace: nlp}
//! spec:
//!   mlPolicy: {numNodes: 2, torch: {}}
//!   template:
//!     spec:
//!       replicatedJobs:
//!         - name: node
//!           template:
//!             metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
//!             spec:
//!               template:
//!                 spec:
//!                   containers: [{name: node, image: "registry.example.com/nlp/train:2.4.0"}]
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: trainer.kubeflow.org/v1alpha1
//! kind: TrainJob
//! metadata: {name: summarizer, namespace: nlp}
//! spec:
//!   runtimeRef: {kind: TrainingRuntime, name: two-nodes}
//!   trainer: {numNodes: 2}
//! ---
//! apiVersion: trainer.kubeflow.org/v1alpha1
//! kind: TrainingRuntime
//! metadata: {name: two-nodes, namespace: nlp}
//! spec:
//!   mlPolicy: {numNodes: 2, torch: {}}
//!   template:
//!     spec:
//!       replicatedJobs:
//!         - name: node
//!           template:
//!             metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
//!             spec:
//!               template:
//!                 spec:
//!                   containers: [{name: node, image: "registry.example.com/nlp/train:2.4.0"}]
//! ```
//!
//! # References
//! - <https://www.kubeflow.org/docs/components/trainer/user-guides/data-cache/>
//! - <https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime/>

use crate::rules::prelude::*;

const TRAINING_RUNTIME: Kind = RUNTIMES[2];
const CLUSTER_TRAINING_RUNTIME: Kind = RUNTIMES[3];

pub(crate) static RULE: Rule = Rule {
    id: "train-job-initializer-missing",
    kinds: &[Kind::TRAIN_JOB],
    reads: &[TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME],
    pairs: &[Pair {
        with: &[TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME],
        partners: jobs_of,
        beside: nothing,
    }],
    docs: docs(include_str!("train_job_initializer_missing.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

/// The label that says which step of a run a replicated job is.
const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";

fn jobs_of(runtime: &Object, cluster: &Cluster) -> Vec<Object> {
    let names = |job: &&Object| {
        let is_near = runtime.is(CLUSTER_TRAINING_RUNTIME)
            || job.namespace_or_default() == runtime.namespace_or_default();
        is_near && runtime_of(job) == Some((kind_of(runtime), runtime.name()))
    };
    cluster.of(Kind::TRAIN_JOB).filter(names).cloned().collect()
}

fn kind_of(runtime: &Object) -> Kind {
    if runtime.is(TRAINING_RUNTIME) { TRAINING_RUNTIME } else { CLUSTER_TRAINING_RUNTIME }
}

/// The kind and the name of the runtime of a TrainJob.
fn runtime_of(job: &Object) -> Option<(Kind, &str)> {
    let reference = job.path(&["spec", "runtimeRef"]);
    let (group, kind) = (reference.get("apiGroup"), reference.get("kind"));
    if group.is_unknown()
        || group.text().is_some_and(|group| group != Kind::TRAIN_JOB.group)
        || kind.is_unknown()
    {
        return None;
    }
    let kind = match kind.text() {
        None | Some("ClusterTrainingRuntime") => CLUSTER_TRAINING_RUNTIME,
        Some("TrainingRuntime") => TRAINING_RUNTIME,
        Some(_) => return None,
    };
    Some((kind, reference.get("name").text()?))
}

/// What the webhook checks (kubeflow/trainer, `pkg/runtime/framework/plugins/jobset`, read in November 2026).
fn check(job: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let initializer = job.path(&["spec", "initializer"]);
    let changes = changes(&job.get("spec"));
    let (kind, name) = runtime_of(job).filter(|_| initializer.is_mapping() || !changes.is_empty())?;
    let namespace = if kind == TRAINING_RUNTIME { job.namespace_or_default() } else { "default" };
    let runtime = ctx.partner(kind, namespace, name)?;
    let is_changed = |object: &Object| object.may_lack_fields();
    let jobs = runtime.path(&["spec", "template", "spec", "replicatedJobs"]);
    if is_changed(job) || is_changed(runtime) || !jobs.is_sequence() || jobs.has_unknown() {
        return None;
    }
    for change in &changes {
        targets(change, name, runtime, &jobs, ctx);
    }
    for (field, wanted) in [("dataset", "dataset-initializer"), ("model", "model-initializer")] {
        let node = initializer.get(field);
        // A job of this step under another name may be enough for a later release.
        let is_meant = |job: &Node<'_>| {
            let label = |node: Node<'_>| node.path(&["metadata", "labels"]).get(STEP).text() == Some(wanted);
            let template = job.get("template");
            job.get("name").text() == Some(wanted)
                || label(template.path(&["spec", "template"]))
                || label(template)
        };
        if !node.is_mapping() || jobs.items().any(|job| is_meant(&job)) {
            continue;
        }
        let message =
            format!("the runtime `{name}` has no job `{wanted}`, and the webhook rejects the TrainJob");
        ctx.report(&node, message)
            .at_key()
            .help(format!("add the job to the runtime, name another runtime, or leave `{field}` out"))
            .related(runtime, &jobs, "the jobs of the runtime");
    }
    None
}

/// The changes of a TrainJob to a Job of its runtime: the name of the Job, and the pod with the changes. The fields of Kubeflow Trainer
/// 2.2, 2.1 and 2.0 (`Validate` in `pkg/runtime/framework/plugins/jobset`, read at v2.0.1, v2.1.0 and v2.2.1).
fn changes<'a>(job: &Node<'a>) -> Vec<(Node<'a>, Node<'a>)> {
    let mut found = Vec::new();
    for patch in job.get("runtimePatches").items() {
        let jobs = patch.path(&["trainingRuntimeSpec", "template", "spec", "replicatedJobs"]);
        found.extend(
            jobs.items().map(|one| (one.get("name"), one.path(&["template", "spec", "template", "spec"]))),
        );
    }
    for (list, has_spec) in [("podTemplateOverrides", true), ("podSpecOverrides", false)] {
        for change in job.get(list).items() {
            let pod = if has_spec { change.get("spec") } else { change.clone() };
            found.extend(change.get("targetJobs").items().map(|target| (target.get("name"), pod.clone())));
        }
    }
    found
}

/// Containers whose variables the API of the TrainJob has elsewhere.
const RESERVED: [&str; 3] = ["node", "dataset-initializer", "model-initializer"];

fn containers_of<'a>(pod: &Node<'a>) -> Vec<Node<'a>> {
    ["initContainers", "containers"].into_iter().flat_map(|list| pod.get(list).items()).collect()
}

fn names<'a>(nodes: &[Node<'a>]) -> Vec<&'a str> {
    nodes.iter().filter_map(|node| node.get("name").text()).collect()
}

/// Reports a change of a job or a container that the runtime does not have.
fn targets(
    (place, change): &(Node<'_>, Node<'_>),
    name: &str,
    runtime: &Object,
    jobs: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let wanted = place.text()?;
    let shown = ellipsize(wanted);
    let own: Vec<Node<'_>> = jobs.items().collect();
    let Some(job) = own.iter().find(|job| job.get("name").text() == Some(wanted)) else {
        let message =
            format!("the runtime `{name}` has no job `{shown}`, and the webhook rejects the TrainJob");
        ctx.report(place, message)
            .help(format!("name one that it has: `{}`", ellipsize(&names(&own).join("`, `"))))
            .related(runtime, jobs, "the jobs of the runtime");
        return None;
    };
    let pod = job.path(&["template", "spec", "template", "spec"]);
    let containers = containers_of(&pod);
    for container in containers_of(change) {
        let place = container.get("name");
        let Some(called) = place.text() else { continue };
        let shown = ellipsize(called);
        if !names(&containers).contains(&called) {
            let message = format!(
                "job `{}` of the runtime has no container `{shown}`, and the webhook rejects the TrainJob",
                ellipsize(wanted)
            );
            ctx.report(&place, message)
                .help(format!("name one that it has: `{}`", ellipsize(&names(&containers).join("`, `"))))
                .related(runtime, &pod, "the pods of the job");
        } else if RESERVED.contains(&called) && container.get("env").items().next().is_some() {
            let elsewhere = if called == "node" { "`spec.trainer.env`" } else { "`env` of the initializer" };
            let message = format!("the webhook rejects variables of the container `{shown}` here");
            ctx.report(&container.get("env"), message).at_key().help(format!("write them in {elsewhere}"));
        }
    }
    None
}
