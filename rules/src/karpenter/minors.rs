//! What differs between the minor versions of Karpenter: its CRDs, feature gates and the Kubernetes versions that it
//! supports. `tools/bump/karpenter.py` makes the table from Karpenter's modules.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::platform::{Platform, Product, Version, VersionRange};

/// A fact of a CRD that not every minor has.
#[derive(Clone, Debug)]
pub(crate) struct CrdFact {
    /// The kind, without its group.
    pub kind: &'static str,
    /// The steps of a field, joined by `/`; `*` is each item of a list or each value of a map.
    pub path: &'static str,
    /// The kind of fact: `field` (it exists), `enum`, `required`, `list`, `open`, `key` (a label that CEL allows) and
    /// the keywords of the schema.
    pub fact: &'static str,
    pub value: &'static str,
    /// The minors with the fact.
    pub range: VersionRange,
}

/// Which of Karpenter's two lists a feature gate is in. A gate in the other list has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateList {
    Core,
    Aws,
}

/// A feature gate of Karpenter.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub name: &'static str,
    pub list: GateList,
    /// The name in the values of the chart.
    pub chart: &'static str,
    /// The first minor of each stage, the stage, and whether it is on by default.
    states: Vec<(Version, &'static str, bool)>,
}

impl Gate {
    /// The stage (`alpha`, `beta`) of the gate in a version, and whether it is on by default. `None` if the version does not
    /// have it.
    pub(crate) fn state(&self, version: Version) -> Option<(&'static str, bool)> {
        let state = self.states.iter().rev().find(|state| state.0 <= version)?;
        (state.1 != "gone").then_some((state.1, state.2))
    }
}

#[derive(Default)]
struct Table {
    crds: Vec<CrdFact>,
    /// The place of each fact in `crds`, by kind, path, fact and value: a pool asks for several per key.
    places: HashMap<[&'static str; 4], usize>,
    gates: Vec<Gate>,
    /// Minor of Karpenter, oldest and newest version of Kubernetes.
    kubernetes: Vec<(Version, Version, Version)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    for line in include_str!("minors.tsv").lines() {
        read(line, &mut table);
    }
    table
});

/// Reads one line. `None` if it is a comment, or not of the table's form.
fn read(line: &'static str, table: &mut Table) -> Option<()> {
    let columns: Vec<&'static str> = line.split('\t').collect();
    match *columns.as_slice() {
        ["crd", kind, path, fact, value, since, until] => {
            let range = VersionRange::parse(since, until)?;
            table.places.entry([kind, path, fact, value]).or_insert(table.crds.len());
            table.crds.push(CrdFact { kind, path, fact, value, range });
        }
        ["gate", list, name, chart, states] => {
            let list = if list == "aws" { GateList::Aws } else { GateList::Core };
            let states = states.split(' ').map(|state| {
                let (version, state) = state.split_once('=')?;
                let (stage, default) = state.split_once('/').unwrap_or((state, "off"));
                Some((Version::parse(version)?, stage, default == "on"))
            });
            table.gates.push(Gate { name, list, chart, states: states.collect::<Option<_>>()? });
        }
        ["kubernetes", karpenter, oldest, newest] => {
            let [karpenter, oldest, newest] = [karpenter, oldest, newest].map(Version::parse);
            table.kubernetes.push((karpenter?, oldest?, newest?));
        }
        _ => return None,
    }
    Some(())
}

/// The facts of the CRDs that not every minor has.
pub(crate) fn crd_facts() -> &'static [CrdFact] {
    &TABLE.crds
}

/// A fact of a CRD that not every minor has.
pub(crate) fn crd_fact(kind: &str, path: &str, fact: &str, value: &str) -> Option<&'static CrdFact> {
    TABLE.places.get(&[kind, path, fact, value]).map(|at| &TABLE.crds[*at])
}

/// Whether the CRD of a kind states a fact of a field in a version of Karpenter: `required` `consolidateAfter`. A fact without a line
/// in the table holds for every version.
pub(crate) fn states(version: Version, kind: &str, path: &str, fact: &str, value: &str) -> bool {
    crd_fact(kind, path, fact, value).is_none_or(|row| row.range.contains(version))
}

/// Whether the CRD of an EC2NodeClass accepts any map as `spec.kubelet`, so that only the controller validates it.
pub(crate) fn has_open_kubelet(version: Version) -> bool {
    states(version, "EC2NodeClass", "spec/kubelet", "open", "-")
}

/// The feature gates of all versions.
pub(crate) fn gates() -> &'static [Gate] {
    &TABLE.gates
}

/// The feature gate of a name.
pub(crate) fn gate(name: &str) -> Option<&'static Gate> {
    TABLE.gates.iter().find(|gate| gate.name == name)
}

/// The oldest and the newest version of Kubernetes that a version of Karpenter supports. `None` if the table does not have
/// the version.
fn supported_kubernetes(karpenter: Version) -> Option<(Version, Version)> {
    TABLE.kubernetes.iter().find(|row| row.0 == karpenter).map(|row| (row.1, row.2))
}

/// The version of Kubernetes of a platform. One that is assumed is at most the newest that the stated version of Karpenter
/// supports.
pub(crate) fn likely_kubernetes(platform: &Platform) -> Version {
    if platform.is_stated(Product::Kubernetes) || !platform.is_stated(Product::Karpenter) {
        return platform.kubernetes;
    }
    let row = TABLE.kubernetes.iter().rev().find(|row| row.0 <= platform.karpenter);
    // Versions before the first of the table support older ones only.
    let newest = row.or_else(|| TABLE.kubernetes.first()).map_or(platform.kubernetes, |row| row.2);
    platform.kubernetes.min(newest)
}

/// Says that a version of Karpenter does not support a version of Kubernetes; `None` if it does, or if that is not known.
pub(crate) fn unsupported_kubernetes(karpenter: Version, kubernetes: Version) -> Option<String> {
    let (oldest, newest) = supported_kubernetes(karpenter)?;
    (kubernetes < oldest || newest < kubernetes)
        .then(|| format!("Karpenter {karpenter} supports Kubernetes {oldest} to {newest}, not {kubernetes}"))
}

/// The first version of Karpenter that supports a version of Kubernetes. `None` if no known one does.
pub(crate) fn first_with_kubernetes(kubernetes: Version) -> Option<Version> {
    let supports = |row: &&(Version, Version, Version)| row.1 <= kubernetes && kubernetes <= row.2;
    TABLE.kubernetes.iter().find(supports).map(|row| row.0)
}

/// Assumes a version of Karpenter that supports the stated version of Kubernetes, where none is stated: the newest one that does.
pub(crate) fn assume_karpenter(platform: &mut Platform) {
    let kubernetes = platform.kubernetes;
    if platform.is_stated(Product::Karpenter)
        || !platform.is_stated(Product::Kubernetes)
        || unsupported_kubernetes(platform.karpenter, kubernetes).is_none()
    {
        return;
    }
    let supports = |row: &&(Version, Version, Version)| row.1 <= kubernetes && kubernetes <= row.2;
    let is_older = TABLE.kubernetes.first().is_some_and(|row| kubernetes < row.1);
    platform.karpenter = match TABLE.kubernetes.iter().rev().find(supports) {
        Some(row) => row.0,
        None if is_older => Product::Karpenter.oldest(),
        None => platform.karpenter,
    };
}

#[cfg(test)]
mod tests {
    use super::{
        GateList, TABLE, Table, assume_karpenter, gate, has_open_kubelet, read, states, supported_kubernetes,
    };
    use crate::platform::{Platform, Product, Version};

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("minors.tsv").lines().filter(|line| !line.starts_with('#'));
        let unread: Vec<&str> =
            lines.clone().filter(|line| read(line, &mut Table::default()).is_none()).collect();
        assert!(unread.is_empty() && lines.count() > 100, "{unread:?}");
    }

    #[test]
    fn every_supported_version_has_its_versions_of_kubernetes() {
        for version in Product::Karpenter.supported() {
            assert!(supported_kubernetes(version).is_some(), "{version}");
        }
        let known: Vec<Version> = TABLE.kubernetes.iter().map(|row| row.0).collect();
        assert_eq!(known, Vec::from_iter(Product::Karpenter.supported()));
    }

    #[test]
    fn a_version_is_assumed_that_supports_kubernetes() {
        for (kubernetes, karpenter) in
            [((1, 22), (1, 0)), ((1, 25), (1, 4)), ((1, 34), (1, 15)), ((1, 60), (1, 15))]
        {
            let mut platform = Platform { karpenter: Version::new(1, 15), ..Platform::default() };
            assume_karpenter(&mut platform);
            assert_eq!(platform.karpenter, Version::new(1, 15));
            platform.state(Product::Kubernetes, Version::new(kubernetes.0, kubernetes.1));
            assume_karpenter(&mut platform);
            assert_eq!(platform.karpenter, Version::new(karpenter.0, karpenter.1), "{kubernetes:?}");
            platform.state(Product::Karpenter, Version::new(1, 15));
            assume_karpenter(&mut platform);
            assert_eq!(platform.karpenter, Version::new(1, 15));
        }
    }

    #[test]
    fn facts_hold_between_their_versions() {
        let required = |minor| {
            states(Version::new(1, minor), "NodePool", "spec/disruption", "required", "consolidateAfter")
        };
        assert!(required(0) && required(14) && !required(15) && !required(20));
        assert!(!has_open_kubelet(Version::new(1, 14)) && has_open_kubelet(Version::new(1, 15)));
        // What never changed has no line.
        assert!(states(Version::new(1, 3), "NodePool", "spec/weight", "field", "-"));
        let reserved = gate("ReservedCapacity").expect("a gate");
        let state = |minor| reserved.state(Version::new(1, minor));
        assert_eq!([2, 5, 6].map(state), [None, Some(("alpha", false)), Some(("beta", true))]);
        assert_eq!(gate("NodeClassCEL").map(|gate| gate.list), Some(GateList::Aws));
    }
}
