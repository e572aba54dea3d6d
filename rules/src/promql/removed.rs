//! Metrics that a model server no longer exports, from `removed.tsv`.
//!
//! Sources: `vllm/v1/metrics/loggers.py` of 0.9.1, 0.9.2, 0.11.0 and 0.12.0, the pull requests 15458, 24245, 29330 and
//! 32661, and the policy for deprecated metrics on vLLM's page of metrics: a hidden metric comes back with
//! `--show-hidden-metrics-for-version`. Metrics of the engine V0 went with it in 0.11. SGLang: the collectors of its
//! releases 0.3.6 to 0.5.23. llama.cpp: pull request 13660, of May 2025, which build 5554 has.

use std::sync::LazyLock;

use crate::facts::table;
use crate::promql::identifiers::of_part;
use crate::promql::metrics::Exporter;

/// Major, minor and patch of a release, or the number of a build.
pub(crate) type Release = [u32; 3];

/// A metric that is hidden, and removed later.
pub(crate) struct Removed {
    name: &'static str,
    pub(crate) exporter: Exporter,
    /// The first release that exports it only on demand.
    pub(crate) hidden: Release,
    /// The first release without it.
    pub(crate) removed: Release,
    instead: Instead,
}

enum Instead {
    Renamed(&'static str),
    Replaced(&'static str),
}

static REMOVED: LazyLock<Vec<Removed>> =
    LazyLock::new(|| table::read(include_str!("removed.tsv"), parse).collect());

fn parse([name, hidden, removed, change, text]: [&'static str; 5]) -> Option<Removed> {
    let exporter = match name.split(':').next()? {
        "vllm" => Exporter::Vllm,
        "sglang" => Exporter::Sglang,
        "llamacpp" => Exporter::LlamaCpp,
        _ => return None,
    };
    let (hidden, removed) = (parse_release(hidden)?, parse_release(removed)?);
    let instead = match change {
        "renamed" => Instead::Renamed(text),
        "replaced" => Instead::Replaced(text),
        _ => return None,
    };
    Some(Removed { name, exporter, hidden, removed, instead })
}

/// Parses `0.11`, `0.5.3` or the number of a build; what is not written is 0.
pub(crate) fn parse_release(text: &str) -> Option<Release> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().unwrap_or(Some(0));
    let release = [next()?, next()?, next()?];
    parts.next().is_none().then_some(release)
}

/// A release of a server as its authors write it.
pub(crate) fn release_text(exporter: Exporter, [major, minor, patch]: Release) -> String {
    match exporter {
        Exporter::LlamaCpp => format!("b{major}"),
        _ if patch == 0 => format!("{major}.{minor}"),
        _ => format!("{major}.{minor}.{patch}"),
    }
}

/// The removed metric of a name, with or without the suffix of a histogram.
pub(crate) fn removed_metric(name: &str) -> Option<&'static Removed> {
    let base = of_part(name);
    REMOVED.iter().find(|metric| metric.name == name || Some(metric.name) == base)
}

impl Removed {
    /// The new name for an old one, with its suffix. `None` if no metric has the same values.
    pub(crate) fn new_name(&self, name: &str) -> Option<String> {
        match self.instead {
            Instead::Renamed(new) => Some(format!("{new}{}", name.strip_prefix(self.name)?)),
            Instead::Replaced(_) => None,
        }
    }

    /// What to do about a name.
    pub(crate) fn help(&self, name: &str) -> String {
        match self.instead {
            Instead::Renamed(new) => format!("write `{}`", self.new_name(name).as_deref().unwrap_or(new)),
            Instead::Replaced(text) => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::removed_metric;

    #[test]
    fn suffixes_are_kept() {
        let name = "vllm:time_per_output_token_seconds_bucket";
        let metric = removed_metric(name).expect("a removed metric");
        assert_eq!(metric.new_name(name).as_deref(), Some("vllm:inter_token_latency_seconds_bucket"));
        assert!(removed_metric("vllm:kv_cache_usage_perc").is_none());
        assert!(removed_metric("vllm:request_time_per_output_token_seconds_sum").is_none());
    }
}
