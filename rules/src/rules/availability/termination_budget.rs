//! preStop sleep and server drain use up the pod's termination grace period.
//!
//! # Why
//! `terminationGracePeriodSeconds` (default 30) begins when the pod is deleted, and the preStop hook is
//! part of it. A hook that sleeps for all of it leaves the server no time: SIGTERM comes when the
//! period is over, and SIGKILL two seconds later. Requests are cut off and nothing is saved. The same
//! holds where the sleep and the server's own drain time, such as vLLM's `--shutdown-timeout`, are
//! together longer than the grace period. Only sleeps that are written as numbers count; a script with
//! loops or conditions is not read.
//!
//! # Fix
//! Raise `terminationGracePeriodSeconds` above the sleep and the time that the server needs after
//! SIGTERM, or shorten the sleep: 5 to 15 seconds are enough for load balancers to notice.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: shop}
//!  spec:
//!    selector: {matchLabels: {app: shop}}
//!    template:
//!      metadata: {labels: {app: shop}}
//!      spec:
//! -      terminationGracePeriodSeconds: 45
//! +      terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: web
//!            image: example.com/shop:1.4.0
//!            resources: {requests: {cpu: 100m, memory: 128Mi}}
//!            lifecycle:
//!              preStop:
//!                exec:
//! -                command: [/bin/sh, -c, sleep 60] # <-
//! +                command: [/bin/sh, -c, sleep 60]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#hook-handler-execution>
//! - <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination>

use crate::rules::availability::sleep_hook::sleep_of;
use crate::rules::prelude::*;
use crate::workload::server::flag;

pub(crate) static RULE: Rule = Rule {
    id: "termination-budget",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("termination_budget.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Availability)
};

/// Flags of web servers for the seconds in which they finish open requests.
const DRAIN_FLAGS: [&str; 2] = ["--timeout-graceful-shutdown", "--graceful-timeout"];

/// Seconds that a server needs after SIGTERM if no flag sets them, for the fix.
const DEFAULT_DRAIN: i64 = 30;

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let period = template.spec.get("terminationGracePeriodSeconds");
    let is_open = ctx.object().is_partial() || template.spec.is_unknown() || template.spec.has_unknown_key();
    if is_open && !period.is_set() {
        return None;
    }
    let grace = template.grace_seconds()?;
    for container in template.containers() {
        let hook = sleep_of(&container);
        let (seconds, in_pod) = hook.as_ref().map_or((0, false), |sleep| (sleep.seconds, sleep.is_action));
        let drain = drain_time(&container).unwrap_or(0);
        let killed = seconds >= grace && seconds > 0;
        // The API server rejects a sleep action that is longer, which invalid-value reports.
        if (in_pod && seconds > grace) || (!killed && seconds.saturating_add(drain) <= grace) {
            continue;
        }
        let (node, message) = match hook {
            Some(sleep) if killed => {
                (sleep.node, format!("preStop sleeps {seconds} s, and the pod is killed after {grace} s"))
            }
            Some(sleep) => {
                let message = format!(
                    "preStop sleeps {seconds} s and the server drains {drain} s, but the pod is killed after {grace} s"
                );
                (sleep.node, message)
            }
            None if period.is_set() => (
                period.clone(),
                format!("the server drains {drain} s, but the pod is killed after {grace} s"),
            ),
            None => {
                let message = format!("the server drains {drain} s, but the pod is killed after {grace} s");
                (container.get("name"), message)
            }
        };
        let enough = seconds.saturating_add(drain.max(DEFAULT_DRAIN));
        let finding = ctx.report(&node, message);
        finding.help(format!("raise `terminationGracePeriodSeconds` to {enough}, or shorten the sleep")).fix(
            Fix::new(format!("let pods take {enough} seconds to terminate"), Safety::Unsafe)
                .set(&period, json!(enough)),
        );
        if !killed {
            finding.severity(Severity::Warning);
        }
        // Another container's finding would have the same remedy.
        return None;
    }
    None
}

/// The seconds in which a server finishes open requests after SIGTERM, if a flag sets them.
fn drain_time(container: &Node<'_>) -> Option<i64> {
    let line = command_line(container);
    let own = server_of(container).map_or(&[][..], |server| server.drain_flags);
    own.iter().chain(&DRAIN_FLAGS).find_map(|name| flag(&line, name)?.parse().ok())
}
