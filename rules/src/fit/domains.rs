//! How many pods the rules of spread and anti-affinity allow in all, and in each domain, where the domains that they count are known.

use std::collections::BTreeSet;

use crate::catalog::{CAPACITY_TYPE, HOSTNAME, TypeSet, ZONE, index, retired};
use crate::cluster::Cluster;
use crate::fit::Situation;
use crate::fit::capacity::counts;
use crate::karpenter::pod::rules_of;
use crate::karpenter::requirement::{Operator, Requirement, Requirements, is_well_known, normalise};
use crate::karpenter::scheduling::{
    Outcome, PREFER_NO_SCHEDULE, Pod, RejectionStage, Reservations, Scheduler, Taint, TopologyKind, Verdict,
    pool_requirements, tolerates,
};
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::selector::matches;
use crate::workload::template::Template;

/// The most pods that a rule allows.
pub(super) enum Bound {
    Most(DomainLimit),
    /// It is not known how many.
    Unknown,
}

/// How many pods a rule of spread or anti-affinity allows.
pub(crate) struct DomainLimit {
    pub(crate) most: u64,
    pub(crate) key: String,
    /// The place of the rule in the workload.
    pub(crate) rule: Pointer,
    /// The values that count for spread and that no pod reaches.
    pub(crate) unreached: Vec<String>,
}

/// A rule that spreads pods over values of a label, all of which are known.
pub(super) struct Spread {
    pub(super) key: String,
    /// The values that the pods reach, those of the pool that is tried first before others.
    values: Vec<String>,
    skew: u64,
    /// Whether a domain counts that no pod reaches, so that the fewest pods in a domain are 0.
    has_empty: bool,
    /// Whether pods that the rule keeps off all nodes wait, instead of going without it.
    pub(super) is_required: bool,
}

impl Spread {
    /// The number of pods in each domain, as Karpenter gives them out one by one: on the node with the fewest pods that the rule allows
    /// (`addToInflightNode`), and otherwise on a new one of the first pool with a domain that it allows.
    pub(super) fn shares(&self, count: u64) -> Vec<(&str, u64)> {
        let mut shares = vec![0; self.values.len()];
        let mut started: Vec<usize> = Vec::new();
        for _ in 0..count {
            let fewest = if self.has_empty { 0 } else { shares.iter().copied().min().unwrap_or(0) };
            started.sort_by_key(|at| shares[*at]);
            let is_allowed = |at: &usize| shares[*at] < fewest + self.skew;
            let next = started.iter().copied().find(is_allowed);
            let Some(at) = next.or_else(|| (0..shares.len()).find(|at| shares[*at] == 0)) else { break };
            if shares[at] == 0 {
                started.push(at);
            }
            shares[at] += 1;
        }
        let used = self.values.iter().map(String::as_str).zip(shares);
        used.filter(|(_, share)| *share > 0).collect()
    }
}

/// The values of a label on nodes; `None` if they are not known.
type Domains = Option<BTreeSet<String>>;

impl Situation<'_> {
    /// The smallest bound of the required rules that count the pods of the template itself. `None` if they set none.
    pub(super) fn bound_by_domains(
        &self,
        scheduler: &Scheduler<'_>,
        template: &Template<'_>,
        pod: &Pod,
    ) -> Option<Bound> {
        let counts_itself =
            |node: &Node<'_>| matches(&node.get("labelSelector"), &template.labels()) != Some(false);
        let mut least: Option<DomainLimit> = None;
        for (kind, required, node) in rules_of(template) {
            let key = node.get("topologyKey");
            let Some(key) = key.text().filter(|key| *key != HOSTNAME) else { continue };
            if !required || !counts_itself(&node) {
                continue;
            }
            let reach = self.reach(scheduler, pod, key, &node);
            let (most, unreached) = match kind {
                TopologyKind::Affinity => continue,
                TopologyKind::AntiAffinity => match reach.reachable {
                    Some(values) => (values.len() as u64, Vec::new()),
                    None => return Some(Bound::Unknown),
                },
                TopologyKind::Spread => match reach.spread(&node) {
                    Some(most) => (most, reach.unreached()),
                    None => continue,
                },
            };
            if least.as_ref().is_none_or(|least| most < least.most) {
                least = Some(DomainLimit { most, key: key.to_owned(), rule: node.pointer(), unreached });
            }
        }
        least.map(Bound::Most)
    }

    /// The rule of spread or anti-affinity that allows fewer pods than a template has at least, and the number of these. `None`
    /// if there is none, or if that is not known.
    pub(crate) fn beyond_domains(
        &self,
        cluster: &Cluster,
        workload: &Object,
        template: &Template<'_>,
    ) -> Option<(u64, DomainLimit)> {
        let pod = self.pod(template)?;
        let (pods, _) = counts(cluster, workload, template)?;
        let scheduler = self.scheduler();
        let Verdict::Fits { uncertainties, .. } = scheduler.decide(&pod) else { return None };
        let is_known = uncertainties.is_empty() && self.unreadable_daemonsets.is_empty();
        match self.bound_by_domains(&scheduler, template, &pod).filter(|_| is_known)? {
            Bound::Most(limit) => (pods > limit.most).then_some((pods, limit)),
            Bound::Unknown => None,
        }
    }

    /// The rule that spreads the pods of a template over the values of a label, if there is one such rule and all values are known.
    /// Anti-affinity is one as well: a required one allows a pod for each value.
    pub(super) fn spread<'t>(
        &self,
        scheduler: &Scheduler<'_>,
        template: &Template<'t>,
        pod: &Pod,
    ) -> Option<(Spread, Node<'t>)> {
        let is_of_nodes = |node: &Node<'_>| node.get("topologyKey").text() == Some(HOSTNAME);
        let mut rules = rules_of(template)
            .into_iter()
            .filter(|(kind, _, node)| *kind != TopologyKind::Affinity && !is_of_nodes(node));
        let (kind, is_required, node) = rules.next()?;
        let keeps_apart = kind == TopologyKind::AntiAffinity;
        let counts_itself = matches(&node.get("labelSelector"), &template.labels()) == Some(true);
        if rules.next().is_some() || !counts_itself {
            return None;
        }
        let key = node.get("topologyKey").text()?;
        let reach = self.reach(scheduler, pod, key, &node);
        let Reach { all: Some(all), reachable: Some(reachable), by_pool, .. } = reach else { return None };
        let (skew, wanted) = (whole(&node, "maxSkew").unwrap_or(1).max(1), whole(&node, "minDomains"));
        let is_missed = all != reachable || (all.len() as u64) < wanted.unwrap_or(0);
        let has_empty = if keeps_apart { is_required } else { is_missed };
        // A node that may have several values keeps the next pods off all of them. Those that wait find the others free once it is
        // there, and preferences are given up before.
        let mut by_pool = by_pool;
        if keeps_apart && !is_required {
            by_pool = first_of_each(by_pool, |position| {
                pool_requirements(&self.pools[position]).get(normalise(key)).cloned()
            });
        }
        let mut nth: Vec<(usize, String)> =
            by_pool.into_iter().flat_map(|(_, one)| one.into_iter().enumerate()).collect();
        if keeps_apart {
            nth.sort_by_key(|(at, _)| *at);
        }
        let values: Vec<String> = nth.into_iter().map(|(_, value)| value).collect();
        // A preference is dropped before a taint that only prefers other pods is tolerated.
        let is_relaxed = |outcome: &Outcome| matches!(outcome, Outcome::Admits(one) if one.relaxations > 0);
        let may_be_dropped = || has_empty || scheduler.survey(pod).iter().any(|(_, one)| is_relaxed(one));
        if values.is_empty() || !is_required && may_be_dropped() {
            return None;
        }
        Some((Spread { key: key.to_owned(), values, skew, has_empty, is_required }, node))
    }

    /// The domains of a key that count for a pod, and those that it can reach.
    fn reach(&self, scheduler: &Scheduler<'_>, pod: &Pod, key: &str, rule: &Node<'_>) -> Reach {
        let key = normalise(key);
        let own = own_requirement(pod, key);
        let honors_taints = rule.get("nodeTaintsPolicy").text() == Some("Honor");
        let (mut all, mut reachable) = (Some(BTreeSet::new()), Some(BTreeSet::new()));
        let mut by_pool: Vec<(usize, Vec<String>)> = Vec::new();
        let allowed = |value: &String| own.as_ref().is_none_or(|own| own.has(value));
        let add = |known: &mut Domains, more: Domains| match (known.as_mut(), more) {
            (Some(known), Some(more)) => known.extend(more.into_iter().filter(allowed)),
            _ => *known = None,
        };
        let listed = self.listed(scheduler, key);
        let survey = self.survey(scheduler, pod);
        let is_tolerated = |taint: &Taint| pod.tolerations.iter().any(|one| tolerates(one, taint));
        let prefers_others = |taint: &Taint| taint.effect == PREFER_NO_SCHEDULE && !is_tolerated(taint);
        let is_shunned = |position: usize| self.pools[position].taints.iter().any(prefers_others);
        // A pod that no other pool takes tolerates the taints that only prefer other pods, and their pools count.
        let takes = |(position, outcome): &(usize, Outcome)| {
            !matches!(outcome, Outcome::Rejects(_)) && !is_shunned(*position)
        };
        let has_others = survey.iter().any(takes);
        for (position, outcome) in survey.iter() {
            let position = *position;
            if scheduler.admitted(position).is_err() {
                continue;
            }
            if honors_taints && has_others && is_shunned(position) {
                continue;
            }
            if !(honors_taints && matches!(outcome, Outcome::Rejects(RejectionStage::Taint(_)))) {
                // Karpenter counts the values of all types, whatever else the pool requires, and listed values even if no node can
                // have them (`buildDomainGroups` in topology.go).
                let every = TypeSet::full().without(retired());
                add(&mut all, self.values(position, &every, key, &listed));
                let own = pool_requirements(&self.pools[position]).get(key).cloned();
                let own = own.filter(|one| one.operator() == Operator::In);
                add(&mut all, Some(own.iter().flat_map(|one| one.values.iter().cloned()).collect()));
            }
            match outcome {
                Outcome::Admits(admission) => {
                    let values = self.values(position, &admission.types, key, &listed);
                    let is_new = |value: &&String| {
                        allowed(value)
                            && !by_pool.iter().flat_map(|(_, known)| known).any(|known| known == *value)
                    };
                    let new = values.iter().flatten().filter(is_new).cloned().collect();
                    by_pool.push((position, new));
                    add(&mut reachable, values);
                }
                Outcome::Undecided(_) => reachable = None,
                Outcome::Rejects(_) => {}
            }
        }
        let written = own.filter(|own| own.operator() == Operator::In).map(|own| own.values.len() as u64);
        Reach { all, reachable, by_pool, listed: written }
    }

    /// The values that pools list for a label.
    fn listed(&self, scheduler: &Scheduler<'_>, key: &str) -> BTreeSet<String> {
        let positions = (0..self.pools.len()).filter(|position| scheduler.admitted(*position).is_ok());
        let listed = positions.filter_map(|at| pool_requirements(&self.pools[at]).get(key).cloned());
        listed.flat_map(|one| one.values.to_vec()).collect()
    }

    /// The values of a label on nodes of a pool that have one of these types.
    fn values(&self, position: usize, types: &TypeSet, key: &str, listed: &BTreeSet<String>) -> Domains {
        let pool = &self.pools[position];
        let requirements = pool_requirements(pool);
        let required = requirements.get(key);
        let allowed = |value: &&str| required.is_none_or(|required| required.has(value));
        let zones = pool.class.as_ref().map_or(&[][..], |class| class.zones.as_slice());
        if key == CAPACITY_TYPE {
            let reserved = pool.class.as_ref().is_some_and(|class| class.reservations != Reservations::None);
            let spot = types.iter().any(|t| t.spot);
            let all = [("on-demand", true), ("spot", spot), ("reserved", reserved)];
            let offered = all.into_iter().filter(|(_, is_offered)| *is_offered).map(|(name, _)| name);
            return Some(offered.filter(allowed).map(str::to_owned).collect());
        }
        if key == ZONE && !zones.is_empty() {
            return Some(
                zones.iter().map(|zone| zone.name.as_str()).filter(allowed).map(str::to_owned).collect(),
            );
        }
        if let Some(index) = index(key) {
            let on_types = |value: &&str| index.with(value).is_some_and(|with| !with.is_disjoint(types));
            let values = index.values().iter().copied().filter(on_types).filter(allowed);
            return Some(values.map(str::to_owned).collect());
        }
        match required {
            Some(required) if required.operator() == Operator::In => {
                Some(required.values.iter().cloned().collect())
            }
            None if !is_well_known(key) => Some(BTreeSet::new()),
            // A node gets one of the values that some pool lists.
            Some(required) if !is_well_known(key) => {
                Some(listed.iter().filter(|value| required.has(value)).cloned().collect())
            }
            _ => None,
        }
    }
}

/// What is known of the domains of a rule.
struct Reach {
    all: Domains,
    reachable: Domains,
    /// The domains that it can reach, by the pool that is tried first of those with the value, given by its position.
    by_pool: Vec<(usize, Vec<String>)>,
    /// The number of domains that the pod lists itself.
    listed: Option<u64>,
}

/// The value of the first node of each pool, where pods prefer to keep apart by it: the requirements of a node, not its types, say which
/// values it may have, and it keeps the next pods off all of these (`Record` in topology.go).
fn first_of_each(
    by_pool: Vec<(usize, Vec<String>)>,
    required: impl Fn(usize) -> Option<Requirement>,
) -> Vec<(usize, Vec<String>)> {
    let mut taken: Vec<Option<Requirement>> = Vec::new();
    let mut first = Vec::new();
    for (position, values) in by_pool {
        let is_free = |value: &String| !taken.iter().any(|one| one.as_ref().is_none_or(|one| one.has(value)));
        if let Some(value) = values.into_iter().find(is_free) {
            taken.push(required(position));
            first.push((position, vec![value]));
        }
    }
    first
}

impl Reach {
    fn unreached(&self) -> Vec<String> {
        match (&self.all, &self.reachable) {
            (Some(all), Some(reachable)) => all.difference(reachable).cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// The most pods that spread allows: without a pod in a domain that counts, each of the others takes `maxSkew` of them. `None` if
    /// there is no such domain, or if that is not known.
    fn spread(&self, rule: &Node<'_>) -> Option<u64> {
        let skew = whole(rule, "maxSkew").unwrap_or(1).max(1);
        let wanted = whole(rule, "minDomains").unwrap_or(0);
        match (&self.all, &self.reachable) {
            (Some(all), Some(reachable)) => {
                let has_empty = all != reachable || (all.len() as u64) < wanted;
                has_empty.then(|| skew * reachable.len() as u64)
            }
            // Fewer domains than the rule wants, whichever of them there are.
            _ => self.listed.filter(|listed| *listed < wanted).map(|listed| skew * listed),
        }
    }
}

fn whole(rule: &Node<'_>, name: &str) -> Option<u64> {
    rule.get(name).int().and_then(|number| u64::try_from(number).ok())
}

/// What the selector and the last required term of a pod say of a label.
fn own_requirement(pod: &Pod, key: &str) -> Option<Requirement> {
    let mut set = Requirements::new();
    for (name, value) in &pod.node_selector {
        set.add(name, Requirement::is(value));
    }
    for spec in pod.terms.last().iter().flat_map(|term| &term.expressions) {
        set.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
    }
    set.get(key).cloned()
}
