//! The values that the templates of charts read, by version, from `chart_values.tsv`, which `tools/chart-values.py` writes.

use std::sync::LazyLock;

use crate::facts::table;
use crate::platform::{Version, VersionRange};

struct Row {
    chart: &'static str,
    /// A value of the first or the second level: `settings.clusterName`. `settings.*` is any value below `settings`.
    key: &'static str,
    since: Version,
    until: Version,
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| table::read(include_str!("chart_values.tsv"), parse).collect());

fn parse([chart, key, since, until]: [&'static str; 4]) -> Option<Row> {
    Some(Row { chart, key, since: Version::parse(since)?, until: Version::parse(until)? })
}

/// The values that a version of a chart reads, or any version that is known.
pub(crate) struct ChartKeys {
    rows: Vec<&'static Row>,
    version: Option<Version>,
}

impl ChartKeys {
    /// `None` for other charts, and for versions that are not known.
    pub(crate) fn of(chart: &str, version: Option<Version>) -> Option<ChartKeys> {
        let keys = ChartKeys { rows: ROWS.iter().filter(|row| row.chart == chart).collect(), version };
        keys.has("global").then_some(keys)
    }

    fn is_of_version(&self, row: &Row) -> bool {
        let range = VersionRange { since: Some(row.since), until: Some(row.until) };
        self.version.is_none_or(|version| range.contains(version))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.rows.iter().any(|row| row.key == key && self.is_of_version(row))
    }

    /// The names of the values at the top (`""`), or below one of them.
    pub(crate) fn below(&self, above: &str) -> Vec<&'static str> {
        let at = |row: &&&Row| self.is_of_version(row);
        let names = self.rows.iter().filter(at).filter_map(|row| match row.key.split_once('.') {
            None => above.is_empty().then_some(row.key),
            Some((first, rest)) => (first == above && rest != "*").then_some(rest),
        });
        names.collect()
    }

    /// The one value of the second level with a name.
    pub(crate) fn only_with_name(&self, name: &str) -> Option<&'static str> {
        let is_same = |row: &&&Row| row.key.split_once('.').is_some_and(|(_, rest)| rest == name);
        let mut found =
            self.rows.iter().filter(is_same).filter(|row| self.is_of_version(row)).map(|row| row.key);
        found.next().filter(|_| found.next().is_none())
    }

    /// The last version before this one that reads a value, or the first one after it.
    pub(crate) fn elsewhere(&self, key: &str) -> Option<Elsewhere> {
        let version = self.version?;
        let mut rows = self.rows.iter().filter(|row| row.key == key);
        let before = rows.clone().filter(|row| row.until < version).map(|row| row.until).max();
        match before {
            Some(last) => Some(Elsewhere::Until(last)),
            None => rows.find(|row| row.since > version).map(|row| Elsewhere::Since(row.since)),
        }
    }
}

pub(crate) enum Elsewhere {
    Until(Version),
    Since(Version),
}

#[cfg(test)]
mod tests {
    use super::{ChartKeys, Elsewhere};
    use crate::platform::Version;

    #[test]
    fn values_are_those_of_the_version() {
        let karpenter = |major, minor| ChartKeys::of("karpenter", Some(Version::new(major, minor))).unwrap();
        assert!(karpenter(1, 8).has("settings.clusterName"));
        assert!(karpenter(0, 37).has("webhook.enabled"));
        assert!(!karpenter(1, 8).has("webhook"));
        assert!(
            matches!(karpenter(1, 8).elsewhere("webhook"), Some(Elsewhere::Until(last)) if last == Version::new(1, 0))
        );
        assert!(matches!(karpenter(1, 0).elsewhere("schedulerName"), Some(Elsewhere::Since(_))));
        assert!(karpenter(1, 8).below("settings").contains(&"interruptionQueue"));
        assert!(ChartKeys::of("karpenter", Some(Version::new(99, 0))).is_none());
        assert!(ChartKeys::of("redis", None).is_none());
    }
}
