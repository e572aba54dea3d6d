//! What a situation has decided about pods. Many workloads have equal pods, and several answers ask for the same pod, so each
//! distinct pod is decided once: with 40 NodePools and 1,500 Deployments this saves 42 % of the processor time of
//! `pools --capacity` and 5 % of a check; what pools answered ([`Situation::asked`]) saves 38 % and 16 % (2026-11, dev build).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::fit::Situation;
use crate::karpenter::scheduling::{
    AskedPools, DomainRule, HostRule, Outcome, Packing, Pod, PodGroup, Scheduler, Verdict,
};

type Survey = Arc<[(usize, Outcome)]>;

/// The decisions about the pools of a situation.
#[derive(Default)]
pub(super) struct Known {
    verdicts: Mutex<HashMap<Pod, Verdict>>,
    surveys: Mutex<HashMap<Pod, Survey>>,
    asked: Mutex<HashMap<Pod, Arc<AskedPools>>>,
    packings: Mutex<Vec<KnownPacking>>,
}

/// Equal pods that were packed: what pools answered about them stands for the pod.
struct PackedGroup {
    asked: Arc<AskedPools>,
    count: u64,
    on_host: Vec<Option<HostRule>>,
    on_domain: Vec<Option<DomainRule>>,
}

impl PackedGroup {
    fn equals(&self, group: &PodGroup<'_>) -> bool {
        Arc::ptr_eq(&self.asked, &group.asked)
            && self.count == group.count
            && self.on_host == group.on_host
            && self.on_domain == group.on_domain
    }
}

/// The nodes for some pods, which the first that asks for them works out.
struct KnownPacking {
    groups: Vec<PackedGroup>,
    packing: Arc<OnceLock<Packing>>,
}

impl Situation<'_> {
    /// Takes over what another situation has decided, if its pools decide alike.
    pub(crate) fn take_known(&mut self, other: &Situation<'_>) {
        let decides_alike = self.pools == other.pools
            && self.daemonsets == other.daemonsets
            && self.overlays == other.overlays
            && self.overlays_on == other.overlays_on
            && self.options == other.options;
        if decides_alike {
            self.known = Arc::clone(&other.known);
        }
    }

    /// The nodes for groups of pods, whose `asked` is that of [`Situation::asked`]. Equal groups are packed once: a `plan` of 5,000
    /// files that changes nothing that pods ask for, such as an image, takes 30 s of processor time instead of 41 (2026-11, dev
    /// build).
    pub(super) fn pack(&self, scheduler: &Scheduler<'_>, groups: &[PodGroup<'_>]) -> Packing {
        let mut packings = self.known.packings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &&KnownPacking| {
            known.groups.len() == groups.len()
                && known.groups.iter().zip(groups).all(|(one, group)| one.equals(group))
        };
        let packing = match packings.iter().find(is_same) {
            Some(known) => Arc::clone(&known.packing),
            None => {
                let packed = |group: &PodGroup<'_>| PackedGroup {
                    asked: Arc::clone(&group.asked),
                    count: group.count,
                    on_host: group.on_host.clone(),
                    on_domain: group.on_domain.clone(),
                };
                let packing = Arc::default();
                let groups = groups.iter().map(packed).collect();
                packings.push(KnownPacking { groups, packing: Arc::clone(&packing) });
                packing
            }
        };
        drop(packings);
        packing.get_or_init(|| scheduler.pack(groups, self.options.region.as_deref())).clone()
    }

    /// What `scheduler`, that of the situation, decides about a pod.
    pub(super) fn decide(&self, scheduler: &Scheduler<'_>, pod: &Pod) -> Verdict {
        let verdicts = || self.known.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = verdicts().get(pod) {
            return known.clone();
        }
        let verdict = scheduler.decide(pod);
        verdicts().insert(pod.clone(), verdict.clone());
        verdict
    }

    /// What pools answered the scheduler of the situation so far when it placed such pods.
    pub(super) fn asked(&self, pod: &Pod) -> Arc<AskedPools> {
        let mut asked = self.known.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked.get(pod) {
            return Arc::clone(known);
        }
        let new = Arc::default();
        asked.insert(pod.clone(), Arc::clone(&new));
        new
    }

    /// What each pool answers `scheduler`, that of the situation, about a pod.
    pub(super) fn survey(&self, scheduler: &Scheduler<'_>, pod: &Pod) -> Survey {
        let surveys = || self.known.surveys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = surveys().get(pod) {
            return Arc::clone(known);
        }
        let survey: Survey = scheduler.survey(pod).into_iter().collect();
        surveys().insert(pod.clone(), Arc::clone(&survey));
        survey
    }
}
