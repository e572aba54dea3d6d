//! Metrics of Karpenter and KEDA that were renamed or removed, from `metrics.tsv`.
//!
//! Sources: Karpenter's v1 migration guide and its list of metrics; the release notes of 1.7. KEDA's changelog (2.11: #3930,
//! 2.14: #4854, 2.17: #6339) and its list of metrics.

use std::sync::LazyLock;

use crate::facts::table;
use crate::platform::Version;
use crate::promql::identifiers::of_part;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricChange {
    /// A new name, the same labels.
    Renamed(&'static str),
    /// A new name, and different labels.
    Replaced(&'static str),
    /// A new name, and seconds instead of milliseconds.
    InSeconds(&'static str),
    /// A metric with more labels, over which it has to be summed.
    SplitUp(&'static str),
    /// Removed; the text names the closest alternative.
    Removed(&'static str),
}

impl MetricChange {
    /// What to write instead.
    pub(crate) fn help(self) -> String {
        match self {
            MetricChange::Renamed(new) => format!("write `{new}`"),
            MetricChange::Replaced(new) => format!("write `{new}`; its labels changed"),
            MetricChange::InSeconds(new) => format!("write `{new}`, and thresholds in seconds"),
            MetricChange::SplitUp(new) => format!("write `sum({new})`"),
            MetricChange::Removed(instead) => instead.to_owned(),
        }
    }
}

/// A row: the name, the first version without it, and what became of it.
pub(crate) type MetricRow = (&'static str, Version, MetricChange);

/// Sorted by name, for binary search.
static METRICS: LazyLock<Vec<MetricRow>> =
    LazyLock::new(|| table::read(include_str!("metrics.tsv"), row).collect());

fn row([name, version, change, text]: [&'static str; 4]) -> Option<MetricRow> {
    let version = Version::parse(version)?;
    let change = match change {
        "renamed" => MetricChange::Renamed(text),
        "replaced" => MetricChange::Replaced(text),
        "seconds" => MetricChange::InSeconds(text),
        "sum" => MetricChange::SplitUp(text),
        "removed" => MetricChange::Removed(text),
        _ => return None,
    };
    Some((name, version, change))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObsoleteMetric<'a> {
    /// The name without the suffix of a histogram.
    pub(crate) name: &'a str,
    /// Its first position in the text.
    pub(crate) at: usize,
    pub(crate) change: MetricChange,
}

/// The names that a version of KEDA no longer has.
pub(crate) fn gone_from_keda(keda: Version) -> impl Iterator<Item = &'static MetricRow> {
    METRICS.iter().filter(move |(name, since, _)| name.starts_with("keda_") && keda >= *since)
}

/// The obsolete names of Karpenter's in a text, without duplicates, in the order of the text. Only whole identifiers are matched.
pub(crate) fn obsolete_metrics(text: &str, karpenter: Version) -> Vec<ObsoleteMetric<'_>> {
    let mut out: Vec<ObsoleteMetric<'_>> = Vec::new();
    for (at, word) in metric_identifiers(text) {
        let name = without_histogram_suffix(word);
        if let Some(fate) = metric_change(name, karpenter)
            && out.iter().all(|s| s.name != name)
        {
            out.push(ObsoleteMetric { name, at, change: fate });
        }
    }
    out
}

/// The text with one name replaced by another; suffixes are kept.
pub(crate) fn rename(text: &str, old: &str, new: &str) -> String {
    let mut out = String::with_capacity(text.len() + new.len());
    let mut done = 0;
    for (at, word) in metric_identifiers(text) {
        if without_histogram_suffix(word) == old {
            out.push_str(&text[done..at]);
            out.push_str(new);
            done = at + old.len();
        }
    }
    out.push_str(&text[done..]);
    out
}

fn metric_change(name: &str, karpenter: Version) -> Option<MetricChange> {
    let at = METRICS.binary_search_by_key(&name, |m| m.0).ok()?;
    let (_, since, fate) = METRICS[at];
    (karpenter >= since).then_some(fate)
}

fn without_histogram_suffix(word: &str) -> &str {
    of_part(word).unwrap_or(word)
}

/// The identifiers of Karpenter's metrics, with their positions.
fn metric_identifiers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b':';
    text.match_indices("karpenter_")
        .filter(move |(at, _)| !text.as_bytes()[..*at].last().is_some_and(|b| part(*b)))
        .map(move |(at, _)| {
            let rest = &text[at..];
            let end = rest.bytes().position(|b| !part(b)).unwrap_or(rest.len());
            (at, &rest[..end])
        })
}

#[cfg(test)]
mod tests {
    use super::{METRICS, obsolete_metrics, rename, without_histogram_suffix};
    use crate::platform::{Product, Version};

    #[test]
    fn the_table_is_sorted_for_the_search() {
        assert!(METRICS.windows(2).all(|m| m[0].0 < m[1].0));
        assert!(METRICS.iter().all(|m| without_histogram_suffix(m.0) == m.0));
    }

    #[test]
    fn whole_identifiers_count() {
        let names = |text| -> Vec<String> {
            let found = obsolete_metrics(text, Product::Karpenter.newest());
            found.iter().map(|s| s.name.to_owned()).collect()
        };
        assert_eq!(
            names("sum(karpenter_nodepool_usage) / karpenter_nodepool_usage > karpenter_nodepool_limit"),
            ["karpenter_nodepool_usage", "karpenter_nodepool_limit"]
        );
        assert!(names("my_karpenter_nodepool_usage + karpenter_nodepool_usage_ratio").is_empty());
        assert!(names("job:karpenter_nodes_created:rate5m").is_empty());
        assert!(names("karpenter_nodes_created_total + karpenter_nodepools_usage").is_empty());
        assert_eq!(
            names("karpenter_pods_startup_time_seconds_bucket"),
            ["karpenter_pods_startup_time_seconds"]
        );
        assert!(obsolete_metrics("karpenter_pods_pods_drained_total", Version::new(1, 6)).is_empty());
    }

    #[test]
    fn a_suffix_stays() {
        assert_eq!(
            rename("rate(a_bucket[5m]) + karpenter_x_sum", "karpenter_x", "karpenter_y"),
            "rate(a_bucket[5m]) + karpenter_y_sum"
        );
    }
}
