//! Maps a label key and value to the instance types with it. Built on first use of each key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::{INSTANCE_FAMILY, INSTANCE_TYPE, InstanceType, Label, TypeSet, all};

#[derive(Clone, Copy)]
pub(super) enum LabelSource {
    Family,
    Size,
    Category,
    Generation,
    Flex,
    /// A column of the file by position.
    Column(usize),
}

/// Every key whose value is known for each type, sorted.
static SOURCES: [(&str, LabelSource); 23] = [
    ("karpenter.k8s.aws/instance-accelerator-count", LabelSource::Column(18)),
    ("karpenter.k8s.aws/instance-accelerator-manufacturer", LabelSource::Column(17)),
    ("karpenter.k8s.aws/instance-accelerator-name", LabelSource::Column(16)),
    ("karpenter.k8s.aws/instance-capability-flex", LabelSource::Flex),
    ("karpenter.k8s.aws/instance-category", LabelSource::Category),
    ("karpenter.k8s.aws/instance-cpu", LabelSource::Column(2)),
    ("karpenter.k8s.aws/instance-cpu-manufacturer", LabelSource::Column(4)),
    ("karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz", LabelSource::Column(5)),
    ("karpenter.k8s.aws/instance-ebs-bandwidth", LabelSource::Column(10)),
    ("karpenter.k8s.aws/instance-encryption-in-transit-supported", LabelSource::Column(7)),
    (INSTANCE_FAMILY, LabelSource::Family),
    ("karpenter.k8s.aws/instance-generation", LabelSource::Generation),
    ("karpenter.k8s.aws/instance-gpu-count", LabelSource::Column(14)),
    ("karpenter.k8s.aws/instance-gpu-manufacturer", LabelSource::Column(13)),
    ("karpenter.k8s.aws/instance-gpu-memory", LabelSource::Column(15)),
    ("karpenter.k8s.aws/instance-gpu-name", LabelSource::Column(12)),
    ("karpenter.k8s.aws/instance-hypervisor", LabelSource::Column(6)),
    ("karpenter.k8s.aws/instance-local-nvme", LabelSource::Column(8)),
    ("karpenter.k8s.aws/instance-memory", LabelSource::Column(3)),
    ("karpenter.k8s.aws/instance-network-bandwidth", LabelSource::Column(11)),
    ("karpenter.k8s.aws/instance-size", LabelSource::Size),
    ("kubernetes.io/arch", LabelSource::Column(1)),
    (INSTANCE_TYPE, LabelSource::Column(0)),
];

static INDICES: [OnceLock<LabelValueIndex>; SOURCES.len()] = [const { OnceLock::new() }; SOURCES.len()];

pub fn keys() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|(key, _)| *key)
}

pub(super) fn source(key: &str) -> Option<LabelSource> {
    position(key).map(|position| SOURCES[position].1)
}

/// The index of a key; [`None`] for keys that types do not have, or with unknown values.
pub fn index(key: &str) -> Option<&'static LabelValueIndex> {
    position(key).map(|position| INDICES[position].get_or_init(|| LabelValueIndex::new(SOURCES[position].1)))
}

fn position(key: &str) -> Option<usize> {
    SOURCES.binary_search_by(|(known, _)| (*known).cmp(key)).ok()
}

impl LabelSource {
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

/// The types for each value of one label key.
#[derive(Debug)]
pub struct LabelValueIndex {
    /// The types with each value, sorted by value.
    types: Vec<(&'static str, TypeSet)>,
    /// For each value that is an integer, in order, the types with it or a larger one.
    at_least: Vec<(i64, TypeSet)>,
    values: BTreeSet<&'static str>,
    absent: TypeSet,
    unknown: TypeSet,
}

impl LabelValueIndex {
    fn new(source: LabelSource) -> Self {
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
        let mut at_least: Vec<_> =
            types.iter().filter_map(|(value, types)| Some((value.parse().ok()?, *types))).collect();
        at_least.sort_by_key(|(number, _)| *number);
        let mut larger = TypeSet::EMPTY;
        for (_, types) in at_least.iter_mut().rev() {
            larger = larger.or(types);
            *types = larger;
        }
        let values = types.keys().copied().collect();
        Self { values, types: types.into_iter().collect(), at_least, absent, unknown }
    }

    pub fn with(&self, value: &str) -> Option<&TypeSet> {
        let found = self.types.binary_search_by(|(known, _)| (*known).cmp(value));
        found.ok().map(|at| &self.types[at].1)
    }

    /// The types whose value is an integer between the bounds, both included.
    pub(crate) fn between(&self, least: Option<i64>, most: Option<i64>) -> TypeSet {
        // The types from the first number on for which the condition does not hold. Each type has one value.
        let from = |is_before: &dyn Fn(i64) -> bool| {
            let first = self.at_least.partition_point(|(number, _)| is_before(*number));
            self.at_least.get(first).map_or(TypeSet::EMPTY, |(_, types)| *types)
        };
        let types = from(&|number| least.is_some_and(|least| number < least));
        most.map_or(types, |most| types.without(&from(&|number| number <= most)))
    }

    pub(crate) fn absent(&self) -> &TypeSet {
        &self.absent
    }

    pub(crate) fn unknown(&self) -> &TypeSet {
        &self.unknown
    }

    /// Every value that occurs.
    pub(crate) fn values(&self) -> &BTreeSet<&'static str> {
        &self.values
    }

    pub(crate) fn distinct(&self, types: &TypeSet) -> usize {
        self.types.iter().filter(|(_, with)| !with.is_disjoint(types)).count()
    }

    /// For each value that occurs among types, how many of them have it.
    pub(crate) fn groups(&self, types: &TypeSet) -> impl Iterator<Item = usize> {
        let counts = self.types.iter().map(|(_, with)| with.and(types).len());
        counts.filter(|count| *count > 0)
    }

    /// The smallest and the largest integer among the values.
    pub fn range(&self) -> Option<(i64, i64)> {
        Some((self.at_least.first()?.0, self.at_least.last()?.0))
    }
}
