//! A job waits for more pods at once than it has.
//!
//! # Why
//! A gang starts when `minAvailable` of its pods can run at the same time. If that is more than the pods of the
//! job, or of a task, it never starts: Volcano's admission refuses such a job, and of a job of Kubeflow the pods
//! stay Pending. The number is often left behind when replicas are lowered.
//!
//! # Fix
//! Write the number of all pods, or leave the field out: it is the default.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch.volcano.sh/v1alpha1
//!  kind: Job
//!  metadata: {name: vision}
//!  spec:
//! -  minAvailable: 5 # <-
//! +  minAvailable: 4
//!    tasks:
//!      - name: worker
//!        replicas: 4
//!        template:
//!          spec:
//!            restartPolicy: OnFailure
//!            containers:
//!              - name: main
//!                image: example.com/train/vision:1.4.0
//!                resources:
//!                  requests: {cpu: 6, memory: 24Gi}
//!                  limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://volcano.sh/en/docs/vcjob/>
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/job-scheduling/>

use crate::rules::prelude::*;
use crate::rules::training::KUBEFLOW_JOBS;

const KINDS: [Kind; KUBEFLOW_JOBS.len() + 1] = joined(&[Kind::VOLCANO_JOB], &KUBEFLOW_JOBS);

pub(crate) static RULE: Rule = Rule {
    id: "gang-larger-than-run",
    kinds: &KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gang_larger_than_run.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Training)
};

/// The fields with the groups of pods of Kubeflow's jobs.
const REPLICA_SPECS: [&str; 6] = [
    "pytorchReplicaSpecs",
    "mpiReplicaSpecs",
    "tfReplicaSpecs",
    "xgbReplicaSpecs",
    "paddleReplicaSpecs",
    "jaxReplicaSpecs",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.is_partial() || object.is_scaled_by_kustomize() {
        return None;
    }
    if !object.is(Kind::VOLCANO_JOB) {
        // An elastic job has another number of pods at each time.
        if spec.get("elasticPolicy").is_set() {
            return None;
        }
        let groups = REPLICA_SPECS.iter().flat_map(|field| spec.get(field).entries());
        let pods: Option<i64> = groups.map(|(_, group)| group.get("replicas").int_or(1)).sum();
        compare(&spec.path(&["runPolicy", "schedulingPolicy", "minAvailable"]), pods?, object, ctx);
        return None;
    }
    let tasks = spec.get("tasks");
    if tasks.has_unknown() {
        return None;
    }
    let mut pods = 0i64;
    for task in tasks.items() {
        let replicas = task.get("replicas").int_or(1)?;
        pods = pods.checked_add(replicas)?;
        compare(&task.get("minAvailable"), replicas, object, ctx);
    }
    if tasks.items().next().is_some() {
        compare(&spec.get("minAvailable"), pods, object, ctx);
    }
    None
}

fn compare(least: &Node<'_>, pods: i64, object: &Object, ctx: &mut Context<'_>) {
    let Some(wanted) = least.int().filter(|least| *least > pods) else { return };
    let noun = if pods == 1 { "pod" } else { "pods" };
    let message =
        format!("`{}` waits for {wanted} pods at once and has {pods} {noun}", object.display_name());
    ctx.report(least, message)
        .help(format!("write {pods}, or leave the field out"))
        .fix(Fix::unsafe_(format!("wait for {pods}")).set(least, json!(pods)));
}
