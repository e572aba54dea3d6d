//! Whether all pods of a cluster fit together, at minimum and at maximum replicas, with the nodes and their
//! price.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::catalog::{HOSTNAME, InstanceType};
use crate::cluster::Cluster;
use crate::fit::domains::{Bound, DomainLimit, whole};
use crate::fit::pools::{GPUS, scheduled_templates, starts_nodes};
use crate::fit::{FitVerdict, Place, Situation, amount, gpus_of, workloads};
use crate::karpenter::pod::{affinity_terms, rules_of};
use crate::karpenter::scheduling::{
    DomainRule, FullPool, HostRule, NodeGroup, Outcome, Packing, Pod, PodGroup, Pool, Reservations,
    Scheduler, Selected, TopologyKind, Uncertainty, Verdict,
};
use crate::keda::{max_replicas, min_replicas};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::devices::{pods_of, pods_of_groups};
use crate::workload::ray::{Extent, pods_of_template};
use crate::workload::selector::matches;
use crate::workload::suspended::is_suspended;
use crate::workload::template::{Template, templates, workload_kind};

/// The capacity that all pods of a cluster need.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// The load at minimum replicas: `replicas`, or the minimum of the autoscaler.
    pub floor: Load,
    /// The load at maximum replicas: `replicas`, or the maximum of the autoscaler.
    pub ceiling: Load,
}

#[derive(Clone, Debug)]
pub struct Load {
    /// Whether all pods fit.
    pub verdict: FitVerdict,
    /// The number of pods, without those whose placement is not known.
    pub pods: u64,
    pub nodes: Vec<Nodes>,
    /// The pools that start nodes, and how much of their limits they use.
    pub pools: Vec<PoolLoad>,
    /// The list price of all nodes, in millionths of a dollar per hour. `None` if a type has no price.
    pub micro_dollars: Option<i128>,
    /// The pods that do not fit.
    pub misfits: Vec<Misfit>,
    /// The workloads whose placement is not known, with the number of their pods.
    pub unknown: Vec<(Object, Option<u64>, Vec<Uncertainty>)>,
    /// Assumptions about workloads that are counted.
    pub notes: Vec<(Object, Vec<Uncertainty>)>,
}

#[derive(Clone, Debug)]
pub struct Nodes {
    pub pool: Object,
    /// The cheapest type by list price that the pods fit on.
    pub instance: &'static InstanceType,
    /// The capacity types in the order in which Karpenter prefers them.
    pub capacity_types: Vec<&'static str>,
    pub nodes: u64,
    pub pods: u64,
    /// The list price of all nodes, in millionths of a dollar per hour.
    pub micro_dollars: Option<i128>,
}

#[derive(Clone, Debug)]
pub struct PoolLoad {
    pub pool: Object,
    pub nodes: u64,
    /// The number of GPUs and other accelerators.
    pub gpus: u64,
    /// The limit on GPUs and other accelerators, if there is one.
    pub gpu_limit: Option<i128>,
}

/// Pods that do not fit.
#[derive(Clone, Debug)]
pub struct Misfit {
    pub workload: Object,
    pub pods: u64,
    /// The number of all pods of the workload.
    pub of: u64,
    /// Why they do not fit.
    pub reason: String,
    /// The fields with the limits that are reached.
    pub places: Vec<Place>,
}

/// The pool, type and capacity types of nodes.
type NodeKind = (usize, &'static str, Vec<&'static str>);

/// The pods of a template, with their placement.
struct Demand<'c> {
    workload: &'c Object,
    template: Template<'c>,
    /// The minimum and maximum number of pods. `None` if not known.
    counts: Option<(u64, u64)>,
    pod: Option<Pod>,
    verdict: Verdict,
    /// The most pods that rules about other pods allow in all.
    bound: Option<Bound>,
    /// The labels of its rules of spread and pod affinity, beside the host name, whose values on nodes are known.
    known: BTreeSet<String>,
    /// The demands whose pods it joins by pod affinity, its own perhaps. [`None`] if these are not known.
    joins: Option<Vec<usize>>,
    /// Whether pods may get nodes of capacity reservations, which take no other pods than those that fit on their types: how many
    /// instances these have left is not known.
    is_reserved: bool,
}

/// The most pods of a workload that are placed one by one, as rules about other pods want it.
const MOST_ONE_BY_ONE: u64 = 1000;

impl Demand<'_> {
    /// The number of pods that rules about other pods allow, given how many there are to be.
    fn allowed(&self, count: u64) -> u64 {
        match self.limit() {
            Some(limit) if !self.known.contains(&limit.key) => count.min(limit.most),
            _ => count,
        }
    }

    fn limit(&self) -> Option<&DomainLimit> {
        match &self.bound {
            Some(Bound::Most(limit)) => Some(limit),
            Some(Bound::Unknown) | None => None,
        }
    }
}

impl Load {
    /// Adds all demands. Those that are to be packed: where pods are that others join has to be known, and pods that fit nowhere may
    /// keep others off.
    fn add_all<'d>(&mut self, demands: &'d [Demand<'d>], of: fn((u64, u64)) -> u64) -> Vec<&'d Demand<'d>> {
        let mut packed = Vec::new();
        let mut lost = vec![false; demands.len()];
        for (at, demand) in demands.iter().enumerate() {
            let unknown = self.unknown.len();
            if self.add(demand, demand.counts.map(of)) {
                packed.push(at);
            }
            lost[at] = self.unknown.len() > unknown;
        }
        let joins_lost =
            |at: &usize, lost: &[bool]| demands[*at].joins.iter().flatten().any(|one| lost[*one]);
        while let Some(position) = packed.iter().position(|at| joins_lost(at, &lost)) {
            let at = packed.remove(position);
            lost[at] = true;
            let count = demands[at].counts.map(of);
            self.pods = self.pods.saturating_sub(count.unwrap_or(0));
            self.unknown.push((demands[at].workload.clone(), count, vec![Uncertainty::PodAffinity]));
        }
        packed.into_iter().map(|at| &demands[at]).collect()
    }

    /// Adds a number of pods as far as the verdict about one tells. Whether they are to be packed.
    fn add(&mut self, demand: &Demand<'_>, count: Option<u64>) -> bool {
        if count == Some(0) {
            return false;
        }
        let workload = demand.workload.clone();
        match (&demand.verdict, count) {
            (Verdict::DoesNotFit(why), count) if !why.within_memory_estimate => {
                // If the number of pods is not known, any pods that exist do not fit either.
                let Some(pods) = count else {
                    self.unknown.push((workload, None, vec![Uncertainty::Replicas]));
                    return false;
                };
                self.pods += pods;
                let reason = "no NodePool admits such a pod".to_owned();
                self.misfits.push(Misfit { workload, pods, of: pods, reason, places: Vec::new() });
                !demand.known.is_empty()
            }
            (Verdict::Fits { uncertainties, .. }, Some(count)) => {
                self.add_fitting(demand, count, uncertainties)
            }
            (verdict, count) => {
                let mut why = match verdict {
                    Verdict::Unknown { uncertainties } => uncertainties.clone(),
                    Verdict::DoesNotFit(_) => vec![Uncertainty::MemoryEstimate],
                    Verdict::Fits { .. } => Vec::new(),
                };
                if count.is_none() {
                    why.push(Uncertainty::Replicas);
                }
                self.unknown.push((workload, count, why));
                false
            }
        }
    }

    fn add_fitting(&mut self, demand: &Demand<'_>, count: u64, uncertainties: &[Uncertainty]) -> bool {
        let workload = demand.workload.clone();
        let (unknown, mut notes) = neighbours(demand, count);
        if count > 1 && demand.is_reserved {
            notes.push(Uncertainty::Reservations);
        }
        if !unknown.is_empty() {
            self.unknown.push((workload, Some(count), unknown));
            return false;
        }
        let notes: Vec<Uncertainty> = uncertainties.iter().cloned().chain(notes).collect();
        if !notes.is_empty() {
            self.notes.push((workload.clone(), notes));
        }
        self.pods += count;
        let allowed = demand.allowed(count);
        if let Some(limit) = demand.limit().filter(|_| allowed < count) {
            let (reason, place) = apart(&workload, limit);
            self.misfits.push(Misfit {
                workload,
                pods: count - allowed,
                of: count,
                reason,
                places: vec![place],
            });
        }
        true
    }
}

/// That pods keep apart over fewer values than there are pods.
fn apart(workload: &Object, limit: &DomainLimit) -> (String, Place) {
    let reason = format!("its pods keep apart by `{}`, which allows {} of them", limit.key, limit.most);
    let (object, pointer) = (workload.clone(), limit.rule.clone());
    (reason, Place { object, pointer, text: "this rule".to_owned() })
}

impl Situation<'_> {
    /// The capacity that all pods of a cluster need, at minimum and at maximum replicas.
    pub fn capacity(&self, cluster: &Cluster) -> Capacity {
        let scheduler = self.scheduler();
        let demands = self.demands(&scheduler, cluster);
        let is_fixed = |demand: &Demand<'_>| demand.counts.is_none_or(|(floor, ceiling)| floor == ceiling);
        let load = |of| self.load(&scheduler, &demands, of);
        if demands.iter().all(is_fixed) {
            let floor = load(|(floor, _)| floor);
            return Capacity { ceiling: floor.clone(), floor };
        }
        let (floor, ceiling) = rayon::join(|| load(|(floor, _)| floor), || load(|(_, ceiling)| ceiling));
        Capacity { floor, ceiling }
    }

    fn demands<'c>(&self, scheduler: &Scheduler<'_>, cluster: &'c Cluster) -> Vec<Demand<'c>> {
        let mut objects: Vec<&Object> =
            workloads(cluster).filter(|workload| starts_nodes(workload)).collect();
        let identity = |workload: &Object| {
            let id = workload.id();
            (id.namespace_or_default().to_owned(), id.name.clone(), id.kind.clone(), id.group.clone())
        };
        objects.sort_by_cached_key(|workload| identity(workload));
        // Only one of several objects with the same identity is applied.
        let named = |object: &Object| {
            let name = object.path(&["metadata", "name"]);
            name.text().is_some_and(|name| !name.is_empty())
        };
        objects.dedup_by(|a, b| named(a) && identity(a) == identity(b));
        let mut demands = Vec::new();
        for workload in objects {
            for template in scheduled_templates(workload) {
                let pod = self.pod(&template);
                let verdict = match &pod {
                    None => Verdict::Unknown { uncertainties: vec![Uncertainty::UnreadablePod] },
                    Some(pod) => self.decide(scheduler, pod),
                };
                let counts = counts(cluster, workload, &template);
                let bound = match &verdict {
                    Verdict::Fits { .. } => {
                        pod.as_ref().and_then(|pod| self.bound_by_domains(scheduler, &template, pod))
                    }
                    _ => None,
                };
                let is_reserved = pod.as_ref().is_some_and(|pod| self.takes_reservations(scheduler, pod));
                let (known, joins) = (BTreeSet::new(), Some(Vec::new()));
                demands.push(Demand {
                    workload,
                    template,
                    counts,
                    pod,
                    verdict,
                    bound,
                    known,
                    joins,
                    is_reserved,
                });
            }
        }
        self.settle(scheduler, cluster, &mut demands);
        demands
    }

    /// Leaves the rules of pods about each other to where all are placed together.
    fn settle(&self, scheduler: &Scheduler<'_>, cluster: &Cluster, demands: &mut [Demand<'_>]) {
        let everyone: Vec<&Demand<'_>> = demands.iter().collect();
        let joins: Vec<_> = (0..everyone.len()).map(|at| joined(&everyone, at, cluster)).collect();
        for (demand, joins) in demands.iter_mut().zip(joins) {
            demand.joins = joins;
            let is_few = demand.counts.is_some_and(|(_, most)| most <= MOST_ONE_BY_ONE);
            let Some(pod) = demand.pod.as_mut().filter(|pod| !pod.topology.is_empty()) else { continue };
            let is_open = match &demand.verdict {
                Verdict::Fits { .. } => true,
                Verdict::Unknown { uncertainties } => *uncertainties == [Uncertainty::PodAffinity],
                Verdict::DoesNotFit(_) => false,
            };
            let knows = |key: &str| is_few && scheduler.domains_for(pod, key, |_| true).is_some();
            // Pods without a node keep others off as well, where these have no pool of domains that they tolerate.
            if matches!(demand.verdict, Verdict::DoesNotFit(_)) {
                let rules = pod.topology.iter().filter(|rule| {
                    rule.kind == TopologyKind::AntiAffinity && rule.required && rule.key != HOSTNAME
                });
                demand.known.extend(rules.filter(|rule| knows(&rule.key)).map(|rule| rule.key.clone()));
            }
            if !is_open || demand.joins.is_none() {
                continue;
            }
            let known: Vec<bool> = pod.topology.iter().map(|rule| knows(&rule.key)).collect();
            for (rule, is_known) in pod.topology.iter_mut().zip(known) {
                if rule.key == HOSTNAME || is_known {
                    rule.selects = Selected::Placed;
                }
                if rule.key != HOSTNAME && is_known {
                    demand.known.insert(rule.key.clone());
                }
            }
            demand.verdict = self.decide(scheduler, pod);
            if matches!(demand.verdict, Verdict::Fits { .. }) {
                demand.bound = self.bound_by_domains(scheduler, &demand.template, pod);
                demand.is_reserved = self.takes_reservations(scheduler, pod);
            }
        }
    }

    /// Whether a pool that admits a pod launches into capacity reservations first.
    fn takes_reservations(&self, scheduler: &Scheduler<'_>, pod: &Pod) -> bool {
        let reserves =
            |pool: &Pool| pool.class.as_ref().is_some_and(|class| class.reservations != Reservations::None);
        let is_first = |outcome: &Outcome| match outcome {
            Outcome::Admits(admission) => admission.capacity_types.contains(&"reserved"),
            _ => false,
        };
        self.pools.iter().any(reserves)
            && self.survey(scheduler, pod).iter().any(|(_, outcome)| is_first(outcome))
    }

    fn load<'d>(
        &self,
        scheduler: &Scheduler<'_>,
        demands: &'d [Demand<'d>],
        of: fn((u64, u64)) -> u64,
    ) -> Load {
        let mut load = Load {
            verdict: FitVerdict::Fits,
            pods: 0,
            nodes: Vec::new(),
            pools: Vec::new(),
            micro_dollars: Some(0),
            misfits: Vec::new(),
            unknown: Vec::new(),
            notes: Vec::new(),
        };
        let packed = load.add_all(demands, of);
        let group = |(at, demand): (usize, &&'d Demand<'d>)| {
            self.pod_group(demand, at, &packed, demand.allowed(demand.counts.map_or(0, of)))
        };
        let groups: Vec<PodGroup<'_>> = packed.iter().enumerate().filter_map(group).collect();
        let packing = self.pack(scheduler, &groups);
        if packing.depends {
            for demand in packed.iter().filter(|demand| matches!(demand.verdict, Verdict::Fits { .. })) {
                let keys = demand.known.iter().cloned().map(Uncertainty::SpreadOver);
                if !demand.known.is_empty() {
                    load.notes.push((demand.workload.clone(), keys.collect()));
                }
            }
        }
        self.tell_unplaced(&mut load, &packing, &packed, of);
        self.tell_nodes(&mut load, &packing.nodes, &scheduler.order());
        load.verdict = match (load.misfits.is_empty(), load.unknown.is_empty()) {
            (false, _) => FitVerdict::DoesNotFit,
            (true, false) => FitVerdict::Unknown,
            (true, true) => FitVerdict::Fits,
        };
        load
    }

    /// The pods of a demand, with their constraints on other pods.
    fn pod_group<'d>(
        &self,
        demand: &'d Demand<'_>,
        at: usize,
        demands: &[&Demand<'_>],
        count: u64,
    ) -> Option<PodGroup<'d>> {
        let pod = demand.pod.as_ref()?;
        let skew = |node: &Node<'_>| whole(node, "maxSkew").unwrap_or(1).max(1);
        let host_rule = |(kind, required, node): &(TopologyKind, bool, Node<'_>)| {
            let key = node.get("topologyKey").text().unwrap_or_default();
            // Pods that share no other domain share no node either.
            let apart = *kind == TopologyKind::AntiAffinity && *required && !demand.known.contains(key);
            if key != HOSTNAME && !apart {
                return None;
            }
            let counts = selected(demands, at, node);
            match kind {
                TopologyKind::Affinity => Some(HostRule { counts, before: 0, mutual: false, joins: true }),
                TopologyKind::AntiAffinity => {
                    Some(HostRule { counts, before: 0, mutual: *required, joins: false })
                }
                TopologyKind::Spread => {
                    // A new node is always possible, so the minimum number of pods on a node is 0.
                    let before = if counts.contains(&at) { skew(node) - 1 } else { skew(node) };
                    Some(HostRule { counts, before, mutual: false, joins: false })
                }
            }
        };
        let domain_rule = |(kind, required, node): &(TopologyKind, bool, Node<'_>)| {
            let key = node.get("topologyKey").text().filter(|key| demand.known.contains(*key))?;
            let policy = |name: &str| node.get(name).text().map(str::to_owned);
            Some(DomainRule {
                kind: *kind,
                key: key.to_owned(),
                required: *required,
                counts: selected(demands, at, node),
                skew: skew(node),
                min_domains: whole(node, "minDomains").unwrap_or(0),
                honors_taints: policy("nodeTaintsPolicy").as_deref() == Some("Honor"),
                honors_affinity: policy("nodeAffinityPolicy").as_deref() != Some("Ignore"),
            })
        };
        let rules = rules_of(&demand.template);
        Some(PodGroup {
            pod,
            asked: self.asked(pod),
            count,
            on_host: rules.iter().map(host_rule).collect(),
            on_domain: rules.iter().map(domain_rule).collect(),
            ports: Vec::new(),
        })
    }

    fn tell_unplaced(
        &self,
        load: &mut Load,
        packing: &Packing,
        packed: &[&Demand<'_>],
        of: fn((u64, u64)) -> u64,
    ) {
        let mut reached: HashMap<&FullPool, (String, Vec<Place>)> = HashMap::new();
        for left in &packing.unplaced {
            let Some(demand) = packed.get(left.group) else { continue };
            // Told with those that no pool admits.
            if matches!(demand.verdict, Verdict::DoesNotFit(_)) {
                continue;
            }
            let workload = demand.workload.clone();
            if !left.uncertainties.is_empty() {
                load.pods = load.pods.saturating_sub(left.pods);
                load.unknown.push((workload, Some(left.pods), left.uncertainties.clone()));
                continue;
            }
            let of_pool = |full| reached.entry(full).or_insert_with(|| self.reached(full)).clone();
            let (reasons, places): (Vec<String>, Vec<Vec<Place>>) = left.full.iter().map(of_pool).unzip();
            let count = demand.counts.map_or(left.pods, of);
            let kept_apart = || {
                let limit = demand.limit().filter(|limit| limit.most + left.pods <= count)?;
                Some(apart(&workload, limit))
            };
            let (reason, places) = match unjoined(demand, left.pods).or_else(kept_apart) {
                Some((reason, place)) => (reason, vec![vec![place]]),
                None => (reasons.join(", "), places),
            };
            load.misfits.push(Misfit {
                workload,
                pods: left.pods,
                of: count,
                reason,
                places: places.into_iter().flatten().collect(),
            });
        }
    }

    /// The limits that a pool has reached.
    fn reached(&self, full: &FullPool) -> (String, Vec<Place>) {
        let (pool, object) = (&self.pools[full.pool], &self.objects[full.pool]);
        if pool.replicas.is_some() {
            let text = format!("the nodes of the static NodePool `{}` are full", object.name());
            let node = object.path(&["spec", "replicas"]);
            return (text, vec![Place::new(object, &node, "as many nodes stand")]);
        }
        let mut texts = Vec::new();
        let mut places = Vec::new();
        for name in &full.limits {
            let limit = pool.limits.iter().find(|(key, _)| key == name).map_or(0, |(_, limit)| *limit);
            texts.push(format!("`{name}: {}`", amount(name, limit)));
            places.push(Place::new(object, &object.path(&["spec", "limits", name]), "this limit"));
        }
        let name = object.name();
        let text = match texts.as_slice() {
            [] => format!("NodePool `{name}` has no room"),
            [one] => format!("the limit {one} of NodePool `{name}` is reached"),
            several => format!("the limits {} of NodePool `{name}` are reached", several.join(" and ")),
        };
        (text, places)
    }

    fn tell_nodes(&self, load: &mut Load, nodes: &[NodeGroup], order: &[usize]) {
        let region = self.options.region.as_deref();
        let mut by_type: BTreeMap<NodeKind, (u64, u64, &'static InstanceType)> = BTreeMap::new();
        for started in nodes {
            let key = (started.pool, started.instance.name, started.capacity_types.clone());
            let entry = by_type.entry(key).or_insert((0, 0, started.instance));
            entry.0 += started.nodes;
            entry.1 += started.nodes * started.pods.values().sum::<u64>();
        }
        for position in order.iter().copied() {
            let of_pool = by_type.iter().filter(|((pool, _, _), _)| *pool == position);
            let object = &self.objects[position];
            let mut pool = PoolLoad { pool: object.clone(), nodes: 0, gpus: 0, gpu_limit: None };
            let first = load.nodes.len();
            for ((_, _, capacity_types), (nodes, pods, instance)) in of_pool {
                let price = instance
                    .list_price(region)
                    .map(|price| i128::from(price.micro_dollars) * i128::from(*nodes));
                load.micro_dollars = load.micro_dollars.zip(price).map(|(sum, price)| sum + price);
                pool.nodes += nodes;
                pool.gpus += nodes * u64::from(gpus_of(instance));
                load.nodes.push(Nodes {
                    pool: object.clone(),
                    instance,
                    capacity_types: capacity_types.clone(),
                    nodes: *nodes,
                    pods: *pods,
                    micro_dollars: price,
                });
            }
            load.nodes[first..].sort_by_key(|nodes| (std::cmp::Reverse(nodes.nodes), nodes.instance.name));
            let limits = self.pools[position].limits.iter().filter(|(name, _)| GPUS.contains(&name.as_str()));
            pool.gpu_limit = limits.map(|(_, limit)| limit / 1000).min();
            if pool.nodes > 0 {
                load.pools.push(pool);
            }
        }
    }
}

/// The minimum and maximum number of pods that run from a template at the same time. `None` if not known. A suspended
/// workload has none at minimum: it may be resumed.
pub(crate) fn counts(cluster: &Cluster, workload: &Object, template: &Template<'_>) -> Option<(u64, u64)> {
    let (floor, most) = running(cluster, workload, template)?;
    Some((if floor == 0 || is_suspended(workload)? { 0 } else { floor }, most))
}

/// The numbers of pods while the workload is not suspended.
fn running(cluster: &Cluster, workload: &Object, template: &Template<'_>) -> Option<(u64, u64)> {
    let id = workload.id();
    let whole = |count: i64| u64::try_from(count.max(0)).ok();
    match (id.group.as_str(), id.kind.as_str()) {
        // A template whose pods run from other objects.
        ("trainer.kubeflow.org", "TrainingRuntime" | "ClusterTrainingRuntime") => Some((0, 0)),
        ("batch", "CronJob") => Some((0, whole(pods_of(workload, template)?)?)),
        ("keda.sh", "ScaledJob") => {
            let each = whole(pods_of(workload, template)?)?;
            let floor = whole(min_replicas(workload)?)?;
            let most = whole(max_replicas(workload)?)?;
            Some((floor.saturating_mul(each), most.saturating_mul(each)))
        }
        ("ray.io", _) => {
            let pods = |extent| whole(pods_of_template(template, extent)?);
            Some((pods(Extent::Least)?, pods(Extent::Most)?))
        }
        _ => {
            let in_groups = |replicas: i64| whole(pods_of_groups(workload, template, replicas)?);
            let has_replicas = workload_kind(workload).is_some_and(|row| !row.replicas.is_empty());
            match cluster.views().replicas(workload) {
                Some(replicas) => {
                    Some((in_groups(replicas.floor)?, in_groups(replicas.max.max(replicas.floor))?))
                }
                None if has_replicas => None,
                None => {
                    let pods = whole(pods_of(workload, template)?)?;
                    Some((pods, pods))
                }
            }
        }
    }
}

/// Uncertainties of pods with constraints on each other: those that may prevent the pods from fitting, and
/// those that only affect the number of nodes.
fn neighbours(demand: &Demand<'_>, count: u64) -> (Vec<Uncertainty>, Vec<Uncertainty>) {
    let (mut unknown, mut notes) = (Vec::new(), Vec::new());
    let spec = &demand.template.spec;
    if count < 2 {
        return (unknown, notes);
    }
    let spread = spec.get("topologySpreadConstraints");
    if spread.has_unknown() || spec.path(&["affinity", "podAntiAffinity"]).has_unknown() {
        unknown.push(Uncertainty::TopologySpread);
    }
    for constraint in spread.items() {
        match constraint.get("topologyKey").text() {
            Some(HOSTNAME) | None => {}
            Some(key) if demand.known.contains(key) => {}
            Some(key) => notes.push(Uncertainty::SpreadOver(key.to_owned())),
        }
    }
    for (term, required) in affinity_terms(spec, "podAntiAffinity") {
        let key = term.get("topologyKey").text();
        let itself = selects(&term, &demand.template) != Some(false);
        match key {
            Some(HOSTNAME) | None => {}
            Some(key) if demand.known.contains(key) => {}
            Some(_) if itself && required => {
                if matches!(demand.bound, Some(Bound::Unknown)) {
                    unknown.push(Uncertainty::TopologySpread);
                }
            }
            Some(key) => notes.push(Uncertainty::SpreadOver(key.to_owned())),
        }
    }
    if demand.joins.is_none() {
        unknown.push(Uncertainty::PodAffinity);
    }
    notes.sort();
    notes.dedup();
    (unknown, notes)
}

fn selects(term: &Node<'_>, template: &Template<'_>) -> Option<bool> {
    matches(&term.get("labelSelector"), &template.labels())
}

/// The terms of pod affinity, and whether each is required.
fn joining_terms<'a>(demand: &Demand<'a>) -> impl Iterator<Item = (Node<'a>, bool)> {
    affinity_terms(&demand.template.spec, "podAffinity")
}

/// Why pods that have to join others have no node, and the rule that says so. Limits keep the first of them from its node.
fn unjoined(demand: &Demand<'_>, left: u64) -> Option<(String, Place)> {
    let is_first = |term: &Node<'_>| {
        let is_whole = demand.counts.is_some_and(|(floor, most)| left == floor || left == most);
        is_whole && selects(term, &demand.template) == Some(true)
    };
    let (term, _) = joining_terms(demand).find(|(term, required)| *required && !is_first(term))?;
    let reason = "its pod affinity puts them on nodes of other pods, which have no room for more".to_owned();
    let (object, pointer) = (demand.workload.clone(), term.pointer());
    Some((reason, Place { object, pointer, text: "this rule".to_owned() }))
}

/// The demands whose pods another one joins on their nodes. [`None`] if pods may be meant that are no demand.
fn joined(demands: &[&Demand<'_>], at: usize, cluster: &Cluster) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for (term, _) in joining_terms(demands[at]) {
        let of_demands = selected(demands, at, &term);
        let may_be = |template: &Template<'_>| selects(&term, template) != Some(false);
        let is_unsure = |demand: &&Demand<'_>| selects(&term, &demand.template).is_none();
        let mut others = workloads(cluster).filter(|workload| !starts_nodes(workload));
        let is_closed = cluster.is_complete() || of_demands == [at];
        let depends =
            !term.get("namespaceSelector").entries().is_empty() || term.get("mismatchLabelKeys").is_set();
        if !is_closed
            || depends
            || demands.iter().any(is_unsure)
            || others.any(|other| templates(other).iter().any(may_be))
        {
            return None;
        }
        all.extend(of_demands);
    }
    Some(all)
}

/// The positions of the demands whose pods a term or constraint selects.
fn selected(packed: &[&Demand<'_>], at: usize, rule: &Node<'_>) -> Vec<usize> {
    let own = packed[at].workload.id();
    let names: Vec<&str> = rule.get("namespaces").items().filter_map(|name| name.text()).collect();
    let anywhere = rule.get("namespaceSelector");
    // With `matchLabelKeys`, only pods of the same revision are selected.
    let alone = rule.get("matchLabelKeys").items().next().is_some();
    let in_reach = |other: &Demand<'_>| {
        let namespace = other.workload.namespace_or_default();
        if anywhere.is_set() && anywhere.entries().is_empty() {
            return true;
        }
        if names.is_empty() { namespace == own.namespace_or_default() } else { names.contains(&namespace) }
    };
    (0..packed.len())
        .filter(|other| std::ptr::eq(packed[*other], packed[at]) || !alone)
        .filter(|other| in_reach(packed[*other]))
        .filter(|other| selects(rule, &packed[*other].template) == Some(true))
        .collect()
}
