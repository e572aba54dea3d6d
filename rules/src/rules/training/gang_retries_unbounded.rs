//! A run on accelerators starts again dozens of times, or forever.
//!
//! # Why
//! A retry of a distributed run starts all of its pods again. A run that fails for a reason of its own, such as
//! a wrong path or too little memory, then holds its GPUs for each of them: at 10 minutes to load the data,
//! 100 retries are 17 hours. It is reported from 50 retries on: `maxRestarts` of a JobSet, `backoffLimit` of
//! Kubeflow's jobs and of a RayJob. `maxRestarts` of an elastic PyTorchJob, whose processes start again in the
//! same pods, is information. Runs with a deadline, on Spot nodes, whose loss counts as a failure, and JobSets
//! with rules for failures are left alone.
//!
//! Kubeflow's Training Operator counts restarts only against a `backoffLimit`: without one a container with
//! `restartPolicy: OnFailure`, the default of a PyTorchJob and a PaddleJob, or `Always` starts again forever.
//! That is a warning from 8 devices on, and otherwise information.
//!
//! # Fix
//! Write a number for the failures that pass by themselves, such as 3, or a deadline.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: jobset.x-k8s.io/v1alpha2
//!  kind: JobSet
//!  metadata: {name: vision}
//!  spec:
//!    failurePolicy:
//! -    maxRestarts: 100 # <-
//! +    maxRestarts: 3
//!    replicatedJobs:
//!      - name: worker
//!        template:
//!          spec:
//!            parallelism: 4
//!            completions: 4
//!            completionMode: Indexed
//!            backoffLimit: 0
//!            template:
//!              spec:
//!                restartPolicy: Never
//!                containers:
//!                  - name: main
//!                    image: example.com/train/vision:1.4.0
//!                    resources:
//!                      requests: {cpu: 6, memory: 24Gi}
//!                      limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://jobset.sigs.k8s.io/docs/concepts/>
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/>
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html>

use crate::cluster::placement::requested_capacity_types;
use crate::rules::prelude::*;
use crate::rules::training::KUBEFLOW_JOBS;
use crate::workload::devices::accelerator_names;
use crate::workload::gang::{demands, members};
use crate::workload::gpu::has_device_in;
use crate::workload::template::run_limit;

pub(crate) static RULE: Rule = Rule {
    id: "gang-retries-unbounded",
    kinds: kinds![[Kind::JOB_SET, Kind::RAY_JOB], KUBEFLOW_JOBS],
    docs: docs(include_str!("gang_retries_unbounded.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// The number of retries from which a failure is surely not one that passes by itself.
const MANY: i64 = 50;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let policy = spec.get("failurePolicy");
    if object.is_partial()
        || object.is_owned()
        || !uses_accelerators(object)
        || run_limit(object).is_some()
        || policy.get("rules").is_set()
    {
        return None;
    }
    let is_on_spot = |template: &Template<'_>| {
        requested_capacity_types(template).is_some_and(|types| types.contains("spot"))
    };
    if templates(object).iter().any(is_on_spot) {
        return None;
    }
    let fields: &[&[&str]] = if object.is(Kind::JOB_SET) {
        &[&["failurePolicy", "maxRestarts"]]
    } else if object.is(Kind::RAY_JOB) {
        &[&["backoffLimit"]]
    } else {
        &[&["runPolicy", "backoffLimit"], &["elasticPolicy", "maxRestarts"]]
    };
    for field in fields {
        let node = spec.path(field);
        let Some(number) = node.int().filter(|number| *number >= MANY) else { continue };
        let name = field.last().copied().unwrap_or_default();
        // An elastic run starts its processes again, in the same pods.
        let (_, devices) = accelerator_names(object);
        let severity = if field[0] == "elasticPolicy" { Severity::Info } else { Severity::Warning };
        ctx.report(
            &node,
            format!("with `{name}: {number}` a run that fails by itself holds its {devices} {number} times"),
        )
        .help(format!("write `{name}: 3`, or a deadline"))
        .severity(severity);
    }
    endless(object, ctx)
}

/// Kinds of the Training Operator 1.x with the field of their pods, and whether containers start again by default (`SetDefaults_*`
/// of `kubeflow.org/v1`). The launcher of an MPIJob is a Job, which has a limit.
const RESTARTING: [(Kind, &str, bool); 5] = [
    (Kind::PYTORCH_JOB, "pytorchReplicaSpecs", true),
    (Kind::PADDLE_JOB, "paddleReplicaSpecs", true),
    (Kind::TF_JOB, "tfReplicaSpecs", false),
    (Kind::XGBOOST_JOB, "xgbReplicaSpecs", false),
    (Kind::JAX_JOB, "jaxReplicaSpecs", false),
];

/// The number of devices from which an endless run is surely no trifle: a whole node.
const EXPENSIVE: i64 = 8;

/// Reports a job whose containers start again forever: `PastBackoffLimit` of the Training Operator (1.3 to 1.9) is false without a
/// limit.
fn endless(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (_, field, default) = RESTARTING.iter().find(|(kind, ..)| object.is(*kind))?;
    let spec = object.get("spec");
    let limit = spec.path(&["runPolicy", "backoffLimit"]);
    // Its many restarts are told already.
    let is_told = spec.path(&["elasticPolicy", "maxRestarts"]).int().is_some_and(|most| most >= MANY);
    if is_told || limit.is_set() || object.may_lack_fields() || spec.get("runPolicy").has_unknown_key() {
        return None;
    }
    let roles = spec.get(field).entries();
    let restarts = |role: &Node<'_>| {
        let policy = role.get("restartPolicy");
        if policy.is_set() { matches!(policy.text(), Some("OnFailure" | "Always")) } else { *default }
    };
    let (_, role) = roles.iter().find(|(_, role)| restarts(role) && has_device_in(role))?;
    let is_expensive = members(object).is_some_and(|members| {
        demands(&members, KARPENTER_ACCELERATORS).iter().any(|demand| demand.total >= EXPENSIVE)
    });
    // An elastic run is meant to go on with fewer nodes.
    let is_grave = is_expensive && !spec.get("elasticPolicy").is_set();
    let (_, devices) = accelerator_names(object);
    let message = format!(
        "without `backoffLimit` a run that always fails starts again forever, and keeps its {devices}"
    );
    ctx.report(&limit, message)
        .help("write `runPolicy.backoffLimit`, such as 3, or a deadline")
        .severity(if is_grave { Severity::Warning } else { Severity::Info })
        .related(object, &role.get("restartPolicy"), "its containers start again when they fail");
    None
}
