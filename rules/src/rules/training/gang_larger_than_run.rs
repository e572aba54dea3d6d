//! A job waits for more pods at once than it has.
//!
//! # Why
//! A gang starts when `minAvailable` of its pods can run at the same time. If that is more than the pods of the
//! job, or of a task, it never starts: Volcano's admission refuses such a job, and of a job of Kubeflow the pods
//! stay Pending. The number is often left behind when replicas are lowered.
//!
//! Volcano creates the pods of a task with `dependsOn` when those of the tasks that it names run. A gang that
//! counts them waits for pods that wait for the gang: all stay Pending, and no event says why. To leave
//! `minAvailable` out is to count all pods.
//!
//! # Fix
//! Write the number of all pods, or leave the field out: it is the default. With `dependsOn`, write the number
//! of pods that Volcano creates at once.
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
//! - <https://github.com/volcano-sh/volcano/blob/v1.15.1/docs/design/task-launch-order-within-job.md>
//! - <https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/job-scheduling/>

use crate::rules::prelude::*;
use crate::rules::training::KUBEFLOW_JOBS;
use crate::rules::training::volcano_enqueue_before_nodes::FILE as SCHEDULER_FILE;

pub(crate) static RULE: Rule = Rule {
    id: "gang-larger-than-run",
    kinds: kinds![[Kind::VOLCANO_JOB], KUBEFLOW_JOBS],
    reads: &[Kind::CONFIG_MAP],
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
        waits_for_itself(object, pods, ctx);
    }
    None
}

/// Reports a gang that counts pods which are only created when others of it run: `waitDependsOnTaskMeetCondition` of Volcano's
/// controller, `ValidTaskNum` of its plugin `gang`, and `patchDefaultMinAvailable` of its webhook (1.7 to 1.15).
fn waits_for_itself(object: &Object, pods: i64, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let least_of = |task: &Node<'_>| task.get("minAvailable").int_or(task.get("replicas").int_or(1)?);
    let (mut at_once, mut all) = (0i64, 0i64);
    let mut waiting = None;
    for task in spec.get("tasks").items() {
        let least = least_of(&task)?;
        let depends = task.path(&["dependsOn", "name"]);
        // Tasks that need none of their pods let others start.
        if depends.has_unknown() || least < 1 {
            return None;
        }
        all = all.checked_add(least)?;
        match depends.items().next() {
            Some(first) => waiting = waiting.or(Some(first)),
            None => at_once = at_once.checked_add(task.get("replicas").int_or(1)?)?,
        }
    }
    let waiting = waiting?;
    let field = spec.get("minAvailable");
    let least = if field.is_set() && field.int() != Some(0) { field.int()? } else { all };
    let scheduler = spec.get("schedulerName");
    let is_of_volcano = !scheduler.is_set() || scheduler.text() == Some("volcano");
    if at_once < 1 || least <= at_once || least > pods || !is_of_volcano || !has_gangs(ctx) {
        return None;
    }
    let message = format!(
        "`{}` waits for {least} pods at once, and Volcano creates {at_once} until these run",
        object.display_name()
    );
    ctx.report(&field, message)
        .severity(Severity::Warning)
        .help(format!("write {at_once}: pods of a task with `dependsOn` are created later"))
        .fix(Fix::unsafe_(format!("wait for {at_once}")).set(&field, json!(at_once)))
        .related(object, &waiting, "these pods are created later");
    None
}

/// Whether Volcano's scheduler binds the pods of a job together, as it does unless a ConfigMap of the input leaves its plugin out.
fn has_gangs(ctx: &Context<'_>) -> bool {
    let files = ctx.cluster().of(Kind::CONFIG_MAP).map(|map| map.path(&["data", SCHEDULER_FILE]));
    files.filter(Node::is_set).all(|file| file.text().is_some_and(|text| text.contains("gang")))
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
