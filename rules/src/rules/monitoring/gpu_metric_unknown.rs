//! A query reads a GPU, model server or Karpenter metric that is not exported.
//!
//! # Why
//! A query on a name that nobody exports returns nothing: KEDA reads 0 and scales in, an alert never
//! fires, a panel says "no data". Frequent causes are a typo, an underscore for vLLM's colon
//! (`vllm:num_requests_running`), and metrics of DCGM that dcgm-exporter has only where its counters
//! file asks for them.
//!
//! # Fix
//! Write the name as the exporter does. Metrics that dcgm-exporter leaves out by default need a line in
//! its counters file. A collector such as OpenTelemetry's may rewrite the colon: with one in the input
//! the underscore is not reported; otherwise record the query under a name of your own.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: prometheus
//!        metadata:
//!          serverAddress: http://prometheus.monitoring.svc:9090
//! -        query: sum(vllm_num_requests_waiting) # <-
//! +        query: sum(vllm:num_requests_waiting)
//!          threshold: "5"
//! ```
//!
//! # References
//! - <https://docs.vllm.ai/en/latest/usage/metrics/>
//! - <https://karpenter.sh/docs/reference/metrics/>
//! - <https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv>

use crate::cluster::Cluster;
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::cluster::views::{PROMETHEUS_RULE_KINDS, recording_rule_names};
use crate::facts::suggest::is_within;
use crate::migration::metrics::obsolete_metrics;
use crate::promql::identifiers::replace_word;
use crate::promql::metrics::{Exporter, metric, names_of, with_colon};
use crate::promql::{QUERY_KINDS, QueryPlace};
use crate::rules::monitoring::dcgm_exporter::uses_default_counters;
use crate::rules::monitoring::severity_in;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-metric-unknown",
    kinds: &QUERY_KINDS,
    reads: &[
        PROMETHEUS_RULE_KINDS[0],
        PROMETHEUS_RULE_KINDS[1],
        Kind::DAEMON_SET,
        COLLECTORS[0],
        COLLECTORS[1],
        COLLECTORS[2],
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_metric_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// A version after all versions of the table.
const LATEST: Version = Version::new(99, 0);
/// Collectors that may write an underscore for the colon: OpenTelemetry's, and Google's managed one.
const COLLECTORS: [Kind; 3] = [
    Kind::OPENTELEMETRY_COLLECTOR,
    Kind::new("monitoring.googleapis.com", "PodMonitoring"),
    Kind::new("monitoring.googleapis.com", "ClusterPodMonitoring"),
];

/// The first dcgm-exporter of the cluster, if all of them export the default counters. The counters of any other are not
/// known.
struct DefaultExporter;

impl Query for DefaultExporter {
    const SLOT: QuerySlot = QuerySlot::DefaultExporter;
    const KINDS: &'static [Kind] = &[Kind::DAEMON_SET];
    type Key = ();
    type Value = Option<ObjectKey>;

    fn compute(cluster: &Cluster, (): &()) -> Option<ObjectKey> {
        let mut first = None;
        for set in cluster.of(Kind::DAEMON_SET) {
            match uses_default_counters(set) {
                Some(true) => first = first.or_else(|| Some(ObjectKey(set.clone()))),
                Some(false) => return None,
                None => {}
            }
        }
        first
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let index = ctx.cluster();
    let mut reported: Vec<&str> = Vec::new();
    for query in queries(object) {
        for name in query.parsed.expr().map(|expr| expr.metric_names()).unwrap_or_default() {
            let Some(fault) = Fault::of(name) else { continue };
            // An object under review is not in the cluster yet.
            let is_recorded = || {
                index.views().is_recorded(name)
                    || PROMETHEUS_RULE_KINDS.iter().any(|kind| object.is(*kind))
                        && recording_rule_names(object).iter().any(|own| own == name)
                    || queries(object)
                        .iter()
                        .any(|own| own.place == QueryPlace::Record && own.title.as_deref() == Some(name))
            };
            if (query.is_embedded && reported.contains(&name)) || is_recorded() {
                continue;
            }
            if matches!(fault, Fault::Underscore { .. }) && COLLECTORS.iter().any(|kind| index.has_any(*kind))
            {
                continue;
            }
            reported.push(name);
            let node = query.node(object);
            let mut exporter = None;
            let (message, help, right) = match &fault {
                Fault::Underscore { server, right } => (
                    format!("{server} does not export `{name}`: it writes a colon after its prefix"),
                    format!("write `{right}`"),
                    Some(right.as_str()),
                ),
                Fault::Typo { exporter, right } => (
                    format!("{} does not export `{name}`", exporter.name()),
                    format!("write `{right}`"),
                    Some(*right),
                ),
                Fault::NotByDefault => {
                    exporter = index.query::<DefaultExporter>(&());
                    if exporter.is_none() {
                        continue;
                    }
                    (
                        format!("dcgm-exporter does not export `{name}` with its default counters file"),
                        "add the metric to a counters file of your own".to_owned(),
                        None,
                    )
                }
            };
            let usual = match fault {
                Fault::Typo { exporter: Exporter::Tgi | Exporter::Triton, .. } => Severity::Info,
                _ => Severity::Warning,
            };
            let finding = ctx.report(&node, message);
            finding.help(help).severity(severity_in(query.place, usual)).identified_by(name);
            finding.at_query(object, query);
            if let Some(ObjectKey(exporter)) = &exporter {
                finding.related(exporter, &exporter.path(&["metadata", "name"]), "the exporter");
            }
            if let (Some(right), Some(text), false) = (right, node.text(), query.is_embedded) {
                let fix = Fix::unsafe_(format!("write `{right}`"));
                finding.fix(fix.set(&node, json!(replace_word(text, name, right))));
            }
        }
    }
    None
}

enum Fault {
    /// An underscore for the colon after the prefix.
    Underscore { server: &'static str, right: String },
    /// Similar to a known name.
    Typo { exporter: Exporter, right: &'static str },
    /// A field of DCGM that the exporter may not export.
    NotByDefault,
}

impl Fault {
    fn of(name: &str) -> Option<Fault> {
        if let Some(known) = metric(name) {
            if name.starts_with("vllm_") || name.starts_with("sglang_") {
                let server = if name.starts_with("vllm_") { "vLLM" } else { "SGLang" };
                return Some(Fault::Underscore { server, right: with_colon(name)? });
            }
            return (!known.is_default).then_some(Fault::NotByDefault);
        }
        let exporters: &[Exporter] = match name {
            _ if name.starts_with("DCGM_") => &[Exporter::Dcgm],
            _ if name.starts_with("vllm:") => &[Exporter::Vllm, Exporter::VllmRouter],
            _ if name.starts_with("sglang:") => &[Exporter::Sglang],
            _ if name.starts_with("tgi_") => &[Exporter::Tgi],
            _ if name.starts_with("nv_") => &[Exporter::Triton],
            // Old names are reported by karpenter-metric-renamed.
            _ if name.starts_with("karpenter_") && obsolete_metrics(name, LATEST).is_empty() => {
                &[Exporter::Karpenter]
            }
            _ => return None,
        };
        for &exporter in exporters {
            if let Some(right) = names_of(exporter).into_iter().find(|known| is_typo(name, known)) {
                return Some(Fault::Typo { exporter, right });
            }
        }
        name.starts_with("DCGM_FI_").then_some(Fault::NotByDefault)
    }
}

/// Whether a name is another one with a typo. Numbers tell metrics apart: links, precisions.
fn is_typo(name: &str, known: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    is_within(name, known, 2) && digits(name) == digits(known)
}
