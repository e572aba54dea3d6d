//! A scrape job keeps pods by a label that the pods which it is for do not have.
//!
//! # Why
//! A job with `kubernetes_sd_configs` finds all pods, and a relabeling with the action `keep` removes those
//! without the label. A value that no pod has, or a list of namespaces without that of the pods, leaves the job
//! without targets: no metrics, no error, and alerts on them never fire.
//!
//! It is reported where a Deployment, StatefulSet or DaemonSet has the value as its name and its pods have
//! other labels, and where the only pods with the label are in a namespace in which the job does not look.
//!
//! # Fix
//! Write the label of the pod template, or name the namespace of the pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: ConfigMap
//!  metadata: {name: prometheus, namespace: chat}
//!  data:
//!    prometheus.yml: |
//!      scrape_configs:
//!        - job_name: gateway
//!          kubernetes_sd_configs: [{role: pod, namespaces: {names: [chat]}}]
//!          relabel_configs:
//!            - source_labels: [__meta_kubernetes_pod_label_app]
//!              action: keep
//! -            regex: llm-gateway # <-
//! +            regex: llm
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm-gateway, namespace: chat}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//!          - name: web
//!            image: example.com/llm-gateway:1.4.0
//!            resources: {requests: {cpu: 100m, memory: 128Mi}}
//! ```
//!
//! # References
//! - <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#kubernetes_sd_config>
//! - <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#relabel_config>

use crate::rules::availability::intended_workload::has_added_labels;
use crate::rules::gpu::report_place;
use crate::rules::monitoring::scrape_jobs::{JOB_KINDS, Job, for_each_job};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scrape-job-selects-nothing",
    kinds: &JOB_KINDS,
    reads: WORKLOAD_KINDS,
    reports_absence: true,
    docs: docs(include_str!("scrape_job_selects_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// How Prometheus begins the names of labels of pods, with `_` for what is neither a letter nor a digit.
const OF_PODS: &str = "__meta_kubernetes_pod_label_";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    for_each_job(object, &mut |job| {
        let Some(scope) = scope(job.node) else { return };
        for relabeling in job.node.get("relabel_configs").items() {
            inspect(job, &scope, &relabeling, ctx);
        }
    });
    None
}

/// The namespaces in which a job looks for pods; `Some(None)` if in all, `None` if it looks for something else or they are not known.
fn scope<'a>(job: &Node<'a>) -> Option<Option<Vec<&'a str>>> {
    let discoveries: Vec<Node<'a>> = job.get("kubernetes_sd_configs").items().collect();
    if discoveries.is_empty() || job.has_unknown_key() {
        return None;
    }
    let mut names = Vec::new();
    let mut is_all = false;
    for discovery in &discoveries {
        let namespaces = discovery.get("namespaces");
        if discovery.get("role").text() != Some("pod")
            || namespaces.has_unknown()
            || namespaces.get("own_namespace").is_set()
        {
            return None;
        }
        let listed: Vec<&str> = namespaces.get("names").items().filter_map(|name| name.text()).collect();
        is_all |= listed.is_empty();
        names.extend(listed);
    }
    Some((!is_all).then_some(names))
}

fn inspect(
    job: &Job<'_, '_>,
    scope: &Option<Vec<&str>>,
    relabeling: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let labels: Vec<&str> =
        relabeling.get("source_labels").items().filter_map(|label| label.text()).collect();
    let [label] = labels.as_slice() else { return None };
    let key = label.strip_prefix(OF_PODS)?;
    let regex = relabeling.get("regex");
    let value = regex.text().filter(|value| is_plain(value))?;
    if relabeling.get("action").text() != Some("keep") || relabeling.has_unknown_key() {
        return None;
    }
    let looks_in = |workload: &Object| {
        scope.as_ref().is_none_or(|names| names.contains(&workload.namespace_or_default()))
    };
    let cluster = ctx.cluster();
    let (mut named, mut elsewhere) = (None, None);
    for workload in WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)) {
        for template in templates(workload) {
            let all = template.metadata.get("labels");
            let own = template.labels();
            let found = own.iter().find(|(own, _)| written(own) == key);
            let is_value = found.is_some_and(|(_, own)| own.text().is_none_or(|own| own == value));
            if is_value && (looks_in(workload) || workload.is_namespace_unknown()) {
                return None;
            }
            let is_open = workload.may_lack_fields() || all.has_unknown() || has_added_labels(workload);
            if is_open || !ctx.pairs_with(workload) {
                continue;
            }
            if is_value {
                elsewhere.get_or_insert(workload);
            } else if workload.name() == value && is_plain_workload(workload) && looks_in(workload) {
                named.get_or_insert((
                    workload,
                    all,
                    found.and_then(|(_, own)| own.text()).map(str::to_owned),
                ));
            }
        }
    }
    let place = job.place(&regex);
    if let Some(workload) = elsewhere {
        let there = ellipsize(workload.namespace_or_default()).into_owned();
        let message =
            format!("the pods with this label are in namespace `{there}`, where the job does not look");
        report_place(&place, message, ctx).help(format!("add `{there}` to `namespaces.names`")).related(
            workload,
            &workload.path(&["metadata", "namespace"]),
            "the pods",
        );
        return None;
    }
    let (workload, all, own) = named?;
    let pods = format!("the pods of {} `{}`", workload.id().kind, workload.display_name());
    let message = match own {
        Some(own) => format!("no pod is kept: {pods} have the value `{}`", ellipsize(&own)),
        None => format!("no pod is kept: {pods} do not have this label"),
    };
    report_place(&place, message, ctx).help("write a label of the pod template, and its value").related(
        workload,
        &all,
        "the labels of its pods",
    );
    None
}

/// Whether a pattern matches only the text that it is.
fn is_plain(pattern: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !pattern.is_empty() && pattern.chars().all(is_part)
}

fn is_plain_workload(workload: &Object) -> bool {
    [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET].iter().any(|kind| workload.is(*kind))
}

/// A label as Prometheus writes it.
fn written(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
