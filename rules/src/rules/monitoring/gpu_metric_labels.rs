//! A query selects GPU metrics by a label that means something else.
//!
//! # Why
//! dcgm-exporter names the pod that uses a GPU in the labels `pod`, `namespace` and `container`.
//! Prometheus has labels of the same names for what it scrapes, and without `honorLabels: true` these
//! win: `pod` is then the exporter's own pod, and the workload's is `exported_pod`. A query for
//! `{pod=~"llm-.*"}` finds nothing, which KEDA reads as 0.
//!
//! kube-state-metrics writes resource names with underscores (`resource="nvidia_com_gpu"`), and
//! Karpenter's `karpenter_nodeclaims_terminated_total` has no label `reason`.
//!
//! # Fix
//! Set `honorLabels: true` on the monitor's endpoint, or select by `exported_pod`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: ServiceMonitor
//!  metadata: {name: dcgm-exporter, namespace: monitoring}
//!  spec:
//!    selector: {matchLabels: {app.kubernetes.io/name: dcgm-exporter}}
//!    endpoints:
//! -    - {port: metrics, interval: 30s} # <-
//! +    - {port: metrics, interval: 30s, honorLabels: true}
//! ```
//!
//! # References
//! - <https://github.com/NVIDIA/dcgm-exporter/issues/85>
//! - <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.Endpoint>
//! - <https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/workload/pod-metrics.md>

use crate::cluster::versions::Fact;
use crate::promql::expr::{Expr, Grouping, MatchOp, Matcher, Selector};
use crate::promql::metrics::{Exporter, metric};
use crate::promql::{QUERY_KINDS, Query};
use crate::rules::monitoring::monitors::{HonorLabels, MONITORS, endpoints, is_dcgm, keeps_labels};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-metric-labels",
    kinds: &[
        Kind::SERVICE_MONITOR,
        Kind::POD_MONITOR,
        Kind::VM_SERVICE_SCRAPE,
        Kind::VM_POD_SCRAPE,
        Kind::PROMETHEUS_RULE,
        Kind::VM_RULE,
        Kind::SCALED_OBJECT,
        Kind::SCALED_JOB,
    ],
    reads: kinds![MONITORS, QUERY_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_metric_labels.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

const WORKLOAD: [&str; 3] = ["pod", "namespace", "container"];
const EXPORTED: [&str; 3] = ["exported_pod", "exported_namespace", "exported_container"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if MONITORS.iter().any(|kind| object.is(*kind)) {
        return check_monitor(object, ctx);
    }
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let node = query.node(object);
        for selector in expr.selectors() {
            let Some(name) = selector.name.as_deref() else { continue };
            if let Some(matcher) = dotted_resource(name, selector) {
                let right = matcher.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                let finding = ctx.report(
                    &node,
                    format!(
                        "kube-state-metrics writes `resource=\"{right}\"`, so `{matcher}` selects nothing"
                    ),
                );
                finding.help(format!("write `resource=\"{right}\"`"));
                if let Some(text) = node.text() {
                    let new = text.replace(&format!("\"{matcher}\""), &format!("\"{right}\""));
                    if new != text {
                        finding.fix(Fix::unsafe_("write the name with underscores").set(&node, json!(new)));
                    }
                }
                break;
            }
            if name == "karpenter_nodeclaims_terminated_total"
                && selector.matchers.iter().any(|matcher| matcher.label == "reason")
            {
                ctx.report(&node, format!("`{name}` has no label `reason`, so this selects nothing"))
                    .help("`karpenter_nodeclaims_disrupted_total` has a `reason`");
                break;
            }
        }
        check_workload_labels(expr, &node, ctx);
    }
    None
}

/// The value of `resource` that is written with dots or slashes.
fn dotted_resource<'e>(name: &str, selector: &'e Selector) -> Option<&'e str> {
    let sanitized = name.starts_with("kube_pod_container_resource_")
        || name.starts_with("kube_pod_init_container_resource_")
        || matches!(name, "kube_node_status_allocatable" | "kube_node_status_capacity");
    let mut matchers = selector.matchers.iter();
    let matcher = matchers.find(|matcher| matcher.label == "resource" && matcher.op == MatchOp::Equal)?;
    (sanitized && matcher.value.contains('/')).then_some(matcher.value.as_str())
}

fn check_workload_labels(expr: &Expr, node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let label = workload_label(expr)?;
    let (ObjectKey(monitor), honors) = ctx.cluster().query::<HonorLabels>(&())?;
    let at = endpoints(&monitor).next()?;
    let name = monitor.display_name();
    if WORKLOAD.contains(&label) && !honors {
        // A query for the exporter's own pods finds them.
        if reads_target(expr, &monitor) {
            return None;
        }
        ctx.report(
            node,
            format!("`{label}` is the label of dcgm-exporter's own pod: monitor `{name}` does not set `honorLabels: true`"),
        )
        .help(format!("set `honorLabels: true` on the monitor, or write `exported_{label}`"))
        .related(&monitor, &at, "no `honorLabels: true` here");
    } else if EXPORTED.contains(&label) && honors {
        let plain = label.trim_start_matches("exported_");
        ctx.report(
            node,
            format!(
                "label `{label}` does not exist: `{name}` sets `honorLabels: true`, so the label is `{plain}`"
            ),
        )
        .help(format!("write `{plain}`"))
        .related(&monitor, &at.get("honorLabels"), "labels keep their names here");
    }
    None
}

fn is_of_dcgm(selector: &Selector) -> bool {
    let metric = selector.name.as_deref().and_then(metric);
    metric.is_some_and(|metric| metric.exporter == Exporter::Dcgm)
}

/// The first label of DCGM's metrics by which a query selects or groups and that names a workload.
fn workload_label(expr: &Expr) -> Option<&str> {
    let names = |label: &str| WORKLOAD.contains(&label) || EXPORTED.contains(&label);
    let mut found = None;
    expr.walk(&mut |expr| {
        if found.is_some() {
            return;
        }
        found = match expr {
            Expr::Selector(selector) if is_of_dcgm(selector) => {
                selector.matchers.iter().map(|matcher| matcher.label.as_str()).find(|label| names(label))
            }
            Expr::Aggregate(aggregate) => match (&aggregate.grouping, aggregate.expr.sole_selector()) {
                (Grouping::By(labels), Some(selector)) if is_of_dcgm(selector) => {
                    labels.iter().map(String::as_str).find(|label| names(label))
                }
                _ => None,
            },
            _ => None,
        };
    });
    found
}

fn check_monitor(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !is_dcgm(object) || keeps_labels(object)? {
        return None;
    }
    // An adapter that reads these labels was written for them.
    if ctx.cluster().is_shown(&Fact::ExportedLabels) {
        return None;
    }
    let endpoint = endpoints(object).next()?;
    let reader = reader_of_target(object, ctx);
    let finding = ctx.report(
        &endpoint,
        "the labels `pod` and `namespace` of GPU metrics become `exported_pod`, `exported_namespace`",
    );
    finding.severity(Severity::Info);
    match reader {
        Some((reader, node)) => finding
            .help("set `honorLabels: true`, and change the queries that read the labels as they are now")
            .related(reader, &node, "this query finds nothing with `honorLabels: true`"),
        None => finding
            .help("set `honorLabels: true` to keep the workload's labels")
            .fix(Fix::unsafe_("keep the exporter's labels").set(&endpoint.get("honorLabels"), json!(true))),
    };
    None
}

/// A query of GPU metrics by the labels that the exporter's own pod has, or by those to which the workload's were renamed.
fn reader_of_target<'i>(monitor: &Object, ctx: &Context<'i>) -> Option<(&'i Object, Node<'i>)> {
    let all = QUERY_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    all.filter(|object| ctx.pairs_with(object)).find_map(|object| {
        let reads = |query: &&Query| query.parsed.expr().is_some_and(|expr| reads_target(expr, monitor));
        Some((object, queries(object).iter().find(reads)?.node(object)))
    })
}

/// Whether a query is about the labels of GPU metrics as they are without `honorLabels`.
fn reads_target(expr: &Expr, monitor: &Object) -> bool {
    let is_of_exporter = |matcher: &Matcher| match matcher.label.as_str() {
        "namespace" => {
            let names = monitor.path(&["spec", "namespaceSelector", "matchNames"]);
            let mut names = names.items().filter_map(|name| name.text()).chain(monitor.namespace());
            matcher.op == MatchOp::Equal && names.any(|name| name == matcher.value)
        }
        "pod" | "container" => {
            matches!(matcher.op, MatchOp::Equal | MatchOp::Matches) && matcher.value.contains("dcgm")
        }
        _ => false,
    };
    workload_label(expr).is_some_and(|label| EXPORTED.contains(&label))
        || expr.selectors().into_iter().any(|one| is_of_dcgm(one) && one.matchers.iter().any(is_of_exporter))
}
