//! A GPU Job has no `backoffLimit`, so failed pods are retried six times.
//!
//! # Why
//! Without `backoffLimit` a Job starts a failed pod again up to six times. A run that fails on its own
//! configuration occupies GPU nodes seven times before it gives up; a run of days that meets a flaky
//! node may deserve more retries than that. The number is a decision.
//!
//! A JobSet restarts as a whole when one of its Jobs fails, `maxRestarts` times. Without `backoffLimit` a
//! Job fails only after six pods have started alone, each of which waits for ranks that still belong to the
//! old run: in a group of fixed size this takes hours, and is a warning.
//!
//! # Fix
//! Write `backoffLimit`: 0 to 3 for runs that fail for reasons of their own, and 0 in the Jobs of a JobSet.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//! -spec: # <-
//! +spec:
//! +  backoffLimit: 2
//!    activeDeadlineSeconds: 7200
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
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy>
//! - <https://github.com/kubernetes-sigs/jobset/issues/825>

use crate::rules::prelude::*;
use crate::rules::training::job_spec;
use crate::workload::devices::accelerator_names;
use crate::workload::environment::may_define;
use crate::workload::launcher::Program;

pub(crate) static RULE: Rule = Rule {
    id: "job-backoff-implicit",
    kinds: &[
        Kind::JOB,
        Kind::CRON_JOB,
        Kind::SCALED_JOB,
        Kind::JOB_SET,
        Kind::TRAINING_RUNTIME,
        Kind::CLUSTER_TRAINING_RUNTIME,
    ],
    docs: docs(include_str!("job_backoff_implicit.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !uses_accelerators(object) || object.is_owned() || is_test(object) {
        return None;
    }
    if object.is(Kind::JOB_SET) {
        return of_job_set(object, &object.get("spec"), ctx);
    }
    if [Kind::TRAINING_RUNTIME, Kind::CLUSTER_TRAINING_RUNTIME].iter().any(|kind| object.is(*kind)) {
        return of_job_set(object, &object.path(&["spec", "template", "spec"]), ctx);
    }
    let spec = job_spec(object);
    if is_written(&spec) {
        return None;
    }
    let ((device, _), name) = (accelerator_names(object), object.display_name());
    ctx.report(
        &spec.get("backoffLimit"),
        format!("{device} Job `{name}` has no `backoffLimit`, which is then 6"),
    )
    .help("write how often a failed pod may start again: `backoffLimit: 2`");
    None
}

/// Whether a Job states how often its pods start again, or may.
fn is_written(spec: &Node<'_>) -> bool {
    spec.has_unknown_key()
        || ["backoffLimit", "backoffLimitPerIndex"].iter().any(|field| spec.get(field).is_set())
}

/// Reports a Job of a set that starts its pods again before the set restarts as a whole.
fn of_job_set(object: &Object, spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    spec.path(&["failurePolicy", "maxRestarts"]).int().filter(|restarts| *restarts > 0)?;
    let templates = templates(object);
    for job in spec.get("replicatedJobs").items() {
        let own = job.path(&["template", "spec"]);
        let rules = own.path(&["podFailurePolicy", "rules"]);
        let fails = |rule: Node<'_>| rule.get("action").text().is_none_or(|action| action == "FailJob");
        if is_written(&own) || rules.has_unknown() || rules.items().any(fails) {
            continue;
        }
        let place = own.path(&["template", "spec"]).pointer();
        let Some(template) = templates.iter().find(|one| one.spec.pointer() == place) else { continue };
        // Pods that work alone may start again one by one.
        let Some(is_fixed) = rendezvous(template).filter(|_| uses_device(template)) else { continue };
        let name = job.get("name").text().unwrap_or_default();
        let message = format!(
            "pods of Job `{}` start again one by one, six in all, before the set restarts",
            ellipsize(name)
        );
        ctx.report(&own.get("backoffLimit"), message)
            .severity(if is_fixed { Severity::Warning } else { Severity::Info })
            .help("write `backoffLimit: 0`, so that the set restarts at once, or what a flaky node deserves");
    }
    None
}

/// Whether the pods of a template are ranks of one group of fixed size, which cannot take in a pod that starts later. `None` if
/// they are not known to be of one group.
fn rendezvous(template: &Template<'_>) -> Option<bool> {
    let launch = template.containers().find_map(|container| Launch::of(&container))?;
    let (nodes, _) = launch.nodes()?;
    // The agents of torchrun with a rendezvous of c10d or etcd meet again.
    let is_static =
        matches!(launch.option(&["rdzv-backend"]), OptionValue::Text(backend, _) if backend == "static");
    let by_variable = template.containers().any(|one| may_define(&one, |name| name.starts_with("PET_RDZV_")));
    let is_elastic = launch.program == Program::Torchrun
        && !is_static
        && (by_variable || launch.has(&["rdzv-backend", "rdzv-endpoint"]));
    (nodes > 1).then_some(!is_elastic)
}
