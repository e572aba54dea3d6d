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

use crate::rules::prelude::*;
use crate::workload::class::command_line;
use crate::workload::server::{flag, server_of};

pub(crate) static RULE: Rule = Rule {
    id: "termination-budget",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("termination_budget.rs")),
    check: Check::PodTemplate(check),
    ..Rule::error(Group::Availability)
};

/// Flags of web servers with the seconds that they go on with open requests.
const DRAIN_FLAGS: [&str; 2] = ["--timeout-graceful-shutdown", "--graceful-timeout"];

/// What a server needs after SIGTERM where no flag says it, for the fix.
const REST: i64 = 30;

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let period = template.spec.get("terminationGracePeriodSeconds");
    let grace = if period.is_set() {
        period.int()?
    } else if ctx.object().is_partial() || template.spec.is_unknown() || template.spec.has_unknown_key() {
        return None;
    } else {
        30
    };
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
        let enough = seconds.saturating_add(drain.max(REST));
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

/// The seconds for which a server goes on with open requests after SIGTERM, where a flag says it.
fn drain_time(container: &Node<'_>) -> Option<i64> {
    let line = command_line(container);
    let own = server_of(container).map_or(&[][..], |server| server.drain_flags);
    own.iter().chain(&DRAIN_FLAGS).find_map(|name| flag(&line, name)?.parse().ok())
}

/// A preStop hook that sleeps.
struct Sleep<'a> {
    node: Node<'a>,
    seconds: i64,
    /// The `sleep` action of Kubernetes, and no command.
    is_action: bool,
}

fn sleep_of<'a>(container: &Node<'a>) -> Option<Sleep<'a>> {
    let hook = container.path(&["lifecycle", "preStop"]);
    let action = hook.path(&["sleep", "seconds"]);
    if let Some(seconds) = action.int() {
        return Some(Sleep { node: action, seconds, is_action: true });
    }
    let node = hook.path(&["exec", "command"]);
    let words: Vec<&str> = node.items().map(|word| word.raw_text()).collect::<Option<_>>()?;
    let seconds = match words.as_slice() {
        [program, rest @ ..] if base(program) == "sleep" => total(rest.iter().copied())?,
        [shell, option, script, ..]
            if matches!(base(shell), "sh" | "bash" | "ash" | "dash")
                && option.starts_with('-')
                && option.ends_with('c') =>
        {
            script_sleeps(script)?
        }
        _ => return None,
    };
    Some(Sleep { node, seconds, is_action: false })
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The seconds that the commands of a script sleep for certain, one after the other. `None` for scripts that may sleep less.
fn script_sleeps(script: &str) -> Option<i64> {
    const BRANCHES: [&str; 10] =
        ["if", "for", "while", "until", "case", "exit", "trap", "function", "exec", "timeout"];
    let mut seconds: i64 = 0;
    for line in script.replace("\\\n", " ").lines() {
        let line = line.trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        for command in line.replace("&&", ";").split(';') {
            // What runs beside or instead of another command need not sleep at all.
            if command.contains('|') && command.contains("sleep") || command.trim_end().ends_with('&') {
                return None;
            }
            let mut words = command.split_whitespace();
            let Some(first) = words.next() else {
                continue;
            };
            if BRANCHES.contains(&first) || first.starts_with(['(', '{']) || first.ends_with("()") {
                return None;
            }
            if base(first) == "sleep" {
                seconds = seconds.checked_add(total(words)?)?;
            }
        }
    }
    (seconds > 0).then_some(seconds)
}

/// The sum of the arguments of `sleep`.
fn total<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<i64> {
    words.try_fold(0_i64, |sum, word| {
        let (number, unit) = match word.trim_matches(['"', '\'']) {
            text if text.ends_with('s') => (&text[..text.len() - 1], 1),
            text if text.ends_with('m') => (&text[..text.len() - 1], 60),
            text if text.ends_with('h') => (&text[..text.len() - 1], 3600),
            text => (text, 1),
        };
        let whole = number.split('.').next().unwrap_or(number);
        sum.checked_add(whole.parse::<u32>().ok().map(i64::from)?.checked_mul(unit)?)
    })
}

#[cfg(test)]
mod tests {
    use super::script_sleeps;

    #[test]
    fn scripts_sleep_for_what_is_certain() {
        for (script, seconds) in [
            ("sleep 15", Some(15)),
            ("/bin/sleep 15s", Some(15)),
            ("sleep 1m 30s", Some(90)),
            ("sleep 0.5", None),
            ("sleep 20; nginx -s quit", Some(20)),
            ("nginx -s quit && sleep 5\nsleep 5", Some(10)),
            ("# wait\ncurl -X POST localhost/drain\n# then\nsleep 90\n", Some(90)),
            ("sleep $DELAY", None),
            ("sleep $((5 * 2))", None),
            ("while pgrep x; do sleep 1; done", None),
            ("if [ -f x ]; then sleep 60; fi", None),
            ("sleep 60 & wait", None),
            ("test -f x || sleep 60", None),
            ("exit 0; sleep 60", None),
            ("timeout 5 sleep 60", None),
            ("kill -TERM 1", None),
            ("wait_for() { sleep 60; }", None),
        ] {
            assert_eq!(script_sleeps(script), seconds, "{script}");
        }
    }
}
