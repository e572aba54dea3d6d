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
    pub(super) states: Vec<Relaxation<'s>>,
    /// The types that each candidate has for such a pod on an empty node, by state; `None` if it does not admit the pod.
    pub(super) admitted: Vec<Vec<Option<TypeSet>>>,
    pub(super) uncertainties: Vec<Uncertainty>,
}

impl<'s> PendingPods<'s> {
    pub(super) fn new(scheduler: &Scheduler<'_>, group: &PodGroup<'s>) -> Self {
        let need = pod_requests(group.pod);
        let tolerations = effective_tolerations(group.pod, &scheduler.settings);
        let states = scheduler.relaxations(group.pod);
        let mut uncertainties = Vec::new();
        let mut admitted = Vec::new();
        for state in &states {
            let of = |candidate: &Candidate<'_>| match candidate.admit(
                group.pod,
                state,
                &tolerations,
                &need,
                scheduler.conditions(),
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
