//! How many accelerators the NodePools that admit the pods of a workload may start at a time, by their limits.

use std::sync::Arc;

use crate::cluster::placement::CandidatePool;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::object::Object;
use crate::rules::gpu::gpu_sharing_mismatch::counts_shares;
use crate::workload::gang::Demand;
use crate::workload::template::Template;

/// Maximum number of limits to show with a finding.
const MOST_SHOWN: usize = 4;

/// The NodePools that admit pods, each with its limit of a resource.
pub(super) struct Room {
    pools: Vec<(Arc<CandidatePool>, i128)>,
}

impl Room {
    /// The room for the pods of a template. `None` unless all pools are known, and all that admit the pods limit the resource
    /// and are certainly those of its cluster, and nodes may not share the devices. A caller reads NodePools, their classes and ConfigMaps.
    pub(super) fn of(template: &Template<'_>, resource: &str, ctx: &Context<'_>) -> Option<Room> {
        let feasibility = ctx.cluster().views().feasibility(ctx.platform());
        if feasibility.has_other_pools() || template.spec.get("nodeName").is_set() {
            return None;
        }
        // Karpenter counts a GPU for each share of a pending pod, and the limit counts the shares of nodes that are ready.
        if counts_shares(template, resource, ctx) != Some(false) {
            return None;
        }
        let pools = feasibility.feasible_pools_of(template)?;
        if pools.is_empty() || !pools.iter().all(|pool| ctx.pairs_with(pool.object())) {
            return None;
        }
        let limited = pools.into_iter().map(|pool| {
            let limit = pool.limit(resource)? / 1000;
            Some((pool, limit.max(0)))
        });
        Some(Room { pools: limited.collect::<Option<_>>()? })
    }

    /// Whether a pool is the only one.
    pub(super) fn is_of(&self, pool: &Object) -> bool {
        matches!(self.pools.as_slice(), [(one, _)] if one.object().is_same_resource(pool))
    }

    /// The pools of both.
    pub(super) fn and(mut self, other: Room) -> Room {
        let is_new =
            |(pool, _): &(Arc<CandidatePool>, i128)| !self.pools.iter().any(|(known, _)| known == pool);
        let new: Vec<_> = other.pools.into_iter().filter(is_new).collect();
        self.pools.extend(new);
        self
    }

    /// All devices.
    pub(super) fn total(&self) -> i128 {
        self.pools.iter().map(|(_, limit)| limit).sum()
    }

    /// The pods with `each` devices: a pod is on one node, and a node is of one pool.
    pub(super) fn pods(&self, each: i64) -> i128 {
        self.pools.iter().map(|(_, limit)| limit / i128::from(each.max(1))).sum()
    }

    /// Whether the room is too small for a demand.
    pub(super) fn is_below(&self, demand: &Demand<'_>) -> bool {
        match demand.each {
            Some(each) => i128::from(demand.pods) > self.pods(each),
            None => i128::from(demand.total) > self.total(),
        }
    }

    /// The limits for a message: "the limit of 24 of NodePool `a`".
    pub(super) fn words(&self) -> String {
        match self.pools.as_slice() {
            [(pool, limit)] => format!("the limit of {limit} of NodePool `{}`", pool.object().display_name()),
            pools => format!("the limits of {} NodePools ({} in all)", pools.len(), self.total()),
        }
    }

    /// The verb after [`Room::words`].
    pub(super) fn verb(&self) -> &'static str {
        if self.pools.len() == 1 { "has" } else { "have" }
    }

    /// Adds the limits to a finding.
    pub(super) fn show(&self, resource: &str, finding: &mut Finding) {
        for (pool, _) in self.pools.iter().take(MOST_SHOWN) {
            let limit = pool.object().path(&["spec", "limits", resource]);
            finding.related(pool.object(), &limit, "this limit");
        }
    }
}

/// The room for all pods of a gang that have the devices.
pub(super) fn room_for(templates: &[&Template<'_>], resource: &str, ctx: &Context<'_>) -> Option<Room> {
    let mut rooms = templates.iter().map(|template| Room::of(template, resource, ctx));
    let first = rooms.next()??;
    rooms.try_fold(first, |all, room| Some(all.and(room?)))
}

/// Devices in words: "24 GPUs", "24 `aws.amazon.com/neuron`".
pub(super) fn unit(resource: &str) -> String {
    if matches!(resource, "nvidia.com/gpu" | "amd.com/gpu") {
        "GPUs".to_owned()
    } else {
        format!("`{resource}`")
    }
}
