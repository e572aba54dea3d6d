//! NodePools as input of the scheduler, indexed by the properties that decide which pods they can admit.

use std::sync::{Arc, OnceLock};

use crate::catalog::CAPACITY_TYPE;
use crate::cluster::placement::admission::Fingerprint;
use crate::cluster::table::{Row, View, ViewSlot};
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::provider::is_custom;
use crate::karpenter::requirement::{Requirement, Requirements};
use crate::karpenter::scheduling::{
    Pod, Pool, PreparedPool, Scheduler, SchedulerOptions, Term, pool_requirements,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::steps;
use crate::workload::gpu::is_of_type;

pub(crate) struct CandidatePool {
    object: Object,
    eligibility: Eligibility,
    /// Whether it may have instance types that are not in the catalogue.
    is_uncatalogued: bool,
    pub(super) pool: Pool,
    pub(super) requirements: Requirements,
    /// Computed once, because rules need it for every pool that admits a pod.
    capacity_types: Vec<&'static str>,
    /// The scheduling spec without name and weight. Pools with equal specs admit the same pods, except for
    /// pods that select a pool by name, and are evaluated once.
    pub(super) spec: Fingerprint,
    /// The types that its requirements and limits leave, which is the larger part of a verdict and equal for
    /// all pods. It is computed for the first pod, because in an input with many pools most are never
    /// evaluated.
    prepared: OnceLock<PreparedPool>,
    /// The value of [`CandidatePool::sure_nodes`].
    sure_nodes: OnceLock<u64>,
}

/// Whether a pool can start nodes for pending pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Eligibility {
    Candidate,
    /// A static pool, which the scheduler does not consider for pending pods.
    Static,
    /// A placeholder or an unreadable value in a field that decides.
    Unreadable,
}

/// Compares handles, not contents.
impl PartialEq for CandidatePool {
    fn eq(&self, other: &CandidatePool) -> bool {
        self.object.ptr_eq(&other.object)
    }
}

impl Row for Arc<CandidatePool> {
    fn of(object: &Object) -> Arc<CandidatePool> {
        Arc::new(CandidatePool::new(object))
    }

    fn object(&self) -> &Object {
        &self.object
    }
}

/// The pools that can start nodes for pending pods.
pub(crate) struct CandidatePools;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PoolKey {
    /// Every candidate.
    All,
    Name(String),
    /// Candidates that list this value of a label that is not well known. Pods that select it can only be
    /// placed on these pools and those of `AnyValue`.
    Label(String, String),
    /// Candidates that have such a label without listing its values.
    AnyValue(String),
    /// Candidates that restrict such a label in any way.
    Declares(String),
    /// Pools that are not candidates because they cannot be read.
    Unreadable,
    /// Static pools. Pods may run on their nodes, but do not start any.
    Static,
    /// Candidates that may have instance types which are not in the catalogue.
    Uncatalogued,
}

impl View for CandidatePools {
    const SLOT: ViewSlot = ViewSlot::CandidatePools;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Arc<CandidatePool>;
    type Key = PoolKey;

    fn keys(pool: &Arc<CandidatePool>) -> Vec<PoolKey> {
        match pool.eligibility {
            Eligibility::Candidate => {}
            Eligibility::Static => return vec![PoolKey::Static],
            Eligibility::Unreadable => return vec![PoolKey::Unreadable],
        }
        let mut keys = vec![PoolKey::All, PoolKey::Name(pool.pool.name.clone())];
        if pool.is_uncatalogued {
            keys.push(PoolKey::Uncatalogued);
        }
        for (key, requirement) in pool.requirements.iter().filter(|(key, _)| is_custom(key)) {
            keys.push(PoolKey::Declares(key.to_owned()));
            if requirement.complement {
                keys.push(PoolKey::AnyValue(key.to_owned()));
            } else {
                let label = |value: &String| PoolKey::Label(key.to_owned(), value.clone());
                keys.extend(requirement.values.iter().map(label));
            }
        }
        keys
    }
}

/// The first label that is not well known and that is restricted to some values.
pub(super) fn custom_label(selected: &Requirements) -> Option<(&str, &Requirement)> {
    selected.iter().find(|(key, wanted)| is_custom(key) && !wanted.complement && !wanted.values.is_empty())
}

impl CandidatePool {
    pub(super) fn new(object: &Object) -> CandidatePool {
        // A pool whose evaluation exceeds the step limit is treated as unreadable.
        let read = || {
            let pool = scheduler_pool(object)?;
            let requirements = pool_requirements(&pool);
            Some((pool, requirements))
        };
        let (eligibility, (pool, requirements)) = match steps::limited(steps::SHARED, read).0.flatten() {
            None => (Eligibility::Unreadable, Default::default()),
            Some(read) if read.0.replicas.is_some() => (Eligibility::Static, read),
            Some(read) => (Eligibility::Candidate, read),
        };
        CandidatePool {
            object: object.clone(),
            eligibility,
            is_uncatalogued: NodePool::new(object).is_some_and(|pool| pool.names_uncatalogued_values()),
            capacity_types: capacity_types(object, &requirements),
            requirements,
            spec: spec(&pool),
            prepared: OnceLock::new(),
            sure_nodes: OnceLock::new(),
            pool,
        }
    }

    /// Nodes that something else than Karpenter starts, as a pool without a name.
    pub(super) fn of_others(object: &Object, pool: Pool) -> CandidatePool {
        CandidatePool {
            object: object.clone(),
            eligibility: Eligibility::Candidate,
            is_uncatalogued: false,
            requirements: pool_requirements(&pool),
            capacity_types: Vec::new(),
            spec: spec(&pool),
            prepared: OnceLock::new(),
            sure_nodes: OnceLock::new(),
            pool,
        }
    }

    /// Whether the pool can start nodes for pending pods.
    pub(super) fn is_candidate(&self) -> bool {
        self.eligibility == Eligibility::Candidate
    }

    /// The scheduling spec with its name, for pods that select pools by name.
    pub(super) fn named_spec(&self) -> Fingerprint {
        Fingerprint::of(&(self.spec, &self.pool.name))
    }

    /// The scheduler for this pool alone, with only the facts that the NodePool decides.
    pub(super) fn scheduler(&self, options: &SchedulerOptions) -> Scheduler<'_> {
        let prepared = self.prepared.get_or_init(|| PreparedPool::new(&self.pool, options));
        Scheduler::for_pool(&self.pool, prepared, options)
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn weight(&self) -> i64 {
        self.pool.weight.unwrap_or(0)
    }

    /// The limit of a resource, in thousandths.
    pub(crate) fn limit(&self, resource: &str) -> Option<i128> {
        self.pool.limits.iter().find(|(name, _)| name == resource).map(|(_, amount)| *amount)
    }

    /// The number of nodes that its limits leave room for, whichever of its types these have: overlays, and what the class decides,
    /// are not counted. 0 if that is not known.
    pub(crate) fn sure_nodes(&self) -> u64 {
        *self.sure_nodes.get_or_init(|| {
            let pool = NodePool::new(&self.object).filter(|pool| !pool.names_uncatalogued_values());
            let Some(types) = pool.and_then(|pool| pool.admitted_types()) else { return 0 };
            let limits = self.pool.limits.iter().filter(|(name, _)| name != "nodes");
            let nodes = limits.filter_map(|(name, limit)| {
                if !is_of_type(name) {
                    return Some(0);
                }
                let largest = types.iter().map(|instance| instance.capacity(name)).max()?;
                (largest > 0).then(|| u64::try_from(limit / largest).unwrap_or(0))
            });
            nodes.min().unwrap_or(u64::MAX)
        })
    }

    pub(crate) fn has_taint(&self, key: &str) -> bool {
        self.pool.taints.iter().any(|taint| taint.key == key)
    }

    /// Whether its nodes can have this capacity type, which must not be `reserved`.
    pub(crate) fn allows_capacity_type(&self, capacity_type: &str) -> bool {
        self.capacity_types.contains(&capacity_type)
    }
}

/// The fingerprint of the scheduling spec without name and weight.
fn spec(pool: &Pool) -> Fingerprint {
    let Pool {
        name: _,
        weight: _,
        replicas,
        requirements,
        labels,
        taints,
        startup_taints,
        limits,
        node_class,
        class,
        is_built_in: _,
        uncertainties,
    } = pool;
    let nodes = (requirements, labels, taints, startup_taints, node_class, class);
    Fingerprint::of(&(replicas, nodes, limits, uncertainties))
}

/// The capacity types of a pool's nodes, without `reserved`.
fn capacity_types(object: &Object, requirements: &Requirements) -> Vec<&'static str> {
    let own = requirements.get(CAPACITY_TYPE);
    // If `reserved` is among them, the spec of the pool contains none, because no type offers it.
    let written = match own {
        Some(_) => None,
        None => NodePool::new(object).and_then(|pool| pool.capacity_types()),
    };
    ["spot", "on-demand"]
        .into_iter()
        .filter(|t| own.is_none_or(|own| own.has(t)))
        .filter(|t| written.as_ref().is_none_or(|written| written.contains(t)))
        .collect()
}

/// A pool as input of the scheduler. `None` if it cannot be read completely.
fn scheduler_pool(object: &Object) -> Option<Pool> {
    let pool = NodePool::new(object)?;
    let unknown = pool.is_other_provider()
        || object.is_partial()
        || pool.has_unknown_labels()
        || pool.template_spec().get("taints").has_unknown()
        || pool.limits().has_unknown();
    (!unknown).then(|| pool.normalized_pool())
}

/// The alternative requirements of the pod on nodes: its selector combined with each of its terms.
pub(super) fn alternatives(pod: &Pod) -> Vec<Requirements> {
    let mut selector = Requirements::new();
    for (key, value) in &pod.node_selector {
        selector.add(key, Requirement::is(value));
    }
    if pod.terms.is_empty() {
        return vec![selector];
    }
    let with = |term: &Term| {
        steps::take(8 * selector.len());
        let mut all = selector.clone();
        for spec in &term.expressions {
            all.add(&spec.key, Requirement::new(spec.op, &spec.values, spec.min_values));
        }
        all
    };
    pod.terms.iter().map(with).collect()
}
