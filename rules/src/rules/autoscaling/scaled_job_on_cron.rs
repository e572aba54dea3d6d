//! A ScaledJob starts jobs over and over while a cron window is open.
//!
//! # Why
//! A `cron` trigger asks for a number of jobs as long as its window is open. At each poll KEDA starts as many
//! as are missing, and a job that has ended is missing: from 8 to 18 o'clock the work runs again and again,
//! not once. A trigger on a queue says how much work there is; a time does not. Windows of ten minutes and
//! less are information: few jobs end within them. Those of a few polls are left out, and so are pools of runners
//! and agents of CI, which serve one job each and are replaced on purpose, and scripts with a loop whose
//! `activeDeadlineSeconds` lasts as long as the window.
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
use crate::keda::paused::is_on;
use crate::rules::prelude::*;
use crate::workload::class::has_word;

pub(crate) static RULE: Rule = Rule {
    id: "scaled-job-on-cron",
    kinds: &[Kind::SCALED_JOB],
    docs: docs(include_str!("scaled_job_on_cron.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// The minutes of a window in which a job seldom ends.
const SHORT: i64 = 10;
/// Polls in which a job does not end and start again.
const FEW_POLLS: i64 = 4;
/// The seconds between polls (`ScaledJob` of KEDA 2.20).
const DEFAULT_POLLING: i64 = 30;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = object.path(&["spec", "triggers"]);
    let mut all = triggers(object);
    // Beside another trigger the window may keep workers of a queue ready.
    if object.may_lack_fields() || list.is_unknown() || !all.all(|trigger| trigger.kind() == Some("cron")) {
        return None;
    }
    // No job starts.
    let most = object.path(&["spec", "maxReplicaCount"]);
    if is_on(object, "paused") != Some(false) || most.int_or(1).is_none_or(|most| most <= 0) {
        return None;
    }
    let polling = object.path(&["spec", "pollingInterval"]).int_or(DEFAULT_POLLING)?;
    let (trigger, minutes) = triggers(object).find_map(|trigger| {
        let metadata = trigger.metadata();
        let wanted = metadata.get("desiredReplicas").string_or_number()?.parse::<i64>().ok()?;
        let open = CronWindow::read(&metadata)?.opening()?.open;
        let longest = open.iter().map(|(from, to)| to - from).max()?;
        (wanted > 0 && longest * 60 > polling * FEW_POLLS).then_some((trigger, longest))
    })?;
    if templates(object).iter().any(|template| is_of_ci(template) || works_on(object, template, minutes)) {
        return None;
    }
    let name = object.display_name();
    let message = match minutes > SHORT {
        true => format!(
            "jobs of `{name}` run again and again while the window is open: KEDA replaces each that ends"
        ),
        false => {
            format!("a job of `{name}` that ends within the {minutes} minutes of the window starts again")
        }
    };
    let finding = ctx.report(&trigger.node.get("type"), message);
    finding.help("use a CronJob for a run at a time, or a ScaledObject for workers throughout the window");
    if minutes <= SHORT {
        finding.severity(Severity::Info);
    }
    Some(())
}

/// Whether pods are runners or agents of CI, by their images or by the variable that makes one end after a job.
fn is_of_ci(template: &Template<'_>) -> bool {
    template.containers().any(|container| {
        let image = image_of(&container);
        let ends = |variable: Node<'_>| variable.get("name").text() == Some("EPHEMERAL");
        image.is_some_and(|image| mentions(image.last(), &["runner", "agent"]))
            || container.get("env").items().any(ends)
    })
}

/// Whether a job works until a window of some minutes closes: its script has a loop, and its deadline is no shorter.
fn works_on(object: &Object, template: &Template<'_>, minutes: i64) -> bool {
    let deadline = object.path(&["spec", "jobTargetRef", "activeDeadlineSeconds"]).int();
    let has_loop = |container: Node<'_>| {
        let line = command_line(&container);
        ["while", "until"].iter().any(|word| has_word(&line, word))
    };
    deadline.is_some_and(|seconds| seconds >= minutes * 60) && template.containers().any(has_loop)
}
