//! Groups of NodePools that differ in neither taints nor custom labels, so that a pod may fit any of them.

use std::sync::{Arc, OnceLock};

use crate::cluster::table::{Row, View, ViewSlot};
use crate::karpenter::nodepool::{CAPACITY_TYPES, NodePool};
use crate::karpenter::pool_facts::{Audience, PoolFacts, shared_requirements};
use crate::karpenter::requirement::Requirements;
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;

pub(crate) struct OverlapGroup {
    object: Object,
    weight: i64,
    /// The facts of the pool, if it is dynamic and its constraints are known.
    known: Option<Arc<PoolFacts>>,
    /// The value of [`OverlapGroup::requirements`].
    requirements: OnceLock<Requirements>,
}

/// The pools by the taints and labels of their nodes.
pub(crate) struct OverlapGroups;

impl View for OverlapGroups {
    const SLOT: ViewSlot = ViewSlot::OverlapGroups;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Arc<OverlapGroup>;
    type Key = Arc<str>;

    fn keys(row: &Arc<OverlapGroup>) -> Vec<Arc<str>> {
        row.audience().map(|audience| Arc::clone(&audience.key)).into_iter().collect()
    }
}

impl Row for Arc<OverlapGroup> {
    fn of(object: &Object) -> Arc<OverlapGroup> {
        Arc::new(OverlapGroup::new(object))
    }

    fn object(&self) -> &Object {
        &self.object
    }
}

impl OverlapGroup {
    /// Creates the entry of a pool, which need not be in the cluster.
    pub(crate) fn new(object: &Object) -> OverlapGroup {
        let weight = object.path(&["spec", "weight"]);
        let pool = NodePool::new(object)
            .filter(|pool| !object.is_partial() && !pool.is_static() && !weight.is_unknown());
        let known = pool.map(|pool| Arc::clone(pool.facts())).filter(|facts| facts.audience.is_some());
        let (object, weight) = (object.clone(), weight.int().unwrap_or(0));
        OverlapGroup { object, weight, known, requirements: OnceLock::new() }
    }

    /// The requirements of the pool, read when it is compared with another that shares its key.
    fn requirements(&self) -> &Requirements {
        self.requirements.get_or_init(|| {
            let read = || NodePool::new(&self.object).map(|pool| shared_requirements(&pool));
            steps::unlimited(read).unwrap_or_default()
        })
    }

    fn audience(&self) -> Option<&Audience> {
        self.known.as_ref()?.audience.as_ref()
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// `spec.weight`, or its default of 0.
    pub(crate) fn weight(&self) -> i64 {
        self.weight
    }

    /// Whether the pool is dynamic and its types are known.
    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    pub(super) fn key(&self) -> Option<&Arc<str>> {
        self.audience().map(|audience| &audience.key)
    }

    pub(crate) fn is_only(&self, capacity_type: &str) -> bool {
        let wanted = CAPACITY_TYPES.map(|one| one == capacity_type);
        self.audience().is_some_and(|audience| audience.capacity_types == wanted)
    }

    /// Whether a pod may fit on nodes of either pool.
    pub(crate) fn overlaps(&self, other: &OverlapGroup) -> bool {
        let both = self.audience().zip(other.audience());
        let is_of_one_capacity_type =
            both.is_some_and(|(a, b)| a.capacity_types.iter().zip(&b.capacity_types).any(|(a, b)| *a && *b));
        is_of_one_capacity_type && self.overlaps_but_for_capacity(other)
    }

    /// Whether a pod that accepts any capacity type may fit on nodes of either pool.
    pub(crate) fn overlaps_but_for_capacity(&self, other: &OverlapGroup) -> bool {
        let (Some(own), Some(theirs)) = (&self.known, &other.known) else { return false };
        steps::take(20);
        let (Some(a), Some(b)) = (&own.audience, &theirs.audience) else { return false };
        let share_types = own.types.zip(theirs.types).is_some_and(|(a, b)| !a.is_disjoint(&b));
        a.key == b.key && share_types && self.requirements().intersects(other.requirements()).is_ok()
    }
}
