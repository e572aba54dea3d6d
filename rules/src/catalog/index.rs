//! From a label key and value to the types that carry it. Built on first use, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::{INSTANCE_FAMILY, INSTANCE_TYPE, InstanceType, Label, TypeSet, all};

/// Where the value of a label key comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Family,
    Size,
    Category,
    Generation,
    Flex,
    /// A column of the file by position.
    Column(usize),
}

/// Every key whose value the catalogue knows type by type, sorted.
static SOURCES: [(&str, Source); 23] = [
    ("karpenter.k8s.aws/instance-accelerator-count", Source::Column(18)),
    ("karpenter.k8s.aws/instance-accelerator-manufacturer", Source::Column(17)),
    ("karpenter.k8s.aws/instance-accelerator-name", Source::Column(16)),
    ("karpenter.k8s.aws/instance-capability-flex", Source::Flex),
    ("karpenter.k8s.aws/instance-category", Source::Category),
    ("karpenter.k8s.aws/instance-cpu", Source::Column(2)),
    ("karpenter.k8s.aws/instance-cpu-manufacturer", Source::Column(4)),
    ("karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz", Source::Column(5)),
    ("karpenter.k8s.aws/instance-ebs-bandwidth", Source::Column(10)),
    ("karpenter.k8s.aws/instance-encryption-in-transit-supported", Source::Column(7)),
    (INSTANCE_FAMILY, Source::Family),
    ("karpenter.k8s.aws/instance-generation", Source::Generation),
    ("karpenter.k8s.aws/instance-gpu-count", Source::Column(14)),
    ("karpenter.k8s.aws/instance-gpu-manufacturer", Source::Column(13)),
    ("karpenter.k8s.aws/instance-gpu-memory", Source::Column(15)),
    ("karpenter.k8s.aws/instance-gpu-name", Source::Column(12)),
    ("karpenter.k8s.aws/instance-hypervisor", Source::Column(6)),
    ("karpenter.k8s.aws/instance-local-nvme", Source::Column(8)),
    ("karpenter.k8s.aws/instance-memory", Source::Column(3)),
    ("karpenter.k8s.aws/instance-network-bandwidth", Source::Column(11)),
    ("karpenter.k8s.aws/instance-size", Source::Size),
    ("kubernetes.io/arch", Source::Column(1)),
    (INSTANCE_TYPE, Source::Column(0)),
];

static INDICES: [OnceLock<Index>; SOURCES.len()] = [const { OnceLock::new() }; SOURCES.len()];

/// The label keys whose values are known type by type, sorted.
pub fn keys() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|(key, _)| *key)
}

/// Where the value of a key comes from.
pub(super) fn source(key: &str) -> Option<Source> {
    position(key).map(|position| SOURCES[position].1)
}

/// The index of a key; [`None`] for keys that types do not have, or whose values are not known.
pub fn index(key: &str) -> Option<&'static Index> {
    position(key).map(|position| INDICES[position].get_or_init(|| Index::new(SOURCES[position].1)))
}

fn position(key: &str) -> Option<usize> {
    SOURCES.binary_search_by(|(known, _)| (*known).cmp(key)).ok()
}

impl Source {
    /// The value of one type.
    pub(super) fn of(self, instance: &InstanceType) -> Label {
        match self {
            Self::Family => Label::Is(instance.family()),
            Self::Size => Label::Is(instance.size()),
            Self::Category => Label::Is(instance.category()),
            Self::Generation => Label::Is(instance.generation()),
            Self::Flex => Label::Is(if instance.family().contains("-flex") { "true" } else { "false" }),
            Self::Column(column) => match instance.cells[column] {
                "" => Label::Absent,
                "?" => Label::Unknown,
                // Metal types have the hypervisor label, with an empty value.
                "-" => Label::Is(""),
                value => Label::Is(value),
            },
        }
    }
}

/// Which types carry which value of one label key.
#[derive(Debug)]
pub struct Index {
    types: BTreeMap<&'static str, TypeSet>,
    numbers: Vec<(i64, TypeSet)>,
    values: BTreeSet<&'static str>,
    absent: TypeSet,
    unknown: TypeSet,
}

impl Index {
    fn new(source: Source) -> Self {
        let mut types: BTreeMap<&'static str, TypeSet> = BTreeMap::new();
        let mut absent = TypeSet::EMPTY;
        let mut unknown = TypeSet::EMPTY;
        for instance in all() {
            match source.of(instance) {
                Label::Is(value) => types.entry(value).or_insert(TypeSet::EMPTY).insert(instance),
                Label::Unknown => unknown.insert(instance),
                Label::Absent | Label::OneOf(_) | Label::Undefined => absent.insert(instance),
            }
        }
        let mut numbers: Vec<_> =
            types.iter().filter_map(|(value, types)| Some((value.parse().ok()?, *types))).collect();
        numbers.sort_by_key(|(number, _)| *number);
        Self { values: types.keys().copied().collect(), types, numbers, absent, unknown }
    }

    /// The types with exactly this value.
    pub fn with(&self, value: &str) -> Option<&TypeSet> {
        self.types.get(value)
    }

    /// The types whose value is an integer between the bounds, both included.
    pub fn between(&self, least: Option<i64>, most: Option<i64>) -> TypeSet {
        let start = least.map_or(0, |least| self.numbers.partition_point(|(number, _)| *number < least));
        let end = most
            .map_or(self.numbers.len(), |most| self.numbers.partition_point(|(number, _)| *number <= most));
        let inside = self.numbers.get(start..end).unwrap_or_default();
        inside.iter().fold(TypeSet::EMPTY, |set, (_, types)| set.or(types))
    }

    /// The types without the label.
    pub fn absent(&self) -> &TypeSet {
        &self.absent
    }

    /// The types that have the label, with a value that the catalogue does not know.
    pub fn unknown(&self) -> &TypeSet {
        &self.unknown
    }

    /// Every value that occurs.
    pub fn values(&self) -> &BTreeSet<&'static str> {
        &self.values
    }

    /// How many distinct values the types of a set have.
    pub fn distinct(&self, types: &TypeSet) -> usize {
        self.types.values().filter(|with| !with.is_disjoint(types)).count()
    }

    /// The least and the greatest integer among the values.
    pub fn range(&self) -> Option<(i64, i64)> {
        Some((self.numbers.first()?.0, self.numbers.last()?.0))
    }
}
