//! A query reads a GPU, model server or Karpenter metric that is not exported.
//!
//! # Why
//! A query on a name that nobody exports returns nothing: KEDA reads 0 and scales in, an alert never fires, a
//! panel says "no data". Frequent causes are a typo, an underscore for vLLM's colon
//! (`vllm:num_requests_running`), and metrics of DCGM that dcgm-exporter has only where its counters file asks
//! for them. MIG slices have no `DCGM_FI_DEV_GPU_UTIL`, whatever the file says. vLLM hides deprecated metrics
//! and removes them a release later: `vllm:gpu_cache_usage_perc` is gone from 0.11 on. That is a warning where
//! all vLLM images of the input are that new, and information where the input has none.
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

use std::sync::Arc;

use crate::cluster::query::Query;
use crate::cluster::views::{PROMETHEUS_RULE_KINDS, recording_rule_names};
use crate::facts::suggest::is_within;
use crate::migration::metrics::obsolete_metrics;
use crate::promql::identifiers::replace_word;
use crate::promql::metrics::{Exporter, metric, missing_on_slices, names_of, with_colon};
use crate::promql::removed::{Removed, removed_metric};
use crate::promql::{QUERY_KINDS, QueryPlace};
use crate::rules::monitoring::dcgm_exporter::{Counters, counters, stated_counters};
use crate::rules::monitoring::monitors::{MONITORS, RELABELINGS, endpoints, target_label};
use crate::rules::monitoring::severity_in;
use crate::rules::prelude::*;
use crate::workload::server::named_server_of;

const READS: [Kind; REPLICATED_KINDS.len() + 14] = joined(
    &[
        Kind::CLUSTER_POLICY,
        CHART_KINDS[0],
        CHART_KINDS[1],
        PROMETHEUS_RULE_KINDS[0],
        PROMETHEUS_RULE_KINDS[1],
        Kind::DAEMON_SET,
        Kind::CONFIG_MAP,
        MONITORS[0],
        MONITORS[1],
        MONITORS[2],
        MONITORS[3],
        COLLECTORS[0],
        COLLECTORS[1],
        COLLECTORS[2],
    ],
    REPLICATED_KINDS,
);

pub(crate) static RULE: Rule = Rule {
    id: "gpu-metric-unknown",
    kinds: &QUERY_KINDS,
    reads: &READS,
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

/// The dcgm-exporters of the cluster with their counters.
struct Exporters;

impl Query for Exporters {
    const SLOT: QuerySlot = QuerySlot::DcgmExporters;
    const KINDS: &'static [Kind] =
        &[Kind::DAEMON_SET, Kind::CONFIG_MAP, Kind::CLUSTER_POLICY, CHART_KINDS[0], CHART_KINDS[1]];
    type Key = ();
    type Value = Arc<[(ObjectKey, Counters)]>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<[(ObjectKey, Counters)]> {
        let of = |object: &Object, counters: Option<Counters>| Some((ObjectKey(object.clone()), counters?));
        let sets = cluster.of(Kind::DAEMON_SET).filter_map(|set| of(set, counters(set, cluster)));
        let installers = cluster.of(Kind::CLUSTER_POLICY).chain(chart_installers(cluster));
        sets.chain(installers.filter_map(|one| of(one, stated_counters(one, cluster)))).collect()
    }
}

/// An exporter of the cluster, if no exporter of it exports a field of DCGM.
fn lacking(name: &str, ctx: &Context<'_>) -> Option<(ObjectKey, Counters)> {
    let exporters = ctx.cluster().query::<Exporters>(&());
    let lacks = |counters: &Counters| match counters {
        Counters::Default => metric(name).is_none_or(|known| !known.is_default),
        Counters::Listed { names, .. } => !names.contains(name),
        Counters::Unknown => false,
    };
    exporters.first().filter(|_| exporters.iter().all(|(_, counters)| lacks(counters))).cloned()
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let index = ctx.cluster();
    let mut reported: Vec<&str> = Vec::new();
    for query in queries(object) {
        of_slices(query, object, ctx);
        let names = query.parsed.expr().map(|expr| expr.metric_names()).unwrap_or_default();
        for &name in &names {
            let is_done = query.is_embedded && reported.contains(&name);
            if let Some(gone) = removed_metric(name) {
                let has_new = gone.new_name(name).is_some_and(|new| names.contains(&new.as_str()));
                if !is_done && !has_new && !is_recorded(name, object, ctx) {
                    reported.push(name);
                    of_removed(gone, name, query, object, ctx);
                }
                continue;
            }
            let Some(fault) = Fault::of(name) else { continue };
            if is_done || is_recorded(name, object, ctx) {
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
                Fault::NotExported => {
                    exporter = lacking(name, ctx);
                    let (message, help) = match &exporter {
                        Some((_, Counters::Listed { config: ObjectKey(config), .. })) => (
                            format!("dcgm-exporter does not export `{name}`, which its counters file lacks"),
                            match config.is(Kind::CONFIG_MAP) {
                                true => format!("add the metric to ConfigMap `{}`", config.display_name()),
                                false => {
                                    format!(
                                        "add the metric to the counters in the values of `{}`",
                                        config.display_name()
                                    )
                                }
                            },
                        ),
                        Some(_) => (
                            format!("dcgm-exporter does not export `{name}` with its default counters file"),
                            "add the metric to a counters file of your own".to_owned(),
                        ),
                        None => continue,
                    };
                    (message, help, None)
                }
            };
            let usual = match fault {
                Fault::Typo { exporter: Exporter::Tgi | Exporter::Triton, .. } => Severity::Info,
                _ => Severity::Warning,
            };
            let finding = ctx.report(&node, message);
            finding.help(help).severity(severity_in(query.place, usual)).identified_by(name);
            finding.at_query(object, query);
            if let Some((ObjectKey(exporter), counters)) = &exporter {
                finding.related(exporter, &exporter.path(&["metadata", "name"]), "the exporter");
                if let Counters::Listed { config: ObjectKey(config), .. } = counters
                    && config.is(Kind::CONFIG_MAP)
                {
                    finding.related(config, &config.get("data"), "its counters file");
                }
            }
            if let (Some(right), Some(text), false) = (right, node.text(), query.is_embedded) {
                let fix = Fix::unsafe_(format!("write `{right}`"));
                finding.fix(fix.set(&node, json!(replace_word(text, name, right))));
            }
        }
    }
    None
}

/// Whether rules of the cluster, or of the object itself, record series of a name, or a monitor renames others so.
fn is_recorded(name: &str, object: &Object, ctx: &Context<'_>) -> bool {
    // An object under review is not in the cluster yet.
    ctx.cluster().views().is_recorded(name)
        || MONITORS.iter().any(|kind| ctx.cluster().of(*kind).any(|monitor| renames_to(monitor, name)))
        || PROMETHEUS_RULE_KINDS.iter().any(|kind| object.is(*kind))
            && recording_rule_names(object).iter().any(|own| own == name)
        || queries(object)
            .iter()
            .any(|own| own.place == QueryPlace::Record && own.title.as_deref() == Some(name))
}

/// Whether a monitor gives metrics a name, or may.
fn renames_to(monitor: &Object, name: &str) -> bool {
    let lists = endpoints(monitor).flat_map(|one| RELABELINGS.map(|list| one.get(list)));
    lists.flat_map(|list| list.items()).any(|rule| {
        let to = rule.get("replacement").raw_text();
        target_label(&rule).text() == Some("__name__") && to.is_none_or(|to| to == name || to.contains('$'))
    })
}

/// Reports a metric of whole GPUs that is read of MIG slices.
fn of_slices(query: &crate::promql::Query, object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (name, instead) = query.parsed.expr().and_then(missing_on_slices)?;
    if is_recorded(name, object, ctx) {
        return None;
    }
    let node = query.node(object);
    let finding =
        ctx.report(&node, format!("`{name}` is absent or 0 on MIG slices, and this selects slices"));
    finding.severity(severity_in(query.place, Severity::Warning)).identified_by(name).at_query(object, query);
    match instead {
        Some(other) => finding.help(format!("read `{other}`, which goes from 0 to 1 and not to 100")),
        None => finding.help("remove the query: slices have no such metric"),
    };
    None
}

/// Reports a metric that vLLM removed or hides, unless a server of the cluster exports it, or may.
fn of_removed(
    gone: &Removed,
    name: &str,
    query: &crate::promql::Query,
    object: &Object,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let servers = ctx.cluster().query::<VllmServers>(&());
    let near: Vec<&VllmServer> = servers.iter().filter(|server| ctx.pairs_with(&server.object.0)).collect();
    let lacks = |server: &VllmServer| {
        let since = if server.shows_hidden { gone.removed } else { gone.hidden };
        server.version.is_some_and(|version| version >= since)
    };
    if !near.iter().copied().all(lacks) {
        return None;
    }
    let node = query.node(object);
    let message = format!("vLLM {} and later do not export `{name}`", gone.hidden);
    let usual = if near.is_empty() { Severity::Info } else { Severity::Warning };
    let finding = ctx.report(&node, message);
    finding.help(gone.help(name)).severity(severity_in(query.place, usual)).identified_by(name);
    finding.at_query(object, query);
    if let Some(VllmServer { object: ObjectKey(server), version: Some(version), .. }) = near.first() {
        finding.related(server, &server.path(&["metadata", "name"]), format!("runs vLLM {version}"));
    }
    if let (Some(new), Some(text), false) = (gone.new_name(name), node.text(), query.is_embedded) {
        let fix = Fix::unsafe_(format!("write `{new}`"));
        finding.fix(fix.set(&node, json!(replace_word(text, name, &new))));
    }
    None
}

/// A workload of vLLM, with the version that its image names.
#[derive(Clone, PartialEq)]
struct VllmServer {
    object: ObjectKey,
    /// `None` if the image is not vLLM's own, or its tag is no version.
    version: Option<Version>,
    /// Whether an option brings hidden metrics back, or may.
    shows_hidden: bool,
}

impl VllmServer {
    fn of(object: &Object) -> Option<VllmServer> {
        let templates = templates(object);
        let container = templates.iter().flat_map(Template::containers).find(|one| {
            named_server_of(one).is_some_and(|server| server.id == ServerId::Vllm) || simulates(one)
        })?;
        let image = image_of(&container);
        let is_own = |image: &ImageRef<'_>| image.is("vllm/vllm-openai") && !object.may_lack_fields();
        let version = image.filter(is_own).and_then(|image| image.version());
        let shows_hidden =
            !matches!(option(&words(&container), &["show-hidden-metrics-for-version"]), OptionValue::Absent);
        Some(VllmServer { object: ObjectKey(object.clone()), version, shows_hidden })
    }
}

/// Whether a container runs llm-d's simulator of vLLM, which has metrics of older versions.
fn simulates(container: &Node<'_>) -> bool {
    image_of(container).is_some_and(|image| image.last() == "llm-d-inference-sim")
}

/// The workloads of vLLM in the cluster.
struct VllmServers;

impl Query for VllmServers {
    const SLOT: QuerySlot = QuerySlot::VllmServers;
    const KINDS: &'static [Kind] = REPLICATED_KINDS;
    type Key = ();
    type Value = Arc<[VllmServer]>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<[VllmServer]> {
        let workloads = REPLICATED_KINDS.iter().flat_map(|kind| cluster.of(*kind));
        workloads.filter_map(VllmServer::of).collect()
    }
}

enum Fault {
    /// An underscore for the colon after the prefix.
    Underscore { server: &'static str, right: String },
    /// Similar to a known name.
    Typo { exporter: Exporter, right: &'static str },
    /// A field of DCGM that the exporter may not export.
    NotExported,
}

impl Fault {
    fn of(name: &str) -> Option<Fault> {
        if metric(name).is_some() {
            if name.starts_with("vllm_") || name.starts_with("sglang_") {
                let server = if name.starts_with("vllm_") { "vLLM" } else { "SGLang" };
                return Some(Fault::Underscore { server, right: with_colon(name)? });
            }
            return name.starts_with("DCGM_FI_").then_some(Fault::NotExported);
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
        name.starts_with("DCGM_FI_").then_some(Fault::NotExported)
    }
}

/// Whether a name is another one with a typo. Numbers tell metrics apart: links, precisions.
fn is_typo(name: &str, known: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    is_within(name, known, 2) && digits(name) == digits(known)
}
