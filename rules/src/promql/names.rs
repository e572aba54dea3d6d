//! The names that releases of an exporter have used for their metrics, from `names.txt`, which `tools/metric-names.py` writes.
//!
//! Only exporters whose names are all known are here: the fields of DCGM, and servers under a prefix of their own. vLLM
//! is not one of them, since routers, plugins and forks use its prefix as well.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::facts::suggest::is_within;
use crate::facts::table;
use crate::promql::identifiers::of_part;
use crate::promql::metrics::{Exporter, MetricType, metric, names_of};

/// The prefixes under which all names of an exporter are known.
const PREFIXES: [(&str, Exporter); 9] = [
    ("DCGM_FI_", Exporter::Dcgm),
    ("DCGM_EXP_", Exporter::Dcgm),
    ("llamacpp:", Exporter::LlamaCpp),
    ("nv_inference_", Exporter::Triton),
    ("sglang:", Exporter::Sglang),
    ("tgi_", Exporter::Tgi),
    // Names that are made up: all of Triton's own begin with `nv_`.
    ("triton_inference_", Exporter::Triton),
    ("triton_server_", Exporter::Triton),
    ("tritonserver_", Exporter::Triton),
];

/// What a name seems to mean, by words in it, and the metric of the exporter with that meaning. The first row decides.
const SENSES: [(Exporter, &[&str], &str); 25] = [
    (Exporter::Dcgm, &["XID"], "DCGM_FI_DEV_XID_ERRORS"),
    (Exporter::Dcgm, &["TEMP"], "DCGM_FI_DEV_GPU_TEMP"),
    (Exporter::Dcgm, &["POWER"], "DCGM_FI_DEV_POWER_USAGE"),
    (Exporter::Dcgm, &["MEM", "FREE"], "DCGM_FI_DEV_FB_FREE"),
    (Exporter::Dcgm, &["MEM", "USE"], "DCGM_FI_DEV_FB_USED"),
    (Exporter::Dcgm, &["MEM", "USAGE"], "DCGM_FI_DEV_FB_USED"),
    (Exporter::Dcgm, &["GPU", "UTIL"], "DCGM_FI_DEV_GPU_UTIL"),
    (Exporter::Sglang, &["wait"], "sglang:num_queue_reqs"),
    (Exporter::Sglang, &["queue"], "sglang:num_queue_reqs"),
    (Exporter::Sglang, &["running"], "sglang:num_running_reqs"),
    (Exporter::Sglang, &["cache", "usage"], "sglang:token_usage"),
    (Exporter::LlamaCpp, &["wait"], "llamacpp:requests_deferred"),
    (Exporter::LlamaCpp, &["queue"], "llamacpp:requests_deferred"),
    (Exporter::LlamaCpp, &["pending"], "llamacpp:requests_deferred"),
    (Exporter::LlamaCpp, &["running"], "llamacpp:requests_processing"),
    (Exporter::LlamaCpp, &["active"], "llamacpp:requests_processing"),
    (Exporter::Tgi, &["queue"], "tgi_queue_size"),
    (Exporter::Triton, &["pending"], "nv_inference_pending_request_count"),
    (Exporter::Triton, &["queue", "duration"], "nv_inference_queue_duration_us"),
    (Exporter::Triton, &["queue", "time"], "nv_inference_queue_duration_us"),
    (Exporter::Triton, &["queue"], "nv_inference_pending_request_count"),
    (Exporter::Triton, &["fail"], "nv_inference_request_failure"),
    (Exporter::Triton, &["error"], "nv_inference_request_failure"),
    (Exporter::Triton, &["duration"], "nv_inference_request_duration_us"),
    (Exporter::Triton, &["inference_count"], "nv_inference_count"),
];

static NAMES: LazyLock<HashMap<String, Exporter>> = LazyLock::new(|| {
    let of = |[exporter, name]: [&'static str; 2]| Some((name.to_owned(), Exporter::named(exporter)?));
    table::read(include_str!("names.txt"), of).collect()
});

/// The exporter of which no release has had a metric of a name, though the name begins as those of its metrics.
pub(crate) fn never_exported_by(name: &str) -> Option<Exporter> {
    let (prefix, exporter) = list_of(name)?;
    // Recording rules have names with colons of their own.
    let is_recorded = name[prefix.len()..].contains(':');
    let exists = [Some(name), of_part(name), name.strip_suffix("_created")]
        .into_iter()
        .flatten()
        .any(|name| NAMES.contains_key(&without_numbers(name)));
    (!exists && !is_recorded).then_some(*exporter)
}

/// Whether all names that begin as this one are known.
pub(crate) fn has_list(name: &str) -> bool {
    list_of(name).is_some()
}

fn list_of(name: &str) -> Option<(&'static str, &'static Exporter)> {
    PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(prefix, exporter)| (*prefix, exporter))
}

/// A name with `#` for each number.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(letter),
        }
    }
    out
}

/// The metric of an exporter that an unknown name is meant to be: another suffix, the same words in another order, a typo.
pub(crate) fn right_name(name: &str, exporter: Exporter) -> Option<String> {
    let (base, part) = match of_part(name) {
        Some(base) => (base, &name[base.len()..]),
        None => (name, ""),
    };
    let all = all_names(exporter);
    let is_exported = |name: &str| all.contains(&name);
    let counter = format!("{name}_total");
    if is_exported(&counter) {
        return Some(counter);
    }
    if let Some(gauge) = name.strip_suffix("_total").filter(|gauge| is_exported(gauge)) {
        return metric(gauge)
            .filter(|metric| metric.kind == MetricType::Gauge)
            .map(|gauge| gauge.name.to_owned());
    }
    let words = sorted_words(base);
    let same_words = |known: &&&str| sorted_words(known) == words && (part.is_empty() || is_histogram(known));
    if let Some(known) = all.iter().find(same_words) {
        return Some(format!("{known}{part}"));
    }
    names_of(exporter).into_iter().find(|known| is_typo(name, known)).map(str::to_owned)
}

/// The names of an exporter's metrics as far as they are known, those that rules know more of first.
fn all_names(exporter: Exporter) -> Vec<&'static str> {
    let is_whole = |(name, of): (&'static String, &Exporter)| {
        (*of == exporter && !name.contains('#')).then_some(name.as_str())
    };
    let mut out = names_of(exporter);
    let mut listed: Vec<&str> = NAMES.iter().filter_map(is_whole).collect();
    listed.sort_unstable();
    out.extend(listed);
    out
}

fn is_histogram(name: &str) -> bool {
    metric(name).is_some_and(|metric| metric.kind == MetricType::Histogram)
}

/// The words of a name in their singular, in the order of letters.
fn sorted_words(name: &str) -> Vec<&str> {
    let words = name.split(['_', ':']).map(|word| word.strip_suffix('s').unwrap_or(word));
    let mut words: Vec<&str> = words.collect();
    words.sort_unstable();
    words
}

/// Whether a name is another one with a typo. Numbers tell metrics apart: links, precisions.
fn is_typo(name: &str, known: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    is_within(name, known, 2) && digits(name) == digits(known)
}

/// The shortest name of an exporter that has all words of an unknown one, and begins as it does.
pub(crate) fn of_more_words(name: &str, exporter: Exporter) -> Option<&'static str> {
    let words: Vec<&str> = name.split('_').collect();
    let has_all = |known: &&&str| {
        let own: Vec<&str> = known.split('_').collect();
        own.get(..4) == words.get(..4) && words.iter().all(|word| own.contains(word))
    };
    all_names(exporter).iter().filter(has_all).min_by_key(|known| known.len()).copied()
}

/// The metric of an exporter with the meaning that a name seems to have.
pub(crate) fn of_same_sense(name: &str, exporter: Exporter) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().all(|word| name.contains(word));
    SENSES.iter().find(|(of, words, _)| *of == exporter && has(words)).map(|(_, _, metric)| *metric)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, SENSES, never_exported_by, of_more_words, of_same_sense, right_name};
    use crate::promql::metrics::{Exporter, names_of};

    #[test]
    fn metrics_that_rules_know_are_in_the_list() {
        use Exporter::{Dcgm, LlamaCpp, Sglang, Tgi, Triton};
        for name in [Dcgm, LlamaCpp, Sglang, Tgi, Triton].into_iter().flat_map(names_of) {
            assert!(never_exported_by(name).is_none(), "{name}");
        }
        for (_, _, name) in SENSES {
            assert!(never_exported_by(name).is_none(), "{name}");
        }
        assert!(NAMES.len() > 900);
    }

    #[test]
    fn names_of_other_releases_and_of_recording_rules_are_left_alone() {
        for name in [
            "DCGM_FI_DEV_NVLINK_BANDWIDTH_L17",
            "sglang:queue_time_seconds_bucket",
            "sglang:num_aborted_requests_total",
            "sglang:rate5m:tokens",
            "llamacpp:kv_cache_usage_ratio",
            "tgi_request_duration_sum",
            "nv_inference_request_summary_us_count",
            "vllm:anything",
        ] {
            assert_eq!(never_exported_by(name), None, "{name}");
        }
        assert_eq!(never_exported_by("DCGM_FI_DEV_MEM_USED"), Some(Exporter::Dcgm));
        assert_eq!(never_exported_by("triton_server_inference_count"), Some(Exporter::Triton));
        assert_eq!(never_exported_by("triton_compile_seconds"), None);
        assert_eq!(never_exported_by("llamacpp:tokens_per_second"), Some(Exporter::LlamaCpp));
    }

    #[test]
    fn a_wrong_name_has_a_right_one() {
        let right = |name, exporter| right_name(name, exporter);
        for (name, exporter, expected) in [
            ("vllm:prompt_tokens", Exporter::Vllm, Some("vllm:prompt_tokens_total")),
            ("vllm:num_requests_running_total", Exporter::Vllm, Some("vllm:num_requests_running")),
            ("vllm:num_waiting_requests", Exporter::Vllm, Some("vllm:num_requests_waiting")),
            (
                "vllm:request_e2e_latency_seconds_bucket",
                Exporter::Vllm,
                Some("vllm:e2e_request_latency_seconds_bucket"),
            ),
            ("vllm:num_request_waiting", Exporter::Vllm, Some("vllm:num_requests_waiting")),
            ("vllm:gpu_utilization", Exporter::Vllm, None),
        ] {
            assert_eq!(right(name, exporter).as_deref(), expected, "{name}");
        }
        assert_eq!(
            of_more_words("DCGM_FI_DEV_POWER_LIMIT", Exporter::Dcgm),
            Some("DCGM_FI_DEV_POWER_MGMT_LIMIT")
        );
        assert_eq!(of_more_words("DCGM_FI_DEV_NONSENSE_XYZ", Exporter::Dcgm), None);
        assert_eq!(
            of_same_sense("sglang:num_requests_waiting", Exporter::Sglang),
            Some("sglang:num_queue_reqs")
        );
    }
}
