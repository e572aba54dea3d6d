//! The pods of a batch with what follows from them for every node.

use super::PodGroup;
use crate::catalog::TypeSet;
use crate::karpenter::scheduling::candidate::{Candidate, NotAdmitted};
use crate::karpenter::scheduling::input::{HostPort, ResourceList};
use crate::karpenter::scheduling::pod_requirements::{Relaxation, effective_tolerations};
use crate::karpenter::scheduling::resources::pod_requests;
use crate::karpenter::scheduling::scheduler::Scheduler;
use crate::karpenter::scheduling::verdict::Uncertainty;

/// Equal pods with what follows from them.
pub(super) struct PendingPods<'s> {
    pub(super) group: PodGroup<'s>,
    pub(super) left: u64,
    pub(super) need: ResourceList,
    pub(super) ports: Vec<&'s HostPort>,
    pub(super) states: Vec<RelaxedPods<'s>>,
    /// The types that each candidate has for such a pod on an empty node, by state; `None` if it does not admit the pod.
    pub(super) admitted: Vec<Vec<Option<TypeSet>>>,
    pub(super) uncertainties: Vec<Uncertainty>,
}

/// A state of relaxation of the pods.
pub(super) struct RelaxedPods<'s> {
    pub(super) relaxation: Relaxation<'s>,
    pub(super) dropped_anti_affinity: usize,
    pub(super) dropped_spread: usize,
}

impl<'s> PendingPods<'s> {
    pub(super) fn new(scheduler: &Scheduler<'_>, group: &PodGroup<'s>) -> Self {
        let need = pod_requests(group.pod);
        let tolerations = effective_tolerations(group.pod, &scheduler.settings);
        let states = states(scheduler, group);
        let mut uncertainties = Vec::new();
        let mut admitted = Vec::new();
        for state in &states {
            let of = |candidate: &Candidate<'_>| match candidate.admit(
                group.pod,
                &state.relaxation,
                &tolerations,
                &need,
                &scheduler.settings,
            ) {
                Ok(types) => Some(types),
                Err(NotAdmitted::Rejected(_)) => None,
                Err(NotAdmitted::Undecided(why)) => {
                    uncertainties.extend(why);
                    None
                }
            };
            admitted.push(scheduler.candidates.iter().map(of).collect());
        }
        uncertainties.sort();
        uncertainties.dedup();
        Self {
            left: group.count,
            need,
            ports: group.pod.containers.iter().flat_map(|container| &container.host_ports).collect(),
            states,
            admitted,
            uncertainties,
            group: group.clone(),
        }
    }
}

/// The states of relaxation, with preferences about other pods on the node: anti-affinity is dropped before preferred node
/// affinity, spread after it (`Preferences.Relax`).
fn states<'s>(scheduler: &Scheduler<'_>, group: &PodGroup<'s>) -> Vec<RelaxedPods<'s>> {
    let all = scheduler.relaxations(group.pod);
    let terms = group.pod.terms.len().max(1);
    let (anti_affinity, spread) = (group.anti_affinity.len(), group.spread.len());
    let mut out = Vec::new();
    let mut push = |relaxation: Relaxation<'s>, dropped_anti_affinity, dropped_spread| {
        out.push(RelaxedPods { relaxation, dropped_anti_affinity, dropped_spread });
    };
    let hard = all.iter().filter(|state| !state.tolerate_prefer_no_schedule).count();
    for (at, relaxation) in all.iter().enumerate() {
        let dropped = if at < terms { 0 } else { anti_affinity };
        push(*relaxation, dropped, if at < hard { 0 } else { spread });
        if at + 1 == terms {
            (1..=anti_affinity).for_each(|dropped| push(*relaxation, dropped, 0));
        }
        if at + 1 == hard {
            (1..=spread).for_each(|dropped| push(*relaxation, anti_affinity, dropped));
        }
    }
    out
}
