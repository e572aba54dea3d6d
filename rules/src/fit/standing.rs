//! The nodes of static pools: whether they are enough for the pods that run on no other nodes.

use crate::cluster::Cluster;
use crate::fit::Situation;
use crate::fit::capacity::{Capacity, Load, Misfit, counts};
use crate::karpenter::scheduling::{Outcome, Pod, Selected, TopologyKind, TopologyRule, Verdict};
use crate::object::Object;
use crate::workload::template::Template;

/// More pods than the nodes of static pools have room for.
pub(crate) struct BeyondStandingNodes {
    /// The number of pods: those that run now, or the most if only these are too many.
    pub(crate) pods: u64,
    /// Whether it is the most that an autoscaler or a suspended Job may start.
    pub(crate) at_most: bool,
    /// The number of pods that the nodes have room for, if nothing else runs on them.
    pub(crate) room: u64,
    /// The static pools that admit the pods.
    pub(crate) pools: Vec<Object>,
}

impl Situation<'_> {
    /// The pods of a workload that wait for a node of static pools while all pods of the cluster run, with the fewest replicas or else with
    /// the most.
    pub fn waiting(&self, cluster: &Cluster, workload: &Object) -> Option<Misfit> {
        if !self.pools.iter().any(|pool| pool.replicas.is_some()) {
            return None;
        }
        let of =
            |load: Load| load.misfits.into_iter().find(|misfit| misfit.workload.is_same_resource(workload));
        let Capacity { floor, ceiling } = self.capacity(cluster);
        of(floor).or_else(|| of(ceiling)).filter(|misfit| misfit.pods > 0)
    }

    /// Whether a template has more pods than the static pools, which alone admit them, have room for. `None` if the nodes
    /// are enough, if another pool may start more, or if that is not known.
    pub(crate) fn beyond_standing_nodes(
        &self,
        cluster: &Cluster,
        workload: &Object,
        template: &Template<'_>,
    ) -> Option<BeyondStandingNodes> {
        let pod = self.pod(template)?;
        let (floor, most) = counts(cluster, workload, template)?;
        let scheduler = self.scheduler();
        let Verdict::Fits { uncertainties, .. } = scheduler.decide(&pod) else { return None };
        if !uncertainties.is_empty() || !self.unreadable_daemonsets.is_empty() {
            return None;
        }
        let (mut room, mut pools) = (0_u64, Vec::new());
        for (position, outcome) in scheduler.survey(&pod) {
            match outcome {
                Outcome::Rejects(_) => continue,
                Outcome::Admits(_) if self.pools[position].replicas.is_some() => {}
                Outcome::Admits(_) | Outcome::Undecided(_) => return None,
            }
            let mut on_pool = self.room_on(&self.alone(position), position, &pod)?;
            if is_alone_on_node(&pod) {
                on_pool = on_pool.min(i128::from(self.pools[position].replicas.unwrap_or(0)));
            }
            room = room.saturating_add(u64::try_from(on_pool).ok()?);
            pools.push(self.objects[position].clone());
        }
        let at_most = floor <= room;
        let pods = if at_most { most } else { floor };
        (pods > room && !pools.is_empty()).then_some(BeyondStandingNodes { pods, at_most, room, pools })
    }
}

/// Whether no two of the pods run on one node: each keeps the others off its host, or they use one port of it.
fn is_alone_on_node(pod: &Pod) -> bool {
    let keeps_off = |rule: &TopologyRule| {
        rule.required
            && rule.kind == TopologyKind::AntiAffinity
            && rule.key == "kubernetes.io/hostname"
            && rule.selects == Selected::Itself
    };
    pod.topology.iter().any(keeps_off) || pod.containers.iter().any(|one| !one.host_ports.is_empty())
}
