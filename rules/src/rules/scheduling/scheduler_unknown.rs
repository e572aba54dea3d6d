//! No scheduler has the name that pods ask for.
//!
//! # Why
//! A scheduler looks only at pods whose `schedulerName` is its own. Pods with another name stay Pending
//! without an event, and no autoscaler starts a node for them. It is reported for names that are nearly those
//! of a scheduler, such as `volcano-scheduler`, the name of Volcano's Deployment: its pods ask for `volcano`.
//! With `--complete`, it is an info for other names that no workload or ConfigMap of the input mentions, if no
//! chart is installed. `my-scheduler` is what AWS Neuron calls the scheduler of its chart.
//!
//! # Fix
//! Write the name of the scheduler, or remove the field.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: tasks}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: tasks}}
//!    template:
//!      metadata: {labels: {app: tasks}}
//!      spec:
//! -      schedulerName: yunicorn # <-
//! +      schedulerName: yunikorn
//!        containers:
//!          - name: main
//!            image: example.com/tasks:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/>
//! - <https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html>

use crate::facts::suggest::is_within;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scheduler-unknown",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::CONFIG_MAP], CHART_KINDS, [Kind::ARGO_APPLICATION_SET], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    reports_absence: true,
    docs: docs(include_str!("scheduler_unknown.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Scheduling)
};

/// Names of schedulers in their own charts: Kubernetes, Volcano, KAI, Run:ai, YuniKorn, scheduler-plugins, Koordinator, nos, HAMi,
/// Neuron, GKE, Crane, Stork, kube-batch.
const KNOWN: [&str; 14] = [
    "default-scheduler",
    "volcano",
    "kai-scheduler",
    "runai-scheduler",
    "yunikorn",
    "scheduler-plugins-scheduler",
    "koord-scheduler",
    "nos-scheduler",
    "hami-scheduler",
    "my-scheduler",
    "gke.io/optimize-utilization-scheduler",
    "crane-scheduler",
    "stork",
    "kube-batch",
];

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let field = scheduler_name(template);
    let name = field.text().filter(|name| !name.is_empty() && !KNOWN.contains(name))?;
    let near = KNOWN.into_iter().find(|known| is_near(name, known));
    let is_whole = ctx.cluster().is_complete()
        && !may_bring_objects(ctx.cluster())
        && !ctx.cluster().has_any(Kind::ARGO_APPLICATION_SET);
    if near.is_none() && !is_whole || is_mentioned(name, ctx) {
        return None;
    }
    let shown = ellipsize(name);
    let finding = ctx.report(&field, format!("no scheduler is called `{shown}`: the pods stay Pending"));
    match near {
        Some(known) => {
            finding
                .help(format!("did you mean `{known}`?"))
                .fix(Fix::unsafe_(format!("write `{known}`")).set(&field, json!(known)));
        }
        None => {
            finding.severity(Severity::Info).help("add the scheduler with this name, or remove the field");
        }
    }
    None
}

/// The field that names the scheduler of a template's pods. Volcano gives the one of a Job to its tasks without their own
/// (`createJobPod` of its 1.12), which is read at the first task.
fn scheduler_name<'a>(template: &Template<'a>) -> Node<'a> {
    let own = template.spec.get("schedulerName");
    let (object, number) = template.place;
    if own.is_absent() && object.is(Kind::VOLCANO_JOB) && number == 0 {
        return object.path(&["spec", "schedulerName"]);
    }
    own
}

/// Whether a name is a scheduler's own with or without its ending, or one typing error from it. Short names are one letter from
/// many others, and a digit is that of a second instance.
fn is_near(name: &str, known: &str) -> bool {
    let stem = |name: &str| name.strip_suffix("-scheduler").unwrap_or(name).to_owned();
    let own = stem(known);
    let is_long = own.len() > 5 || name.starts_with(&format!("{own}-"));
    let letters = |name: &str| name.chars().filter(|c| c.is_alphabetic()).collect::<String>();
    let is_instance = name.contains(|c: char| c.is_ascii_digit()) && letters(name) == letters(known);
    stem(name) == own || is_long && !is_instance && is_within(name, known, 1)
}

/// Whether a workload, a ConfigMap or the values of a chart may bring a scheduler of this name.
fn is_mentioned(name: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let in_command = |container: Node<'_>| {
        let words = words(&container);
        match option(&words, &["scheduler-name"]) {
            OptionValue::Text(text, _) if text == name => true,
            OptionValue::Unknown => true,
            _ => words.iter().any(|word| word.node.raw_text().is_some_and(|text| names(text, name))),
        }
    };
    let starts = |object: &Object| templates(object).iter().flat_map(Template::containers).any(in_command);
    let configures = |map: &Object| {
        map.get("data").entries().iter().any(|(key, value)| {
            let is_setting = key.ends_with("schedulerName");
            value.raw_text().is_some_and(|text| is_setting && text.trim() == name || names(text, name))
        })
    };
    let kinds = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET, Kind::POD];
    cluster.of(Kind::CONFIG_MAP).any(configures)
        || chart_installers(cluster).any(|installer| is_value(&installer.get("spec"), name))
        || kinds.iter().flat_map(|kind| cluster.of(*kind)).any(starts)
}

/// Whether a text gives a name to a scheduler, in a field `schedulerName`.
fn names(text: &str, name: &str) -> bool {
    text.split("schedulerName").skip(1).any(|rest| {
        let value =
            rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ':' | '='));
        value.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_name_char))
    })
}

/// Whether a node has a name as a whole word in one of its values. The name of the chart itself is none.
fn is_value(node: &Node<'_>, name: &str) -> bool {
    let has_word = |text: &str| text.split(|c: char| !is_name_char(c)).any(|word| word == name);
    node.raw_text().is_some_and(has_word)
        || node.items().any(|item| is_value(&item, name))
        || node.entries().iter().any(|(key, value)| !is_of_chart(key) && is_value(value, name))
}

/// Whether a field of a HelmRelease or an Application says which chart it installs, and where.
fn is_of_chart(key: &str) -> bool {
    ["chart", "chartRef", "path", "repoURL", "releaseName", "destination", "targetNamespace"].contains(&key)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/')
}
