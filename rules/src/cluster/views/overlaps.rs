//! NodePools between which no taint and no custom label decides: pods that fit one of them may fit all.

use std::sync::Arc;

use crate::catalog::TypeSet;
use crate::cluster::table::{Row, View, ViewSlot};
use crate::karpenter::nodepool::{CAPACITY_TYPE, NodePool};
use crate::karpenter::requirement::{Requirements, is_well_known};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;

/// What the nodes of a pool have that pods tolerate or select: taints that keep pods away, and custom labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OverlapKey {
    taints: Vec<(String, String, String)>,
    labels: Vec<(String, String)>,
}

/// A dynamic pool whose types are known.
struct Known {
    key: OverlapKey,
    types: TypeSet,
    /// Of well-known labels, without the capacity type.
    requirements: Requirements,
    capacity_types: [bool; 3],
}

/// A pool as a member of a group.
pub(crate) struct OverlapGroup {
    object: Object,
    weight: i64,
    known: Option<Known>,
}

/// The pools by the taints and labels of their nodes.
pub(crate) struct OverlapGroups;

impl View for OverlapGroups {
    const SLOT: ViewSlot = ViewSlot::OverlapGroups;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Arc<OverlapGroup>;
    type Key = OverlapKey;

    fn keys(row: &Arc<OverlapGroup>) -> Vec<OverlapKey> {
        row.known.iter().map(|known| known.key.clone()).collect()
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
    /// A pool, which need not be in the cluster.
    pub(crate) fn new(object: &Object) -> OverlapGroup {
        let known = steps::limited(steps::SHARED, || known(object)).0.flatten();
        OverlapGroup {
            object: object.clone(),
            weight: object.path(&["spec", "weight"]).int().unwrap_or(0),
            known,
        }
    }

    /// The pool.
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

    pub(super) fn key(&self) -> OverlapKey {
        self.known.as_ref().map(|known| known.key.clone()).unwrap_or_default()
    }

    /// Whether the nodes of the pool are of one capacity type.
    pub(crate) fn is_only(&self, capacity_type: &str) -> bool {
        let wanted = CAPACITY_TYPES.map(|one| one == capacity_type);
        self.known.as_ref().is_some_and(|known| known.capacity_types == wanted)
    }

    /// Whether a pod may fit on nodes of either pool.
    pub(crate) fn overlaps(&self, other: &OverlapGroup) -> bool {
        let capacity =
            |(a, b): (&Known, &Known)| a.capacity_types.iter().zip(&b.capacity_types).any(|(a, b)| *a && *b);
        self.overlaps_but_for_capacity(other)
            && self.known.as_ref().zip(other.known.as_ref()).is_some_and(capacity)
    }

    /// The same for a pod that may be on any capacity type.
    pub(crate) fn overlaps_but_for_capacity(&self, other: &OverlapGroup) -> bool {
        let Some((a, b)) = self.known.as_ref().zip(other.known.as_ref()) else {
            return false;
        };
        steps::take(20);
        a.key == b.key && !a.types.is_disjoint(&b.types) && a.requirements.intersects(&b.requirements).is_ok()
    }
}

const CAPACITY_TYPES: [&str; 3] = ["reserved", "spot", "on-demand"];

fn known(object: &Object) -> Option<Known> {
    let pool = NodePool::new(object)?;
    let taints = pool.template_spec().get("taints");
    if pool.is_static() || object.path(&["spec", "weight"]).is_unknown() || taints.has_unknown() {
        return None;
    }
    let types = pool.types().filter(|types| !types.is_empty())?;
    let mut key = OverlapKey::default();
    for taint in pool.taints() {
        if taint.effect != "PreferNoSchedule" {
            key.taints.push((taint.key, taint.value, taint.effect));
        }
    }
    key.taints.sort();
    key.taints.dedup();
    // The labels that Karpenter adds tell every pool from every other one.
    let own = |name: &str| {
        name == "karpenter.sh/nodepool"
            || name.starts_with("karpenter.sh/") && !is_well_known(name)
            || name.ends_with("/ec2nodeclass")
            || name.ends_with("/nodeclass")
    };
    let mut requirements = pool.requirement_set();
    let names: Vec<String> = requirements.iter().map(|(name, _)| name.to_owned()).collect();
    let mut capacity_types = [true; 3];
    for name in names {
        if own(&name) {
            requirements.remove(&name);
        } else if name == CAPACITY_TYPE {
            if let Some(requirement) = requirements.get(&name) {
                capacity_types = CAPACITY_TYPES.map(|one| requirement.has(one));
            }
            requirements.remove(&name);
        } else if !is_well_known(&name) && !name.starts_with("eks.amazonaws.com/instance-") {
            if let Some(requirement) = requirements.get(&name) {
                steps::take(8 * requirement.values.len());
                let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
                let value = format!("{} {}", requirement.operator(), values.join(","));
                key.labels.push((name.clone(), value));
            }
            requirements.remove(&name);
        }
    }
    key.labels.sort();
    Some(Known { key, types, requirements, capacity_types })
}
