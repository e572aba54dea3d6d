//! A ScaledJob starts jobs over and over while a cron window is open.
//!
//! # Why
//! A `cron` trigger asks for a number of jobs as long as its window is open. At each poll KEDA starts as many
//! as are missing, and a job that has ended is missing: from 8 to 18 o'clock the work runs again and again,
//! not once. A trigger on a queue says how much work there is; a time does not. Windows of ten minutes and
//! less are left out: few jobs end within them, so that each window starts about one.
//!
//! # Fix
//! Use a CronJob for a run at a time, or a ScaledObject for workers that are to run throughout the window.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledJob
//! metadata: {name: nightly, namespace: ml}
//! spec:
//!   pollingInterval: 30
//!   maxReplicaCount: 5
//!   jobTargetRef:
//!     activeDeadlineSeconds: 3600
//!     backoffLimit: 2
//!     template:
//!       spec:
//!         restartPolicy: Never
//!         containers:
//!           - name: main
//!             image: registry.example.com/ml/nightly:1.7
//!             resources: {requests: {cpu: 2, memory: 4Gi}, limits: {memory: 4Gi}}
//!   triggers:
//!     - type: cron # <-
//!       metadata: {timezone: Europe/Paris, start: 0 1 * * *, end: 0 5 * * *, desiredReplicas: "1"}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: batch/v1
//! kind: CronJob
//! metadata: {name: nightly, namespace: ml}
//! spec:
//!   schedule: "0 1 * * *"
//!   timeZone: Europe/Paris
//!   concurrencyPolicy: Forbid
//!   jobTemplate:
//!     spec:
//!       activeDeadlineSeconds: 3600
//!       backoffLimit: 2
//!       template:
//!         spec:
//!           restartPolicy: Never
//!           containers:
//!             - name: main
//!               image: registry.example.com/ml/nightly:1.7
//!               resources: {requests: {cpu: 2, memory: 4Gi}, limits: {memory: 4Gi}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cron/>
//! - <https://github.com/kedacore/keda/issues/1893>

use crate::keda::cron_window::CronWindow;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scaled-job-on-cron",
    kinds: &[Kind::SCALED_JOB],
    docs: docs(include_str!("scaled_job_on_cron.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The minutes of a window in which a job seldom ends.
const SHORT: i64 = 10;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = object.path(&["spec", "triggers"]);
    let mut all = triggers(object);
    // Beside another trigger the window may keep workers of a queue ready.
    if object.may_lack_fields() || list.is_unknown() || !all.all(|trigger| trigger.kind() == Some("cron")) {
        return None;
    }
    let trigger = triggers(object).find(|trigger| {
        let metadata = trigger.metadata();
        let wanted = metadata.get("desiredReplicas").string_or_number();
        let is_long = |window: &CronWindow| {
            let opening = window.opening();
            opening.is_some_and(|opening| opening.open.iter().any(|(from, to)| to - from > SHORT))
        };
        wanted.and_then(|text| text.parse::<i64>().ok()).is_some_and(|jobs| jobs > 0)
            && CronWindow::read(&metadata).is_some_and(|window| is_long(&window))
    })?;
    let name = object.display_name();
    let message = format!(
        "jobs of `{name}` run again and again while the window is open: KEDA replaces each that ends"
    );
    ctx.report(&trigger.node.get("type"), message)
        .help("use a CronJob for a run at a time, or a ScaledObject for workers throughout the window");
    Some(())
}
