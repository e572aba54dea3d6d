//! Metrics of vLLM that it no longer exports, from `removed.tsv`.
//!
//! Sources: `vllm/v1/metrics/loggers.py` of 0.9.1, 0.9.2, 0.11.0 and 0.12.0, the pull requests 15458, 24245, 29330 and
//! 32661, and the policy for deprecated metrics on vLLM's page of metrics: a hidden metric comes back with
//! `--show-hidden-metrics-for-version`. Metrics of the engine V0 went with it in 0.11.

use std::sync::LazyLock;

use crate::facts::table;
use crate::platform::Version;
use crate::promql::identifiers::of_part;

/// A metric that is hidden, and removed later.
pub(crate) struct Removed {
    name: &'static str,
    /// The first version that exports it only on demand.
    pub(crate) hidden: Version,
    /// The first version without it.
    pub(crate) removed: Version,
    instead: Instead,
}

enum Instead {
    Renamed(&'static str),
    Replaced(&'static str),
}

static REMOVED: LazyLock<Vec<Removed>> =
    LazyLock::new(|| table::read(include_str!("removed.tsv"), parse).collect());

fn parse([name, hidden, removed, change, text]: [&'static str; 5]) -> Option<Removed> {
    let (hidden, removed) = (Version::parse(hidden)?, Version::parse(removed)?);
    let instead = match change {
        "renamed" => Instead::Renamed(text),
        "replaced" => Instead::Replaced(text),
        _ => return None,
    };
    Some(Removed { name, hidden, removed, instead })
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
