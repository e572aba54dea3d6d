//! A scrape of series about others renames the labels that say what they are about.
//!
//! # Why
//! Prometheus gives each series the labels of its target: `job`, `instance`, and in a cluster `namespace`, `pod`
//! and more. Where the series has one already, the target's wins, and its own becomes `exported_job` and so on,
//! unless `honorLabels` is true. A Pushgateway, a federated Prometheus and kube-state-metrics have series about
//! jobs, pods and namespaces other than their own: a query for `{job="nightly-eval"}` or
//! `kube_pod_info{namespace="training"}` then finds nothing, and an alert on it never fires.
//!
//! It is not reported where queries or settings of the set name `exported_…`, where the endpoint relabels,
//! or where a kube-state-metrics of the set has metrics of custom resources alone, whose labels its
//! configuration chooses.
//!
//! # Fix
//! Set `honorLabels: true` on the endpoint.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: ServiceMonitor
//!  metadata: {name: pushgateway, namespace: monitoring}
//!  spec:
//!    selector: {matchLabels: {app: pushgateway}}
//!    endpoints:
//! -    - {port: http, interval: 30s} # <-
//! +    - {port: http, interval: 30s, honorLabels: true}
//! ```
//!
//! # References
//! - <https://github.com/prometheus/pushgateway/blob/master/README.md#about-the-job-and-instance-labels>
//! - <https://prometheus.io/docs/prometheus/latest/federation/#configuring-federation>
//! - <https://github.com/prometheus-operator/kube-prometheus/blob/main/manifests/kubeStateMetrics-serviceMonitor.yaml>

use crate::facts::text::contains;
use crate::promql::QUERY_KINDS;
use crate::rules::monitoring::monitors::{MONITORS, RELABELINGS, endpoints};
use crate::rules::prelude::*;

/// The kinds that run kube-state-metrics.
const RUNNERS: [Kind; 2] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET];

pub(crate) static RULE: Rule = Rule {
    id: "scrape-renames-labels",
    kinds: &MONITORS,
    reads: kinds![QUERY_KINDS, RUNNERS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("scrape_renames_labels.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// A target whose series are about other things.
#[derive(Clone, Copy)]
enum Source {
    Pushgateway,
    Federation,
    StateMetrics,
}

impl Source {
    fn of(monitor: &Object, endpoint: &Node<'_>) -> Option<Source> {
        if endpoint.get("path").text() == Some("/federate") {
            return Some(Source::Federation);
        }
        let labels = monitor.path(&["spec", "selector", "matchLabels"]).entries();
        let is_named =
            |word: &str| labels.iter().any(|(_, value)| value.text().is_some_and(|text| text.contains(word)));
        // What it tells of itself has a port of its own.
        let of_itself = || {
            endpoint
                .get("port")
                .text()
                .is_none_or(|port| mentions(port, &["self", "telemetry"]) || port == "metrics")
        };
        match () {
            () if is_named("pushgateway") => Some(Source::Pushgateway),
            () if is_named("kube-state-metrics") && !of_itself() => Some(Source::StateMetrics),
            () => None,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Source::Pushgateway => {
                "the pushed labels `job` and `instance` become `exported_job` and `exported_instance`"
            }
            Source::Federation => {
                "`job`, `instance` and others of the federated series become `exported_job`, ..."
            }
            Source::StateMetrics => {
                "`namespace` and `pod` of `kube_*` metrics become `exported_namespace` and `exported_pod`"
            }
        }
    }
}

fn check(monitor: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if monitor.may_lack_fields() {
        return None;
    }
    for endpoint in endpoints(monitor) {
        let honors = endpoint.get("honorLabels");
        let relabels = RELABELINGS.iter().any(|list| endpoint.get(list).is_set());
        let is_renamed = honors.is_absent() || honors.bool() == Some(false);
        if !is_renamed || relabels || endpoint.has_unknown() || endpoint.has_unknown_key() {
            continue;
        }
        let Some(source) = Source::of(monitor, &endpoint) else { continue };
        if names_exported(ctx) {
            return None;
        }
        if matches!(source, Source::StateMetrics) && is_of_custom_resources(ctx) {
            continue;
        }
        ctx.report(&endpoint, source.message())
            .help("set `honorLabels: true`, with which the series keep their labels")
            .fix(Fix::unsafe_("keep the labels of the series").set(&honors, json!(true)));
    }
    None
}

/// Whether a query of the set reads labels by the names that they get, or a configuration writes these names.
fn names_exported(ctx: &Context<'_>) -> bool {
    const EXPORTED: &str = "exported_";
    let has_file = |object: &Object| {
        let files = object.get("data").entries();
        files.iter().any(|(_, file)| file.raw_text().is_some_and(|text| contains(text, EXPORTED)))
    };
    let all = QUERY_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    all.filter(|object| ctx.pairs_with(object)).any(|object| {
        queries(object).iter().any(|query| query.text.contains(EXPORTED))
            || object.is(Kind::CONFIG_MAP) && has_file(object)
            || object.is(Kind::HELM_RELEASE) && mentions_below(&object.path(&["spec", "values"]), EXPORTED)
    })
}

/// Whether a key or a text of values has a word.
fn mentions_below(values: &Node<'_>, word: &str) -> bool {
    values.raw_text().is_some_and(|text| contains(text, word))
        || values.items().any(|item| mentions_below(&item, word))
        || values.entries().iter().any(|(key, value)| key.contains(word) || mentions_below(value, word))
}

/// Whether a kube-state-metrics of the set has no metrics of its own, `kube_…`.
fn is_of_custom_resources(ctx: &Context<'_>) -> bool {
    let is_set = |argument: Node<'_>| {
        let value = argument.text().and_then(|text| text.strip_prefix("--custom-resource-state-only"));
        value.is_some_and(|value| value != "=false")
    };
    let by_container = |container: Node<'_>| container.get("args").items().any(is_set);
    let mut runners = RUNNERS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    runners.any(|runner| {
        ctx.pairs_with(runner) && templates(runner).iter().flat_map(Template::containers).any(by_container)
    })
}
