//! Whether all pods of a cluster fit together, at minimum and at maximum replicas, with the nodes and their
//! price.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::catalog::{HOSTNAME, InstanceType};
use crate::cluster::Cluster;
use crate::fit::domains::{Bound, DomainLimit, Spread};
use crate::fit::pools::{GPUS, scheduled_templates, starts_nodes};
use crate::fit::{FitVerdict, Place, Situation, amount, gpus_of, workloads};
use crate::karpenter::pod::{affinity_terms, rules_of};
use crate::karpenter::scheduling::{
    FullPool, HostRule, NodeGroup, Outcome, Packing, Pod, PodGroup, Pool, Reservations, Scheduler, Selected,
    TopologyKind, Uncertainty, Verdict,
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
    /// How the pods spread over known values of a label, of which a node has one.
    spread: Option<Spread>,
    /// The demands whose pods it joins on their nodes by pod affinity, its own perhaps. [`None`] if these are not known.
    joins: Option<Vec<usize>>,
    /// Whether pods may get nodes of capacity reservations, which take no other pods than those that fit on their types: how many
    /// instances these have left is not known.
    is_reserved: bool,
}

impl Demand<'_> {
    /// The number of pods that rules about other pods allow, given how many there are to be.
    fn allowed(&self, count: u64) -> u64 {
        match &self.bound {
            Some(Bound::Most(limit)) => count.min(limit.most),
            Some(Bound::Unknown) | None => count,
        }
    }

    /// The pods of the demand in parts that share no node; by rules that are not required if these are kept.
    fn parts(&self, count: u64, keeps_preferences: bool) -> Vec<Part<'_>> {
        let Some(pod) = &self.pod else { return Vec::new() };
        // One pod alone leaves its node all values.
        let is_kept = |spread: &&Spread| count > 1 && (spread.is_required || keeps_preferences);
        let Some(spread) = self.spread.as_ref().filter(is_kept) else {
            return vec![Part { demand: self, pod: Cow::Borrowed(pod), count }];
        };
        let in_domain = |(value, count): (&str, u64)| {
            let mut pod = pod.clone();
            pod.node_selector.push((spread.key.clone(), value.to_owned()));
            Part { demand: self, pod: Cow::Owned(pod), count }
        };
        spread.shares(count).into_iter().map(in_domain).collect()
    }
}

impl Load {
    /// Adds all demands. Those that are to be packed: where pods are that others join has to be known.
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
                false
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
        if let Some(Bound::Most(DomainLimit { most, key, rule, .. })) = &demand.bound
            && *most < count
        {
            let reason = format!("its pods keep apart by `{key}`, which allows {most} of them");
            let (object, pointer) = (workload.clone(), rule.clone());
            let places = vec![Place { object, pointer, text: "this rule".to_owned() }];
            self.misfits.push(Misfit { workload, pods: count - most, of: count, reason, places });
        }
        true
    }
}

/// Pods of a demand that are packed together.
struct Part<'d> {
    demand: &'d Demand<'d>,
    pod: Cow<'d, Pod>,
    count: u64,
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
                let (spread, joins) = (None, Some(Vec::new()));
                demands.push(Demand {
                    workload,
                    template,
                    counts,
                    pod,
                    verdict,
                    bound,
                    spread,
                    joins,
                    is_reserved,
                });
            }
        }
        self.settle_joins(scheduler, cluster, &mut demands);
        let everyone: Vec<&Demand<'_>> = demands.iter().collect();
        let spreads: Vec<Option<Spread>> = (0..everyone.len())
            .map(|at| {
                let demand = everyone[at];
                let pod = demand.pod.as_ref().filter(|_| matches!(demand.verdict, Verdict::Fits { .. }))?;
                let (spread, rule) = self.spread(scheduler, &demand.template, pod)?;
                // Pods of others count as well, and where they are is not known before.
                (selected(&everyone, at, &rule) == [at]).then_some(spread)
            })
            .collect();
        demands.iter_mut().zip(spreads).for_each(|(demand, spread)| demand.spread = spread);
        demands
    }

    /// Decides about pods that join others on their nodes, which need not exist for one pod alone.
    fn settle_joins(&self, scheduler: &Scheduler<'_>, cluster: &Cluster, demands: &mut [Demand<'_>]) {
        let everyone: Vec<&Demand<'_>> = demands.iter().collect();
        let joins: Vec<_> = (0..everyone.len()).map(|at| joined(&everyone, at, cluster)).collect();
        for (demand, joins) in demands.iter_mut().zip(joins) {
            demand.joins = joins;
            let waits = matches!(&demand.verdict, Verdict::Unknown { uncertainties }
                if *uncertainties == [Uncertainty::PodAffinity]);
            let Some(pod) = demand.pod.as_mut().filter(|_| waits && demand.joins.is_some()) else { continue };
            for rule in &mut pod.topology {
                let is_on_host = rule.kind == TopologyKind::Affinity && rule.key == HOSTNAME;
                rule.selects = if is_on_host { Selected::Itself } else { rule.selects };
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
        let allowed = |demand: &Demand<'_>| demand.allowed(demand.counts.map_or(0, of));
        let pack = |keeps_preferences: bool| {
            let in_parts = |demand: &&'d Demand<'d>| demand.parts(allowed(demand), keeps_preferences);
            let parts: Vec<Part<'d>> = packed.iter().flat_map(in_parts).collect();
            let of_parts: Vec<&Demand<'_>> = parts.iter().map(|part| part.demand).collect();
            let groups: Vec<PodGroup<'_>> =
                parts.iter().enumerate().map(|(at, part)| self.pod_group(part, at, &of_parts)).collect();
            (self.pack(scheduler, &groups), parts)
        };
        let (mut packing, mut parts) = pack(true);
        let is_preference = |spread: &Option<Spread>| spread.as_ref().is_some_and(|one| !one.is_required);
        if packing.unplaced.iter().any(|left| is_preference(&parts[left.group].demand.spread)) {
            (packing, parts) = pack(false);
        }
        self.tell_unplaced(&mut load, &packing, &parts, of);
        self.tell_nodes(&mut load, &packing.nodes, &scheduler.order());
        load.verdict = match (load.misfits.is_empty(), load.unknown.is_empty()) {
            (false, _) => FitVerdict::DoesNotFit,
            (true, false) => FitVerdict::Unknown,
            (true, true) => FitVerdict::Fits,
        };
        load
    }

    /// The pods of a part, with their constraints on pods of the same node.
    fn pod_group<'d>(&self, part: &'d Part<'_>, at: usize, demands: &[&Demand<'_>]) -> PodGroup<'d> {
        let Part { demand, pod, count } = part;
        let on_host = rules_of(&demand.template).into_iter().map(|(kind, required, node)| {
            // Pods that share no other domain share no node either.
            let apart = kind == TopologyKind::AntiAffinity && required;
            if node.get("topologyKey").text() != Some(HOSTNAME) && !apart {
                return None;
            }
            let counts = selected(demands, at, &node);
            match kind {
                TopologyKind::Affinity => Some(HostRule { counts, before: 0, mutual: false, joins: true }),
                TopologyKind::AntiAffinity => {
                    Some(HostRule { counts, before: 0, mutual: required, joins: false })
                }
                TopologyKind::Spread => {
                    let skew = u64::try_from(node.get("maxSkew").int().unwrap_or(1)).unwrap_or(1).max(1);
                    // A new node is always possible, so the minimum number of pods on a node is 0.
                    let before = if counts.contains(&at) { skew - 1 } else { skew };
                    Some(HostRule { counts, before, mutual: false, joins: false })
                }
            }
        });
        PodGroup { pod, asked: self.asked(pod), count: *count, on_host: on_host.collect(), ports: Vec::new() }
    }

    fn tell_unplaced(
        &self,
        load: &mut Load,
        packing: &Packing,
        parts: &[Part<'_>],
        of: fn((u64, u64)) -> u64,
    ) {
        let mut reached: HashMap<&FullPool, (String, Vec<Place>)> = HashMap::new();
        for left in &packing.unplaced {
            let Some(demand) = parts.get(left.group).map(|part| part.demand) else { continue };
            let workload = demand.workload.clone();
            if !left.uncertainties.is_empty() {
                load.pods = load.pods.saturating_sub(left.pods);
                load.unknown.push((workload, Some(left.pods), left.uncertainties.clone()));
                continue;
            }
            let of_pool = |full| reached.entry(full).or_insert_with(|| self.reached(full)).clone();
            let (reasons, places): (Vec<String>, Vec<Vec<Place>>) = left.full.iter().map(of_pool).unzip();
            let (reason, places) = match unjoined(demand, left.pods) {
                Some((reason, place)) => (reason, vec![vec![place]]),
                None => (reasons.join(", "), places),
            };
            let same = load.misfits.iter_mut().find(|one| {
                one.workload.ptr_eq(&workload) && demand.spread.is_some() && one.reason == reason
            });
            if let Some(same) = same {
                same.pods += left.pods;
                continue;
            }
            load.misfits.push(Misfit {
                workload,
                pods: left.pods,
                of: demand.counts.map_or(left.pods, of),
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
            Some(key) if demand.spread.as_ref().is_some_and(|spread| spread.key == key) => {}
            Some(key) => notes.push(Uncertainty::SpreadOver(key.to_owned())),
        }
    }
    for (term, required) in affinity_terms(spec, "podAntiAffinity") {
        let key = term.get("topologyKey").text();
        let itself = selects(&term, &demand.template) != Some(false);
        match key {
            Some(HOSTNAME) | None => {}
            Some(_) if itself && required => {
                if matches!(demand.bound, Some(Bound::Unknown)) {
                    unknown.push(Uncertainty::TopologySpread);
                }
            }
            Some(key) if demand.spread.as_ref().is_some_and(|spread| spread.key == key) => {}
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

/// The terms of pod affinity to pods of the same node, and whether each is required.
fn joining_terms<'a>(demand: &Demand<'a>) -> impl Iterator<Item = (Node<'a>, bool)> {
    let terms = affinity_terms(&demand.template.spec, "podAffinity");
    terms.filter(|(term, _)| term.get("topologyKey").text() == Some(HOSTNAME))
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
