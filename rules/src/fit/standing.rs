//! The nodes of static pools: whether they are enough for the pods that run on no other nodes.

use std::collections::BTreeMap;

use crate::catalog::HOSTNAME;
use crate::cluster::Cluster;
use crate::fit::capacity::{Capacity, Load, Misfit, counts};
use crate::fit::{Situation, starts_nodes, workloads};
use crate::karpenter::scheduling::{
    Outcome, Pod, Scheduler, Selected, TopologyKind, TopologyRule, Verdict, pod_requests,
};
use crate::object::Object;
use crate::workload::template::{Template, templates};

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

/// Workloads that together request more of a resource than the nodes of a static pool have, which alone admits their pods.
pub(crate) struct Crowd {
    pub(crate) pool: Object,
    pub(crate) resource: String,
    /// What they request with the fewest replicas, and what the nodes have, in thousandths.
    pub(crate) asked: i128,
    pub(crate) has: i128,
    /// The workloads, in the order of their names.
    pub(crate) workloads: Vec<Object>,
}

/// Maximum number of templates whose pods are counted together.
const MAX_CROWD: usize = 32;

impl Situation<'_> {
    /// The workloads that share the nodes of the static pool of a template, if these are not enough for all. `may_wait` says of a template
    /// whether its pods run on nodes of pools alone.
    pub(crate) fn crowd(
        &self,
        cluster: &Cluster,
        workload: &Object,
        template: &Template<'_>,
        may_wait: impl Fn(&Object, &Template<'_>) -> bool,
    ) -> Option<Crowd> {
        let scheduler = self.scheduler();
        let position = self.only_static_pool(&scheduler, template)?;
        let near = workloads(cluster).filter(|other| starts_nodes(other) && cluster.pairs(workload, other));
        let others: Vec<Template<'_>> =
            near.flat_map(templates).filter(|other| may_wait(other.place.0, other)).collect();
        if others.len() > MAX_CROWD || !self.overlays.is_empty() {
            return None;
        }
        let mut asked: BTreeMap<String, i128> = BTreeMap::new();
        let mut sharing: Vec<Object> = Vec::new();
        for other in others.iter().filter(|other| self.only_static_pool(&scheduler, other) == Some(position))
        {
            let Some((floor, _)) = counts(cluster, other.place.0, other).filter(|(floor, _)| *floor > 0)
            else {
                continue;
            };
            for (name, amount) in pod_requests(&self.pod(other)?).iter() {
                *asked.entry(name.clone()).or_default() += *amount * i128::from(floor);
            }
            sharing.push(other.place.0.clone());
        }
        sharing.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        sharing.dedup_by(|a, b| a.is_same_resource(b));
        let alone = self.alone(position);
        let (types, nodes) = (alone.admitted(0).ok()?.0, self.pools[position].replicas?);
        let most =
            |name: &str| types.iter().map(|one| alone.room(one, name)).max().unwrap_or(0) * i128::from(nodes);
        let short = asked.into_iter().map(|(name, asked)| (most(&name), name, asked));
        let (has, resource, asked) =
            short.filter(|(_, name, _)| name != "pods").find(|(has, _, asked)| asked > has)?;
        Some(Crowd { pool: self.objects[position].clone(), resource, asked, has, workloads: sharing })
    }

    /// The static pool that alone admits the pods of a template.
    fn only_static_pool(&self, scheduler: &Scheduler<'_>, template: &Template<'_>) -> Option<usize> {
        let pod = self.pod(template).filter(|_| self.unreadable_daemonsets.is_empty())?;
        match self.decide(scheduler, &pod) {
            Verdict::Fits { uncertainties, .. } if uncertainties.is_empty() => {}
            _ => return None,
        }
        let survey = self.survey(scheduler, &pod);
        let mut open = survey.iter().filter(|(_, outcome)| !matches!(outcome, Outcome::Rejects(_)));
        match (open.next(), open.next()) {
            (Some((position, Outcome::Admits(_))), None) if self.pools[*position].replicas.is_some() => {
                Some(*position)
            }
            _ => None,
        }
    }

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
        let Verdict::Fits { uncertainties, .. } = self.decide(&scheduler, &pod) else { return None };
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
            && rule.key == HOSTNAME
            && rule.selects == Selected::Itself
    };
    pod.topology.iter().any(keeps_off) || pod.containers.iter().any(|one| !one.host_ports.is_empty())
}
