//! A GPU Job may run forever: it has no deadline.
//!
//! # Why
//! A worker that waits for a peer, a download that hangs or a loop that never converges keeps its GPUs
//! until somebody looks. Karpenter does not remove a node with a running pod that must not be
//! disrupted, and nothing else ends the Job.
//!
//! # Fix
//! Write `activeDeadlineSeconds` in the spec of the Job, well above the longest run that you expect.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//! -spec: # <-
//! +spec:
//! +  activeDeadlineSeconds: 14400
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>

use crate::rules::prelude::*;
use crate::rules::training::{JOBS, job_spec};
use crate::workload::devices::accelerator_names;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-job-unbounded",
    kinds: JOBS,
    docs: docs(include_str!("gpu_job_unbounded.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = job_spec(object);
    let deadline = spec.get("activeDeadlineSeconds");
    let in_pods = spec.path(&["template", "spec", "activeDeadlineSeconds"]);
    if deadline.is_set() || in_pods.is_set() || !uses_accelerators(object) || object.is_owned() {
        return None;
    }
    if spec.has_unknown_key() || is_test(object) {
        return None;
    }
    let ((device, devices), name) = (accelerator_names(object), object.display_name());
    let message = format!("{device} Job `{name}` has no deadline: a run that hangs keeps its {devices}");
    ctx.report(&deadline, message).help("write `activeDeadlineSeconds`, well above the longest run");
    None
}
