//! The pool that admits a pool's pods when that one has no capacity.
//!
//! Karpenter tries pools by weight, so a fallback has a strictly lower weight, requires no additional
//! toleration, has every label by which pods selected the first pool, and has types with at least as many
//! devices. Pools are indexed by these properties, each combination once, so that a lookup never scans all
//! pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Accelerator;
use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::table::{View, ViewSlot};
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::provider::is_custom;
use crate::karpenter::requirement::normalise;
use crate::kind::Kind;
use crate::object::Object;

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

/// A pool that can be a fallback of others.
#[derive(Debug)]
struct Candidate {
    profile: PoolProfile,
    object: Object,
}

/// All dynamic pools with types, sorted by their profiles, each profile once.
#[derive(Debug, Default)]
pub(crate) struct FallbackPools {
    /// For pools that no pod selects by label: pools that differ in labels alone are there once.
    without_labels: Vec<Arc<Candidate>>,
    by_label: BTreeMap<Pair, Vec<Arc<Candidate>>>,
}

/// Compares handles of pools.
impl PartialEq for FallbackPools {
    fn eq(&self, other: &FallbackPools) -> bool {
        let equal = |a: &[Arc<Candidate>], b: &[Arc<Candidate>]| {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.profile == b.profile && a.object.ptr_eq(&b.object))
        };
        equal(&self.without_labels, &other.without_labels)
            && self.by_label.len() == other.by_label.len()
            && self.by_label.iter().zip(&other.by_label).all(|(a, b)| a.0 == b.0 && equal(a.1, b.1))
    }
}

impl FallbackPools {
    fn new(cluster: &Cluster) -> FallbackPools {
        let by_weight = cluster.table::<PoolsByWeight>();
        let weights = by_weight.keys();
        // A pool of the highest weight is not a fallback of any other.
        let lower = weights.split_last().map_or(&[][..], |(_, lower)| lower);
        let mut out = FallbackPools::default();
        for object in lower.iter().flat_map(|weight| by_weight.get(weight)) {
            let pool = NodePool::new(object).filter(|pool| !pool.is_static());
            let Some(profile) = pool.and_then(|pool| pool_profile(&pool)) else { continue };
            let candidate = Arc::new(Candidate { profile, object: object.clone() });
            for pair in &candidate.profile.labels {
                out.by_label.entry(pair.clone()).or_default().push(Arc::clone(&candidate));
            }
            out.without_labels.push(candidate);
        }
        // Both sorts keep the order of pools with one profile, of which the first counts.
        for candidates in out.by_label.values_mut() {
            candidates.sort_by(|a, b| a.profile.cmp(&b.profile));
            candidates.dedup_by(|a, b| a.profile == b.profile);
            candidates.shrink_to_fit();
        }
        out.without_labels.sort_by(|a, b| a.profile.without_labels().cmp(&b.profile.without_labels()));
        out.without_labels.dedup_by(|a, b| a.profile.without_labels() == b.profile.without_labels());
        out
    }

    pub(crate) fn fallback_of(&self, object: &Object, pool: &NodePool<'_>) -> Option<&Object> {
        if self.without_labels.is_empty() {
            return None;
        }
        let own = pool_profile(pool)?;
        let candidates = match own.labels.first() {
            None => &self.without_labels,
            Some(pair) => self.by_label.get(pair)?,
        };
        // Sorted by weight: candidates from the pool's own weight on cannot be fallbacks.
        let lighter = candidates.iter().take_while(|candidate| candidate.profile.weight < own.weight);
        let mut fallbacks = lighter.filter(|candidate| {
            let theirs = &candidate.profile;
            candidate.object.name() != object.name()
                && theirs.devices >= own.devices
                && theirs.taints.iter().all(|t| own.taints.contains(t))
                && own.labels.iter().all(|l| theirs.labels.contains(l))
        });
        fallbacks.next().map(|candidate| &candidate.object)
    }
}

impl PoolProfile {
    /// The properties that count if no pod selects the pool by label, in the order of the profile.
    fn without_labels(&self) -> (i64, &[TaintKey], u32) {
        (self.weight, &self.taints, self.devices)
    }
}

/// The profile of a pool; `None` if it has no types, or they are unknown.
fn pool_profile(pool: &NodePool<'_>) -> Option<PoolProfile> {
    let types = pool.types().filter(|types| !types.is_empty())?;
    let devices = types.iter().flat_map(|t| Accelerator::RESOURCES.iter().map(|r| t.devices(r))).max()?;
    let mut taints: Vec<TaintKey> = pool.taints().into_iter().map(|t| (t.key, t.value, t.effect)).collect();
    taints.sort();
    taints.shrink_to_fit();
    let mut labels: Vec<Pair> = pool.label_pairs().filter(|(k, _)| is_custom(normalise(k))).collect();
    labels.sort();
    labels.shrink_to_fit();
    Some(PoolProfile { weight: pool.weight().unwrap_or(0), taints, devices, labels })
}
