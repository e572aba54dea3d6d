//! The pods of a batch with what follows from them for every node.

use std::sync::OnceLock;

use super::PodGroup;
use super::index::CommonAmounts;
use crate::catalog::TypeSet;
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::candidate::NotAdmitted;
use crate::karpenter::scheduling::input::{HostPort, ResourceList, Toleration};
use crate::karpenter::scheduling::pod_requirements::{Relaxation, effective_tolerations, pod_requirements};
use crate::karpenter::scheduling::resources::pod_requests;
use crate::karpenter::scheduling::scheduler::Scheduler;
use crate::karpenter::scheduling::verdict::Uncertainty;

/// The resources by which most full nodes are told from nodes with room.
pub(super) const COMMON_RESOURCES: [&str; 4] = ["cpu", "memory", "pods", "nvidia.com/gpu"];

/// Equal pods with what follows from them.
pub(super) struct PendingPods<'s> {
    pub(super) group: PodGroup<'s>,
    pub(super) left: u64,
    pub(super) need: ResourceList,
    /// What the pods request of the resources of [`COMMON_RESOURCES`], in thousandths.
    pub(super) common_requests: CommonAmounts,
    pub(super) ports: Vec<&'s HostPort>,
    pub(super) states: Vec<State<'s>>,
    pub(super) tolerations: Vec<Toleration>,
}

/// A state of relaxation of pods.
pub(super) struct State<'s> {
    pub(super) relaxation: Relaxation<'s>,
    pub(super) required: Requirements,
}

/// What the pools of a scheduler answer about a pod by itself, by state of relaxation and candidate. A candidate is asked when a
/// node of it is tried, and once for all packings: of 86 pools, pods try few, and a `plan` of 3,000 files takes half the time.
#[derive(Debug, Default)]
pub struct AskedPools(OnceLock<Vec<Vec<OnceLock<Answer>>>>);

/// The types that a candidate has for a pod on an empty node; or what is not known, nothing if it rejects the pod.
type Answer = Result<Box<TypeSet>, Vec<Uncertainty>>;

impl<'s> PendingPods<'s> {
    pub(super) fn new(scheduler: &Scheduler<'_>, group: &PodGroup<'s>) -> Self {
        let need = pod_requests(group.pod);
        let state = |relaxation: Relaxation<'s>| State {
            required: pod_requirements(group.pod, &relaxation),
            relaxation,
        };
        Self {
            left: group.count,
            common_requests: COMMON_RESOURCES.map(|name| need.get(name).copied().unwrap_or(0)),
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
        self.ask(scheduler, state, candidate).as_deref().ok()
    }

    fn ask(&self, scheduler: &Scheduler<'_>, state: usize, candidate: usize) -> &Answer {
        let unasked = || scheduler.candidates.iter().map(|_| OnceLock::new()).collect();
        let answers = self.group.asked.0.get_or_init(|| self.states.iter().map(|_| unasked()).collect());
        answers[state][candidate].get_or_init(|| {
            let (pod, relaxation) = (self.group.pod, &self.states[state].relaxation);
            let asked = &scheduler.candidates[candidate];
            match asked.admit(pod, relaxation, &self.tolerations, &self.need, scheduler.conditions()) {
                Ok(types) => Ok(Box::new(types)),
                Err(NotAdmitted::Rejected(_)) => Err(Vec::new()),
                Err(NotAdmitted::Undecided(why)) => Err(why),
            }
        })
    }

    /// What is not known about the candidates that may admit such a pod.
    pub(super) fn uncertainties(&self, scheduler: &Scheduler<'_>) -> Vec<Uncertainty> {
        let mut all = Vec::new();
        for state in 0..self.states.len() {
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
