//! The metrics of GPU exporters and model servers that rules know, from `metrics.tsv`.
//!
//! Sources: the counters file of dcgm-exporter's chart (4.5.3-4.8.2; the GPU operator has the same set), the metrics pages
//! of vLLM, SGLang, TGI and Triton, Karpenter's list of metrics, and the metrics of kube-state-metrics 2.x.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::facts::table;
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
    Karpenter,
}

impl Exporter {
    fn named(name: &str) -> Option<Exporter> {
        Some(match name {
            "dcgm" => Exporter::Dcgm,
            "vllm" => Exporter::Vllm,
            "vllm-router" => Exporter::VllmRouter,
            "sglang" => Exporter::Sglang,
            "tgi" => Exporter::Tgi,
            "triton" => Exporter::Triton,
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
            Exporter::Karpenter => "Karpenter",
        }
    }

    /// Whether each pod or each GPU has its own series.
    pub(crate) fn is_per_pod(self) -> bool {
        !matches!(self, Exporter::VllmRouter | Exporter::Karpenter)
    }
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
    ["vllm", "sglang"].iter().find_map(|server| {
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
