//! Which instance types have room for a pod on an otherwise empty node, as tables of sets instead of type by type.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use super::resources::{POD_ENI, allocatable};
use crate::catalog::{TypeSet, all};
use crate::karpenter::scheduling::input::{ResourceList, SchedulerOptions};
use crate::steps;
use crate::workload::gpu::KARPENTER_ACCELERATORS;

/// For each resource, the amounts that types have, ascending, each with the types that have at least so much.
type Table = HashMap<&'static str, Vec<(i128, TypeSet)>>;

const RESOURCES: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "vpc.amazonaws.com/efa"];

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let settings = SchedulerOptions::default();
    let nodes: Vec<_> = all().iter().map(|instance| allocatable(instance, None, &settings)).collect();
    let at_least = |resource: &&'static str| {
        let mut by_amount: BTreeMap<i128, TypeSet> = BTreeMap::new();
        for node in &nodes {
            by_amount.entry(node.get(resource)).or_insert(TypeSet::EMPTY).insert(node.instance);
        }
        let mut more = TypeSet::EMPTY;
        let mut rows: Vec<(i128, TypeSet)> = Vec::new();
        for (amount, types) in by_amount.into_iter().rev() {
            more = more.or(&types);
            rows.push((amount, more));
        }
        rows.reverse();
        (*resource, rows)
    };
    RESOURCES.iter().chain(KARPENTER_ACCELERATORS).map(at_least).collect()
});

/// The types whose nodes have room for a pod that needs this, with the default settings of Karpenter and of a node
/// class, and without DaemonSets. `None` if the catalogue does not know it.
///
/// It says of each type what [`NodeResources::insufficient`](super::NodeResources::insufficient) says.
pub(crate) fn types_with_room(need: &ResourceList) -> Option<TypeSet> {
    let mut types = TypeSet::full();
    for (resource, amount) in need {
        steps::take(8);
        if resource == POD_ENI {
            return None;
        }
        match TABLE.get(resource.as_str()) {
            Some(rows) => {
                let first = rows.partition_point(|(has, _)| has < amount);
                types = types.and(rows.get(first).map_or(&TypeSet::EMPTY, |(_, types)| types));
            }
            None if *amount > 0 => return Some(TypeSet::EMPTY),
            None => {}
        }
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_say_what_each_type_says() {
        let settings = SchedulerOptions::default();
        let gib = (1 << 30) * 1000;
        let needs: [&[(&str, i128)]; 8] = [
            &[],
            &[("cpu", 250), ("memory", gib), ("pods", 1000)],
            &[("cpu", 3_920), ("memory", 14 * gib)],
            &[("nvidia.com/gpu", 4000), ("cpu", 46_000)],
            &[("nvidia.com/gpu", 0), ("ephemeral-storage", 17 * gib)],
            &[("aws.amazon.com/neuroncore", 2000), ("vpc.amazonaws.com/efa", 1000)],
            &[("example.com/licence", 1000)],
            &[("memory", 40_000 * gib)],
        ];
        for need in needs {
            let need: ResourceList =
                need.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
            let expected = all().iter().filter(|instance| {
                allocatable(instance, None, &settings).insufficient(&need).next().is_none()
            });
            assert_eq!(types_with_room(&need), Some(expected.collect()), "{need:?}");
        }
        assert_eq!(types_with_room(&ResourceList::from_iter([(POD_ENI.to_owned(), 1000)])), None);
    }
}
