//! The pool that admits a pool's pods when that one has no capacity.
//!
//! Karpenter tries pools by weight, so a fallback has a strictly lower weight, requires no additional
//! toleration, has every label by which pods selected the first pool, and has types with at least as many
//! devices. Pools are indexed by these properties, each combination once, so that a lookup never scans all
//! pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::InstanceType;
use crate::cluster::Cluster;
use crate::cluster::dependencies::{Digest, digest};
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

/// The properties that decide whether a pool can be a fallback of another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PoolProfile<'a> {
    weight: i64,
    taints: Vec<(&'a str, &'a str, &'a str)>,
    devices: u32,
    labels: Vec<(&'a str, &'a str)>,
}

/// A [`PoolProfile`] as it is kept. Texts would take 400 bytes of each pool, hashes take 100.
#[derive(Debug, PartialEq, Eq)]
struct KeptProfile {
    weight: i64,
    devices: u32,
    taints: Box<[Digest]>,
    labels: Box<[Digest]>,
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
    profile: KeptProfile,
    object: Object,
}

/// All dynamic pools with types, sorted by their profiles, each profile once.
#[derive(Debug, Default)]
pub(crate) struct FallbackPools {
    /// For pools that no pod selects by label: pools that differ in labels alone are there once.
    without_labels: Vec<Arc<Candidate>>,
    by_label: BTreeMap<Digest, Vec<Arc<Candidate>>>,
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
        let mut pools: Vec<(PoolProfile<'_>, Arc<Candidate>)> = Vec::new();
        for object in lower.iter().flat_map(|weight| by_weight.get(weight)) {
            let pool = NodePool::new(object).filter(|pool| !pool.is_static());
            let Some(profile) = pool.and_then(|pool| PoolProfile::of(&pool)) else { continue };
            let candidate = Candidate { profile: profile.kept(), object: object.clone() };
            pools.push((profile, Arc::new(candidate)));
        }
        // Both sorts keep the order of pools with one profile, of which the first counts.
        let mut out = FallbackPools::default();
        pools.sort_by(|(a, _), (b, _)| a.without_labels().cmp(&b.without_labels()));
        let groups = pools.chunk_by(|(a, _), (b, _)| a.without_labels() == b.without_labels());
        out.without_labels = groups.map(|group| Arc::clone(&group[0].1)).collect();
        pools.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (_, candidate) in pools {
            for label in &candidate.profile.labels {
                // Nearly all labels have one candidate.
                let candidates = out.by_label.entry(*label).or_insert_with(|| Vec::with_capacity(1));
                if candidates.last().is_none_or(|last| last.profile != candidate.profile) {
                    candidates.push(Arc::clone(&candidate));
                }
            }
        }
        out
    }

    pub(crate) fn fallback_of(&self, object: &Object, pool: &NodePool<'_>) -> Option<&Object> {
        if self.without_labels.is_empty() {
            return None;
        }
        let own = PoolProfile::of(pool)?.kept();
        let candidates = match own.labels.first() {
            None => &self.without_labels,
            Some(label) => self.by_label.get(label)?,
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

impl<'a> PoolProfile<'a> {
    /// The profile of a pool; `None` if it has no types, or they are unknown.
    fn of(pool: &NodePool<'a>) -> Option<PoolProfile<'a>> {
        let types = pool.types().filter(|types| !types.is_empty() && !pool.has_unknown_labels())?;
        let devices = types.iter().map(InstanceType::accelerators).max()?;
        let mut taints: Vec<_> = (pool.template_spec().get("taints").items())
            .map(|taint| {
                let [key, value, effect] =
                    ["key", "value", "effect"].map(|field| taint.get(field).text().unwrap_or_default());
                (key, value, effect)
            })
            .collect();
        taints.sort_unstable();
        let labels = pool.labels().entries().into_iter();
        let labels = labels.filter_map(|(key, value)| Some((key, value.text()?)));
        let mut labels: Vec<_> = labels.filter(|(key, _)| is_custom(normalise(key))).collect();
        labels.sort_unstable();
        Some(PoolProfile { weight: pool.weight().unwrap_or(0), taints, devices, labels })
    }

    /// The properties that count if no pod selects the pool by label, in the order of the profile.
    fn without_labels(&self) -> (i64, &[(&'a str, &'a str, &'a str)], u32) {
        (self.weight, &self.taints, self.devices)
    }

    fn kept(&self) -> KeptProfile {
        KeptProfile {
            weight: self.weight,
            devices: self.devices,
            taints: self.taints.iter().map(digest).collect(),
            labels: self.labels.iter().map(digest).collect(),
        }
    }
}
