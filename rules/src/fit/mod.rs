//! Decides whether a pod fits: which NodePool of the input starts a node for it, why the others reject it,
//! and which changes would help.
//!
//! ```text
//! Cluster ─► Situation (pools with their classes, DaemonSets, overlays) ─► Scheduler
//!                                                                            │ decide, survey
//! workload ─► Pod ──────────────────────────────────────────────────────────►│
//!                                                                            ▼
//!                                            Explanation: verdict, pool by pool, obstacles, changes
//! ```
//!
//! [`crate::karpenter::scheduling`] makes the decision. This module reads its input from manifests and
//! translates its answers to fields and text.

mod ask;
mod capacity;
mod companions;
mod domains;
mod edits;
mod expressions;
mod known;
mod label_obstacles;
mod limits;
mod obstacles;
mod other_nodes;
mod pod;
mod pools;
mod read;
mod remedies;
mod settings;
mod standing;
mod surroundings;
mod words;

use std::sync::Arc;

use crate::catalog::{InstanceType, TypeSet, cheapest_first, retired};
use crate::cluster::Cluster;
use crate::cluster::placement::Feasibility;
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::Operator;
use crate::karpenter::scheduling::{
    Admission, DaemonSet, Outcome, Overlay, Pod, Pool, ResourceList, Scheduler, SchedulerOptions,
    Uncertainty, Verdict, pod_requests,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};
use serde_json::Value;

pub(crate) use ask::covers;
pub use ask::{Room, TaintAudience, admitted_by, audience_of};
pub(crate) use capacity::counts;
pub use capacity::{Capacity, Load, Misfit, Nodes, PoolLoad};
use known::Known;
pub(crate) use limits::BeyondLimits;
pub(crate) use obstacles::Proposes;
pub(crate) use other_nodes::{label_of_other_nodes, required_labels};
pub(crate) use pools::{keepers_on, starts_nodes};
use read::RuntimeClasses;
pub(crate) use read::{class_object, class_of_claim, has_built_in_pools, objects};
pub(crate) use settings::min_values_policy;
pub(crate) use standing::BeyondStandingNodes;

pub use crate::facts::quantity::amount;
pub use pools::{Ceiling, GpuModel, Keeper, Offer, PoolOverview, PoolSummary, Tenant, gpu_name, gpus_of};
pub use read::shown_name;
pub(crate) use surroundings::VOLUME_KINDS;
pub use words::{uncertainty_code, uncertainty_text};

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Place {
    pub object: Object,
    pub pointer: Pointer,
    /// What the field contains, such as "this taint".
    pub text: String,
}

impl Place {
    fn new(object: &Object, node: &Node<'_>, text: impl Into<String>) -> Place {
        Place { object: object.clone(), pointer: node.pointer(), text: text.into() }
    }
}

/// The object whose manifest a change edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Pod,
    Pool,
    /// Another object, such as a DaemonSet.
    Other,
}

impl Side {
    /// `pod`, `pool` or `other`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Pod => "pod",
            Side::Pool => "pool",
            Side::Other => "other",
        }
    }
}

/// A change that is enough to remove an obstacle.
#[derive(Clone, Debug)]
pub struct Change {
    /// The object whose manifest it edits.
    pub side: Side,
    /// The field that it edits.
    pub place: Place,
    /// What to write, such as "tolerate `a=b:NoSchedule`".
    pub text: String,
    /// That as an edit of one value, where it is one and the pool certainly admits the pod after it.
    pub edit: Option<ValueEdit>,
}

/// An edit of one value of the object of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueEdit {
    /// Replaces a scalar.
    Set(Pointer, Value),
    /// Adds an entry to a list.
    Append(Pointer, Value),
}

/// The step of Karpenter's decision at which a pool rejects a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The pool is not ready, so Karpenter does not ask it.
    NotReady,
    Static,
    Invalid,
    NoTypes,
    /// The key of the taint.
    Taint(String),
    /// The key, in the spelling of its current name.
    Label(String),
    NodesLimit,
    Limit,
    Volumes,
    Topology,
    Types,
    HostPort,
    /// The resources of which no instance type has enough.
    Resources(Vec<String>),
    MinValues,
}

impl Stage {
    /// The name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Stage::NotReady => "not-ready",
            Stage::Static => "static",
            Stage::Invalid => "invalid",
            Stage::NoTypes => "no-types",
            Stage::Taint(_) => "taint",
            Stage::Label(_) => "label",
            Stage::NodesLimit => "nodes-limit",
            Stage::Limit => "limit",
            Stage::Volumes => "volumes",
            Stage::Topology => "topology",
            Stage::Types => "types",
            Stage::HostPort => "host-port",
            Stage::Resources(_) => "resources",
            Stage::MinValues => "min-values",
        }
    }
}

/// One reason why a pool rejects a pod.
#[derive(Clone, Debug)]
pub struct Obstacle {
    pub stage: Stage,
    pub reason: String,
    /// The fields that contradict each other.
    pub places: Vec<Place>,
    /// Alternative changes, each of which removes the obstacle.
    pub changes: Vec<Change>,
}

/// The answer of one pool about a pod.
#[derive(Clone, Debug)]
pub struct PoolReport {
    pub object: Object,
    /// Its weight, 0 if absent.
    pub weight: i64,
    /// Whether the pod selects it by its name.
    pub is_named: bool,
    pub answer: Answer,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Admits {
        /// The types, cheapest first by list price, without those that EC2 no longer offers.
        types: Vec<&'static InstanceType>,
        /// The capacity types in the order in which Karpenter prefers them.
        capacity_types: Vec<&'static str>,
        /// The number of alternatives and preferences of the pod that Karpenter has to drop.
        relaxations: usize,
    },
    Rejects {
        /// The obstacles, in the order of Karpenter's decision.
        obstacles: Vec<Obstacle>,
        /// Whether the pool admits the pod once all obstacles are removed.
        reachable: bool,
    },
    /// The answer depends on something that is not in the input.
    Undecided(Vec<Uncertainty>),
}

impl PoolReport {
    /// `fits`, `does-not-fit` or `unknown`.
    pub fn verdict(&self) -> &'static str {
        match &self.answer {
            Answer::Admits { .. } => "fits",
            Answer::Rejects { .. } => "does-not-fit",
            Answer::Undecided(_) => "unknown",
        }
    }

    /// The number of changes after which the pool admits the pod; `None` if no change of the pod is enough.
    pub fn distance(&self) -> Option<usize> {
        match &self.answer {
            Answer::Admits { .. } | Answer::Undecided(_) => Some(0),
            Answer::Rejects { obstacles, reachable } => reachable.then_some(obstacles.len()),
        }
    }

    /// Whether a change is proposed for each obstacle.
    fn has_way_out(&self) -> bool {
        match &self.answer {
            Answer::Admits { .. } | Answer::Undecided(_) => true,
            Answer::Rejects { obstacles, .. } => obstacles.iter().all(|one| !one.changes.is_empty()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitVerdict {
    /// At least one pool admits it.
    Fits,
    /// No pool admits it, even if everything unknown is assumed to allow it.
    DoesNotFit,
    /// The verdict depends on something that is not in the input.
    Unknown,
}

impl FitVerdict {
    /// `fits`, `does-not-fit` or `unknown`.
    pub fn name(self) -> &'static str {
        match self {
            FitVerdict::Fits => "fits",
            FitVerdict::DoesNotFit => "does-not-fit",
            FitVerdict::Unknown => "unknown",
        }
    }
}

/// Why Karpenter does not consider a pod.
#[derive(Clone, Debug)]
pub struct Ignored {
    /// A short name, such as `restricted-key`.
    pub code: &'static str,
    /// The reason, as a sentence.
    pub text: String,
    /// The field that is the reason.
    pub place: Option<Place>,
}

/// The placement of the pods of one template of a workload.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub spec: Pointer,
    pub verdict: FitVerdict,
    /// The position in `pools` of the first pool that admits the pod.
    pub first: Option<usize>,
    /// The answer of each pool, in the order in which Karpenter tries them. Pools that do not start nodes for
    /// pods come last.
    pub pools: Vec<PoolReport>,
    /// Why Karpenter does not consider the pod.
    pub ignored: Option<Ignored>,
    /// The uncertainties of the verdict and of the first pool.
    pub uncertainties: Vec<Uncertainty>,
    /// The resources that the pod requests, in thousandths.
    pub requests: ResourceList,
    /// Whether the pod would fit if nodes had all the memory that EC2 specifies.
    pub within_memory_estimate: bool,
}

impl Explanation {
    /// The report of the first pool that admits the pod.
    pub fn first_pool(&self) -> Option<&PoolReport> {
        self.first.and_then(|at| self.pools.get(at))
    }

    /// The positions of the pools: the first choice, the others that admit the pod, those that may admit it,
    /// and the others by the number of changes, the one that the pod names before, and those for which no change is known last.
    pub fn nearest(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pools.len()).collect();
        let rank = |at: usize| {
            let pool = &self.pools[at];
            let group = match &pool.answer {
                Answer::Admits { .. } => u8::from(self.first != Some(at)),
                Answer::Undecided(_) => 2,
                Answer::Rejects { .. } => 3,
            };
            (group, !pool.is_named, !pool.has_way_out(), pool.distance().unwrap_or(usize::MAX))
        };
        order.sort_by_key(|at| rank(*at));
        order
    }
}

/// The pool that needs the fewest changes to admit a pod.
pub(crate) struct NearestMiss {
    pub(crate) pool: Object,
    /// Why the pool rejects the pod; never empty.
    pub(crate) obstacles: Vec<Obstacle>,
    /// Whether the pool admits the pod once all obstacles are removed.
    reachable: bool,
    /// Whether a pool admits the pod once Karpenter has seen how much memory a node of the type really has.
    pub(crate) within_memory_estimate: bool,
}

/// The pools whose reasons to reject a pod are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// All pools.
    All,
    /// If no pool admits the pod, the given number of nearest misses; otherwise none.
    Nearest(usize),
}

impl Told {
    /// For each pool of a survey, whether it is reported.
    fn of(self, survey: &[(usize, Outcome)]) -> Vec<bool> {
        let Told::Nearest(most) = self else {
            return vec![true; survey.len()];
        };
        let mut told = Vec::with_capacity(survey.len());
        let mut rejected: Vec<(usize, u8)> = Vec::new();
        let mut fits = false;
        for (at, (_, outcome)) in survey.iter().enumerate() {
            match outcome {
                Outcome::Rejects(stage) => rejected.push((at, stage.depth())),
                Outcome::Admits(_) => fits = true,
                Outcome::Undecided(_) => {}
            }
            told.push(!matches!(outcome, Outcome::Rejects(_)));
        }
        rejected.sort_by_key(|(_, depth)| std::cmp::Reverse(*depth));
        for (at, _) in rejected.into_iter().take(if fits { 0 } else { most }) {
            told[at] = true;
        }
        told
    }
}

/// Maximum number of pools that are compared in detail to find the nearest miss.
const MOST_COMPARED: usize = 6;
/// Maximum number of pools for which changes are looked for, to find the nearest.
const MOST_PROPOSED: usize = 3;

/// The objects around a pod that decide its placement.
pub struct Situation<'c> {
    cluster: &'c Cluster,
    pools: Vec<Pool>,
    /// The NodePool of each entry of `pools`.
    objects: Vec<Object>,
    left_out: Vec<(Object, String)>,
    daemonsets: Vec<DaemonSet>,
    daemonset_objects: Vec<Object>,
    overlays: Vec<Overlay>,
    /// Whether Karpenter applies overlays, if known.
    overlays_on: Option<bool>,
    runtime_classes: RuntimeClasses,
    unreadable_daemonsets: Vec<String>,
    options: SchedulerOptions,
    known: Arc<Known>,
}

impl<'c> Situation<'c> {
    /// The situation in a cluster. If several objects of the input have the same identity, the one nearest to
    /// `near` is used.
    pub fn read(cluster: &'c Cluster, platform: &Platform, near: Option<&Object>) -> Situation<'c> {
        let pools = read::objects(cluster, Kind::NODE_POOL, near);
        let daemonsets = read::objects(cluster, Kind::DAEMON_SET, near);
        Situation::around(cluster, platform, near, (pools, daemonsets))
    }

    /// The situation of the given pools and DaemonSets.
    pub(crate) fn around(
        cluster: &'c Cluster,
        platform: &Platform,
        near: Option<&Object>,
        (pools, daemonsets): (Vec<Object>, Vec<Object>),
    ) -> Situation<'c> {
        let mut situation =
            Situation::of_pools(cluster, platform, Vec::new(), read::runtime_classes(cluster, near));
        for object in pools {
            match read::left_out(&object, cluster, platform) {
                Some(reason) => situation.left_out.push((object, reason)),
                None => {
                    situation.pools.push(read::pool(&object, cluster, platform));
                    situation.objects.push(object);
                }
            }
        }
        situation.add_built_in_pools(cluster, platform);
        for object in daemonsets {
            match read::daemonset(&object, &situation.runtime_classes, cluster) {
                Ok(daemonset) => {
                    situation.daemonsets.push(daemonset);
                    situation.daemonset_objects.push(object);
                }
                Err(name) => situation.unreadable_daemonsets.push(name),
            }
        }
        let overlays = read::objects(cluster, Kind::NODE_OVERLAY, near);
        situation.overlays = overlays.iter().filter_map(read::overlay).collect();
        if !situation.overlays.is_empty() {
            situation.overlays_on = settings::gate("NodeOverlay", platform, cluster);
        }
        let options = settings::options(platform, cluster, &situation.pools);
        situation.options = SchedulerOptions { listed_spot: true, ..options };
        situation
    }

    /// Adds the NodePools that a cluster of EKS Auto Mode has beside those of the input.
    fn add_built_in_pools(&mut self, cluster: &Cluster, platform: &Platform) {
        let pools = read::built_in_pools(cluster, platform);
        let (pools, objects): (Vec<Pool>, Vec<Object>) = pools.into_iter().unzip();
        self.pools.extend(pools);
        self.objects.extend(objects);
    }

    fn of_pools(
        cluster: &'c Cluster,
        platform: &Platform,
        pools: Vec<Object>,
        runtime_classes: RuntimeClasses,
    ) -> Situation<'c> {
        let objects = pools;
        let pools: Vec<Pool> = objects.iter().map(|object| read::pool(object, cluster, platform)).collect();
        let options = settings::options(platform, cluster, &pools);
        Situation {
            cluster,
            pools,
            objects,
            left_out: Vec::new(),
            daemonsets: Vec::new(),
            daemonset_objects: Vec::new(),
            overlays: Vec::new(),
            overlays_on: None,
            runtime_classes,
            unreadable_daemonsets: Vec::new(),
            options,
            known: Arc::default(),
        }
    }

    /// Whether a pod fits one of the pools, or may.
    pub(crate) fn may_admit(&self, template: &Template<'_>) -> bool {
        self.pod(template).is_none_or(|pod| !matches!(self.scheduler().decide(&pod), Verdict::DoesNotFit(_)))
    }

    /// The pool that a pod certainly fits, the first one tried. Of EKS Auto Mode, a built-in pool may come before it.
    pub(crate) fn sure_pool_of(&self, template: &Template<'_>) -> Option<&Object> {
        let pod = self.pod(template).filter(|_| self.unreadable_daemonsets.is_empty())?;
        let Verdict::Fits { pool, uncertainties, .. } = self.decide(&self.scheduler(), &pod) else {
            return None;
        };
        let is_auto_mode = self.pools[pool].provider() == Provider::AutoMode;
        let is_harmless = |one: &Uncertainty| {
            ask::is_harmless(one) || is_auto_mode && matches!(one, Uncertainty::BuiltInPool(_))
        };
        if uncertainties.iter().all(is_harmless) { self.objects.get(pool) } else { None }
    }

    /// The pool with the fewest obstacles for a pod, and their changes where these are asked for. `None` if the pod fits a pool, if that
    /// is not known, or if Karpenter does not consider the pod.
    pub(crate) fn nearest_miss(
        &self,
        workload: &Object,
        template: &Template<'_>,
        proposes: Proposes,
    ) -> Option<NearestMiss> {
        let pod = self.pod(template)?;
        let scheduler = self.scheduler();
        let Verdict::DoesNotFit(why) = self.decide(&scheduler, &pod) else { return None };
        if why.ignored.is_some() {
            return None;
        }
        let within_memory_estimate = why.within_memory_estimate;
        let mut rejected: Vec<(usize, u8)> = Vec::new();
        let is_named = |position: usize| names_pool(&pod, self.objects[position].name());
        for (position, outcome) in self.survey(&scheduler, &pod).iter() {
            let position = *position;
            match outcome {
                // A pool that nobody can edit is no way out of what others lack.
                Outcome::Rejects(_) if self.pools[position].is_built_in && !is_named(position) => {}
                Outcome::Rejects(stage) => rejected.push((position, stage.depth())),
                Outcome::Admits(_) | Outcome::Undecided(_) => return None,
            }
        }
        rejected.sort_by_key(|(position, depth)| (!is_named(*position), std::cmp::Reverse(*depth)));
        // A pool that takes no pods at all says nothing about this one, and has a rule of its own. That a static pool has no nodes
        // is what keeps the pods out.
        let has_rule =
            |position: usize| self.pools[position].replicas.is_none() || !self.options.standing_nodes;
        let compared = rejected
            .into_iter()
            .filter(|(position, depth)| *depth > 0 || !has_rule(*position))
            .take(MOST_COMPARED);
        let of_pool =
            |position: usize, proposes| match self.obstacles(position, workload, template, &pod, proposes) {
                Answer::Rejects { obstacles, reachable } => {
                    let pool = self.objects[position].clone();
                    Some(NearestMiss { pool, obstacles, reachable, within_memory_estimate })
                }
                _ => None,
            };
        let mut misses = Vec::new();
        for (position, _) in compared {
            misses.push((position, of_pool(position, Proposes::Nothing)?));
        }
        let rank = |(position, miss): &(usize, NearestMiss)| {
            (!is_named(*position), !miss.reachable, miss.obstacles.len())
        };
        if proposes == Proposes::Nothing {
            return misses.into_iter().min_by_key(rank).map(|(_, miss)| miss);
        }
        // What a change for one obstacle does to the next ones decides which pool is nearest, and is known only of those with changes.
        misses.sort_by_key(rank);
        let nearest: Vec<usize> = misses.iter().take(MOST_PROPOSED).map(|(position, _)| *position).collect();
        let with_changes = |position: usize| Some((position, of_pool(position, proposes)?));
        let proposed: Option<Vec<_>> = nearest.into_iter().map(with_changes).collect();
        proposed?.into_iter().min_by_key(rank).map(|(_, miss)| miss)
    }

    /// The situation with only the named pool. `None` if there is no such pool.
    pub fn only(mut self, name: &str) -> Option<Situation<'c>> {
        let keep: Vec<bool> = self.objects.iter().map(|object| object.name() == name).collect();
        let mut flags = keep.iter();
        self.pools.retain(|_| flags.next() == Some(&true));
        let mut flags = keep.iter();
        self.objects.retain(|_| flags.next() == Some(&true));
        self.left_out.retain(|(object, _)| object.name() == name);
        self.known = Arc::default();
        (!self.is_empty()).then_some(self)
    }

    /// Whether there are no pools.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.left_out.is_empty()
    }

    /// Whether the cluster has a pool of that name, or EKS Auto Mode brings one.
    fn has_pool(&self, name: &str) -> bool {
        self.cluster.of(Kind::NODE_POOL).chain(&self.objects).any(|pool| pool.name() == name)
    }

    pub fn pool_names(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().chain(self.left_out.iter().map(|(object, _)| object)).map(Object::name)
    }

    pub fn scheduler(&self) -> Scheduler<'_> {
        let scheduler = Scheduler::new(&self.pools, &self.daemonsets, &self.options);
        match self.overlays_on {
            Some(true) => scheduler.with_overlays(&self.overlays),
            Some(false) => scheduler,
            None => scheduler.or_with_overlays(&self.overlays),
        }
    }

    /// The placement of the pods of each template of a workload.
    pub fn explain(&self, workload: &Object) -> Vec<Explanation> {
        let scheduler = self.scheduler();
        templates(workload)
            .iter()
            .map(|template| self.explain_template(&scheduler, workload, template, Told::All))
            .collect()
    }

    fn explain_template(
        &self,
        scheduler: &Scheduler<'_>,
        workload: &Object,
        template: &Template<'_>,
        told: Told,
    ) -> Explanation {
        let mut explanation = Explanation {
            spec: template.spec.pointer(),
            verdict: FitVerdict::Unknown,
            first: None,
            pools: Vec::new(),
            ignored: ignored(workload, template),
            uncertainties: Vec::new(),
            requests: ResourceList::new(),
            within_memory_estimate: false,
        };
        let Some(pod) = self.pod(template) else {
            explanation.uncertainties.push(Uncertainty::UnreadablePod);
            return explanation;
        };
        explanation.requests = pod_requests(&pod);
        self.judge(scheduler, &pod, &mut explanation);
        if explanation.verdict == FitVerdict::DoesNotFit && explanation.ignored.is_none() {
            explanation.ignored = self.for_other_nodes(workload, template);
            if explanation.ignored.is_some() {
                return explanation;
            }
        }
        self.describe(scheduler, workload, (template, &pod), told, &mut explanation);
        if explanation.ignored.is_some() {
            explanation.verdict = FitVerdict::DoesNotFit;
            explanation.first = None;
        }
        explanation
    }

    /// That the pods of a template are for nodes which Karpenter does not start, or fit some.
    fn for_other_nodes(&self, workload: &Object, template: &Template<'_>) -> Option<Ignored> {
        let (text, place) = if let Some((key, node)) = label_of_other_nodes(template) {
            let text =
                format!("the pod is for the nodes of a node group (`{key}`), of which Karpenter starts none");
            (text, Place::new(workload, &node, "this label"))
        } else {
            let feasibility = Feasibility { cluster: self.cluster, eks: self.options.eks };
            let is_near = |object: &Object| self.cluster.pairs(workload, object);
            let others = feasibility.other_nodes_for(template, is_near)?;
            let (object, node) = others.place();
            let text = format!("the pod may run on {}, which Karpenter does not start", others.title);
            (text, Place::new(object, &node, "these nodes"))
        };
        Some(Ignored { code: "other-nodes", text, place: Some(place) })
    }

    /// Sets verdict, first pool and uncertainties. `first` is then a position in the given pools.
    fn judge(&self, scheduler: &Scheduler<'_>, pod: &Pod, explanation: &mut Explanation) {
        match self.decide(scheduler, pod) {
            Verdict::Fits { pool, uncertainties, types } => {
                explanation.verdict = FitVerdict::Fits;
                explanation.first = Some(pool);
                explanation.uncertainties = uncertainties;
                if types.is_subset(retired()) {
                    explanation.uncertainties.push(Uncertainty::Retired);
                }
                let unreadable = self.unreadable_daemonsets.iter().cloned();
                explanation.uncertainties.extend(unreadable.map(Uncertainty::UnreadableDaemonSet));
            }
            Verdict::Unknown { uncertainties } => {
                explanation.verdict = FitVerdict::Unknown;
                explanation.uncertainties = uncertainties;
            }
            Verdict::DoesNotFit(why) => {
                explanation.verdict = FitVerdict::DoesNotFit;
                explanation.within_memory_estimate = why.within_memory_estimate;
                if why.within_memory_estimate {
                    explanation.verdict = FitVerdict::Unknown;
                    explanation.uncertainties.push(Uncertainty::MemoryEstimate);
                }
                if let Some(reason) = why.ignored {
                    explanation.ignored.get_or_insert_with(|| words::ignored(&reason));
                }
            }
        }
    }

    /// Adds the answer of each pool.
    fn describe(
        &self,
        scheduler: &Scheduler<'_>,
        workload: &Object,
        (template, pod): (&Template<'_>, &Pod),
        told: Told,
        explanation: &mut Explanation,
    ) {
        let chosen = explanation.first.take();
        let survey = self.survey(scheduler, pod);
        let told = told.of(&survey);
        for ((position, outcome), told) in survey.iter().cloned().zip(told) {
            let is_aside =
                self.pools[position].is_built_in && !names_pool(pod, self.objects[position].name());
            if !told || is_aside && matches!(outcome, Outcome::Rejects(_)) {
                continue;
            }
            if chosen == Some(position) {
                explanation.first = Some(explanation.pools.len());
            }
            let answer = match outcome {
                Outcome::Admits(Admission { types, capacity_types, relaxations }) => {
                    let types = offered(&types, self.options.region.as_deref());
                    Answer::Admits { types, capacity_types, relaxations }
                }
                Outcome::Undecided(uncertainties) => Answer::Undecided(uncertainties),
                Outcome::Rejects(_) => self.obstacles(position, workload, template, pod, Proposes::Changes),
            };
            let weight = self.pools[position].weight.unwrap_or(0);
            let object = self.objects[position].clone();
            let is_named = names_pool(pod, object.name());
            explanation.pools.push(PoolReport { object, weight, is_named, answer });
        }
        for (object, reason) in &self.left_out {
            let place = Place::new(object, &object.path(&["metadata", "name"]), "this NodePool");
            let obstacle = Obstacle {
                stage: Stage::NotReady,
                reason: reason.clone(),
                places: vec![place],
                changes: Vec::new(),
            };
            let weight = object.path(&["spec", "weight"]).int().unwrap_or(0);
            let answer = Answer::Rejects { obstacles: vec![obstacle], reachable: false };
            let is_named = names_pool(pod, object.name());
            explanation.pools.push(PoolReport { object: object.clone(), weight, is_named, answer });
        }
    }
}

/// Whether a pod asks for the nodes of a pool by its name.
fn names_pool(pod: &Pod, name: &str) -> bool {
    let mut expressions = pod.terms.iter().flat_map(|term| &term.expressions);
    pod.node_selector.iter().any(|(key, value)| key == NODEPOOL_LABEL && value == name)
        || expressions.any(|one| {
            one.key == NODEPOOL_LABEL
                && one.op == Operator::In
                && one.values.iter().any(|value| value == name)
        })
}

/// The types that EC2 still offers, cheapest first. If it offers none of them, all types.
fn offered(types: &TypeSet, region: Option<&str>) -> Vec<&'static InstanceType> {
    cheapest_first(types.offered().iter(), region)
}

/// Why Karpenter does not consider the pods of an object, independent of their requests.
fn ignored(workload: &Object, template: &Template<'_>) -> Option<Ignored> {
    let because = |code, text: &str, node: &Node<'_>, there: &str| {
        let place = Some(Place::new(workload, node, there));
        Some(Ignored { code, text: text.to_owned(), place })
    };
    if workload.is(Kind::DAEMON_SET) {
        let text =
            "Karpenter starts no node for the pods of a DaemonSet: they run on the nodes that are there";
        return because("daemonset", text, &workload.get("kind"), "this kind");
    }
    let is_left = |owner: &Node<'_>| matches!(owner.get("kind").text(), Some("DaemonSet" | "Node"));
    if let Some(owner) = workload.owners().find(is_left) {
        let text = "Karpenter starts no node for a pod of a DaemonSet or of a Node";
        return because("daemonset", text, &owner, "this owner");
    }
    let spec = &template.spec;
    if spec.get("nodeName").is_set() {
        let text = "the pod names its node: no scheduler looks at it";
        return because("bound", text, &spec.get("nodeName"), "this node");
    }
    let gates = spec.get("schedulingGates");
    if gates.items().next().is_some() {
        let text = "the pod has scheduling gates: Karpenter looks at it when they are removed";
        return because("gated", text, &gates, "these gates");
    }
    None
}

/// The workloads of a cluster that have pods.
pub fn workloads(cluster: &Cluster) -> impl Iterator<Item = &Object> {
    WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)).filter(|object| !templates(object).is_empty())
}
