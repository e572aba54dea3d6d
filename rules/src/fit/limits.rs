//! The limits of NodePools: whether the nodes within them are enough for the pods of a template.

use crate::cluster::Cluster;
use crate::fit::Situation;
use crate::fit::capacity::counts;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::scheduling::{Admission, Outcome, Pod, Scheduler, Verdict, pod_requests};
use crate::object::Object;
use crate::workload::template::Template;

/// More pods than the limits of the NodePools that admit them have room for.
pub(crate) struct BeyondLimits {
    /// The number of pods: those that run now, or the most if only these are too many.
    pub(crate) pods: u64,
    /// Whether it is the most that an autoscaler or a suspended Job may start.
    pub(crate) at_most: bool,
    /// The number of pods that the limits have room for at most, if nothing else runs on the nodes.
    pub(crate) room: u64,
    /// The pools that admit the pods, each with the limit that is reached first.
    pub(crate) pools: Vec<(Object, String)>,
}

impl Situation<'_> {
    /// Whether a template has more pods than the limits on CPU and memory of the pools that admit them have room for. `None`
    /// if the room is enough, if a pool has no such limit or reaches one on other resources first, or if that is not known.
    pub(crate) fn beyond_limits(
        &self,
        cluster: &Cluster,
        workload: &Object,
        template: &Template<'_>,
    ) -> Option<BeyondLimits> {
        let (floor, most) = counts(cluster, workload, template)?;
        let pod = self.pod(template).filter(|_| most > 1)?;
        if !self.overlays.is_empty() || !self.unreadable_daemonsets.is_empty() || !self.left_out.is_empty() {
            return None;
        }
        let scheduler = self.scheduler();
        let Verdict::Fits { uncertainties, .. } = scheduler.decide(&pod) else { return None };
        if !uncertainties.is_empty() {
            return None;
        }
        let (room, pools) = self.room_on_pools(&scheduler, &pod)?;
        let at_most = floor <= room;
        let pods = if at_most { most } else { floor };
        (pods > room && room > 0 && !pools.is_empty()).then_some(BeyondLimits { pods, at_most, room, pools })
    }

    /// Whether the limits of the pools may have no room for all pods of a template. Otherwise those of these pools and others
    /// have, or more than CPU and memory decides.
    pub(crate) fn may_lack_room(
        &self,
        cluster: &Cluster,
        workload: &Object,
        template: &Template<'_>,
    ) -> bool {
        let lacks = || {
            let (_, most) = counts(cluster, workload, template)?;
            let (room, _) = self.room_on_pools(&self.scheduler(), &self.pod(template)?)?;
            Some(room < most)
        };
        lacks() == Some(true)
    }

    /// The most pods that the limits of the pools that admit them have room for, and these pools, each with the limit that is
    /// reached first.
    fn room_on_pools(&self, scheduler: &Scheduler<'_>, pod: &Pod) -> Option<(u64, Vec<(Object, String)>)> {
        let (mut room, mut pools) = (0_u64, Vec::new());
        for (position, outcome) in scheduler.survey(pod) {
            let admission = match outcome {
                Outcome::Rejects(_) => continue,
                Outcome::Admits(admission) => admission,
                Outcome::Undecided(_) => return None,
            };
            let (on_pool, limit) = self.room_within_limits(scheduler, position, pod, &admission)?;
            room = room.saturating_add(on_pool);
            pools.push((self.objects[position].clone(), limit));
        }
        Some((room, pools))
    }

    /// The most pods that the limits of a pool have room for, and the limit that is reached first. It is an upper bound: nodes of
    /// the type that uses each limit best, with all the memory that EC2 specifies.
    fn room_within_limits(
        &self,
        scheduler: &Scheduler<'_>,
        position: usize,
        pod: &Pod,
        admission: &Admission,
    ) -> Option<(u64, String)> {
        let pool = &self.pools[position];
        let is_open = NodePool::new(&self.objects[position])?.names_uncatalogued_values();
        if is_open || pool.replicas.is_some() || !pool.uncertainties.is_empty() {
            return None;
        }
        let types = scheduler.most_pods_on(position, &admission.types, &pod_requests(pod));
        let pods_within = |(name, limit): &(String, i128)| {
            let mut most = None;
            for (instance, pods) in &types {
                let counted = scheduler.capacity_on(position, instance, name);
                // A type that the limit does not count is not limited by it.
                if counted <= 0 {
                    return None;
                }
                most = most.max(Some(limit.max(&0) * pods / counted));
            }
            Some((most?, name.clone()))
        };
        // Karpenter does not lower `limits.nodes` while it plans the nodes for one batch of pods.
        let enforced = pool.limits.iter().filter(|(name, _)| name != "nodes");
        let (room, name) = enforced.filter_map(pods_within).min()?;
        let is_told = matches!(name.as_str(), "cpu" | "memory");
        is_told.then_some((u64::try_from(room).ok()?, name))
    }
}
