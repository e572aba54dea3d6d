//! How many pods the rules of spread and anti-affinity allow in all, and in each domain, where the domains that they count are known.

use std::collections::BTreeSet;

use crate::catalog::{HOSTNAME, TypeSet, retired};
use crate::cluster::Cluster;
use crate::fit::Situation;
use crate::fit::capacity::counts;
use crate::karpenter::pod::rules_of;
use crate::karpenter::requirement::{Operator, Requirement, Requirements, is_well_known, normalise};
use crate::karpenter::scheduling::{
    Outcome, PREFER_NO_SCHEDULE, Pod, RejectionStage, RequirementSpec, Scheduler, Taint, TopologyKind,
    Verdict, domains_of_pool, pool_requirements, tolerates,
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

    /// The domains of a key that count for a pod, and those that it can reach.
    fn reach(&self, scheduler: &Scheduler<'_>, pod: &Pod, key: &str, rule: &Node<'_>) -> Reach {
        let key = normalise(key);
        let own = own_requirement(pod, key);
        let honors_taints = rule.get("nodeTaintsPolicy").text() == Some("Honor");
        let (mut all, mut reachable) = (Some(BTreeSet::new()), Some(BTreeSet::new()));
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
                    let mut values = self.values(position, &admission.types, key, &listed);
                    // Where the volumes are does not count for the rule: the other domains stay empty.
                    values
                        .iter_mut()
                        .for_each(|values| values.retain(|value| volumes_allow(pod, key, value)));
                    add(&mut reachable, values);
                }
                Outcome::Undecided(_) => reachable = None,
                Outcome::Rejects(_) => {}
            }
        }
        let written = own.filter(|own| own.operator() == Operator::In).map(|own| own.values.len() as u64);
        Reach { all, reachable, listed: written }
    }

    /// The values that pools list for a label.
    pub(super) fn listed(&self, scheduler: &Scheduler<'_>, key: &str) -> BTreeSet<String> {
        let positions = (0..self.pools.len()).filter(|position| scheduler.admitted(*position).is_ok());
        let listed = positions.filter_map(|at| pool_requirements(&self.pools[at]).get(key).cloned());
        listed.flat_map(|one| one.values.to_vec()).collect()
    }

    /// The values of a label on nodes of a pool that have one of these types.
    pub(super) fn values(
        &self,
        position: usize,
        types: &TypeSet,
        key: &str,
        listed: &BTreeSet<String>,
    ) -> Domains {
        let pool = &self.pools[position];
        let requirements = pool_requirements(pool);
        match requirements.get(key) {
            // A node gets one of the values that some pool lists.
            Some(required) if required.operator() != Operator::In && !is_well_known(key) => {
                Some(listed.iter().filter(|value| required.has(value)).cloned().collect())
            }
            required => domains_of_pool(pool, required, types, key, self.options.region.as_deref()),
        }
    }
}

/// What is known of the domains of a rule.
struct Reach {
    all: Domains,
    reachable: Domains,
    /// The number of domains that the pod lists itself.
    listed: Option<u64>,
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

pub(super) fn whole(rule: &Node<'_>, name: &str) -> Option<u64> {
    rule.get(name).int().and_then(|number| u64::try_from(number).ok())
}

/// Whether the volumes of a pod leave nodes with a value of a label.
fn volumes_allow(pod: &Pod, key: &str, value: &str) -> bool {
    let allows = |spec: &RequirementSpec| Requirement::new(spec.op, &spec.values, None).has(value);
    let about = |alternative: &Vec<RequirementSpec>| {
        alternative.iter().filter(|spec| normalise(&spec.key) == key).all(allows)
    };
    pod.volumes.is_empty() || pod.volumes.iter().any(about)
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
