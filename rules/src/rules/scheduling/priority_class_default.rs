//! A PriorityClass is rejected, or its default preempts pods that have a class.
//!
//! # Why
//! The class with `globalDefault: true` is that of each pod that names none. If it is the highest one, a
//! CronJob or a debug pod that somebody starts without a class preempts pods of the lower ones, such as the
//! applications. A default below a class for critical pods and above one for batch work is usual, and not
//! reported, nor is one above classes that only Jobs and CronJobs name.
//!
//! The API server accepts one default. It rejects values above 1000000000, which are for the classes of the
//! system, and names that begin with `system-`.
//!
//! # Fix
//! Make a low class the default, or none, and name the high one in the pods that need it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: scheduling.k8s.io/v1
//!  kind: PriorityClass
//!  metadata: {name: platform}
//!  value: 100000
//! -globalDefault: true # <-
//! +globalDefault: false
//!  ---
//!  apiVersion: scheduling.k8s.io/v1
//!  kind: PriorityClass
//!  metadata: {name: apps}
//!  value: 1000
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: search, namespace: search}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: search}}
//!    template:
//!      metadata: {labels: {app: search}}
//!      spec:
//!        priorityClassName: apps
//!        containers:
//!          - name: main
//!            image: example.com/search:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#priorityclass>

use super::priority::SYSTEM_CLASSES;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "priority-class-default",
    kinds: &[Kind::PRIORITY_CLASS],
    reads: kinds![[Kind::PRIORITY_CLASS], WORKLOAD_KINDS],
    rejected_by: &[Authority::ApiServer],
    docs: docs(include_str!("priority_class_default.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

/// The largest value of another class (`HighestUserDefinablePriority`).
const HIGHEST: i64 = 1_000_000_000;
/// Words in the names of classes whose pods are there to be preempted.
const LOW: [&str; 21] = [
    "background",
    "balloon",
    "batch",
    "best",
    "bulk",
    "dev",
    "filler",
    "headroom",
    "idle",
    "interruptible",
    "low",
    "nightly",
    "opportunistic",
    "overprovision",
    "pause",
    "placeholder",
    "preempt",
    "scavenger",
    "spare",
    "spot",
    "training",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let (name, value) = (object.name(), object.get("value"));
    if name.starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(name, value.int()?)) {
            ctx.report(
                &object.path(&["metadata", "name"]),
                "names that begin with `system-` are those of the system: the API server rejects the class",
            )
            .help("give it a name of its own");
        }
        return None;
    }
    if value.int()? > HIGHEST {
        ctx.report(&value, format!("the largest value of a PriorityClass is {HIGHEST}"))
            .help("lower it: higher ones are for the two classes of the system");
        return None;
    }
    let default = object.get("globalDefault");
    if default.bool() == Some(true) && second_default(object, &default, ctx).is_none() {
        preempts(object, &default, ctx);
    }
    None
}

/// The classes that are surely in the cluster of another one.
fn others<'i>(object: &Object, ctx: &Context<'i>) -> Vec<&'i Object> {
    let cluster = ctx.cluster();
    let is_other = |other: &&Object| {
        !other.is_same_resource(object) && !other.may_lack_fields() && cluster.likely_pairs(object, other)
    };
    cluster.of(Kind::PRIORITY_CLASS).filter(is_other).collect()
}

/// Reports the second one of two defaults, by name.
fn second_default(object: &Object, default: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_default = |other: &&Object| other.get("globalDefault").bool() == Some(true);
    let first =
        others(object, ctx).into_iter().filter(is_default).find(|other| other.name() < object.name())?;
    let message = format!("`{}` is the default as well: the API server accepts one", first.display_name());
    ctx.report(default, message).help("leave it to the class that pods without one should have").related(
        first,
        &first.get("globalDefault"),
        "the other default",
    );
    Some(())
}

/// Reports a default above all other classes, of which a workload names one.
fn preempts(object: &Object, default: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let value = object.get("value").int()?;
    if object.get("preemptionPolicy").is_set()
        && object.get("preemptionPolicy").text() != Some("PreemptLowerPriority")
    {
        return None;
    }
    let others = others(object, ctx);
    let values: Option<Vec<i64>> = others.iter().map(|other| other.get("value").int()).collect();
    if values?.iter().any(|other| *other >= value) {
        return None;
    }
    let is_low = |other: &Object| {
        let name = other.name();
        other.get("value").int().is_none_or(|value| value < 0) || LOW.iter().any(|word| name.contains(word))
    };
    let lower: Vec<&Object> = others.into_iter().filter(|other| !is_low(other)).collect();
    if lower.is_empty() {
        return None;
    }
    let of_workload = |workload: &Object| {
        let templates = templates(workload);
        let mut named = templates.iter().filter_map(|one| one.spec.get("priorityClassName").text());
        named.find_map(|name| lower.iter().copied().find(|other| other.name() == name))
    };
    let (workload, class) = {
        // A class that only Jobs name is for work that may wait.
        let lasting = WORKLOAD_KINDS.iter().filter(|kind| !matches!(**kind, Kind::JOB | Kind::CRON_JOB));
        let all = lasting.flat_map(|kind| ctx.cluster().of(*kind));
        let mut near = all.filter(|workload| !workload.is_partial() && ctx.pairs_with(workload));
        near.find_map(|workload| Some((workload, of_workload(workload)?)))?
    };
    let message = format!(
        "each pod without a class preempts those of `{}`, such as `{}`",
        class.display_name(),
        workload.display_name()
    );
    ctx.report(default, message)
        .severity(Severity::Warning)
        .help("make a low class the default, and name this one in the pods that need it")
        .related(class, &class.get("value"), "the lower class")
        .related(workload, &workload.path(&["metadata", "name"]), "it has the lower class");
    Some(())
}
