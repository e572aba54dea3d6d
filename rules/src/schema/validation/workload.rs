//! Deployment, StatefulSet, DaemonSet and ReplicaSet.

use std::collections::BTreeSet;

use serde_json::json;

use crate::facts::text::is_digits;
use crate::kind::Kind;
use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::tree::node::Node;

use super::pod::PodSpecOwner;
use super::syntax::DNS_LABEL;
use super::{Checker, may_hold_more_fields, pod, quote, selector, volume};

pub(super) fn workload<'a>(object: &Object, spec: &Node<'a>, report: &mut Checker<'a>) {
    let template = spec.get("template");
    if !may_hold_more_fields(spec) {
        selector::template_selector(spec, &template, true, report);
    }
    if object.is(Kind::STATEFUL_SET) {
        stateful_set(object, spec, &template, report);
    } else {
        pod::template(&template, PodSpecOwner::Template, Some(&BTreeSet::new()), report);
    }
    runs_for_ever(object.kind(), &template.get("spec"), report);
    if object.is(Kind::DEPLOYMENT) {
        deployment(spec, report);
    } else if object.is(Kind::DAEMON_SET) {
        daemon_set(spec, report);
    }
}

/// Pods of these kinds require `restartPolicy: Always` and no deadline.
pub(super) fn runs_for_ever<'a>(kind: &str, spec: &Node<'a>, report: &mut Checker<'a>) {
    let policy = spec.get("restartPolicy");
    if matches!(policy.text(), Some("OnFailure" | "Never")) {
        report
            .error(&policy, format!("the pods of a {kind} restart `Always`"))
            .help("leave `restartPolicy` out, or make it a Job")
            .fix(Fix::new("write `Always`", Safety::Unsafe).set(&policy, json!("Always")));
    }
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.is_set() {
        report
            .error(&deadline, format!("the pods of a {kind} have no `activeDeadlineSeconds`"))
            .help("leave it out, or make it a Job");
    }
}

fn deployment<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let strategy = spec.get("strategy");
    let rolling = strategy.get("rollingUpdate");
    if strategy.get("type").text() == Some("Recreate") {
        if rolling.is_set() {
            report
                .error(&rolling, "`rollingUpdate` is not allowed with `type: Recreate`")
                .help("leave it out, or write `type: RollingUpdate`")
                .fix(Fix::new("remove `rollingUpdate`", Safety::Safe).remove(&rolling));
        }
    } else {
        let gone = rolling.get("maxUnavailable");
        let more = rolling.get("maxSurge");
        let a = amount(&gone, true, report);
        let b = amount(&more, false, report);
        if a == Some(0) && b == Some(0) {
            report
                .error(&gone, "`maxUnavailable` and `maxSurge` may not both be 0")
                .help("write 1 in one of them, or no pod can be replaced");
        }
    }
    let ready = spec.get("minReadySeconds");
    let deadline = spec.get("progressDeadlineSeconds");
    let seconds = match deadline.int() {
        None if !deadline.is_set() && !report.partial && !may_hold_more_fields(spec) => Some(600),
        other => other,
    };
    let wait = if ready.is_set() { ready.int() } else { Some(0) };
    if let (Some(wait), Some(seconds)) = (wait, seconds)
        && seconds <= wait
        && seconds >= 0
    {
        report
            .error(&deadline, "`progressDeadlineSeconds` is not above `minReadySeconds`")
            .help("it is 600 where it is not written: write more than `minReadySeconds`");
    }
}

/// A number or percentage of pods; `None` if it is not set or not known. `bounded`: more than 100 % is
/// rejected.
fn amount<'a>(node: &Node<'a>, bounded: bool, report: &mut Checker<'a>) -> Option<i64> {
    let name = super::field_name(node);
    if let Some(count) = node.int() {
        if count < 0 {
            report.error(node, format!("`{name}` {count} is below 0"));
        }
        return Some(count);
    }
    let text = node.text()?;
    let digits = text.strip_suffix('%').filter(|digits| is_digits(digits));
    let Some(digits) = digits else {
        let refusal =
            report.error(node, format!("`{name}` {} is neither a number nor a percentage", quote(text)));
        if let Ok(count) = text.parse::<i32>()
            && count >= 0
        {
            refusal
                .help(format!("write {count} without quotes"))
                .fix(Fix::new("remove the quotes", Safety::Safe).set(node, json!(count)));
        } else {
            refusal.help("write a whole number without quotes, or one with `%`");
        }
        return None;
    };
    let percent = digits.parse::<i64>().unwrap_or(i64::MAX);
    if bounded && percent > 100 {
        report.error(node, format!("`{name}` {} is above 100 %", quote(text))).help("write 100% at most");
    }
    Some(percent)
}

fn daemon_set<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let strategy = spec.get("updateStrategy");
    if !matches!(strategy.get("type").text(), None | Some("" | "RollingUpdate"))
        || strategy.get("type").is_unknown()
    {
        return;
    }
    let rolling = strategy.get("rollingUpdate");
    let gone = rolling.get("maxUnavailable");
    let more = rolling.get("maxSurge");
    let a = amount(&gone, true, report);
    let b = amount(&more, true, report);
    // `maxUnavailable` has the default 1.
    let a = if gone.is_set() || report.partial || may_hold_more_fields(&rolling) { a } else { Some(1) };
    match (a, b) {
        (Some(a), Some(b)) if a > 0 && b > 0 => {
            report
                .error(&more, "`maxSurge` needs `maxUnavailable: 0`")
                .help("write `maxUnavailable: 0` beside it, or leave `maxSurge` out");
        }
        (Some(0), _) if b == Some(0) || (!more.is_set() && !report.partial) => {
            report
                .error(&gone, "`maxUnavailable` and `maxSurge` may not both be 0")
                .help("write 1 in one of them, or no pod can be replaced");
        }
        _ => {}
    }
}

fn stateful_set<'a>(object: &Object, spec: &Node<'a>, template: &Node<'a>, report: &mut Checker<'a>) {
    report.check_syntax_unless_empty(&spec.get("serviceName"), &DNS_LABEL);
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    if strategy.get("type").text() == Some("OnDelete") && rolling.is_set() {
        report
            .error(&rolling, "`rollingUpdate` is not allowed with `type: OnDelete`")
            .help("leave it out, or write `type: RollingUpdate`");
    } else {
        report.not_negative(&rolling.get("partition"));
        let gone = rolling.get("maxUnavailable");
        if amount(&gone, true, report) == Some(0) {
            report.error(&gone, "`maxUnavailable` may not be 0").help("write 1, which is the default");
        }
    }
    let claims = spec.get("volumeClaimTemplates");
    let mut names = BTreeSet::new();
    let mut known = !claims.is_unknown() && !may_hold_more_fields(spec) && !object.is_partial();
    for claim in claims.items() {
        let name = claim.path(&["metadata", "name"]);
        known &= !claim.is_unknown() && !name.is_unknown();
        names.extend(name.text());
        report.check_syntax(&name, &DNS_LABEL);
        let metadata = claim.get("metadata");
        if metadata.is_mapping() && !name.is_set() {
            report.required(&metadata, "name");
        }
        if claim.is_mapping() && !claim.get("spec").is_set() {
            report.required(&claim, "spec");
        }
        volume::claim_spec(&claim.get("spec"), report);
    }
    pod::template(template, PodSpecOwner::StatefulSet, known.then_some(&names), report);
}

#[cfg(test)]
mod tests {
    use crate::schema::validation::tests::{refused, taken};

    fn deployment(rest: &str) -> String {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec:\n  selector: \
             {{matchLabels: {{a: b}}}}\n  template: {{metadata: {{labels: {{a: b}}}}, spec: \
             {{containers: [{{name: c, image: i}}]}}}}\n{rest}"
        )
    }

    #[test]
    fn strategies_and_deadlines() {
        for rest in [
            "",
            "  strategy: {type: Recreate}\n",
            "  strategy: {rollingUpdate: {maxUnavailable: 0}}\n",
            "  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 150%}}\n",
            "  minReadySeconds: 599\n",
            "  strategy: {rollingUpdate: {maxUnavailable: '{{ x }}', maxSurge: 0}}\n",
        ] {
            taken(&deployment(rest));
        }
        for (rest, place) in [
            ("  strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}\n", "/spec/strategy/rollingUpdate"),
            (
                "  strategy: {rollingUpdate: {maxUnavailable: 0%, maxSurge: 0}}\n",
                "/spec/strategy/rollingUpdate/maxUnavailable",
            ),
            (
                "  strategy: {rollingUpdate: {maxUnavailable: 101%}}\n",
                "/spec/strategy/rollingUpdate/maxUnavailable",
            ),
            ("  strategy: {rollingUpdate: {maxSurge: '1'}}\n", "/spec/strategy/rollingUpdate/maxSurge"),
            ("  minReadySeconds: 600\n", "/spec/progressDeadlineSeconds"),
        ] {
            refused(&deployment(rest), place);
        }
    }
}
