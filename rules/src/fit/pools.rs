//! A summary of a NodePool: the types that it admits, its maximum cost, the pods that block its nodes from
//! draining, and the workloads that run on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::{Accelerator, InstanceType, Label, cheapest_first};
use crate::cluster::Cluster;
use crate::cluster::placement::{EvictionBlocker, PdbBlock};
use crate::fit::words::conflict;
use crate::fit::{Situation, workloads};
use crate::karpenter::budget::Week;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::scheduling::{Pod, RejectionStage, Scheduler, Uncertainty, Verdict, pod_requests};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::template::{Template, templates};

/// The resources that count as GPUs.
pub(super) const GPUS: [&str; 4] = Accelerator::RESOURCES;

/// One model of GPU or accelerator among the types of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// The name, as in the label of the instance type.
    pub name: &'static str,
    /// Memory of each in MiB; 0 if not known.
    pub memory_mib: u32,
    /// The numbers per node, ascending. 0 is a fraction of a GPU.
    pub counts: Vec<u32>,
}

/// The maximum that the limits of a pool allow. Karpenter checks limits before it starts a batch of nodes, so
/// that a batch can exceed them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ceiling {
    /// The maximum number of nodes.
    pub nodes: Option<i128>,
    /// The maximum number of GPUs and accelerators; 0 if no type has any.
    pub gpus: Option<i128>,
    /// The maximum cost in millionths of a dollar per hour, by on-demand list price. Types without a price
    /// are not counted.
    pub micro_dollars: Option<i128>,
}

/// The nodes that a pool starts for pending pods.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The name of the pool.
    pub pool: String,
    /// The names of the types that EC2 still offers.
    pub types: Vec<&'static str>,
    /// The capacity types in the order in which Karpenter prefers them.
    pub capacity_types: Vec<&'static str>,
    pub ceiling: Ceiling,
}

/// A workload whose pods land on a pool.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub workload: Object,
    /// The minimum and maximum number of replicas, if known.
    pub replicas: Option<(i64, i64)>,
    /// The number of its pods that fit within the limits of the pool if nothing else runs there. `None` if
    /// the limits do not restrict them.
    pub room: Option<i128>,
    pub uncertainties: Vec<Uncertainty>,
}

/// A workload that prevents nodes of a pool from being drained.
#[derive(Clone, Debug)]
pub struct Keeper {
    pub workload: Object,
    /// Why its pods block the drain.
    pub reason: String,
}

#[derive(Clone, Debug)]
pub struct PoolSummary {
    pub object: Object,
    /// Its weight, 0 if absent.
    pub weight: i64,
    /// Why it does not start nodes for pending pods.
    pub closed: Option<String>,
    pub uncertainties: Vec<Uncertainty>,
    /// The types that it admits, cheapest first.
    pub types: Vec<&'static InstanceType>,
    /// The GPUs of the types.
    pub gpus: Vec<GpuModel>,
    pub architectures: Vec<&'static str>,
    /// The capacity types in the order in which Karpenter prefers them.
    pub capacity_types: Vec<&'static str>,
    /// The taints in kubectl's notation.
    pub taints: Vec<String>,
    /// The limits, in thousandths.
    pub limits: Vec<(String, i128)>,
    /// The maximum that the limits allow.
    pub ceiling: Ceiling,
    /// The allowance of its disruption budgets in each hour of a week, by reasons. Empty if the budgets
    /// cannot be read.
    pub weeks: Vec<Week>,
    /// The workloads whose pods block its nodes from draining.
    pub keepers: Vec<Keeper>,
    /// The workloads whose first choice the pool is.
    pub tenants: Vec<Tenant>,
}

/// The pools of a situation, and the workloads that fit none of them.
#[derive(Clone, Debug)]
pub struct PoolOverview {
    /// The pools, in the order in which Karpenter tries them.
    pub pools: Vec<PoolSummary>,
    /// The workloads with pods that no pool admits and that are for no other nodes of the input.
    pub homeless: Vec<Object>,
    /// The workloads for which this is not known.
    pub undecided: Vec<(Object, Vec<Uncertainty>)>,
}

impl Situation<'_> {
    /// The summaries of the pools, with the workloads of a cluster.
    pub fn overview(&self, cluster: &Cluster, platform: &Platform) -> PoolOverview {
        let scheduler = self.scheduler();
        let mut overview = PoolOverview { pools: Vec::new(), homeless: Vec::new(), undecided: Vec::new() };
        let mut tenants: BTreeMap<usize, Vec<Tenant>> = BTreeMap::new();
        for workload in workloads(cluster).filter(|workload| starts_nodes(workload)) {
            for template in scheduled_templates(workload) {
                let Some(pod) = self.pod(&template) else {
                    overview.undecided.push((workload.clone(), vec![Uncertainty::UnreadablePod]));
                    continue;
                };
                match self.decide(&scheduler, &pod) {
                    Verdict::Fits { pool, uncertainties, .. } => {
                        let replicas = cluster.views().replicas(workload).map(|r| (r.floor, r.max));
                        for pool in self.pools_of_controllers(pool, &uncertainties) {
                            tenants.entry(pool).or_default().push(Tenant {
                                workload: workload.clone(),
                                replicas,
                                room: self.room_for(pool, &pod),
                                uncertainties: uncertainties.clone(),
                            });
                        }
                    }
                    Verdict::DoesNotFit(_) if self.for_other_nodes(workload, &template).is_some() => {}
                    Verdict::DoesNotFit(_) => overview.homeless.push(workload.clone()),
                    Verdict::Unknown { uncertainties } => {
                        overview.undecided.push((workload.clone(), uncertainties));
                    }
                }
            }
        }
        let written = |position: &usize| !self.pools[*position].is_built_in;
        for position in scheduler.order().into_iter().filter(written) {
            let tenants = tenants.remove(&position).unwrap_or_default();
            overview.pools.push(self.summary(&scheduler, position, tenants, cluster, platform));
        }
        for (object, reason) in &self.left_out {
            overview.pools.push(PoolSummary::closed(object, reason.clone()));
        }
        let former = cluster.of(Kind::PROVISIONER);
        overview.pools.extend(former.map(|object| PoolSummary::closed(object, of_former_api(object))));
        overview
    }

    /// The pool of a verdict, and the one in which another controller starts a node as well.
    pub(super) fn pools_of_controllers(
        &self,
        first: usize,
        uncertainties: &[Uncertainty],
    ) -> impl Iterator<Item = usize> {
        let other = uncertainties.iter().find_map(|one| match one {
            Uncertainty::OtherController(name) => self.pools.iter().position(|pool| pool.name == *name),
            _ => None,
        });
        std::iter::once(first).chain(other)
    }

    /// The nodes that the written pools start for pending pods.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let scheduler = self.scheduler();
        let of = |position: usize| {
            let pool = &self.pools[position];
            if pool.is_built_in || pool.replicas.is_some() {
                return None;
            }
            let (types, capacity_types) = scheduler.admitted(position).ok()?;
            let types: Vec<&'static InstanceType> = types.offered().iter().collect();
            let ceiling = self.ceiling(position, &types);
            let types = types.iter().map(|instance| instance.name).collect();
            Some(Offer { pool: self.objects[position].name().to_owned(), types, capacity_types, ceiling })
        };
        scheduler.order().into_iter().filter_map(of).collect()
    }

    /// The workloads of a cluster, each with the pool that its pods land on first.
    pub(crate) fn first_choices<'o>(&self, cluster: &'o Cluster) -> Vec<(&Object, &'o Object)> {
        let scheduler = self.scheduler();
        let mut all = Vec::new();
        for workload in workloads(cluster).filter(|workload| starts_nodes(workload)) {
            for pod in scheduled_templates(workload).filter_map(|template| self.pod(&template)) {
                if let Verdict::Fits { pool, .. } = self.decide(&scheduler, &pod) {
                    all.push((&self.objects[pool], workload));
                }
            }
        }
        all
    }

    pub(super) fn summary(
        &self,
        scheduler: &Scheduler<'_>,
        position: usize,
        tenants: Vec<Tenant>,
        cluster: &Cluster,
        platform: &Platform,
    ) -> PoolSummary {
        let (pool, object) = (&self.pools[position], &self.objects[position]);
        if object.version() != "v1" {
            return PoolSummary::closed(object, of_former_api(object));
        }
        let mut summary = PoolSummary::closed(object, String::new());
        summary.closed = None;
        summary.uncertainties.clone_from(&pool.uncertainties);
        let region = self.options.region.as_deref();
        match scheduler.admitted(position) {
            Ok((types, capacity_types)) => {
                summary.types = cheapest_first(types.offered().iter(), region);
                summary.capacity_types = capacity_types;
            }
            Err(RejectionStage::Static) => {}
            Err(RejectionStage::Invalid(problem)) => {
                summary.closed = Some(format!("Karpenter rejects it: {problem}"));
            }
            Err(RejectionStage::NoTypes(Some(why))) => summary.closed = Some(conflict(why)),
            Err(_) => summary.closed = Some("it admits no instance type".to_owned()),
        }
        if let Some(nodes) = pool.replicas {
            summary.closed =
                Some(format!("it is static: it keeps {nodes} nodes, and starts none for pending pods"));
        }
        summary.gpus = gpu_models(&summary.types);
        summary.architectures = summary.types.iter().map(|t| t.arch).collect();
        summary.architectures.sort_unstable();
        summary.architectures.dedup();
        summary.taints = pool.taints.iter().map(super::obstacles::display).collect();
        summary.limits.clone_from(&pool.limits);
        summary.ceiling = self.ceiling(position, &summary.types);
        if summary.closed.is_none() && object_class(object).is_some() {
            summary.uncertainties.extend(pool.missing_class());
        }
        summary.weeks = weeks(object, platform);
        summary.keepers = keepers_on(object, cluster, platform);
        summary.tenants = tenants;
        summary
    }

    /// The maximum that the limits of a pool allow for any mix of its types.
    fn ceiling(&self, position: usize, types: &[&'static InstanceType]) -> Ceiling {
        let pool = &self.pools[position];
        let region = self.options.region.as_deref();
        let alone = self.alone(position);
        let gpus_of = |instance: &'static InstanceType| {
            GPUS.iter().map(|name| alone.capacity_of(instance, name) / 1000).max().unwrap_or(0)
        };
        let has_gpus = types.iter().any(|t| gpus_of(t) > 0);
        let mut ceiling = Ceiling { gpus: (!has_gpus).then_some(0), ..Ceiling::default() };
        let lower = |known: &mut Option<i128>, bound: i128| {
            *known = Some(known.map_or(bound, |least| least.min(bound)))
        };
        for (name, limit) in pool.bounds().iter() {
            let limit = (*limit).max(0);
            if name == "nodes" {
                let nodes = limit / 1000;
                lower(&mut ceiling.nodes, nodes);
                let most = types.iter().map(|t| gpus_of(t)).max().unwrap_or(0);
                lower(&mut ceiling.gpus, nodes * most);
                let dearest = types.iter().map(|t| price(t, region)).max().flatten();
                if let Some(dearest) = dearest {
                    lower(&mut ceiling.micro_dollars, nodes * dearest);
                }
                continue;
            }
            let sizes: Vec<(i128, &'static InstanceType)> = types
                .iter()
                .map(|t| (alone.capacity_of(t, name), *t))
                .filter(|(size, _)| *size <= limit)
                .collect();
            // A limit on a resource that a type does not have does not restrict that type.
            if sizes.iter().any(|(size, _)| *size <= 0) {
                continue;
            }
            // Nodes of one size leave a rest of the limit unused. Those of several may share it out.
            let is_one_size = sizes.windows(2).all(|pair| pair[0].0 == pair[1].0);
            let nodes_with = |each: i128, size: i128| match is_one_size {
                true => (limit / size).checked_mul(each),
                false => Some(limit.checked_mul(each)? / size),
            };
            lower(&mut ceiling.nodes, sizes.iter().map(|(size, _)| limit / size).max().unwrap_or(0));
            let gpus = sizes.iter().filter_map(|(size, t)| nodes_with(gpus_of(t), *size)).max();
            lower(&mut ceiling.gpus, gpus.unwrap_or(0));
            // Types without a list price are not counted.
            let dollars = sizes.iter().filter_map(|(size, t)| nodes_with(price(t, region)?, *size));
            if let Some(most) = dollars.max() {
                lower(&mut ceiling.micro_dollars, most);
            }
        }
        // A limit on one GPU resource bounds that resource even if some types do not have it.
        for name in GPUS {
            let others = types.iter().any(|t| gpus_of(t) > 0 && alone.capacity_of(t, name) == 0);
            if let Some((_, limit)) = pool.bounds().iter().find(|(key, _)| key == name && !others) {
                lower(&mut ceiling.gpus, (limit / 1000).max(0));
            }
        }
        ceiling
    }

    /// The number of pods that fit within the limits of a pool, if all nodes are of the type that holds the
    /// most.
    fn room_for(&self, position: usize, pod: &Pod) -> Option<i128> {
        if self.pools[position].bounds().is_empty() {
            return None;
        }
        self.room_on(&self.alone(position), position, pod)
    }

    pub(super) fn alone(&self, position: usize) -> Scheduler<'_> {
        self.scheduler_for(&self.pools[position..=position])
    }

    /// Computes [`Situation::room_for`] with a given scheduler of the pool.
    pub(super) fn room_on(&self, alone: &Scheduler<'_>, position: usize, pod: &Pod) -> Option<i128> {
        let pool = &self.pools[position];
        let bounds = pool.bounds();
        if bounds.is_empty() {
            return None;
        }
        let types = alone.survey(pod).into_iter().find_map(|(_, outcome)| match outcome {
            crate::karpenter::scheduling::Outcome::Admits(admission) => Some(admission.types),
            _ => None,
        })?;
        let need = pod_requests(pod);
        let mut most = 0;
        for instance in types.iter() {
            let nodes = bounds.iter().filter_map(|(name, limit)| match name.as_str() {
                "nodes" => Some(limit / 1000),
                _ => Some(alone.capacity_of(instance, name)).filter(|has| *has > 0).map(|has| limit / has),
            });
            // The number of nodes of a type that no limit restricts is unlimited.
            let nodes = nodes.min()?;
            most = most.max(nodes.max(0) * alone.pods_on(instance, &need).max(0));
        }
        Some(most)
    }
}

impl PoolSummary {
    pub(super) fn closed(object: &Object, reason: String) -> PoolSummary {
        PoolSummary {
            object: object.clone(),
            weight: object.path(&["spec", "weight"]).int().unwrap_or(0),
            closed: Some(reason),
            uncertainties: Vec::new(),
            types: Vec::new(),
            gpus: Vec::new(),
            architectures: Vec::new(),
            capacity_types: Vec::new(),
            taints: Vec::new(),
            limits: Vec::new(),
            ceiling: Ceiling::default(),
            weeks: Vec::new(),
            keepers: Vec::new(),
            tenants: Vec::new(),
        }
    }
}

/// Why nothing is known of a pool of an API before `karpenter.sh/v1`.
fn of_former_api(object: &Object) -> String {
    let id = object.id();
    format!(
        "{} of `{}` is not read: the rule karpenter-legacy-api says how to migrate it",
        id.kind,
        id.api_version()
    )
}

/// Whether the pods of a workload cause nodes to be started.
pub(crate) fn starts_nodes(workload: &Object) -> bool {
    !workload.is(Kind::DAEMON_SET) && !workload.is_partial() && workload.controller().is_none()
}

/// The templates of a workload whose pods a scheduler places: those that do not name their node.
pub(super) fn scheduled_templates(workload: &Object) -> impl Iterator<Item = Template<'_>> {
    templates(workload).into_iter().filter(|template| !template.spec.get("nodeName").is_set())
}

fn object_class(pool: &Object) -> Option<&str> {
    pool.path(&["spec", "template", "spec", "nodeClassRef", "name"]).text()
}

fn price(instance: &InstanceType, region: Option<&str>) -> Option<i128> {
    instance.list_price(region).map(|price| i128::from(price.micro_dollars))
}

/// The number of GPUs or accelerators of a type that a pod can request.
pub fn gpus_of(instance: &InstanceType) -> u32 {
    GPUS.iter().map(|name| instance.devices(name)).max().unwrap_or(0)
}

/// The GPU or accelerator of a type, as its label names it.
pub fn gpu_name(instance: &InstanceType) -> Option<&'static str> {
    let keys = ["karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-accelerator-name"];
    keys.iter().find_map(|key| match instance.label(key) {
        Label::Is(name) => Some(name),
        _ => None,
    })
}

fn gpu_models(types: &[&'static InstanceType]) -> Vec<GpuModel> {
    let mut models: BTreeMap<(&'static str, u32), Vec<u32>> = BTreeMap::new();
    for instance in types {
        if let Some(name) = gpu_name(instance) {
            models.entry((name, instance.gpu_memory_mib)).or_default().push(gpus_of(instance));
        }
    }
    models
        .into_iter()
        .map(|((name, memory_mib), mut counts)| {
            counts.sort_unstable();
            counts.dedup();
            GpuModel { name, memory_mib, counts }
        })
        .collect()
}

/// The weekly allowance, once for each group of reasons for which it is equal.
fn weeks(object: &Object, platform: &Platform) -> Vec<Week> {
    let pool = NodePool::new(object);
    let calendar = pool.as_ref().and_then(NodePool::calendar);
    calendar.map(|calendar| Week::all(calendar, platform.zone())).unwrap_or_default()
}

/// The workloads that prevent nodes of a pool from being drained.
pub(crate) fn keepers_on(pool: &Object, cluster: &Cluster, platform: &Platform) -> Vec<Keeper> {
    cluster.views().blockers_on(pool, platform).iter().filter_map(keeper).collect()
}

/// Why the pods of a workload block a drain, if they do. A long grace period only delays it.
fn keeper(blocker: &Arc<EvictionBlocker>) -> Option<Keeper> {
    let reason = match &blocker.pdb_block {
        _ if blocker.protected => "`karpenter.sh/do-not-disrupt`".to_owned(),
        Some(PdbBlock::NoDisruptions(pdb)) => {
            format!("the PodDisruptionBudget `{}` allows no eviction", pdb.name())
        }
        Some(PdbBlock::Overlapping(first, second)) => {
            format!("the PodDisruptionBudgets `{}` and `{}` select one pod", first.name(), second.name())
        }
        None => return None,
    };
    Some(Keeper { workload: blocker.workload.clone(), reason })
}
