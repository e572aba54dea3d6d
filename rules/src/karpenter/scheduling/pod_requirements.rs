//! The constraints of a pod: requirements at a level of relaxation, tolerations, and why Karpenter may ignore
//! it.

use super::super::requirement::{Operator, Requirement, Requirements, is_refused_in_claims, is_restricted};
use super::resources::effective_requests;
use super::verdict::IgnoreReason;
use crate::facts::names::{is_label_value, is_qualified_name};
use crate::karpenter::scheduling::input::{
    HostPort, Pod, SchedulerOptions, Taint, Term, Toleration, TopologyRule,
};
use crate::karpenter::scheduling::instance_types::{is_bound, valid_values};
use crate::steps;

/// How far the constraints of a pod are relaxed: the required term, the remaining preference with the highest
/// weight, and whether `PreferNoSchedule` taints are tolerated.
#[derive(Clone, Copy)]
pub(super) struct Relaxation<'p> {
    pub(super) term: Option<&'p Term>,
    pub(super) last_term: bool,
    pub(super) preference: Option<&'p Term>,
    /// How many of the rules of spread and pod affinity that are not required are dropped, from the first.
    pub(super) dropped_rules: usize,
    pub(super) tolerate_prefer_no_schedule: bool,
}

impl Relaxation<'_> {
    /// The rules of spread and pod affinity that are left, with their positions in the pod.
    pub(super) fn rules<'p>(
        &self,
        pod: &'p Pod,
    ) -> impl Iterator<Item = (usize, &'p TopologyRule)> + use<'p> {
        let required = pod.topology.iter().take_while(|rule| rule.required).count();
        let kept = required + self.dropped_rules;
        pod.topology.iter().enumerate().filter(move |(at, rule)| rule.required || *at >= kept)
    }
}

/// What a pod requires of nodes at a level of relaxation: selector, remaining preference with the highest
/// weight, term.
pub(super) fn pod_requirements(pod: &Pod, state: &Relaxation) -> Requirements {
    let mut set = Requirements::new();
    for (key, value) in &pod.node_selector {
        set.add(key, Requirement::is(value));
    }
    for term in state.preference.iter().chain(&state.term) {
        for spec in &term.expressions {
            set.add(&spec.key, Requirement::new(spec.op, &spec.values, spec.min_values));
        }
    }
    set
}

pub(super) fn preferences<'p>(pod: &'p Pod, settings: &SchedulerOptions) -> Vec<&'p Term> {
    // With this policy Karpenter reads strict requirements only (`NewStrictPodRequirements`).
    if settings.ignore_preferences {
        return Vec::new();
    }
    let mut preferences: Vec<_> = pod.preferences.iter().collect();
    steps::take(preferences.len());
    preferences.sort_by_key(|preference| std::cmp::Reverse(preference.weight));
    preferences.into_iter().map(|preference| &preference.term).collect()
}

/// Why Karpenter ignores a pod, if it does: the checks of `Provisioner.Validate`, which look at the node selector and every
/// required term, and not at preferences.
pub(super) fn ignore_reason(pod: &Pod, settings: &SchedulerOptions) -> Option<IgnoreReason> {
    let selected =
        pod.node_selector.iter().map(|(key, value)| (key, Operator::In, std::slice::from_ref(value)));
    let expressions = pod.terms.iter().flat_map(|term| &term.expressions);
    for (key, op, values) in selected.chain(expressions.map(|e| (&e.key, e.op, e.values.as_slice()))) {
        if is_restricted(key) {
            return Some(IgnoreReason::RestrictedKey(key.clone()));
        }
        if !is_qualified_name(key) || !values.iter().all(|value| is_label_value(value)) {
            return Some(IgnoreReason::Malformed(key.clone()));
        }
        let well_formed = match op {
            Operator::In => !values.is_empty(),
            Operator::Gt | Operator::Lt => is_bound(values),
            Operator::Gte | Operator::Lte => false,
            _ => true,
        };
        if !well_formed {
            return Some(IgnoreReason::Malformed(key.clone()));
        }
        if op == Operator::In
            && valid_values(key)
                .is_some_and(|valid| !values.iter().any(|value| valid.contains(&value.as_str())))
        {
            return Some(IgnoreReason::NoValidValue(key.clone()));
        }
    }
    if pod.terms.iter().any(|term| term.match_fields) {
        return Some(IgnoreReason::MatchFields);
    }
    if pod.terms.iter().any(|term| term.unreadable) {
        return Some(IgnoreReason::Malformed("operator".to_owned()));
    }
    // `validateKarpenterManagedLabelCanExist` reads the requirements before any relaxation.
    let preference = preferences(pod, settings).first().copied();
    let first = pod_requirements(
        pod,
        &Relaxation {
            term: pod.terms.first(),
            last_term: false,
            preference,
            dropped_rules: 0,
            tolerate_prefer_no_schedule: false,
        },
    );
    if first.get("karpenter.sh/nodepool").is_some_and(|r| r.operator() == Operator::DoesNotExist) {
        return Some(IgnoreReason::NoNodePool);
    }
    if let Some(fault) = &pod.volume_fault {
        return Some(IgnoreReason::Volumes(fault.clone()));
    }
    if let Some(key) = preference.and_then(|term| refused_key(term, settings)) {
        return Some(IgnoreReason::RefusedPreference(key.to_owned()));
    }
    (pod.resource_claims && settings.ignore_dra_requests).then_some(IgnoreReason::ResourceClaims)
}

/// A key of a preference that each pool meets, and that NodeClaims, which get the requirements of their pods, may not name. No
/// relaxation takes it away: the simulation succeeds, and the API server rejects the NodeClaim.
fn refused_key<'p>(preference: &'p Term, settings: &SchedulerOptions) -> Option<&'p str> {
    let is_absent = |op: Operator| matches!(op, Operator::NotIn | Operator::DoesNotExist);
    if preference.expressions.is_empty() || !preference.expressions.iter().all(|one| is_absent(one.op)) {
        return None;
    }
    let mut keys = preference.expressions.iter().map(|one| one.key.as_str());
    keys.find(|key| is_refused_in_claims(key, settings.simulates_lifecycle))
}

/// The tolerations of the pod, with those that EKS adds for extended resources of its containers.
pub fn effective_tolerations(pod: &Pod, settings: &SchedulerOptions) -> Vec<Toleration> {
    let mut all = pod.tolerations.clone();
    steps::take(8 * all.len());
    if !settings.eks {
        return all;
    }
    for container in pod.containers.iter().chain(&pod.init_containers) {
        for resource in
            effective_requests(container).into_iter().map(|(name, _)| name).filter(|name| is_extended(name))
        {
            let effect = "NoSchedule".to_owned();
            all.push(Toleration {
                key: resource,
                operator: "Exists".to_owned(),
                value: String::new(),
                effect,
            });
        }
    }
    all
}

/// Whether a resource is provided by a device plugin and not by Kubernetes.
fn is_extended(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/") && !resource.starts_with("requests.")
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    steps::take(1);
    if !toleration.effect.is_empty() && toleration.effect != taint.effect {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    let numbers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse::<i64>().ok()?));
    match toleration.operator.as_str() {
        "Exists" => true,
        "" | "Equal" => !toleration.key.is_empty() && toleration.value == taint.value,
        "Gt" => numbers().is_some_and(|(taint, bound)| taint > bound),
        "Lt" => numbers().is_some_and(|(taint, bound)| taint < bound),
        _ => false,
    }
}

pub(super) fn host_ports_conflict(a: &HostPort, b: &HostPort) -> bool {
    steps::take(4);
    let protocol = |port: &HostPort| {
        if port.protocol.is_empty() { "TCP".to_owned() } else { port.protocol.clone() }
    };
    let everywhere = |port: &HostPort| matches!(port.ip.as_str(), "" | "0.0.0.0" | "::");
    a.port == b.port && protocol(a) == protocol(b) && (a.ip == b.ip || everywhere(a) || everywhere(b))
}
