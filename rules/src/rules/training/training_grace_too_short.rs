//! A training run that saves checkpoints has too little time to write one.
//!
//! # Why
//! When a node is drained, its pods have `terminationGracePeriodSeconds` between SIGTERM and SIGKILL,
//! 30 if nothing is written. A checkpoint of a model on a GPU takes minutes to write to shared storage;
//! one that is cut off is lost, and the run goes back to the checkpoint before it. It is a warning
//! where a short time is written, and for a run that is marked do-not-disrupt or asks for Spot nodes,
//! otherwise advice; also for a run that resumes from the checkpoints of its steps. In the workers of an
//! MPIJob the process that gets the signal is an SSH server, which writes none: they are left out.
//!
//! # Fix
//! Write 120 where the pods may run on Spot, whose notice is two minutes, and 300 or more elsewhere.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//! -    spec: # <-
//! +    spec:
//! +      terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/bert]
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::cluster::placement::requested_capacity_types;
use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::checkpoint::{names_checkpoints, resumes};

pub(crate) static RULE: Rule = Rule {
    id: "training-grace-too-short",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("training_grace_too_short.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Seconds in which a checkpoint can be written.
const ENOUGH: i64 = 60;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !trains(object, ctx) || object.is(Kind::MPI_JOB) {
        return None;
    }
    for template in templates(object) {
        let grace = template.spec.get("terminationGracePeriodSeconds");
        let Some(seconds) = template.grace_seconds().filter(|seconds| *seconds < ENOUGH) else { continue };
        if template.spec.has_unknown_key() || !uses_device(&template) || !names_checkpoints(&template) {
            continue;
        }
        let name = object.display_name();
        let spot = || requested_capacity_types(&template).is_some_and(|types| types.contains("spot"));
        let warns =
            grace.is_set() || !resumes(&template) && (template.annotation(DO_NOT_DISRUPT).is_set() || spot());
        ctx.report(
            &grace,
            format!("training run `{name}` has {seconds} seconds to write a checkpoint on eviction"),
        )
        .severity(if warns { Severity::Warning } else { Severity::Info })
        .help("write `terminationGracePeriodSeconds: 120`, or more if the pods never run on Spot")
        .fix(Fix::new("wait two minutes for a checkpoint", Safety::Unsafe).set(&grace, json!(120)));
    }
    None
}
