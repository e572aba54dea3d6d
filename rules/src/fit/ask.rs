//! Answers about one object at a time, for editors. Only what an answer needs is computed.

use std::collections::{BTreeMap, HashMap};

use crate::catalog::InstanceType;
use crate::cluster::Cluster;
use crate::cluster::pod_policies::{PodPart, may_change_pods};
use crate::cluster::queues::may_tolerate;
use crate::cluster::views::{Tolerance, Tolerances};
use crate::fit::pools::{PoolSummary, Tenant, scheduled_templates, starts_nodes};
use crate::fit::{Explanation, Situation, Told, read, workloads};
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::{
    Cause, Outcome, Pod, RejectionStage, Scheduler, Taint, Uncertainty, Verdict, tolerates,
};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::devices::{requests_device_plugin, uses_accelerators};
use crate::workload::template::{Template, templates};

/// Maximum number of pools whose limits are added up. The sum over more pools says little about one workload.
const MAX_ROOMS: usize = 8;

/// The number of pods of a workload that fit within the limits of NodePools.
#[derive(Clone, Debug)]
pub struct Room {
    /// The number of pods, if no other pods run on the nodes.
    pub pods: i128,
    /// The pools that admit the pods, in the order in which Karpenter tries them.
    pub pools: Vec<Object>,
}

/// The number of pods that fit within the limits of a pool, and the uncertainties of placing them there.
type Landing = (Option<i128>, Vec<Uncertainty>);

/// The workloads of a cluster, grouped by how they treat a taint.
#[derive(Clone, Debug, Default)]
pub struct TaintAudience {
    /// The workloads whose pods tolerate it.
    pub tolerate: Vec<Object>,
    /// The workloads whose pods request accelerators and do not tolerate it.
    pub kept_out: Vec<Object>,
    /// The number of other workloads that certainly do not tolerate it.
    pub others: usize,
    /// The number of workloads for which this is not known.
    pub unknown: usize,
}

impl<'c> Situation<'c> {
    /// The situation of one pool without DaemonSets and overlays, which is enough for its instance types and
    /// their price.
    pub fn of_pool(cluster: &'c Cluster, platform: &Platform, pool: &Object) -> Situation<'c> {
        let runtime_classes = read::runtime_classes(cluster, None);
        let mut situation = Situation::of_pools(cluster, platform, vec![pool.clone()], runtime_classes);
        situation.options.listed_spot = true;
        if let Some(reason) = read::left_out(pool, cluster, platform) {
            situation.pools.clear();
            situation.objects.clear();
            situation.left_out.push((pool.clone(), reason));
        }
        situation
    }

    /// Like [`Situation::explain`], but with fewer pools that reject the pods: none if another pool admits
    /// them, otherwise only the `most` nearest misses.
    pub fn explain_nearest(&self, workload: &Object, most: usize) -> Vec<Explanation> {
        let scheduler = self.scheduler();
        templates(workload)
            .iter()
            .map(|template| self.explain_template(&scheduler, workload, template, Told::Nearest(most)))
            .collect()
    }

    /// Like [`Situation::explain_nearest`], with the scheduler of the situation, which is made once for many workloads.
    pub(crate) fn explain_with(
        &self,
        scheduler: &Scheduler<'_>,
        workload: &Object,
        most: usize,
    ) -> Vec<Explanation> {
        let told = Told::Nearest(most);
        let explain = |template: &Template<'_>| self.explain_template(scheduler, workload, template, told);
        templates(workload).iter().map(explain).collect()
    }

    /// Whether one of the pools starts no nodes because the kubelet reserves more than any of its types has.
    pub(crate) fn reserves_all(&self) -> bool {
        let scheduler = self.scheduler();
        let is_negative = |why: &RejectionStage| matches!(why, RejectionStage::NoTypes(Some(why)) if why.cause == Cause::Negative);
        (0..self.pools.len()).any(|at| scheduler.admitted(at).err().is_some_and(is_negative))
    }

    /// The summary of one pool. `None` if the situation does not contain it.
    pub fn summary_of(&self, pool: &Object, cluster: &Cluster, platform: &Platform) -> Option<PoolSummary> {
        let is_it = |object: &Object| object.is_same_manifest(pool);
        let Some(position) = self.objects.iter().position(is_it) else {
            let (object, reason) = self.left_out.iter().find(|(object, _)| is_it(object))?;
            return Some(PoolSummary::closed(object, reason.clone()));
        };
        let scheduler = self.scheduler();
        let tenants = self.tenants_of(position, &scheduler, cluster);
        Some(self.summary(&scheduler, position, tenants, cluster, platform))
    }

    /// The summary of the only pool of a situation, without its workloads.
    pub fn summary_alone(&self, cluster: &Cluster, platform: &Platform) -> Option<PoolSummary> {
        match self.left_out.first() {
            Some((object, reason)) => Some(PoolSummary::closed(object, reason.clone())),
            None if self.objects.is_empty() => None,
            None => Some(self.summary(&self.scheduler(), 0, Vec::new(), cluster, platform)),
        }
    }

    /// The workloads whose first choice is a pool. Most pods do not fit it at all, so that the other pools
    /// need not be evaluated for them.
    fn tenants_of(&self, position: usize, scheduler: &Scheduler<'_>, cluster: &Cluster) -> Vec<Tenant> {
        let alone = self.alone(position);
        let mut known: HashMap<Pod, Option<Landing>> = HashMap::new();
        let mut tenants = Vec::new();
        for workload in workloads(cluster).filter(|workload| starts_nodes(workload)) {
            for template in scheduled_templates(workload) {
                let Some(pod) = self.pod(&template) else { continue };
                let lands = known.entry(pod).or_insert_with_key(|pod| {
                    // Domains of spread and affinity are those of all pools.
                    if pod.topology.is_empty() && matches!(alone.decide(pod), Verdict::DoesNotFit(_)) {
                        return None;
                    }
                    match scheduler.decide(pod) {
                        Verdict::Fits { pool, uncertainties, .. }
                            if self.pools_of_controllers(pool, &uncertainties).any(|at| at == position) =>
                        {
                            Some((self.room_on(&alone, position, pod), uncertainties))
                        }
                        _ => None,
                    }
                });
                if let Some((room, uncertainties)) = lands {
                    let replicas = cluster.views().replicas(workload).map(|r| (r.floor, r.max));
                    tenants.push(Tenant {
                        workload: workload.clone(),
                        replicas,
                        room: *room,
                        uncertainties: uncertainties.clone(),
                    });
                }
            }
        }
        tenants
    }

    /// The number of pods of each workload that fit within the limits of the pools that admit them. `None` if
    /// there are many such pools, if a pool that may admit them has no limit for them, if they request no
    /// accelerators (they may then run on nodes that Karpenter does not manage), or if a replica is not one
    /// pod.
    pub fn rooms_of(&self, workloads: &[&Object]) -> Vec<Option<Room>> {
        let mut rooms = Rooms { situation: self, scheduler: self.scheduler(), alone: BTreeMap::new() };
        let mut known: HashMap<Pod, Option<Room>> = HashMap::new();
        let mut room_of = |workload: &&Object| {
            let pod = self.countable_pod(workload)?;
            known.entry(pod).or_insert_with_key(|pod| rooms.room_for(pod)).clone()
        };
        workloads.iter().map(&mut room_of).collect()
    }

    /// The room for the pods of a workload as in [`Situation::rooms_of`], and how many there are at most, if that is more.
    pub fn room(&self, cluster: &Cluster, workload: &Object) -> Option<(Room, i64)> {
        let most = cluster.views().replicas(workload)?.max;
        let room = self.rooms_of(&[workload]).pop().flatten()?;
        (room.pods < i128::from(most)).then_some((room, most))
    }

    /// The pod of a workload whose replicas can be counted.
    fn countable_pod(&self, workload: &Object) -> Option<Pod> {
        let kind = workload.kind();
        let one_pod = matches!(kind, "Deployment" | "StatefulSet" | "ReplicaSet" | "Rollout");
        if !one_pod || workload.is_partial() || !starts_nodes(workload) || !requests_device_plugin(workload) {
            return None;
        }
        let templates = templates(workload);
        let [template] = templates.as_slice() else { return None };
        if template.spec.get("nodeName").is_set() || self.pools.iter().any(|pool| pool.replicas.is_some()) {
            return None;
        }
        self.pod(template)
    }
}

/// The pools to place pods on: all pools together, and each by itself, built on first use.
struct Rooms<'s> {
    situation: &'s Situation<'s>,
    scheduler: Scheduler<'s>,
    alone: BTreeMap<usize, Scheduler<'s>>,
}

impl Rooms<'_> {
    fn room_for(&mut self, pod: &Pod) -> Option<Room> {
        let situation = self.situation;
        let mut admitting = Vec::new();
        for (position, outcome) in self.scheduler.survey(pod) {
            match outcome {
                Outcome::Rejects(_) => {}
                Outcome::Undecided(_) => return None,
                Outcome::Admits(_) => admitting.push(position),
            }
        }
        if admitting.is_empty() || admitting.len() > MAX_ROOMS {
            return None;
        }
        let mut room = Room { pods: 0, pools: Vec::new() };
        for position in admitting {
            let object = &situation.objects[position];
            let is_open = NodePool::new(object).is_some_and(|pool| pool.names_uncatalogued_values());
            if is_open || !situation.pools[position].uncertainties.is_empty() {
                return None;
            }
            let alone = self.alone.entry(position).or_insert_with(|| situation.alone(position));
            room.pods += situation.room_on(alone, position, pod)?;
            room.pools.push(object.clone());
        }
        Some(room)
    }
}

/// The types that a pool admits, cheapest first. `None` if they are not known or if there are none.
pub fn admitted_by(
    pool: &Object,
    cluster: &Cluster,
    platform: &Platform,
) -> Option<Vec<&'static InstanceType>> {
    // The requirements may name a type or family that is too new for the catalogue.
    if NodePool::new(pool).is_some_and(|pool| pool.names_uncatalogued_values()) {
        return None;
    }
    let summary = Situation::of_pool(cluster, platform, pool).summary_alone(cluster, platform)?;
    let is_known = summary.closed.is_none() && summary.uncertainties.iter().all(is_harmless);
    (is_known && !summary.types.is_empty()).then_some(summary.types)
}

/// Whether the types of a pool are known in spite of an uncertainty.
pub(super) fn is_harmless(uncertainty: &Uncertainty) -> bool {
    matches!(
        uncertainty,
        Uncertainty::NoClass(_) | Uncertainty::NoAutoModeClass(_) | Uncertainty::KubeletExpressions(_)
    )
}

/// Groups the workloads that may be in one cluster with an object by whether they tolerate a taint of it.
pub fn audience_of(cluster: &Cluster, owner: &Object, taint: &Taint, eks: bool) -> TaintAudience {
    let table = cluster.table::<Tolerances>();
    let mut audience = TaintAudience::default();
    let mut not: Vec<&Object> = Vec::new();
    let mut unknown: Vec<&Object> = Vec::new();
    for tolerance in table.keys() {
        let workloads = table.get(tolerance).iter().filter(|object| cluster.pairs(owner, object));
        match (tolerance, covers(cluster, tolerance, taint, eks)) {
            (Tolerance::Unknown, _) => unknown.extend(workloads.filter(|object| !object.is_partial())),
            (_, Some(true)) => audience.tolerate.extend(workloads.cloned()),
            (_, Some(false)) => {
                let adds = |namespace: &str| may_change_pods(cluster, namespace, PodPart::Tolerations);
                let (may, never): (Vec<&Object>, Vec<&Object>) =
                    workloads.partition(|object| adds(object.namespace_or_default()));
                unknown.extend(may);
                not.extend(never);
            }
            (_, None) => unknown.extend(workloads),
        }
    }
    // A workload with several templates may be in several lists.
    sort(&mut audience.tolerate);
    let is_new = |known: &[Object], object: &Object| !known.iter().any(|other| other.ptr_eq(object));
    let mut apart: Vec<Object> = Vec::new();
    for object in not {
        if uses_accelerators(object) {
            audience.kept_out.push(object.clone());
        } else {
            apart.push(object.clone());
        }
    }
    sort(&mut audience.kept_out);
    sort(&mut apart);
    if audience.tolerate.len() < 64 {
        audience.kept_out.retain(|object| is_new(&audience.tolerate, object));
        apart.retain(|object| is_new(&audience.tolerate, object));
    }
    audience.others = apart.len();
    audience.unknown = unknown.len();
    audience
}

fn sort(objects: &mut Vec<Object>) {
    objects.sort_by_cached_key(|object| {
        let id = object.id();
        (id.namespace_or_default().to_owned(), id.name.clone(), id.kind.clone(), object.ptr_id())
    });
    objects.dedup_by(|a, b| a.ptr_eq(b));
}

/// Whether pods tolerate a taint, by their own tolerations or those of their RuntimeClass. `None` if the flavors of their queue may
/// add one, or the RuntimeClass is not known.
pub(crate) fn covers(cluster: &Cluster, tolerance: &Tolerance, taint: &Taint, eks: bool) -> Option<bool> {
    if tolerance.covers(taint, eks) {
        return Some(true);
    }
    if tolerance.is_queued() && may_tolerate(cluster, |flavor| tolerates(flavor, taint)) {
        return None;
    }
    tolerance.runtime_class().map_or(Some(false), |name| adds(cluster, name, taint))
}

/// Whether a RuntimeClass adds a toleration of a taint to the pods that name it. `None` if it is not in the
/// input.
fn adds(cluster: &Cluster, name: &str, taint: &Taint) -> Option<bool> {
    let kind = Kind::RUNTIME_CLASS;
    let classes = cluster.all(kind.group, kind.kind, "default", name);
    if classes.is_empty() {
        // The RuntimeClasses of NVIDIA's GPU Operator add no tolerations.
        return (cluster.is_complete_for(kind) || name.starts_with("nvidia")).then_some(false);
    }
    let lists = || classes.iter().map(|class| class.path(&["scheduling", "tolerations"]));
    if lists().any(|list| list.has_unknown()) {
        return None;
    }
    Some(lists().any(|list| list.items().any(|node| tolerates(&toleration(&node), taint))))
}
