//! Job, and the job template of a CronJob.

use std::collections::BTreeSet;

use serde_json::json;

use crate::facts::names::is_dns_label;
use crate::kind::Kind;
use crate::lint::fix::{Fix, Safety};
use crate::object::Object;
use crate::tree::node::Node;

use super::pod::PodSpecOwner;
use super::syntax::QUALIFIED_NAME;
use super::{Checker, cron_job, mapping_items, may_hold_more_fields, pod, quote, selector};

pub(super) fn job<'a>(object: &'a Object, spec: &Node<'a>, report: &mut Checker<'a>) {
    if object.is(Kind::CRON_JOB) {
        cron_job::cron_job(object, spec, report);
        return;
    }
    body(spec, true, report);
    let manual = spec.get("manualSelector");
    let chosen = spec.get("selector");
    if manual.bool() == Some(true) {
        if !may_hold_more_fields(spec) {
            selector::template_selector(spec, &spec.get("template"), true, report);
        }
    } else if chosen.is_mapping()
        && !manual.is_unknown()
        && !report.partial
        && ["matchLabels", "matchExpressions"].iter().any(|f| {
            let part = chosen.get(f);
            !part.entries().is_empty() || part.items().next().is_some()
        })
    {
        selector::selector(&chosen, report);
        report
            .error(&chosen, "the API server writes a Job's `selector` itself")
            .help("leave it out, or write `manualSelector: true` and be sure that it is unique")
            .fix(Fix::new("remove `selector`", Safety::Safe).remove(&chosen));
    }
    let node = object.path(&["metadata", "name"]);
    name(&node, spec, report);
}

/// The name of a Job, which becomes part of the names of its pods.
fn name<'a>(node: &Node<'a>, spec: &Node<'a>, report: &mut Checker<'a>) {
    if node.text().is_some_and(|n| n.len() > 63) {
        report
            .error(node, "the name of a Job has 63 characters at most")
            .help("it becomes a label of the pods");
        return;
    }
    // Each pod of an indexed Job gets a host name with its index.
    let count = spec.get("completions").int().unwrap_or(1);
    if spec.get("completionMode").text() == Some("Indexed")
        && count > 0
        && let Some(name) = node.text()
        && !is_dns_label(&format!("{name}-{}", count - 1))
    {
        report
            .error(node, "the pods of an indexed Job cannot have this name as host name")
            .help("write a DNS label, short enough for `-` and the highest index");
    }
}

/// The spec of a Job. `defaulted`: the API server sets `completions` if neither it nor `parallelism` is set.
/// It does not in the template of a CronJob.
pub(super) fn body<'a>(spec: &Node<'a>, defaulted: bool, report: &mut Checker<'a>) {
    let template = spec.get("template");
    pod::template(&template, PodSpecOwner::Template, Some(&BTreeSet::new()), report);
    restarts(spec, &template, report);
    completion(spec, defaulted, report);
    failure(spec, &template, report);
    success(spec, report);
    gang(spec, report);
    let manager = spec.get("managedBy");
    if let Some(text) = manager.text() {
        let good = text.len() <= 63
            && text.split_once('/').is_some_and(|(domain, path)| {
                crate::facts::names::is_dns_subdomain(domain)
                    && !path.is_empty()
                    && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b))
            });
        if !good {
            report
                .error(&manager, format!("{} names no controller", quote(text)))
                .help("write a domain, `/` and a name: `kubernetes.io/job-controller`");
        }
    }
}

/// A gang of a Job is at most as large as the Job: `minCount` of `k8s.io/kubernetes/pkg/apis/batch/validation` of 1.37.
fn gang<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let parallelism = spec.get("parallelism");
    let count = spec.path(&["scheduling", "schedulingPolicy", "gang", "minCount"]);
    let is_unknown = report.partial || parallelism.is_unknown() || may_hold_more_fields(spec);
    let Some(least) = count.int().filter(|_| !is_unknown) else { return };
    let pods = parallelism.int().unwrap_or(1);
    if least < 1 {
        report.error(&count, "a gang has at least one pod").help("write how many pods must start together");
    } else if least > pods {
        report
            .error(&count, format!("a gang of {least} pods is larger than `parallelism`, {pods}"))
            .help(format!("write at most {pods}, or raise `parallelism`"));
    }
}

/// The restart policy of a Job: `OnFailure` or `Never`.
fn restarts<'a>(spec: &Node<'a>, template: &Node<'a>, report: &mut Checker<'a>) {
    let inner = template.get("spec");
    let policy = inner.get("restartPolicy");
    if !inner.is_mapping() {
        return;
    }
    let message = "the pods of a Job restart `Never` or `OnFailure`";
    let help = "write `restartPolicy: Never`, and `backoffLimit` for the number of retries";
    match policy.text() {
        Some("" | "Always") => {
            report.error(&policy, message).help(help).fix(
                Fix::new("write `Never`; failed pods are replaced", Safety::Unsafe)
                    .set(&policy, json!("Never")),
            );
        }
        None if !policy.is_set() => {
            report.missing(&inner, "restartPolicy", message).help(help).fix(
                Fix::new("write `Never`; failed pods are replaced", Safety::Unsafe)
                    .set(&policy, json!("Never")),
            );
        }
        Some("OnFailure") if spec.get("podFailurePolicy").is_set() => {
            report
                .error(&policy, "`podFailurePolicy` needs `restartPolicy: Never`")
                .help("write `Never`: only pods that end can be checked");
        }
        _ => {}
    }
}

fn completion<'a>(spec: &Node<'a>, defaulted: bool, report: &mut Checker<'a>) {
    const MAX_INDEXES: i64 = 100_000;
    const MAX_PARALLELISM_ABOVE_LIMIT: i64 = 10_000;
    let mode = spec.get("completionMode");
    let indexed = mode.text() == Some("Indexed");
    let completions = spec.get("completions");
    let parallelism = spec.get("parallelism");
    let per_index = spec.get("backoffLimitPerIndex");
    let failed = spec.get("maxFailedIndexes");
    if report.partial || may_hold_more_fields(spec) || mode.is_unknown() {
        return;
    }
    if failed.is_set() && !per_index.is_set() {
        report.missing(spec, "backoffLimitPerIndex", "`maxFailedIndexes` needs `backoffLimitPerIndex`");
    }
    if !indexed {
        for node in [&per_index, &failed] {
            if node.is_set() {
                let name = super::field_name(node);
                report
                    .error(node, format!("`{name}` needs `completionMode: Indexed`"))
                    .help("write `completionMode: Indexed` and `completions`");
            }
        }
        return;
    }
    if !completions.is_set() && (parallelism.is_set() || !defaulted) {
        let refusal = report.missing(spec, "completions", "an indexed Job needs `completions`");
        refusal.help("write how many indexes there are");
        if let Some(count) = parallelism.int()
            && count > 0
        {
            refusal.fix(
                Fix::new("write as many completions as pods", Safety::Unsafe).set(&completions, json!(count)),
            );
        }
    }
    report.between(&parallelism, 0, MAX_INDEXES);
    report.between(&failed, 0, MAX_INDEXES);
    let Some(count) = completions.int() else { return };
    if failed.int().is_some_and(|f| f > count) {
        report
            .error(&failed, format!("`maxFailedIndexes` is above `completions` ({count})"))
            .help("write at most as many");
    }
    if count > MAX_INDEXES && per_index.is_set() {
        if !failed.is_set() {
            report.missing(spec, "maxFailedIndexes", "more than 100000 completions need `maxFailedIndexes`");
        }
        report.between(&parallelism, 0, MAX_PARALLELISM_ABOVE_LIMIT);
        report.between(&failed, 0, MAX_PARALLELISM_ABOVE_LIMIT);
    }
}

fn failure<'a>(spec: &Node<'a>, template: &Node<'a>, report: &mut Checker<'a>) {
    let policy = spec.get("podFailurePolicy");
    if !policy.is_set() {
        return;
    }
    let replacement = spec.get("podReplacementPolicy");
    if replacement.text() == Some("TerminatingOrFailed") {
        report
            .error(&replacement, "`podFailurePolicy` needs `podReplacementPolicy: Failed`")
            .help("write `Failed`, or leave it out")
            .fix(Fix::new("write `Failed`", Safety::Safe).set(&replacement, json!("Failed")));
    }
    let inner = template.get("spec");
    let mut names = BTreeSet::new();
    let mut known = !report.partial && !may_hold_more_fields(&inner);
    for field in ["containers", "initContainers"] {
        let list = inner.get(field);
        known &= !list.is_unknown();
        for container in list.items() {
            let name = container.get("name");
            known &= !container.is_unknown() && !name.is_unknown() && !may_hold_more_fields(&container);
            names.extend(name.text());
        }
    }
    let rules = policy.get("rules");
    report.at_most(&rules, 20);
    for rule in mapping_items(&rules) {
        let action = rule.get("action");
        if action.text() == Some("FailIndex")
            && !spec.get("backoffLimitPerIndex").is_set()
            && !report.partial
            && !may_hold_more_fields(spec)
        {
            report
                .error(&action, "`FailIndex` needs `backoffLimitPerIndex`")
                .help("write `backoffLimitPerIndex` in the Job's spec");
        }
        let codes = rule.get("onExitCodes");
        let conditions = rule.get("onPodConditions");
        let some = conditions.items().next().is_some();
        if codes.is_set() && some {
            report
                .error(&rule, "`onExitCodes` and `onPodConditions` exclude each other")
                .help("write two rules");
        } else if !codes.is_set()
            && !some
            && !conditions.is_unknown()
            && !report.partial
            && !may_hold_more_fields(&rule)
        {
            report
                .error(&rule, "the rule says nothing about when it holds")
                .help("write `onExitCodes` or `onPodConditions`");
        }
        exit_codes(&codes, known.then_some(&names), report);
        report.at_most(&conditions, 20);
        for condition in mapping_items(&conditions) {
            report.check_syntax(&condition.get("type"), &QUALIFIED_NAME);
        }
    }
}

fn exit_codes<'a>(codes: &Node<'a>, names: Option<&BTreeSet<&str>>, report: &mut Checker<'a>) {
    if !codes.is_mapping() {
        return;
    }
    let container = codes.get("containerName");
    if let (Some(name), Some(names)) = (container.text(), names)
        && !names.contains(name)
    {
        report
            .error(&container, format!("the pod has no container {}", quote(name)))
            .help("name a container or an init container of the template");
    }
    let values = codes.get("values");
    if values.is_unknown() {
        return;
    }
    let numbers: Vec<(Node<'a>, i64)> = values.items().filter_map(|n| n.int().map(|v| (n, v))).collect();
    if values.items().next().is_none() {
        if values.is_set() {
            report.error(&values, "`values` may not be empty");
        } else {
            report.required(codes, "values");
        }
    }
    report.at_most(&values, 255);
    let mut seen = BTreeSet::new();
    for (node, value) in &numbers {
        if *value == 0 && codes.get("operator").text() == Some("In") {
            report
                .error(node, "exit code 0 is not a failure")
                .help("leave 0 out, or write `operator: NotIn`");
        }
        if !seen.insert(*value) {
            report.error(node, format!("exit code {value} is written twice"));
        }
    }
    if numbers.windows(2).any(|w| w[0].1 > w[1].1) {
        report.error(&values, "the exit codes are not in order").help("write the smallest first").fix(
            Fix::new("sort them", Safety::Safe).set(&values, {
                let mut sorted: Vec<i64> = numbers.iter().map(|n| n.1).collect();
                sorted.sort_unstable();
                json!(sorted)
            }),
        );
    }
}

fn success<'a>(spec: &Node<'a>, report: &mut Checker<'a>) {
    let policy = spec.get("successPolicy");
    let mode = spec.get("completionMode");
    if !policy.is_set() || report.partial || may_hold_more_fields(spec) || mode.is_unknown() {
        return;
    }
    if mode.text() != Some("Indexed") {
        report
            .error(&policy, "`successPolicy` needs `completionMode: Indexed`")
            .help("write `completionMode: Indexed` and `completions`");
        return;
    }
    let rules = policy.get("rules");
    if rules.is_sequence() && rules.items().next().is_none() {
        report.error(&rules, "`rules` may not be empty");
    }
    report.at_most(&rules, 20);
    let total = spec.get("completions");
    for rule in mapping_items(&rules) {
        let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() && !may_hold_more_fields(&rule) {
            report
                .error(&rule, "the rule says nothing about when the Job has succeeded")
                .help("write `succeededCount` or `succeededIndexes`");
        }
        report.not_negative(&count);
        let Some(total) = total.int() else { continue };
        let named = indexes.text().map(|text| read_indexes(text, total));
        if let Some(Err(problem)) = &named {
            report.error(&indexes, problem.clone()).help("write numbers and ranges in order, as `0,2-5`");
        }
        let most = match named {
            Some(Ok(named)) => named.min(total),
            _ => total,
        };
        if count.int().is_some_and(|c| c > most) {
            report
                .error(&count, format!("`succeededCount` is above {most}, the number of indexes"))
                .help("write at most as many");
        }
    }
}

/// The number of indexes in a text such as `0,2-5`.
fn read_indexes(text: &str, total: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut last = -1;
    let mut count = 0;
    for part in text.split(',') {
        let (from, to) = match part.split_once('-') {
            Some((from, to)) => (from, Some(to)),
            None => (part, None),
        };
        let number = |t: &str| {
            t.parse::<i64>()
                .ok()
                .filter(|_| t.bytes().all(|b| b.is_ascii_digit()))
                .ok_or_else(|| format!("{} is not an index", quote(part)))
        };
        let first = number(from)?;
        let end = to.map_or(Ok(first), number)?;
        if first <= last || (to.is_some() && end <= first) {
            return Err(format!("{} is not in order", quote(part)));
        }
        if end >= total {
            return Err(format!("there is no index {end}: `completions` is {total}"));
        }
        count += end - first + 1;
        last = end;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::read_indexes;
    use crate::schema::validation::tests::{refused, taken};

    fn job(rest: &str) -> String {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec:\n  template: {{spec: \
             {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}\n{rest}"
        )
    }

    #[test]
    fn indexes_are_read_as_the_server_reads_them() {
        assert_eq!(read_indexes("0,2-4", 5), Ok(4));
        assert_eq!(read_indexes("", 5), Ok(0));
        for text in ["5", "2,1", "1,1", "3-2", "a", "1-", "+1", "0-5"] {
            assert!(read_indexes(text, 5).is_err(), "{text}");
        }
    }

    #[test]
    fn completion_modes() {
        for rest in [
            "",
            "  completionMode: Indexed\n",
            "  completionMode: Indexed\n  completions: 4\n  parallelism: 2\n  backoffLimitPerIndex: 1\n",
            "  completionMode: Indexed\n  completions: 4\n  successPolicy: {rules: [{succeededCount: 2}]}\n",
            "  selector: {}\n",
            "  parallelism: 4\n  scheduling: {schedulingPolicy: {gang: {minCount: 4}}}\n",
            "  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}\n",
        ] {
            taken(&job(rest));
        }
        for (rest, place) in [
            ("  completionMode: Indexed\n  parallelism: 2\n", "/spec/completions"),
            ("  backoffLimitPerIndex: 1\n", "/spec/backoffLimitPerIndex"),
            (
                "  parallelism: 4\n  scheduling: {schedulingPolicy: {gang: {minCount: 8}}}\n",
                "/spec/scheduling/schedulingPolicy/gang/minCount",
            ),
            ("  successPolicy: {rules: [{succeededCount: 2}]}\n", "/spec/successPolicy"),
            ("  selector: {matchLabels: {a: b}}\n", "/spec/selector"),
            (
                "  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [0]}}]}\n",
                "/spec/podFailurePolicy/rules/0/onExitCodes/values/0",
            ),
            (
                "  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [3, 2]}}]}\n",
                "/spec/podFailurePolicy/rules/0/onExitCodes/values",
            ),
        ] {
            refused(&job(rest), place);
        }
    }

    #[test]
    fn schedules() {
        let cron = |schedule: &str| {
            format!(
                "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: j}}\nspec:\n  schedule: \
                 '{schedule}'\n  jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, \
                 containers: [{{name: c, image: i}}]}}}}}}}}\n"
            )
        };
        for good in ["0 3 * * *", "@daily", "@every 1h30m", "*/5 0-6 1,15 jan mon", "? * ? * ?"] {
            taken(&cron(good));
        }
        for bad in ["0 3 * *", "TZ=UTC 0 3 * * *", "60 * * * *", "@every day", "@reboot", "* * * * 7"] {
            refused(&cron(bad), "/spec/schedule");
        }
    }
}
