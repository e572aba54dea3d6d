//! A training Pod starts again from the beginning when it has finished.
//!
//! # Why
//! `restartPolicy` is `Always` in a Pod that does not write it. A training run that ends with success
//! is then started again, in the same container and forever: it trains a second time, overwrites its
//! results and never frees its GPUs.
//!
//! # Fix
//! Write `restartPolicy: Never` or `OnFailure`; better, make it a Job, which also survives its node.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: vit-training}
//! spec: # <-
//!   containers:
//!     - name: trainer
//!       image: registry.example.com/ml/vit:v3
//!       command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/vit]
//!       resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: vit-training}
//! spec:
//!   backoffLimit: 3
//!   activeDeadlineSeconds: 86400
//!   template:
//!     metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!     spec:
//!       restartPolicy: Never
//!       terminationGracePeriodSeconds: 120
//!       containers:
//!         - name: trainer
//!           image: registry.example.com/ml/vit:v3
//!           command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/vit]
//!           resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy>

use crate::rules::prelude::*;
use crate::rules::training::trains;

pub(crate) static RULE: Rule = Rule {
    id: "training-restart-policy",
    kinds: &[Kind::POD],
    reads: &[Kind::NAMESPACE],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("training_restart_policy.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let policy = spec.get("restartPolicy");
    let always = !policy.is_set() || policy.text() == Some("Always");
    if !always || !trains(object, ctx) || spec.has_unknown_key() || spec.get("activeDeadlineSeconds").is_set()
    {
        return None;
    }
    let name = object.display_name();
    let message = format!("training Pod `{name}` starts again from the beginning when it has finished");
    ctx.report(&policy, message)
        .help("write `restartPolicy: Never`, or make it a Job")
        .fix(Fix::new("do not restart it", Safety::Unsafe).set(&policy, json!("Never")));
    None
}
