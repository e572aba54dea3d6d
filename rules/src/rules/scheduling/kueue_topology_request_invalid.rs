//! Pods ask Kueue for a topology in a way that it ignores or rejects.
//!
//! # Why
//! Kueue reads requests for a topology, such as `kueue.x-k8s.io/podset-required-topology`, in the metadata
//! of each pod template. On the Job, the JobSet or the CronJob itself they have no effect: the pods of a
//! run are placed anywhere, and no event says so. In the template Kueue's webhook rejects two kinds of
//! request together, a slice without its size, and values that are no numbers.
//!
//! # Fix
//! Write the annotation in `metadata.annotations` of the pod template, one of `required`, `preferred` and
//! `unconstrained`, and `podset-slice-size` beside `podset-slice-required-topology`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata:
//!    name: train
//!    namespace: ml
//!    labels: {kueue.x-k8s.io/queue-name: research}
//! -  annotations: {kueue.x-k8s.io/podset-required-topology: topology.kubernetes.io/zone} # <-
//!  spec:
//!    parallelism: 4
//!    completions: 4
//!    backoffLimit: 0
//!    template:
//! +    metadata:
//! +      annotations: {kueue.x-k8s.io/podset-required-topology: topology.kubernetes.io/zone}
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: train
//!            image: example.com/train:1.4.0
//!            resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/>
//! - <https://github.com/kubernetes-sigs/kueue/blob/v0.18.6/pkg/controller/jobframework/tas_validation.go>

use crate::cluster::queues::is_queued;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "kueue-topology-request-invalid",
    kinds: &[
        Kind::JOB,
        Kind::CRON_JOB,
        Kind::JOB_SET,
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::LEADER_WORKER_SET,
        Kind::PYTORCH_JOB,
        Kind::TF_JOB,
        Kind::XGBOOST_JOB,
        Kind::PADDLE_JOB,
        Kind::JAX_JOB,
        Kind::MPI_JOB,
        Kind::RAY_CLUSTER,
        Kind::RAY_JOB,
    ],
    docs: docs(include_str!("kueue_topology_request_invalid.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
const UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
const SLICE: &str = "kueue.x-k8s.io/podset-slice-required-topology";
const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
/// Sizes of slices at several levels (0.17), in the place of the two.
const SLICES: &str = "kueue.x-k8s.io/podset-slice-required-topology-constraints";
/// What Go reads as a boolean.
const BOOLEANS: [&str; 12] =
    ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];

/// Source: kueue 0.13 to 0.18 `pkg/controller/jobframework/tas.go` and `tas_validation.go`; the jobs of `pkg/controller/jobs` give it
/// the metadata of their pod templates.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    if object.may_lack_fields() || templates.is_empty() {
        return None;
    }
    misplaced(object, &templates, ctx);
    for template in templates.iter().filter(|template| is_queued(template)) {
        rejected(&template.metadata.get("annotations"), ctx);
    }
    None
}

/// Reports a request on an object that makes the pods, where no template has one.
fn misplaced(object: &Object, templates: &[Template<'_>], ctx: &mut Context<'_>) -> Option<()> {
    let asks = |annotations: &Node<'_>| {
        annotations.has_unknown_key()
            || [REQUIRED, PREFERRED, UNCONSTRAINED, SLICE].iter().any(|name| annotations.get(name).is_set())
    };
    if templates.iter().any(|template| asks(&template.metadata.get("annotations"))) {
        return None;
    }
    let jobs: Vec<Node<'_>> = object.path(&["spec", "replicatedJobs"]).items().collect();
    let of_jobs = jobs.iter().map(|job| job.path(&["template", "metadata"]));
    let owners = [object.get("metadata"), object.path(&["spec", "jobTemplate", "metadata"])]
        .into_iter()
        .chain(of_jobs);
    let node = owners
        .flat_map(|owner| [REQUIRED, PREFERRED, SLICE].map(|name| (name, owner.get("annotations").get(name))))
        .find(|(_, node)| node.text().is_some_and(|level| !level.is_empty()));
    let (name, node) = node?;
    let message = format!("Kueue ignores `{name}` here: it reads the metadata of pod templates");
    ctx.report(&node, message)
        .at_key()
        .help("move the annotation to `metadata.annotations` of the pod template");
    None
}

/// Reports annotations of a pod template that the webhook of Kueue rejects.
fn rejected(annotations: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if annotations.has_unknown_key() {
        return None;
    }
    let node = |name: &str| annotations.get(name);
    let is_set = |name: &str| node(name).is_set();
    let mut kinds = [REQUIRED, PREFERRED, UNCONSTRAINED].into_iter().filter(|name| is_set(name));
    if let (Some(first), Some(second)) = (kinds.next(), kinds.next()) {
        let message =
            format!("Kueue rejects `{second}` beside `{first}`: pods have one request for a topology");
        ctx.report(&node(second), message).at_key().help("keep one of the two annotations");
    }
    let unconstrained = node(UNCONSTRAINED);
    if unconstrained.text().is_some_and(|text| !BOOLEANS.contains(&text)) {
        ctx.report(&unconstrained, "Kueue rejects this value: it is not a boolean").help("write `\"true\"`");
    }
    let size = node(SLICE_SIZE);
    if is_set(SLICE) && !size.is_set() {
        ctx.report(&node(SLICE), format!("Kueue rejects `{SLICE}` without `podset-slice-size`"))
            .at_key()
            .help(format!("add `{SLICE_SIZE}` with the number of pods of a slice"));
    } else if size.is_set() && !is_set(SLICE) && !is_set(SLICES) {
        ctx.report(&size, format!("Kueue rejects `{SLICE_SIZE}` without the topology of a slice"))
            .at_key()
            .help(format!("add `{SLICE}`, or remove the size"));
    } else if size.text().is_some_and(|text| !text.parse::<i32>().is_ok_and(|number| number >= 1)) {
        ctx.report(&size, "Kueue rejects this size of a slice: it is not a number from 1 on")
            .help("write the number of pods of a slice");
    }
    None
}
