//! Spread, pod affinity and anti-affinity over labels that several nodes share: how many of the pods that a rule counts are in each
//! domain, and which domains it leaves for the next pod (`topologygroup.go`).

use std::collections::{BTreeMap, BTreeSet};

use super::node::OpenNodes;
use super::pods::PendingPods;
use super::{Packer, Tie};
use crate::catalog::{CAPACITY_TYPE, Label, ZONE, ZONE_ID};
use crate::karpenter::requirement::{Operator, Requirement, Requirements};
use crate::karpenter::scheduling::candidate::Candidate;
use crate::karpenter::scheduling::input::{Pod, Taint, Term, Toleration, TopologyKind};
use crate::karpenter::scheduling::instance_types::launch_order;
use crate::karpenter::scheduling::pod_requirements::{Relaxation, pod_requirements, tolerates};

/// A rule about pods of nodes with the same value of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRule {
    pub kind: TopologyKind,
    pub key: String,
    pub required: bool,
    /// The pods that count, as positions of their groups.
    pub counts: Vec<usize>,
    /// `maxSkew` of spread.
    pub skew: u64,
    /// `minDomains` of spread.
    pub min_domains: u64,
    /// `nodeTaintsPolicy: Honor` of spread.
    pub honors_taints: bool,
    /// `nodeAffinityPolicy: Honor` of spread, which is the default.
    pub honors_affinity: bool,
}

impl DomainRule {
    /// What of the state of a pod decides which nodes count: states that are equal in it share the count, which goes on
    /// (`TopologyGroup.Hash`).
    fn seen_from(&self, (dropped, tolerates_preferences): View) -> View {
        let is_spread = self.kind == TopologyKind::Spread;
        (
            if is_spread && self.honors_affinity { dropped } else { 0 },
            is_spread && self.honors_taints && tolerates_preferences,
        )
    }
}

/// The number of pods that a rule counts, by domain (`TopologyGroup`).
pub(super) struct Topology {
    rule: DomainRule,
    /// The group of the rule, and its position in the pod.
    owner: usize,
    position: usize,
    /// The state of the pod on which the nodes that count depend.
    view: View,
    /// Whether it counts the pods with the rule, to keep those off that it selects.
    is_inverse: bool,
    filter: Option<NodeFilter>,
    domains: BTreeMap<String, u64>,
}

/// How many required terms are dropped, and whether taints that only prefer other pods are tolerated.
type View = (usize, bool);

/// The nodes on which pods count for a rule of spread (`TopologyNodeFilter`).
struct NodeFilter {
    /// One of these is to be met; [`None`] if the affinity of the pod does not matter.
    alternatives: Option<Vec<Requirements>>,
    /// What tolerates the taints of nodes; [`None`] if these do not matter.
    tolerations: Option<Vec<Toleration>>,
}

impl NodeFilter {
    fn of(rule: &DomainRule, pod: &Pod, terms: &[Term], tolerations: &[Toleration]) -> Self {
        let with = |term: Option<&Term>| {
            let state = Relaxation {
                term,
                last_term: true,
                preference: None,
                dropped_rules: 0,
                tolerate_prefer_no_schedule: false,
            };
            pod_requirements(pod, &state)
        };
        let alternatives = || match terms {
            [] => vec![with(None)],
            terms => terms.iter().map(|term| with(Some(term))).collect(),
        };
        Self {
            alternatives: rule.honors_affinity.then(alternatives),
            tolerations: rule.honors_taints.then(|| tolerations.to_vec()),
        }
    }

    /// Whether pods count on a node; a label that it need not have is one that it lacks.
    fn matches(&self, taints: &[Taint], label: impl Fn(&str) -> Option<Requirement>) -> bool {
        let meets = |(key, theirs): (&str, &Requirement)| match label(key) {
            Some(ours) => ours.meets(theirs),
            None => theirs.allows_absence(),
        };
        let alternatives = self.alternatives.as_ref();
        alternatives.is_none_or(|all| all.iter().any(|one| one.iter().all(meets)))
            && self.tolerations.as_ref().is_none_or(|given| tolerate(given, taints))
    }
}

fn tolerate(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    taints.iter().all(|taint| tolerations.iter().any(|one| tolerates(one, taint)))
}

impl Topology {
    fn record<'v>(&mut self, values: impl IntoIterator<Item = &'v String>, pods: u64) {
        for value in values {
            *self.domains.entry(value.clone()).or_default() += pods;
        }
    }

    /// The domains that are left for a pod on a node (`TopologyGroup.Get`).
    fn next(
        &self,
        is_counted: bool,
        (pod, node): (Option<&Requirement>, Option<&Requirement>),
        tie: Tie,
    ) -> Vec<String> {
        let of_pod = |value: &str| pod.is_none_or(|pod| pod.has(value));
        let of_node = |value: &str| node.is_none_or(|node| node.has(value));
        let chosen = |values: Vec<&String>| values.into_iter().cloned().collect::<Vec<_>>();
        let rule = &self.rule;
        match rule.kind {
            TopologyKind::Spread => {
                let supported = self.domains.iter().filter(|(value, _)| of_pod(value));
                let (number, fewest) =
                    supported.fold((0, u64::MAX), |(n, least), (_, count)| (n + 1, least.min(*count)));
                let fewest = if number < rule.min_domains { 0 } else { fewest };
                let after = |count: u64| count + u64::from(is_counted);
                let is_valid = |count: u64| after(count).saturating_sub(fewest) <= rule.skew;
                let valid = self.domains.iter().filter(|(value, count)| of_node(value) && is_valid(**count));
                // Of equal domains Karpenter takes any.
                let next = match tie {
                    Tie::First => valid.min_by_key(|(_, count)| **count),
                    Tie::Last => valid.rev().min_by_key(|(_, count)| **count),
                };
                chosen(next.map(|(value, _)| value).into_iter().collect())
            }
            TopologyKind::AntiAffinity => {
                let free = self
                    .domains
                    .iter()
                    .filter(|(value, count)| **count == 0 && of_pod(value) && of_node(value));
                chosen(free.map(|(value, _)| value).collect())
            }
            TopologyKind::Affinity => {
                let is_used = |(value, count): &(&String, &u64)| **count > 0 && of_pod(value);
                let used: Vec<&String> =
                    self.domains.iter().filter(is_used).map(|(value, _)| value).collect();
                let joined: Vec<&String> = used.iter().copied().filter(|value| of_node(value)).collect();
                if !joined.is_empty() || !is_counted || !used.is_empty() {
                    return chosen(joined);
                }
                // The first pod takes any domain.
                let mut possible = self.domains.keys().filter(|value| of_pod(value));
                let mut near = self.domains.keys().filter(|value| of_pod(value) && of_node(value));
                let (near, possible) = match tie {
                    Tie::First => (near.next(), possible.next()),
                    Tie::Last => (near.next_back(), possible.next_back()),
                };
                chosen(near.into_iter().chain(possible).collect())
            }
        }
    }
}

impl<'s, 'a> Packer<'s, 'a> {
    /// Begins a batch: what is counted is what stands.
    pub(super) fn count_domains(&mut self) {
        self.topologies.clear();
        if !self.is_tied.contains(&true) {
            return;
        }
        for at in 0..self.pods.len() {
            let rules = self.pods[at].group.on_domain.clone();
            let inverse = rules.iter().enumerate();
            let inverse = inverse.filter(|(_, rule)| rule.as_ref().is_some_and(keeps_others_off));
            for (position, _) in inverse {
                self.add_topology(at, position, (0, false), true);
            }
            if !self.pods[at].states.is_empty() {
                self.ensure_topologies(at, 0);
            }
        }
    }

    /// Adds the topologies of a state of relaxation that are not there.
    pub(super) fn ensure_topologies(&mut self, at: usize, state: usize) {
        let (view, relaxation) = (self.view(at, state), self.pods[at].states[state].relaxation);
        let kept: Vec<usize> =
            relaxation.rules(self.pods[at].group.pod).map(|(position, _)| position).collect();
        for position in kept {
            let Some(Some(rule)) = self.pods[at].group.on_domain.get(position) else { continue };
            let view = rule.seen_from(view);
            let is_it = |one: &Topology| {
                !one.is_inverse && (one.owner, one.position, one.view) == (at, position, view)
            };
            if !self.topologies.iter().any(is_it) {
                self.add_topology(at, position, view, false);
            }
        }
    }

    fn view(&self, at: usize, state: usize) -> View {
        let (pod, relaxation) = (self.pods[at].group.pod, &self.pods[at].states[state].relaxation);
        let is_it = |term: &Term| relaxation.term.is_some_and(|one| std::ptr::eq(one, term));
        (pod.terms.iter().position(is_it).unwrap_or(0), relaxation.tolerate_prefer_no_schedule)
    }

    fn add_topology(&mut self, owner: usize, position: usize, view: View, is_inverse: bool) {
        let Some(rule) = self.pods[owner].group.on_domain[position].clone() else { return };
        let pod = self.pods[owner].group.pod;
        let mut tolerations = self.pods[owner].tolerations.clone();
        if view.1 {
            tolerations.push(Toleration {
                operator: "Exists".to_owned(),
                effect: "PreferNoSchedule".to_owned(),
                ..Toleration::default()
            });
        }
        let is_spread = rule.kind == TopologyKind::Spread;
        let filter = is_spread.then(|| NodeFilter::of(&rule, pod, &pod.terms[view.0..], &tolerations));
        // The domains of affinity are those of pools of which the pod tolerates all taints (`ForEachDomain` without a policy).
        let counts = |taints: &[Taint]| is_spread && !rule.honors_taints || tolerate(&tolerations, taints);
        let universe = self.scheduler.domains_for(pod, &rule.key, counts).unwrap_or_default();
        let mut topology = Topology {
            rule,
            owner,
            position,
            view,
            is_inverse,
            filter,
            domains: universe.into_iter().map(|value| (value, 0)).collect(),
        };
        for open in self.open.iter().filter(|open| open.launched) {
            let candidate = self.candidate(open);
            let label = |key: &str| label_of(open, candidate, key);
            let counts =
                topology.filter.as_ref().is_none_or(|one| one.matches(&candidate.pool.taints, label));
            let Some(domain) =
                label(&topology.rule.key).filter(|one| one.operator() == Operator::In && counts)
            else {
                continue;
            };
            let is_counted = |group: usize| match is_inverse {
                true => group == owner,
                false => topology.rule.counts.contains(&group),
            };
            let there = open.bound.iter().filter(|(group, _)| is_counted(**group));
            let pods: u64 = there.map(|(_, pods)| pods).sum();
            if !is_inverse || pods > 0 {
                topology.record(domain.values.iter(), pods * open.nodes);
            }
        }
        self.topologies.push(topology);
    }

    /// What rules of spread, affinity and anti-affinity leave of the requirements of a node with a pod (`AddRequirements`). [`None`] if
    /// they leave nothing.
    pub(super) fn within_domains(
        &self,
        at: usize,
        state: usize,
        requirements: &Requirements,
    ) -> Option<Requirements> {
        let view = self.view(at, state);
        let relaxation = &self.pods[at].states[state].relaxation;
        let kept: BTreeSet<usize> =
            relaxation.rules(self.pods[at].group.pod).map(|(position, _)| position).collect();
        let own = |one: &Topology| {
            one.owner == at && one.view == one.rule.seen_from(view) && kept.contains(&one.position)
        };
        let strict =
            pod_requirements(self.pods[at].group.pod, &Relaxation { preference: None, ..*relaxation });
        let mut narrowed = Requirements::of(requirements.provider());
        for topology in &self.topologies {
            let rule = &topology.rule;
            let is_counted = rule.counts.contains(&at);
            let matters = if topology.is_inverse { is_counted } else { own(topology) };
            if !matters {
                continue;
            }
            let known = (strict.get(&rule.key), requirements.get(&rule.key));
            let left = topology.next(is_counted, known, self.tie);
            if left.is_empty() {
                return None;
            }
            narrowed.add(&rule.key, Requirement::new(Operator::In, &left, None));
        }
        requirements.compatible(&narrowed).ok()?;
        let mut all = requirements.clone();
        all.add_all(&narrowed);
        Some(all)
    }

    /// Counts pods that were added to nodes (`Topology.Record`).
    pub(super) fn record(&mut self, node: usize, at: usize, pods: u64) {
        if self.topologies.is_empty() {
            return;
        }
        let (open, candidate) = (&self.open[node], self.candidate(&self.open[node]));
        let pods = pods * open.nodes;
        let mut topologies = std::mem::take(&mut self.topologies);
        for topology in &mut topologies {
            let rule = &topology.rule;
            let label = |key: &str| label_of(open, candidate, key);
            let is_counted = match &topology.filter {
                _ if topology.is_inverse => topology.owner == at,
                Some(filter) if rule.counts.contains(&at) => filter.matches(&candidate.pool.taints, label),
                _ => rule.counts.contains(&at),
            };
            let Some(domain) = label(&rule.key).filter(|_| is_counted) else { continue };
            // A pod keeps others off all domains that its node may be in; otherwise only a domain that is certain counts.
            let is_one = domain.operator() == Operator::In && domain.values.len() == 1;
            if rule.kind == TopologyKind::AntiAffinity || is_one {
                topology.record(domain.values.iter(), pods);
            }
        }
        self.topologies = topologies;
    }

    /// The requirements of a node with the labels that it gets when it is started and that they leave open.
    pub(super) fn pin_labels(&self, at: usize) -> Requirements {
        let open = &self.open[at];
        let mut requirements = open.requirements.clone();
        let candidate = &self.scheduler.candidates[open.candidate];
        let class = candidate.pool.class.as_ref();
        let first = |mut all: Vec<String>| {
            all.sort();
            match self.tie {
                Tie::First => all.into_iter().next(),
                Tie::Last => all.into_iter().next_back(),
            }
        };
        let allowed = |key: &str, value: &str| open.requirements.get(key).is_none_or(|one| one.has(value));
        let zones = class.map_or(&[][..], |class| class.zones.as_slice()).iter();
        let zones = zones.filter(|zone| allowed(ZONE, &zone.name) && allowed(ZONE_ID, &zone.id));
        let mut labels: Vec<(String, String)> = Vec::new();
        if let Some(name) = first(zones.clone().map(|zone| zone.name.clone()).collect()) {
            let id = zones.clone().find(|zone| zone.name == name).map(|zone| zone.id.clone());
            labels.extend(id.filter(|id| !id.is_empty()).map(|id| (ZONE_ID.to_owned(), id)));
            labels.push((ZONE.to_owned(), name));
        }
        let capacity = launch_order(&open.requirements, &open.types, class);
        labels.extend(capacity.first().map(|capacity| (CAPACITY_TYPE.to_owned(), (*capacity).to_owned())));
        let several = open.requirements.iter().filter(|(_, one)| one.operator() == Operator::In);
        let several = several
            .filter(|(key, one)| one.values.len() > 1 && !open.requirements.provider().is_well_known(key));
        for (key, one) in several {
            labels.extend(first(one.values.to_vec()).map(|value| (key.to_owned(), value)));
        }
        for (key, value) in labels {
            requirements.add(&key, Requirement::is(&value));
        }
        requirements
    }
}

/// For each group, whether its pods have to be placed one by one: the domain of each decides about the next.
pub(super) fn tied(pods: &[PendingPods<'_>]) -> Vec<bool> {
    let mut tied: Vec<bool> =
        pods.iter().map(|pod| pod.group.on_domain.iter().any(Option::is_some)).collect();
    for rule in pods.iter().flat_map(|pod| pod.group.on_domain.iter().flatten()) {
        for other in rule.counts.iter().filter(|_| keeps_others_off(rule)) {
            tied[*other] = true;
        }
    }
    tied
}

/// Whether a rule also keeps the pods off that it selects, whatever rules these have.
fn keeps_others_off(rule: &DomainRule) -> bool {
    rule.kind == TopologyKind::AntiAffinity && rule.required
}

/// What is known of a label of nodes: of one that is only planned, what it requires.
fn label_of(open: &OpenNodes, candidate: &Candidate<'_>, key: &str) -> Option<Requirement> {
    if let Some(known) = open.requirements.get(key) {
        return Some(known.clone());
    }
    let instance = open.types.iter().next().filter(|_| open.launched)?;
    match instance.label(&candidate.nodes.requirements.provider().catalogue_key(key)) {
        Label::Is(value) => Some(Requirement::is(value)),
        _ => None,
    }
}
