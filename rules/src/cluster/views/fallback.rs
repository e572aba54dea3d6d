//! The pool that admits a pool's pods when that one has no capacity.
//!
//! Karpenter tries pools by weight, so a fallback has a strictly lower weight, requires no additional
//! toleration, has every label by which pods selected the first pool, and has types with at least as many
//! devices. Pools are indexed by these properties, each combination once, so that a lookup never scans all
//! pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::table::{View, ViewSlot};
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::requirement::{is_well_known, normalise};
use crate::kind::Kind;
use crate::object::Object;

/// Accelerators whose devices Karpenter counts.
pub(crate) const COUNTED_ACCELERATORS: [&str; 4] =
    ["nvidia.com/gpu", "aws.amazon.com/neuron", "amd.com/gpu", "habana.ai/gaudi"];

/// NodePools by `spec.weight`.
pub(crate) struct PoolsByWeight;

impl View for PoolsByWeight {
    const SLOT: ViewSlot = ViewSlot::PoolsByWeight;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = i64;

    fn keys(object: &Object) -> Vec<i64> {
        vec![object.path(&["spec", "weight"]).int().unwrap_or(0)]
    }
}

type Pair = (String, String);
type TaintKey = (String, String, String);

/// The properties that decide whether a pool can be a fallback of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PoolProfile {
    weight: i64,
    taints: Vec<TaintKey>,
    devices: u32,
    labels: Vec<Pair>,
}

/// The pools that can be fallbacks of others.
pub(crate) struct Fallbacks;

impl Query for Fallbacks {
    const SLOT: QuerySlot = QuerySlot::Fallbacks;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Key = ();
    type Value = Arc<FallbackPools>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<FallbackPools> {
        Arc::new(FallbackPools::new(cluster))
    }
}

/// All dynamic pools with types, by these properties.
#[derive(Debug, Default)]
pub(crate) struct FallbackPools {
    /// Without the labels, for pools that no pod selects by label.
    without_labels: BTreeMap<PoolProfile, Object>,
    by_label: BTreeMap<Pair, BTreeMap<PoolProfile, Object>>,
}

/// Compares handles of pools.
impl PartialEq for FallbackPools {
    fn eq(&self, other: &FallbackPools) -> bool {
        let alike = |a: &BTreeMap<PoolProfile, Object>, b: &BTreeMap<PoolProfile, Object>| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.ptr_eq(b.1))
        };
        alike(&self.without_labels, &other.without_labels)
            && self.by_label.len() == other.by_label.len()
            && (self.by_label.iter().zip(&other.by_label)).all(|(a, b)| a.0 == b.0 && alike(a.1, b.1))
    }
}

impl FallbackPools {
    fn new(cluster: &Cluster) -> FallbackPools {
        let mut out = FallbackPools::default();
        let by_weight = cluster.table::<PoolsByWeight>();
        let weights = by_weight.keys();
        // A pool of the highest weight is not a fallback of any other.
        let Some((_, lower)) = weights.split_last() else {
            return out;
        };
        for object in lower.iter().flat_map(|weight| by_weight.get(weight)) {
            let Some(pool) = NodePool::new(object).filter(|p| !p.is_static()) else {
                continue;
            };
            let Some(standing) = pool_profile(&pool) else {
                continue;
            };
            for pair in &standing.labels {
                out.by_label
                    .entry(pair.clone())
                    .or_default()
                    .entry(standing.clone())
                    .or_insert_with(|| object.clone());
            }
            let bare = PoolProfile { labels: Vec::new(), ..standing };
            out.without_labels.entry(bare).or_insert_with(|| object.clone());
        }
        out
    }

    pub(crate) fn fallback_of(&self, object: &Object, pool: &NodePool<'_>) -> Option<&Object> {
        if self.without_labels.is_empty() && self.by_label.is_empty() {
            return None;
        }
        let own = pool_profile(pool)?;
        let candidates = match own.labels.first() {
            None => &self.without_labels,
            Some(pair) => self.by_label.get(pair)?,
        };
        // Sorted by weight: candidates from the pool's own weight on cannot be fallbacks.
        candidates
            .iter()
            .take_while(|(theirs, _)| theirs.weight < own.weight)
            .find(|(theirs, other)| {
                other.name() != object.name()
                    && theirs.devices >= own.devices
                    && theirs.taints.iter().all(|t| own.taints.contains(t))
                    && own.labels.iter().all(|l| theirs.labels.contains(l))
            })
            .map(|(_, other)| other)
    }
}

/// The profile of a pool; `None` if it has no types, or they are unknown.
fn pool_profile(pool: &NodePool<'_>) -> Option<PoolProfile> {
    let types = pool.types().filter(|types| !types.is_empty())?;
    let devices = types.iter().flat_map(|t| COUNTED_ACCELERATORS.iter().map(|r| t.devices(r))).max()?;
    let mut taints: Vec<TaintKey> = pool.taints().into_iter().map(|t| (t.key, t.value, t.effect)).collect();
    taints.sort();
    let mut labels: Vec<Pair> = pool.label_pairs().filter(|(k, _)| !is_well_known(normalise(k))).collect();
    labels.sort();
    Some(PoolProfile { weight: pool.weight().unwrap_or(0), taints, devices, labels })
}
