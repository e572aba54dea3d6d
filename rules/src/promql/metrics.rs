//! The metrics of GPU exporters and model servers that rules know, from `metrics.tsv`.
//!
//! Sources: the counters file of dcgm-exporter's chart (4.5.3-4.8.2; the GPU operator has the same set), the metrics pages
//! of vLLM, SGLang, TGI, Triton and llama.cpp, Karpenter's list of metrics, and the metrics of kube-state-metrics 2.x.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::facts::table;
use crate::promql::expr::{Expr, MatchOp};
use crate::promql::identifiers::of_part;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exporter {
    Dcgm,
    Vllm,
    /// A router in front of vLLM servers, under the same prefix.
    VllmRouter,
    Sglang,
    Tgi,
    Triton,
    LlamaCpp,
    Karpenter,
}

impl Exporter {
    pub(super) fn named(name: &str) -> Option<Exporter> {
        Some(match name {
            "dcgm" => Exporter::Dcgm,
            "vllm" => Exporter::Vllm,
            "vllm-router" => Exporter::VllmRouter,
            "sglang" => Exporter::Sglang,
            "tgi" => Exporter::Tgi,
            "triton" => Exporter::Triton,
            "llama.cpp" => Exporter::LlamaCpp,
            "karpenter" => Exporter::Karpenter,
            _ => return None,
        })
    }

    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Exporter::Dcgm => "dcgm-exporter",
            Exporter::Vllm => "vLLM",
            Exporter::VllmRouter => "the vLLM router",
            Exporter::Sglang => "SGLang",
            Exporter::Tgi => "TGI",
            Exporter::Triton => "Triton",
            Exporter::LlamaCpp => "llama.cpp",
            Exporter::Karpenter => "Karpenter",
        }
    }

    /// Whether each pod or each GPU has its own series.
    pub(crate) fn is_per_pod(self) -> bool {
        !matches!(self, Exporter::VllmRouter | Exporter::Karpenter)
    }
}

/// Metrics of DCGM that are absent or 0 for a MIG slice, by version, with those that a slice has instead (dcgm-exporter, issues 216 and
/// 430).
const OF_WHOLE_GPUS: [(&str, Option<&str>); 4] = [
    ("DCGM_FI_DEV_GPU_UTIL", Some("DCGM_FI_PROF_GR_ENGINE_ACTIVE")),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", Some("DCGM_FI_PROF_DRAM_ACTIVE")),
    ("DCGM_FI_DEV_ENC_UTIL", None),
    ("DCGM_FI_DEV_DEC_UTIL", None),
];
/// Labels of dcgm-exporter that only series of MIG slices have.
const OF_SLICES: [&str; 2] = ["GPU_I_ID", "GPU_I_PROFILE"];

/// A metric that an expression reads of MIG slices although they do not have it, with what they have instead.
pub(crate) fn missing_on_slices(expr: &Expr) -> Option<(&'static str, Option<&'static str>)> {
    let names = expr.metric_names();
    expr.selectors().into_iter().find_map(|selector| {
        let selects_slices = selector.matchers.iter().any(|matcher| {
            let value = matcher.value.as_str();
            OF_SLICES.contains(&matcher.label.as_str())
                && match matcher.op {
                    MatchOp::Equal => !value.is_empty(),
                    MatchOp::NotEqual => value.is_empty(),
                    // Such a pattern does not match an empty text, which whole GPUs have.
                    MatchOp::Matches => {
                        value == ".+"
                            || !value.contains('|') && value.starts_with(|c: char| c.is_ascii_digit())
                    }
                    MatchOp::NotMatches => false,
                }
        });
        let row = OF_WHOLE_GPUS.iter().find(|(name, _)| selector.name.as_deref() == Some(name))?;
        let has_other = row.1.is_some_and(|other| names.contains(&other));
        (selects_slices && !has_other).then_some(*row)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricType {
    /// A value that can increase and decrease.
    Gauge,
    /// A value that only increases.
    Counter,
    /// Buckets, a sum and a count.
    Histogram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// 0 to 100.
    Percent,
    /// 0 to 1.
    Ratio,
    /// A number of things; can be added up.
    Count,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    /// The name in the exporter.
    pub(crate) name: &'static str,
    pub(crate) exporter: Exporter,
    pub(crate) kind: MetricType,
    pub unit: Unit,
    /// Whether the exporter has it in its default configuration.
    pub(crate) is_default: bool,
}

static METRICS: LazyLock<HashMap<&'static str, Metric>> =
    LazyLock::new(|| table::read(include_str!("metrics.tsv"), parse).map(|m| (m.name, m)).collect());

fn parse([name, exporter, kind, unit, default]: [&'static str; 5]) -> Option<Metric> {
    let exporter = Exporter::named(exporter)?;
    let kind = match kind {
        "gauge" => MetricType::Gauge,
        "counter" => MetricType::Counter,
        "histogram" => MetricType::Histogram,
        _ => return None,
    };
    let unit = match unit {
        "percent" => Unit::Percent,
        "ratio" => Unit::Ratio,
        "count" => Unit::Count,
        _ => Unit::Other,
    };
    Some(Metric { name, exporter, kind, unit, is_default: default == "yes" })
}

/// Finds a metric by its name, with or without the suffix of a histogram. Colons may be replaced by underscores, as
/// some pipelines do.
pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.get(name).or_else(|| {
        let colon = with_colon(name);
        let name = colon.as_deref().unwrap_or(name);
        METRICS.get(name).or_else(|| {
            let base = of_part(name)?;
            METRICS.get(base).filter(|metric| metric.kind == MetricType::Histogram)
        })
    })
}

/// The name with a colon after the prefix of the server: `vllm:num_requests_running` for `vllm_num_requests_running`.
pub(crate) fn with_colon(name: &str) -> Option<String> {
    ["vllm", "sglang", "llamacpp"].iter().find_map(|server| {
        let rest = name.strip_prefix(server)?.strip_prefix('_')?;
        Some(format!("{server}:{rest}"))
    })
}

/// The names of an exporter's metrics, in no particular order.
pub(crate) fn names_of(exporter: Exporter) -> Vec<&'static str> {
    let mut out: Vec<&'static str> =
        METRICS.values().filter(|metric| metric.exporter == exporter).map(|metric| metric.name).collect();
    out.sort_unstable();
    out
}

pub(crate) fn is_gauge(name: &str) -> bool {
    metric(name).is_some_and(|metric| metric.kind == MetricType::Gauge)
}

#[cfg(test)]
mod tests {
    use super::{METRICS, Unit, metric, with_colon};

    #[test]
    fn the_table_has_each_name_once() {
        let lines: Vec<&str> = include_str!("metrics.tsv").lines().skip(1).collect();
        assert_eq!(METRICS.len(), lines.len(), "a name is there twice");
        assert!(lines.is_sorted(), "the table is sorted");
    }

    #[test]
    fn names_are_found_in_each_of_their_forms() {
        assert_eq!(metric("DCGM_FI_DEV_GPU_UTIL").unwrap().unit, Unit::Percent);
        assert_eq!(metric("vllm_kv_cache_usage_perc").unwrap().name, "vllm:kv_cache_usage_perc");
        assert_eq!(metric("vllm:time_to_first_token_seconds_bucket").unwrap().unit, Unit::Other);
        assert!(metric("vllm:num_requests_waiting_bucket").is_none());
        assert_eq!(with_colon("vllm:x"), None);
    }
}
