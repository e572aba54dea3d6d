//! A TrainJob configures an initializer that its runtime does not have.
//!
//! # Why
//! `spec.initializer.dataset` and `.model` configure the replicated jobs `dataset-initializer` and
//! `model-initializer` of the runtime. Without a job of that name the admission webhook of Kubeflow Trainer
//! rejects the TrainJob. The runtimes that are only meant for training, such as `torch-distributed`, have no
//! initializers.
//!
//! # Fix
//! Name a runtime with the initializer, add the job to the runtime, or load the data in the trainer and leave the
//! initializer out.
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
    let (kind, name) = runtime_of(job).filter(|_| initializer.is_mapping())?;
    let namespace = if kind == TRAINING_RUNTIME { job.namespace_or_default() } else { "default" };
    let runtime = ctx.partner(kind, namespace, name)?;
    let is_changed = |object: &Object| object.may_lack_fields();
    let jobs = runtime.path(&["spec", "template", "spec", "replicatedJobs"]);
    if is_changed(job) || is_changed(runtime) || !jobs.is_sequence() || jobs.has_unknown() {
        return None;
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
