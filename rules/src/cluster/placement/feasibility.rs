//! Which pools admit a pod, as far as NodePools alone decide it.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::catalog::CAPACITY_TYPE;
use crate::cluster::Cluster;
use crate::cluster::placement::admission::{AdmissionKey, Fingerprint};
use crate::cluster::placement::pools::{CandidatePool, CandidatePools, PoolKey, alternatives, custom_label};
use crate::cluster::query::{Query, QuerySlot};
use crate::cluster::queues::is_queued;
use crate::cluster::table::Row;
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::{
    Pod, ResourceList, SchedulerOptions, SuitedTypes, Taint, Toleration, pod_requests, tolerates,
    types_with_room,
};
use crate::kind::Kind;
use crate::object::{Memo, Object};
use crate::steps;
use crate::workload::template::{Template, templates};

/// Maximum number of pools that a pod is evaluated against. An input with more contains the pools of several
/// clusters, and it is not known which pods belong to which.
const MAX_CANDIDATES: usize = 500;

/// Maximum number of steps of a decision about one pod and one pool, about two milliseconds.
const STEPS_PER_DECISION: u64 = 200_000;

/// The requirements of a pod on nodes.
pub(super) struct PodShape {
    /// The pod without its uncertainties and its rules about other pods: these may or may not prevent scheduling.
    pod: Pod,
    pub(super) alternatives: Vec<Requirements>,
    /// Whether the pod selects pools by name.
    by_name: bool,
    fingerprint: Fingerprint,
    /// The fingerprint without the amounts of resources.
    constraints: Fingerprint,
}

impl PodShape {
    pub(super) fn new(pod: Pod) -> PodShape {
        let pod = without_disk(Pod { uncertainties: Vec::new(), topology: Vec::new(), ..pod });
        let alternatives = alternatives(&pod);
        let pool = |selected: &Requirements| selected.get(NODEPOOL_LABEL).is_some();
        PodShape {
            by_name: alternatives.iter().any(pool),
            fingerprint: Fingerprint::of(&pod),
            constraints: Fingerprint::of(&without_amounts(pod.clone())),
            alternatives,
            pod,
        }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// The pod without its disk: how much disk a node has is a matter of its class, which NodePools do not tell.
fn without_disk(mut pod: Pod) -> Pod {
    let containers = pod.containers.iter_mut().chain(&mut pod.init_containers);
    let lists = containers.flat_map(|container| [&mut container.requests, &mut container.limits]);
    for list in lists.chain([&mut pod.requests, &mut pod.limits, &mut pod.overhead]) {
        list.remove("ephemeral-storage");
    }
    pod
}

/// The pod without its amounts of resources. The names of the resources stay, because EKS adds tolerations
/// for them.
fn without_amounts(mut pod: Pod) -> Pod {
    pod.requests.clear();
    pod.limits.clear();
    pod.overhead.clear();
    for container in pod.containers.iter_mut().chain(&mut pod.init_containers) {
        let amounts = container.requests.iter_mut().chain(container.limits.iter_mut());
        amounts.for_each(|(_, amount)| *amount = 0);
    }
    pod
}

/// The requirements of the pods of each template of an object. The inner `None`: they cannot be read. The
/// outer `None`: reading them takes too many steps.
type PodShapes = Box<[Option<Option<Arc<PodShape>>>]>;

static SHAPES: Memo<PodShapes> = Memo::new();

/// The requirements of the pods of a template on nodes. `None` if they cannot be read. If this exceeds the
/// step limit, the calling rule is cancelled.
pub(super) fn shape_of(template: &Template<'_>) -> Option<Arc<PodShape>> {
    let (object, number) = template.place;
    let shapes = object.memo(&SHAPES, || {
        let shape = |template: &Template<'_>| Some(Arc::new(PodShape::new(to_scheduling_pod(template)?)));
        let templates = templates(object);
        templates.iter().map(|template| steps::limited(steps::SHARED, || shape(template)).0).collect()
    });
    shapes.get(number)?.clone().unwrap_or_else(|| steps::cut_short())
}

/// What a pod of a template requests of a node, without disk. `None` if it cannot be read. If this exceeds the step limit, the calling
/// rule is cancelled.
pub(crate) fn requests_of(template: &Template<'_>) -> Option<ResourceList> {
    Some(pod_requests(&shape_of(template)?.pod))
}

/// The capacity types that a template requests. `None` if it requests none, or cannot be read.
pub(crate) fn requested_capacity_types(template: &Template<'_>) -> Option<BTreeSet<&'static str>> {
    let mut out = BTreeSet::new();
    for selected in &shape_of(template)?.alternatives {
        let wanted = selected.get(CAPACITY_TYPE)?;
        let all = ["reserved", "spot", "on-demand"];
        out.extend(all.into_iter().filter(|t| wanted.has(t)));
    }
    Some(out)
}

/// A pod to find pools for, and whether EKS adds tolerations to it.
#[derive(Clone)]
pub(crate) struct FeasibleKey {
    pub(super) shape: Arc<PodShape>,
    pub(super) eks: bool,
}

impl FeasibleKey {
    pub(super) fn content(&self) -> (Fingerprint, bool) {
        (self.shape.fingerprint, self.eks)
    }
}

impl PartialEq for FeasibleKey {
    fn eq(&self, other: &FeasibleKey) -> bool {
        self.content() == other.content()
    }
}

impl Eq for FeasibleKey {}

impl PartialOrd for FeasibleKey {
    fn partial_cmp(&self, other: &FeasibleKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FeasibleKey {
    fn cmp(&self, other: &FeasibleKey) -> Ordering {
        self.content().cmp(&other.content())
    }
}

impl Hash for FeasibleKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

/// The pools that admit a pod, in order. `None` if there may be too many.
pub(crate) type FeasiblePools = Option<Arc<[Arc<CandidatePool>]>>;

/// Deciding which pools admit a pod takes too many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySteps;

/// Which pools admit a pod.
pub(crate) struct Feasible;

impl Query for Feasible {
    const SLOT: QuerySlot = QuerySlot::Feasible;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Key = FeasibleKey;
    type Value = Result<FeasiblePools, TooManySteps>;

    fn compute(cluster: &Cluster, key: &FeasibleKey) -> Self::Value {
        // With this number of pools it is not known which pods belong to which.
        let Some(candidates) = candidates_for(cluster, &key.shape) else {
            return Ok(None);
        };
        let admits = Evaluation::new(cluster, key).admit(&candidates).ok_or(TooManySteps)?;
        let admitting = candidates.iter().zip(admits).filter(|(_, admits)| *admits);
        Ok(Some(admitting.map(|(pool, _)| Arc::clone(pool)).collect()))
    }
}

/// The pools to evaluate for a pod, in order. `None` if there are too many.
pub(super) fn candidates_for(cluster: &Cluster, shape: &PodShape) -> Option<Vec<Arc<CandidatePool>>> {
    // Nodes of other pools do not have the name or the label: `Requirements.Compatible` of Karpenter rejects them.
    let keys = if shape.by_name { pool_names(shape) } else { None };
    let Some(keys) = keys.or_else(|| custom_labels(shape)) else {
        let all = cluster.table::<CandidatePools>().get(&PoolKey::All);
        return (all.len() <= MAX_CANDIDATES).then(|| all.to_vec());
    };
    let table = cluster.table::<CandidatePools>();
    let mut pools: Vec<Arc<CandidatePool>> = Vec::new();
    for key in &keys {
        pools.extend(table.get(key).iter().cloned());
    }
    if keys.len() > 1 {
        pools.sort_by(Row::cmp_index_order);
        pools.dedup_by(|a, b| a == b);
    }
    (pools.len() <= MAX_CANDIDATES).then_some(pools)
}

/// The pools that a pod selects by name. `None` if one of its terms names none.
fn pool_names(shape: &PodShape) -> Option<Vec<PoolKey>> {
    let mut keys = Vec::new();
    for selected in &shape.alternatives {
        // A term that excludes names, or has none, allows any pool: terms are alternatives.
        let wanted = selected.get(NODEPOOL_LABEL).filter(|wanted| !wanted.complement)?;
        keys.extend(wanted.values.iter().cloned().map(PoolKey::Name));
    }
    Some(keys)
}

/// The table keys of the pools that can admit a pod which selects custom labels. `None` if one of its terms
/// selects none.
fn custom_labels(shape: &PodShape) -> Option<Vec<PoolKey>> {
    let mut keys = Vec::new();
    for selected in &shape.alternatives {
        // A term without a custom label allows any pool: terms are alternatives.
        let (key, wanted) = custom_label(selected)?;
        let label = |value: &String| PoolKey::Label(key.to_owned(), value.clone());
        keys.extend(wanted.values.iter().map(label));
        keys.push(PoolKey::AnyValue(key.to_owned()));
    }
    Some(keys)
}

/// A pod that is evaluated against pools.
pub(super) struct Evaluation<'a> {
    cluster: &'a Cluster,
    shape: &'a PodShape,
    options: SchedulerOptions,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(cluster: &'a Cluster, key: &'a FeasibleKey) -> Evaluation<'a> {
        let options = SchedulerOptions { eks: key.eks, ..SchedulerOptions::default() };
        Evaluation { cluster, shape: &key.shape, options }
    }

    /// The key of the verdict about a pool and the pod. The name of a pool decides only if the pod selects pools by name.
    fn key(&self, pool: &CandidatePool) -> AdmissionKey {
        let spec = if self.shape.by_name { pool.named_spec() } else { pool.spec };
        AdmissionKey { pool: spec, pod: self.shape.constraints, eks: self.options.eks }
    }

    /// For each pool, whether it admits the pod. `None` if one decision exceeds the step limit.
    pub(super) fn admit(&self, pools: &[Arc<CandidatePool>]) -> Option<Vec<bool>> {
        if pools.is_empty() {
            return Some(Vec::new());
        }
        // If the catalogue does not have the allocatable resources of the types, the scheduler decides about
        // each pool.
        let Some(room) = types_with_room(&pod_requests(&self.shape.pod)) else {
            return pools.iter().map(|pool| self.decide(pool)).collect();
        };
        let verdicts = self.verdicts(pools);
        let admits = pools.iter().zip(verdicts).map(|(pool, verdict)| match verdict {
            SuitedTypes::Nothing => Some(false),
            SuitedTypes::Types(types) => Some(!types.is_disjoint(&room)),
            SuitedTypes::AtMost(types) if types.is_disjoint(&room) => Some(false),
            SuitedTypes::AtMost(_) | SuitedTypes::Undecided => self.decide(pool),
        });
        admits.collect()
    }

    /// For each pool, its types that can take the pod. Pods that differ only in their amounts of resources
    /// share these verdicts, so that most pods cost only a lookup in the memo and an intersection of sets.
    fn verdicts(&self, pools: &[Arc<CandidatePool>]) -> Vec<SuitedTypes> {
        let keys: Vec<AdmissionKey> = pools.iter().map(|pool| self.key(pool)).collect();
        let memo = self.cluster.admissions();
        let mut fresh: HashMap<AdmissionKey, SuitedTypes> = HashMap::new();
        let known = memo.get(&keys);
        let verdicts = pools.iter().zip(keys).zip(known).map(|((pool, key), known)| {
            known.unwrap_or_else(|| fresh.entry(key).or_insert_with(|| self.suited_types(pool)).clone())
        });
        let verdicts = verdicts.collect();
        memo.insert(fresh);
        verdicts
    }

    /// The types of a pool that can take the pod. A verdict that exceeds the step limit is left to
    /// [`Evaluation::decide`].
    fn suited_types(&self, pool: &CandidatePool) -> SuitedTypes {
        // A taint or a label that excludes all pods of the shape does so on every type.
        if steps::limited(STEPS_PER_DECISION, || self.passes_prefilter(pool)).0 == Some(false) {
            return SuitedTypes::Nothing;
        }
        let Some(scheduler) = steps::limited(steps::SHARED, || pool.scheduler(&self.options)).0 else {
            return SuitedTypes::Undecided;
        };
        let suited = steps::limited(STEPS_PER_DECISION, || scheduler.suited_types(&self.shape.pod));
        suited.0.unwrap_or(SuitedTypes::Undecided)
    }

    #[cfg(test)]
    pub(super) fn is_known(&self, pool: &CandidatePool) -> bool {
        self.cluster.admissions().get(&[self.key(pool)])[0].is_some()
    }

    /// Whether a pool admits the pod, decided by the scheduler. `None` if it exceeds the step limit.
    pub(super) fn decide(&self, pool: &CandidatePool) -> Option<bool> {
        // If the prefilter excludes a pool, the scheduler rejects it at `RejectionStage::Taint` or
        // `RejectionStage::Label`.
        let passes = steps::limited(STEPS_PER_DECISION, || self.passes_prefilter(pool)).0?;
        if !passes {
            return Some(false);
        }
        let scheduler = steps::limited(steps::SHARED, || pool.scheduler(&self.options)).0?;
        steps::limited(STEPS_PER_DECISION, || scheduler.admits(&self.shape.pod)).0
    }

    /// Compares taints and labels, which is fast and excludes most pools. It admits more than the scheduler:
    /// every `PreferNoSchedule` taint counts as tolerated, as after the last relaxation.
    fn passes_prefilter(&self, pool: &CandidatePool) -> bool {
        let pod = &self.shape.pod;
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule"
                || (self.options.eks && is_requested(pod, &taint.key))
                || pod.tolerations.iter().any(|t: &Toleration| tolerates(t, taint))
        };
        let mut alternatives = self.shape.alternatives.iter();
        pool.pool.taints.iter().all(tolerated)
            && alternatives.any(|selected| pool.requirements.compatible(selected).is_ok())
    }
}

/// What is known of the nodes of pods beside those of the pools that are found for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// There are no others.
    Exact,
    /// Nodes of static pools, and of pools whose instance types are not known, may take the pods as well.
    OtherNodes,
    /// A pool that cannot be read may start nodes for the pods as well, or nodes that Karpenter does not start may take them.
    LowerBound,
}

/// The pools that may start nodes for the pods of a template, without those that may be of another cluster.
pub(crate) struct PoolsFor {
    pub(crate) pools: Arc<[Arc<CandidatePool>]>,
    certainty: Certainty,
    /// Whether pools were left out that may be of another cluster.
    has_apart: bool,
}

impl PoolsFor {
    /// The pools, if no other pool of the input may start nodes for the pods, and nothing else may.
    pub(crate) fn all_known(&self) -> Option<&[Arc<CandidatePool>]> {
        (!self.has_unreadable() && !self.has_apart).then_some(&*self.pools)
    }

    /// The pools, if no node of another pool of the input may take the pods.
    pub(crate) fn all_nodes(&self) -> Option<&[Arc<CandidatePool>]> {
        (self.certainty == Certainty::Exact && !self.has_apart).then_some(&*self.pools)
    }

    /// The first pool, if no nodes of static pools and of pools that are not fully known may take the pods before.
    pub(crate) fn first_sure(&self) -> Option<&Arc<CandidatePool>> {
        self.pools.first().filter(|_| self.certainty == Certainty::Exact)
    }

    /// Whether a pool that cannot be read may start nodes for the pods as well, or something else may.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.certainty == Certainty::LowerBound
    }
}

/// Which pools may start nodes for which pods, on one platform.
#[derive(Clone, Copy)]
pub(crate) struct Feasibility<'i> {
    pub(crate) cluster: &'i Cluster,
    pub(crate) eks: bool,
}

impl Feasibility<'_> {
    /// Whether a NodePool cannot be read, so that the pools found are a lower bound.
    pub(crate) fn has_unreadable_pools(&self) -> bool {
        self.cluster.table::<CandidatePools>().contains(&PoolKey::Unreadable)
    }

    /// Whether pods may also run on nodes of other pools: static pools, and pools whose instance types are
    /// not known.
    pub(crate) fn has_other_pools(&self) -> bool {
        let pools = self.cluster.table::<CandidatePools>();
        [PoolKey::Unreadable, PoolKey::Static, PoolKey::Uncatalogued].iter().any(|key| pools.contains(key))
    }

    /// Whether a pool restricts or sets a label that is not well known.
    pub(crate) fn declares(&self, label: &str) -> bool {
        self.cluster.table::<CandidatePools>().contains(&PoolKey::Declares(label.to_owned()))
    }

    /// The pools that a template selects by name, or by labels that are not well known, whether or not its pods fit
    /// there. `None` if it selects none in this way.
    pub(crate) fn pinned_pools_of(&self, template: &Template<'_>) -> Option<Vec<Arc<CandidatePool>>> {
        let shape = shape_of(template)?;
        let keys = if shape.by_name { pool_names(&shape) } else { None };
        let keys = keys.or_else(|| custom_labels(&shape))?;
        let table = self.cluster.table::<CandidatePools>();
        let pools = keys.iter().flat_map(|key| table.get(key));
        let selected = |pool: &&Arc<CandidatePool>| {
            shape.alternatives.iter().any(|wanted| pool.requirements.compatible(wanted).is_ok())
        };
        Some(pools.filter(selected).cloned().collect())
    }

    fn certainty(&self) -> Certainty {
        if self.has_unreadable_pools() {
            Certainty::LowerBound
        } else if self.has_other_pools() {
            Certainty::OtherNodes
        } else {
            Certainty::Exact
        }
    }

    /// The pools that may start nodes for the pods of a template and that are near, with what is known of others. `None` if
    /// this is not known. If it exceeds the step limit, the calling rule is cancelled.
    pub(crate) fn pools_for(
        &self,
        template: &Template<'_>,
        is_near: impl Fn(&Object) -> bool,
    ) -> Option<PoolsFor> {
        let mut pools = self.feasible_pools_of(template)?;
        // Nearly always all are near, and the result is shared.
        let has_apart = !pools.iter().all(|pool| is_near(pool.object()));
        if has_apart {
            pools = pools.iter().filter(|pool| is_near(pool.object())).cloned().collect();
        }
        let has_others = self.other_nodes_for(template, &is_near).is_some();
        let certainty = if has_others { Certainty::LowerBound } else { self.certainty() };
        Some(PoolsFor { pools, certainty, has_apart })
    }

    /// The pools that may start nodes for the pods of a template. `None` if this is not known. If it exceeds
    /// the step limit, the calling rule is cancelled.
    pub(crate) fn feasible_pools_of(&self, template: &Template<'_>) -> FeasiblePools {
        let shape = shape_of(template)?;
        match self.cluster.query::<Feasible>(&FeasibleKey { shape, eks: self.eks }) {
            // A flavor of Kueue may add the toleration that is missing.
            Ok(Some(pools)) if pools.is_empty() && is_queued(template) => None,
            Ok(pools) => pools,
            Err(TooManySteps) => steps::cut_short(),
        }
    }
}

/// Whether a container names the resource.
fn is_requested(pod: &Pod, resource: &str) -> bool {
    let mut containers = pod.containers.iter().chain(&pod.init_containers);
    containers.any(|c| c.requests.contains_key(resource) || c.limits.contains_key(resource))
}
