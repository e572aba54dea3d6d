//! A query reads a GPU, model server or Karpenter metric that is not exported.
//!
//! # Why
//! A query on a name that nobody exports returns nothing: KEDA reads 0 and scales in, an alert never fires,
//! a panel says "no data". Frequent causes are a typo, an underscore for vLLM's colon
//! (`vllm:num_requests_running`), and metrics of DCGM that dcgm-exporter has only where its counters file
//! asks for them. A name that DCGM does not have at all cannot be added there: dcgm-exporter exports
//! nothing with such a file. MIG slices have no `DCGM_FI_DEV_GPU_UTIL`, whatever the file says. Counters
//! end in `_total`, and a histogram has the series `_bucket`, `_sum` and `_count` but none of its own name.
//!
//! Servers rename and remove metrics: `vllm:gpu_cache_usage_perc` is gone from vLLM 0.11 on,
//! `llamacpp:kv_cache_usage_ratio` from build 5554 of llama.cpp on. That is a warning where all images of
//! that server in the input are that new, and information where the input has none. The same holds for
//! metrics of DCGM that only a counters file of your own has, if an alert or a trigger reads them and the
//! exporter is not in the input, and for names that no release of DCGM, SGLang, TGI, Triton or llama.cpp
//! has had, such as `sglang:num_requests_waiting`. Triton's own metrics begin with `nv_`, and none with
//! `triton_server_` or `triton_inference_`.
//!
//! # Fix
//! Write the name as the exporter does. Metrics that dcgm-exporter leaves out by default need a line in
//! its counters file. A collector such as OpenTelemetry's may rewrite names: with one in the input
//! underscores and suffixes are not reported; otherwise record the query under a name of your own.
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
//! - <https://docs.sglang.ai/references/production_metrics.html>
//! - <https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md>
//! - <https://karpenter.sh/docs/reference/metrics/>
//! - <https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv>

use std::sync::Arc;

use crate::cluster::query::Query;
use crate::migration::metrics::obsolete_metrics;
use crate::promql::identifiers::replace_word;
use crate::promql::metrics::{Exporter, MetricType, metric, missing_on_slices, with_colon};
use crate::promql::names::{has_list, never_exported_by, of_more_words, of_same_sense, right_name};
use crate::promql::removed::{Release, Removed, release_text, removed_metric};
use crate::promql::{PROMETHEUS_RULE_KINDS, QUERY_KINDS, QueryPlace};
use crate::rules::monitoring::dcgm_exporter::{Counters, counters, stated_counters};
use crate::rules::monitoring::monitors::{MONITORS, RELABELINGS, endpoints, target_label};
use crate::rules::monitoring::{is_recorded_by_rule, severity_in};
use crate::rules::prelude::*;
use crate::workload::server::named_server_of;
use crate::workload::server::release::published;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-metric-unknown",
    kinds: &QUERY_KINDS,
    reads: kinds![
        [Kind::CLUSTER_POLICY],
        CHART_KINDS,
        PROMETHEUS_RULE_KINDS,
        [Kind::DAEMON_SET, Kind::CONFIG_MAP],
        MONITORS,
        COLLECTORS,
        REPLICATED_KINDS
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

/// The dcgm-exporters of the cluster with their counters.
struct Exporters;

impl Query for Exporters {
    const SLOT: QuerySlot = QuerySlot::DcgmExporters;
    const KINDS: &'static [Kind] =
        kinds![[Kind::DAEMON_SET, Kind::CONFIG_MAP, Kind::CLUSTER_POLICY], CHART_KINDS];
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

/// Whether nothing is reported of a field of DCGM where no exporter of the input lacks it: an exporter of the input has it, the
/// default counters file has it, or only a dashboard reads it, which may be for another exporter.
fn is_likely_exported(name: &str, place: QueryPlace, ctx: &Context<'_>) -> bool {
    place == QueryPlace::Dashboard
        || metric(name).is_some_and(|known| known.is_default)
        || !ctx.cluster().query::<Exporters>(&()).is_empty()
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
            if fault.may_be_rewritten(name) && COLLECTORS.iter().any(|kind| index.has_any(*kind)) {
                continue;
            }
            let node = query.node(object);
            let is_said = reported.contains(&name);
            let Some(Statement { message, help, right, exporter }) =
                Statement::of(&fault, name, query.place, is_said, ctx)
            else {
                continue;
            };
            reported.push(name);
            let usual = match fault {
                Fault::NotExported if exporter.is_none() => Severity::Info,
                Fault::Typo { exporter: Exporter::Tgi | Exporter::Triton, .. } => Severity::Info,
                Fault::NeverExported { exporter: of } if exporter.is_none() && !is_listed(of, ctx) => {
                    Severity::Info
                }
                // A server of Prometheus may make native histograms of those that it scrapes.
                Fault::Histogram { .. } if query.text.contains("histogram_") => Severity::Info,
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
                finding.fix(fix.set(&node, json!(replace_word(text, name, &right))));
            }
        }
    }
    None
}

/// The message about a name.
struct Statement {
    message: String,
    help: String,
    /// The name that is meant, if it is certain.
    right: Option<String>,
    /// The exporter that does not export it, if it is in the input.
    exporter: Option<(ObjectKey, Counters)>,
}

impl Statement {
    /// [`None`] if an exporter outside of the input may export the name. `is_said` tells whether a query before named it.
    fn of(
        fault: &Fault,
        name: &str,
        place: QueryPlace,
        is_said: bool,
        ctx: &Context<'_>,
    ) -> Option<Statement> {
        let mut exporter = None;
        let (message, help, right) = match fault {
            Fault::Underscore { server, right } => (
                format!("{server} does not export `{name}`: it writes a colon after its prefix"),
                format!("write `{right}`"),
                Some(right.clone()),
            ),
            Fault::Typo { exporter, right } => (
                format!("{} does not export `{name}`", exporter.name()),
                format!("write `{right}`"),
                Some(right.clone()),
            ),
            Fault::Histogram { exporter } => (
                format!("{} exports `{name}` as a histogram: no series has this name alone", exporter.name()),
                format!("read `{name}_bucket`, or divide its `_sum` by its `_count`"),
                None,
            ),
            Fault::NeverExported { exporter: of } => {
                let is_field = name.starts_with("DCGM_FI_");
                let like = of_more_words(name, *of).or_else(|| of_same_sense(name, *of));
                exporter = (*of == Exporter::Dcgm).then(|| lacking(name, ctx)).flatten();
                // Without a similar field it may be a metric of another exporter.
                if is_field && like.is_none() && exporter.is_none() {
                    return None;
                }
                let mut help = match like {
                    Some(known) => format!("read `{known}` if that is meant"),
                    None => format!("read a metric that {} exports", of.name()),
                };
                if is_field {
                    help += ": with the unknown one a counters file is rejected";
                }
                let message = match is_field {
                    true => format!("DCGM has no field `{name}`"),
                    false => format!("no release of {} has exported `{name}`", of.name()),
                };
                (message, help, None)
            }
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
                    None if is_likely_exported(name, place, ctx) || is_said => return None,
                    None => (
                        format!("the default counters file of dcgm-exporter does not have `{name}`"),
                        "add the metric to a counters file of your own, unless it is there".to_owned(),
                    ),
                };
                (message, help, None)
            }
        };
        Some(Statement { message, help, right, exporter })
    }
}

/// Whether rules of the cluster, or of the object itself, record series of a name, or a monitor renames others so.
fn is_recorded(name: &str, object: &Object, ctx: &Context<'_>) -> bool {
    is_recorded_by_rule(name, object, ctx)
        || MONITORS.iter().any(|kind| ctx.cluster().of(*kind).any(|monitor| renames_to(monitor, name)))
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

/// Reports a metric that a server removed or hides, unless a server of the cluster exports it, or may.
fn of_removed(
    gone: &Removed,
    name: &str,
    query: &crate::promql::Query,
    object: &Object,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let servers = ctx.cluster().query::<MetricServers>(&());
    let near = near(gone.exporter, &servers, ctx);
    let lacks = |server: &&MetricServer| {
        let since = if server.shows_hidden { gone.removed } else { gone.hidden };
        server.release.is_some_and(|release| release >= since)
    };
    if !near.iter().all(lacks) {
        return None;
    }
    let node = query.node(object);
    let of = gone.exporter.name();
    let message =
        format!("{of} {} and later do not export `{name}`", release_text(gone.exporter, gone.hidden));
    let usual = if near.is_empty() { Severity::Info } else { Severity::Warning };
    let finding = ctx.report(&node, message);
    finding.help(gone.help(name)).severity(severity_in(query.place, usual)).identified_by(name);
    finding.at_query(object, query);
    if let Some(MetricServer { object: ObjectKey(server), release: Some(release), .. }) = near.first() {
        let runs = format!("runs {of} {}", release_text(gone.exporter, *release));
        finding.related(server, &server.path(&["metadata", "name"]), runs);
    }
    if let (Some(new), Some(text), false) = (gone.new_name(name), node.text(), query.is_embedded) {
        let fix = Fix::unsafe_(format!("write `{new}`"));
        finding.fix(fix.set(&node, json!(replace_word(text, name, &new))));
    }
    None
}

/// The servers of an exporter that may be in the cluster of the object.
fn near<'a>(exporter: Exporter, servers: &'a [MetricServer], ctx: &Context<'_>) -> Vec<&'a MetricServer> {
    let is_near = |server: &&MetricServer| server.exporter == exporter && ctx.pairs_with(&server.object.0);
    servers.iter().filter(is_near).collect()
}

/// Whether the cluster has servers of an exporter, all of releases whose metrics are known.
fn is_listed(exporter: Exporter, ctx: &Context<'_>) -> bool {
    let newest: Release = match exporter {
        Exporter::Sglang => [0, 5, 23],
        // The list of metrics in the README is younger than this build.
        Exporter::LlamaCpp => [10_000, 0, 0],
        _ => return false,
    };
    let servers = ctx.cluster().query::<MetricServers>(&());
    let near = near(exporter, &servers, ctx);
    !near.is_empty() && near.iter().all(|server| server.release.is_some_and(|release| release <= newest))
}

/// A workload of a server that changed its metrics, with the release that its image names.
#[derive(Clone, PartialEq)]
struct MetricServer {
    object: ObjectKey,
    exporter: Exporter,
    /// `None` if the image is not the server's own, or its tag is no release.
    release: Option<Release>,
    /// Whether an option brings hidden metrics back, or may.
    shows_hidden: bool,
}

impl MetricServer {
    fn of(object: &Object) -> Option<MetricServer> {
        let templates = templates(object);
        let exporter_of = |container: &Node<'_>| match named_server_of(container).map(|server| server.id) {
            Some(ServerId::Vllm) => Some(Exporter::Vllm),
            Some(ServerId::Sglang) => Some(Exporter::Sglang),
            Some(ServerId::LlamaCpp) => Some(Exporter::LlamaCpp),
            _ => simulates(container).then_some(Exporter::Vllm),
        };
        let (container, exporter) = templates
            .iter()
            .flat_map(Template::containers)
            .find_map(|one| exporter_of(&one).map(|exporter| (one, exporter)))?;
        let release = if object.may_lack_fields() { None } else { server_release(&container, exporter) };
        let shows_hidden =
            !matches!(option(&words(&container), &["show-hidden-metrics-for-version"]), OptionValue::Absent);
        Some(MetricServer { object: ObjectKey(object.clone()), exporter, release, shows_hidden })
    }
}

/// The release of a server in an image that its authors publish.
fn server_release(container: &Node<'_>, exporter: Exporter) -> Option<Release> {
    let (id, release) = match exporter {
        Exporter::LlamaCpp => {
            let image = image_of(container).filter(|image| image.is("ggml-org/llama.cpp"))?;
            // A build is the last part of a tag: `server-cuda-b5554`.
            let build = image.tag?.rsplit('-').next()?.strip_prefix('b')?.parse().ok()?;
            return Some([build, 0, 0]);
        }
        _ => published(container)?,
    };
    let is_same =
        matches!((id, exporter), (ServerId::Vllm, Exporter::Vllm) | (ServerId::Sglang, Exporter::Sglang));
    is_same.then_some(release)
}

/// Whether a container runs llm-d's simulator of vLLM, which has metrics of older versions.
fn simulates(container: &Node<'_>) -> bool {
    image_of(container).is_some_and(|image| image.last() == "llm-d-inference-sim")
}

/// The workloads in the cluster of servers that changed their metrics.
struct MetricServers;

impl Query for MetricServers {
    const SLOT: QuerySlot = QuerySlot::MetricServers;
    const KINDS: &'static [Kind] = REPLICATED_KINDS;
    type Key = ();
    type Value = Arc<[MetricServer]>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<[MetricServer]> {
        let workloads = REPLICATED_KINDS.iter().flat_map(|kind| cluster.of(*kind));
        workloads.filter_map(MetricServer::of).collect()
    }
}

enum Fault {
    /// An underscore for the colon after the prefix.
    Underscore { server: &'static str, right: String },
    /// Similar to a known name.
    Typo { exporter: Exporter, right: String },
    /// The name of a histogram without a suffix.
    Histogram { exporter: Exporter },
    /// A name that begins as those of the exporter, and that none of its releases has had.
    NeverExported { exporter: Exporter },
    /// A field of DCGM that the exporter may not export.
    NotExported,
}

impl Fault {
    fn of(name: &str) -> Option<Fault> {
        if let Some(known) = metric(name) {
            let server = match known.exporter {
                Exporter::Vllm if name.starts_with("vllm_") => "vLLM",
                Exporter::Sglang if name.starts_with("sglang_") => "SGLang",
                Exporter::LlamaCpp if name.starts_with("llamacpp_") => "llama.cpp",
                _ => {
                    let is_python = matches!(known.exporter, Exporter::Vllm | Exporter::Sglang);
                    if is_python && known.kind == MetricType::Histogram && known.name == name {
                        return Some(Fault::Histogram { exporter: known.exporter });
                    }
                    return name.starts_with("DCGM_").then_some(Fault::NotExported);
                }
            };
            return Some(Fault::Underscore { server, right: with_colon(name)? });
        }
        let exporters: &[Exporter] = match name {
            _ if name.starts_with("DCGM_") => &[Exporter::Dcgm],
            _ if name.starts_with("vllm:") => &[Exporter::Vllm, Exporter::VllmRouter],
            _ if name.starts_with("sglang:") => &[Exporter::Sglang],
            _ if name.starts_with("llamacpp:") => &[Exporter::LlamaCpp],
            _ if name.starts_with("tgi_") => &[Exporter::Tgi],
            _ if name.starts_with("nv_") || name.starts_with("triton") => &[Exporter::Triton],
            // Old names are reported by karpenter-metric-renamed.
            _ if name.starts_with("karpenter_") && obsolete_metrics(name, LATEST).is_empty() => {
                &[Exporter::Karpenter]
            }
            _ => return None,
        };
        let never = never_exported_by(name);
        // A name that some release has is no typo of another one.
        let is_other = never.is_none() && has_list(name);
        if !is_other {
            for &exporter in exporters {
                if let Some(right) = right_name(name, exporter) {
                    return Some(Fault::Typo { exporter, right });
                }
            }
        }
        let never = never.map(|exporter| Fault::NeverExported { exporter });
        never.or_else(|| name.starts_with("DCGM_FI_").then_some(Fault::NotExported))
    }

    /// Whether a collector that rewrites colons and suffixes may export a name.
    fn may_be_rewritten(&self, name: &str) -> bool {
        match self {
            Fault::Underscore { .. } => true,
            Fault::Typo { right, .. } => right.strip_suffix("_total") == Some(name),
            Fault::NeverExported { exporter } => *exporter != Exporter::Dcgm,
            Fault::Histogram { .. } | Fault::NotExported => false,
        }
    }
}
