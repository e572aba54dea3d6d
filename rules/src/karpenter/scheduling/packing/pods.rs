//! The pods of a batch with what follows from them for every node.

use std::cell::OnceCell;

use super::PodGroup;
use crate::catalog::TypeSet;
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::candidate::NotAdmitted;
use crate::karpenter::scheduling::input::{HostPort, ResourceList, Toleration};
use crate::karpenter::scheduling::pod_requirements::{Relaxation, effective_tolerations, pod_requirements};
use crate::karpenter::scheduling::resources::pod_requests;
use crate::karpenter::scheduling::scheduler::Scheduler;
use crate::karpenter::scheduling::verdict::Uncertainty;

/// The resources by which most full nodes are told from nodes with room.
pub(super) const QUICK: [&str; 4] = ["cpu", "memory", "pods", "nvidia.com/gpu"];

/// Equal pods with what follows from them.
pub(super) struct PendingPods<'s> {
    pub(super) group: PodGroup<'s>,
    pub(super) left: u64,
    pub(super) need: ResourceList,
    /// What the pods request of the resources of [`QUICK`], in thousandths.
    pub(super) quick: [i128; QUICK.len()],
    pub(super) ports: Vec<&'s HostPort>,
    pub(super) states: Vec<State<'s>>,
    tolerations: Vec<Toleration>,
}

/// A state of relaxation of pods.
pub(super) struct State<'s> {
    pub(super) relaxation: Relaxation<'s>,
    pub(super) required: Requirements,
    /// By candidate: the types that it has for such a pod on an empty node, or why that is not known. Nothing is known to admit
    /// the pod where the reasons are empty. A candidate is asked when a node of it is tried: of 86 pools, pods try few, and a
    /// `plan` of 1,000 files takes half the time.
    admitted: Vec<OnceCell<Result<TypeSet, Vec<Uncertainty>>>>,
}

impl<'s> PendingPods<'s> {
    pub(super) fn new(scheduler: &Scheduler<'_>, group: &PodGroup<'s>) -> Self {
        let need = pod_requests(group.pod);
        let state = |relaxation: Relaxation<'s>| State {
            required: pod_requirements(group.pod, &relaxation),
            relaxation,
            admitted: scheduler.candidates.iter().map(|_| OnceCell::new()).collect(),
        };
        Self {
            left: group.count,
            quick: QUICK.map(|name| need.get(name).copied().unwrap_or(0)),
            need,
            ports: group.pod.containers.iter().flat_map(|container| &container.host_ports).collect(),
            states: scheduler.relaxations(group.pod).into_iter().map(state).collect(),
            tolerations: effective_tolerations(group.pod, &scheduler.settings),
            group: group.clone(),
        }
    }

    /// The types that a candidate has for such a pod on an empty node; `None` if it does not certainly admit the pod.
    pub(super) fn admitted(
        &self,
        scheduler: &Scheduler<'_>,
        state: usize,
        candidate: usize,
    ) -> Option<&TypeSet> {
        self.ask(scheduler, &self.states[state], candidate).as_ref().ok()
    }

    fn ask<'p>(
        &'p self,
        scheduler: &Scheduler<'_>,
        state: &'p State<'s>,
        candidate: usize,
    ) -> &'p Result<TypeSet, Vec<Uncertainty>> {
        state.admitted[candidate].get_or_init(|| {
            let (pod, relaxation) = (self.group.pod, &state.relaxation);
            let asked = &scheduler.candidates[candidate];
            match asked.admit(pod, relaxation, &self.tolerations, &self.need, scheduler.conditions()) {
                Ok(types) => Ok(types),
                Err(NotAdmitted::Rejected(_)) => Err(Vec::new()),
                Err(NotAdmitted::Undecided(why)) => Err(why),
            }
        })
    }

    /// What is not known about the candidates that may admit such a pod.
    pub(super) fn uncertainties(&self, scheduler: &Scheduler<'_>) -> Vec<Uncertainty> {
        let mut all = Vec::new();
        for state in &self.states {
            for candidate in 0..scheduler.candidates.len() {
                if let Err(why) = self.ask(scheduler, state, candidate) {
                    all.extend(why.iter().cloned());
                }
            }
        }
        all.sort();
        all.dedup();
        all
    }
}
