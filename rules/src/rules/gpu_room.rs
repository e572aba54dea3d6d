//! How many accelerators the NodePools that admit the pods of a workload may start at a time, by their limits.

use std::collections::BTreeSet;

use crate::catalog::{Accelerator, TypeSet};
use crate::cluster::placement::PoolsFor;
use crate::facts::quantity::Quantity;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::object::Object;
use crate::rules::gpu::gpu_sharing_mismatch::counts_shares;
use crate::workload::gang::Demand;
use crate::workload::node_spread::{NodeSpread, node_spreads};
use crate::workload::template::Template;

/// Maximum number of limits to show with a finding.
const MOST_SHOWN: usize = 4;

/// The largest limit for which nodes are counted one by one.
const MAX_COUNTED: i128 = 4096;

/// A NodePool that admits pods.
struct LimitedPool {
    pool: Object,
    limit: i128,
    /// The numbers of devices that its nodes may have. Empty if they are not known.
    sizes: BTreeSet<usize>,
}

impl LimitedPool {
    fn new(object: &Object, resource: &str) -> Option<LimitedPool> {
        let pool = NodePool::new(object)?;
        let limit = (Quantity::at(&pool.limits().get(resource))?.milli() / 1000).max(0);
        let types = pool.types();
        let counts = types.iter().flat_map(TypeSet::iter).map(|one| one.devices(resource) as usize);
        let sizes = counts.filter(|count| *count > 0).collect();
        Some(LimitedPool { pool: object.clone(), limit, sizes })
    }

    /// The devices of the smallest node, if whole nodes leave a rest of the limit.
    fn smallest_node(&self) -> Option<usize> {
        self.sizes.first().copied().filter(|_| self.pods(1, None) < self.limit)
    }

    /// The most pods with `each` devices on nodes within the limit. A node counts with all its devices (`filterByRemainingResources`
    /// of Karpenter's scheduler), so that the rest of a limit that is smaller than a node is of no use.
    fn pods(&self, each: i128, per_node: Option<i128>) -> i128 {
        if self.sizes.is_empty() || self.limit > MAX_COUNTED {
            return self.limit / each;
        }
        let on_node = |size: usize| {
            let pods = size as i128 / each;
            per_node.map_or(pods, |most| pods.min(most))
        };
        let mut most = vec![0; self.limit as usize + 1];
        for devices in 1..most.len() {
            let last = self.sizes.iter().take_while(|size| **size <= devices);
            let with = last.map(|size| most[devices - size] + on_node(*size));
            most[devices] = with.max().unwrap_or_default();
        }
        most.last().copied().unwrap_or_default()
    }
}

/// Pods that ask for a resource at one time.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pods: i128,
    /// The devices of each pod, if all have the same number.
    each: Option<i128>,
    /// All devices together.
    total: i128,
}

impl Asked {
    pub(super) fn new(pods: impl Into<i128>, each: i64) -> Asked {
        let (pods, each) = (pods.into(), i128::from(each.max(1)));
        Asked { pods, each: Some(each), total: pods.saturating_mul(each) }
    }

    pub(super) fn by(demand: &Demand<'_>) -> Asked {
        let each = demand.each.map(|each| i128::from(each.max(1)));
        Asked { pods: demand.pods.into(), each, total: demand.total.into() }
    }

    /// How many of the pods, or of the devices, a pool has room for.
    fn room_on(self, pool: &LimitedPool, per_node: Option<i128>) -> i128 {
        self.each.map_or(pool.limit, |each| pool.pods(each, per_node))
    }

    fn is_above(self, room: i128) -> bool {
        if self.each.is_some() { self.pods > room } else { self.total > room }
    }
}

/// The NodePools that admit pods, each with its limit of a resource.
pub(super) struct Room {
    pools: Vec<LimitedPool>,
    /// The most of the pods that a node may have, if they keep each other off it.
    per_node: Option<i128>,
}

impl Room {
    /// The room for the pods of a template, if it is too small for what they ask for. `None` unless all pools are known, and all
    /// that admit the pods limit the resource and are certainly those of its cluster, and nodes may not share the devices. A
    /// caller reads NodePools, their classes and ConfigMaps.
    pub(super) fn below(
        asked: Asked,
        template: &Template<'_>,
        resource: &str,
        ctx: &Context<'_>,
    ) -> Option<Room> {
        let found = pools_of(template, resource, ctx)?;
        let mut room = Room { pools: Vec::new(), per_node: per_node(template) };
        let mut sum = 0;
        // Ends at the first pools that are large enough: a cluster may have hundreds.
        for pool in found.all_nodes().filter(|pools| !pools.is_empty())? {
            let pool = LimitedPool::new(pool.object(), resource)?;
            sum += asked.room_on(&pool, room.per_node);
            if !asked.is_above(sum) {
                return None;
            }
            room.pools.push(pool);
        }
        Some(room)
    }

    /// The room for the pods of a template on a pool, if it is the only one for them, as for [`Room::below`].
    pub(super) fn only_on(
        pool: &Object,
        template: &Template<'_>,
        resource: &str,
        ctx: &Context<'_>,
    ) -> Option<Room> {
        let found = pools_of(template, resource, ctx)?;
        let [only] = found.all_nodes()? else { return None };
        let limited = only.object().is_same_resource(pool).then(|| LimitedPool::new(only.object(), resource));
        Some(Room { pools: vec![limited??], per_node: per_node(template) })
    }

    /// The room on all NodePools that may have devices of a resource, for pods of which the template is not known. `None` unless
    /// all pools are known, and all these limit the resource and may be those of the object's cluster.
    pub(super) fn of_any(resource: &str, ctx: &Context<'_>) -> Option<Room> {
        let others = ctx.cluster().other_nodes();
        if ctx.cluster().views().feasibility(ctx.platform()).has_other_pools()
            || others.iter().any(|nodes| nodes.may_have_devices(resource))
        {
            return None;
        }
        let mut pools = Vec::new();
        for object in ctx.cluster().of(Kind::NODE_POOL) {
            if NodePool::new(object)?.types()?.iter().any(|one| one.devices(resource) > 0) {
                pools.push(LimitedPool::new(object, resource).filter(|_| ctx.pairs_with(object))?);
            }
        }
        (!pools.is_empty()).then_some(Room { pools, per_node: None })
    }

    /// The pools of both.
    fn and(mut self, other: Room) -> Room {
        let is_new = |one: &LimitedPool| !self.pools.iter().any(|known| known.pool.ptr_eq(&one.pool));
        let new: Vec<_> = other.pools.into_iter().filter(is_new).collect();
        self.pools.extend(new);
        // Pods of several templates may share a node.
        self.per_node = None;
        self
    }

    /// All devices of the limits.
    pub(super) fn total(&self) -> i128 {
        self.pools.iter().map(|one| one.limit).sum()
    }

    /// The pods with `each` devices: a pod is on one node, and a node is of one pool.
    pub(super) fn pods(&self, each: i64) -> i128 {
        self.pools.iter().map(|one| one.pods(i128::from(each.max(1)), self.per_node)).sum()
    }

    /// Whether the room is too small.
    pub(super) fn is_below(&self, asked: Asked) -> bool {
        asked.is_above(self.pools.iter().map(|pool| asked.room_on(pool, self.per_node)).sum())
    }

    /// The limits for a message: "the limit of 24 of NodePool `a`".
    pub(super) fn words(&self) -> String {
        match self.pools.as_slice() {
            [one] if self.per_node == Some(1) => format!(
                "the limit of {} of NodePool `{}`, with one pod on a node,",
                one.limit,
                one.pool.display_name()
            ),
            [one] => {
                let name = one.pool.display_name();
                let smallest = one.smallest_node();
                let nodes = smallest.map_or(String::new(), |size| format!(" (a node has {size} or more)"));
                format!("the limit of {} of NodePool `{name}`{nodes}", one.limit)
            }
            pools => format!("the limits of {} NodePools ({} in all)", pools.len(), self.total()),
        }
    }

    /// The verb after [`Room::words`].
    pub(super) fn verb(&self) -> &'static str {
        if self.pools.len() == 1 { "has" } else { "have" }
    }

    /// What a number of pods lacks: "needs 12 `nvidia.com/gpu` at once, and the limits of its NodePools allow 8".
    pub(super) fn shortage(&self, pods: i64, each: Option<i64>, total: i64, resource: &str) -> String {
        match each.filter(|_| i128::from(total) <= self.total()) {
            Some(each) => format!(
                "has {pods} pods with {each} `{resource}` at once, and {} {} room for {}",
                self.words(),
                self.verb(),
                self.pods(each)
            ),
            None => format!(
                "needs {total} `{resource}` at once, and the limits of its NodePools allow {}",
                self.total()
            ),
        }
    }

    /// Adds the limits to a finding.
    pub(super) fn show(&self, resource: &str, finding: &mut Finding) {
        for one in self.pools.iter().take(MOST_SHOWN) {
            let limit = one.pool.path(&["spec", "limits", resource]);
            finding.related(&one.pool, &limit, "this limit");
        }
    }
}

/// The NodePools that admit the pods of a template and have whole devices for them.
fn pools_of(template: &Template<'_>, resource: &str, ctx: &Context<'_>) -> Option<PoolsFor> {
    // Karpenter counts a GPU for each share of a pending pod, and the limit counts the shares of nodes that are ready.
    if template.spec.get("nodeName").is_set() || counts_shares(template, resource, ctx) != Some(false) {
        return None;
    }
    ctx.pools_for(template)
}

/// The most of the pods of a template that a node may have, if they keep each other off it.
fn per_node(template: &Template<'_>) -> Option<i128> {
    let spreads = node_spreads(template).into_iter();
    let required = spreads.filter(NodeSpread::holds_on_each_node);
    required.map(|spread| i128::from(spread.most.max(1))).min()
}

/// The room for all pods of a gang that have the devices, if it is too small for a demand.
pub(super) fn room_below(
    demand: &Demand<'_>,
    templates: &[&Template<'_>],
    ctx: &Context<'_>,
) -> Option<Room> {
    // One template whose pools have room for all pods is enough: those of the others only add to them.
    let asked = Asked::by(demand);
    let mut rooms = templates.iter().map(|template| Room::below(asked, template, demand.resource, ctx));
    let first = rooms.next()??;
    let all = rooms.try_fold(first, |all, room| Some(all.and(room?)))?;
    all.is_below(asked).then_some(all)
}

/// The devices of a pod in words: "one device", "4 GPUs".
pub(super) fn amount(each: i64, resource: &str) -> String {
    if each == 1 { "one device".to_owned() } else { format!("{each} {}", unit(resource)) }
}

/// Devices in words: "24 GPUs", "24 `aws.amazon.com/neuron`".
pub(super) fn unit(resource: &str) -> String {
    if Accelerator::of(resource).is_some_and(Accelerator::is_gpu) {
        "GPUs".to_owned()
    } else {
        format!("`{resource}`")
    }
}
