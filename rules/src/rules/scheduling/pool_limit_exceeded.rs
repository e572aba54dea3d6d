//! A workload has more pods than the `limits` of its NodePools have room for.
//!
//! # Why
//! Karpenter starts no node that would bring a NodePool beyond its `limits`, which count whole nodes. Where
//! every pool that the pods fit has a limit on CPU or memory that is too small, the pods beyond it stay
//! Pending. The room is an upper bound: nodes of the types that use the limit best, and nothing on them but
//! these pods and DaemonSets. Without `--complete` only pods with accelerators and those that select a
//! NodePool by name are looked at: others may run on nodes that Karpenter does not start. Where only the
//! maximum of an autoscaler is too large, or pods of a Job wait for each other, it is an info. Deployments
//! and StatefulSets that are certainly applied together, and whose pods run on one pool alone, are added up
//! by their requests at the fewest replicas. Limits on accelerators are those of
//! `max-replicas-exceed-gpu-limit` and `gang-exceeds-gpu-limit`.
//!
//! # Fix
//! Raise the limit, or run fewer pods. Where the limit is a ceiling on cost, the number of pods is what to
//! change.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: batch}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
//!        expireAfter: 336h
//!        requirements:
//!          - key: node.kubernetes.io/instance-type
//!            operator: In
//!            values: [m7i.2xlarge]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! -  limits: {cpu: 16}
//! +  limits: {cpu: 32}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: index-builder}
//!  spec:
//!    replicas: 4 # <-
//!    selector: {matchLabels: {app: index-builder}}
//!    template:
//!      metadata: {labels: {app: index-builder}}
//!      spec:
//!        nodeSelector: {karpenter.sh/nodepool: batch}
//!        containers:
//!          - name: main
//!            image: example.com/index-builder:1.4.0
//!            resources:
//!              requests: {cpu: 6, memory: 20Gi}
//!              limits: {memory: 20Gi}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>

use std::sync::Arc;

use crate::cluster::placement::CandidatePool;
use crate::facts::quantity::{Quantity, amount};
use crate::fit::{BeyondLimits, Situation, counts};
use crate::rules::availability::serving::tell_autoscaler;
use crate::rules::gpu::gpu_sharing_mismatch::{SHARING_SOURCES, counts_shares};
use crate::rules::gpu_room::{Asked, Room};
use crate::rules::prelude::*;
use crate::rules::scheduling::static_pool_exceeded::is_on_pools;
use crate::rules::scheduling::{AROUND_PODS, all_pools, is_scheduled, states_its_pods};
use crate::workload::devices::first_accelerator;
use crate::workload::gang::request_of;
use crate::workload::gpu::requested_extended_resources;

pub(crate) static RULE: Rule = Rule {
    id: "pool-limit-exceeded",
    kinds: kinds![WORKLOAD_KINDS, [Kind::NODE_POOL]],
    reads: kinds![AROUND_PODS, SHARING_SOURCES, [Kind::DEPLOYMENT, Kind::STATEFUL_SET]],
    reports_absence: true,
    docs: docs(include_str!("pool_limit_exceeded.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of pools to look at: pods are tried on all of them until the limits are reached.
const MAX_LIMITED: usize = 64;
/// Maximum number of pools that are looked at one by one before all are together.
const MAX_TRIED: usize = 2;
/// Maximum number of limits to show with a finding.
const MOST_SHOWN: usize = 4;

/// Maximum number of workloads that are added up.
const MAX_ADDED: usize = 256;
/// Maximum number of them to show with a finding.
const MAX_RELATED: usize = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::NODE_POOL) {
        return together(object, ctx);
    }
    if !states_its_pods(object) || !ctx.cluster().has_any(Kind::NODE_POOL) {
        return None;
    }
    for template in &templates(object) {
        if is_for_pools(object, template, ctx) {
            inspect(object, template, ctx);
        }
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    // Pools that bound nothing need no further look.
    let feasible = ctx.pools_for(template)?.pools;
    let is_bounded =
        |limit: &str| feasible.iter().any(|pool| pool.limit(limit).is_some_and(|amount| amount > 0));
    if !["cpu", "memory"].into_iter().any(is_bounded) {
        return None;
    }
    let (_, most) = counts(cluster, object, template)?;
    // Most limits leave every pod a node of its own.
    let is_overlaid = cluster.has_any(Kind::NODE_OVERLAY);
    let is_ample = |pool: &Arc<CandidatePool>| !is_overlaid && pool.sure_nodes() >= most;
    if most < 2 || feasible.iter().take(MAX_TRIED).any(is_ample) {
        return None;
    }
    let pools = all_pools(MAX_LIMITED, ctx)?;
    // Nodes that share their devices take more pods.
    let requested = requested_extended_resources(template);
    let device = KARPENTER_ACCELERATORS.iter().find(|device| requested.contains(*device));
    if device.is_some_and(|device| counts_shares(template, device, ctx) != Some(false)) {
        return None;
    }
    let daemonsets = cluster.of(Kind::DAEMON_SET).filter(|set| !set.is_partial() && ctx.pairs_with(set));
    let daemonsets: Vec<Object> = daemonsets.cloned().collect();
    let situation = |pools: Vec<Object>| {
        Situation::around(cluster, ctx.platform(), Some(object), (pools, daemonsets.clone()))
    };
    // One pool with room for all pods decides most of the time, and costs little.
    let mut first = feasible.iter().take(MAX_TRIED).map(|pool| vec![pool.object().clone()]);
    if !first.all(|pool| situation(pool).may_lack_room(cluster, object, template)) {
        return None;
    }
    let found = situation(pools).beyond_limits(cluster, object, template)?;
    let BeyondLimits { pods, at_most, room, pools } = found;
    if !at_most && is_told_of_devices(object, template, room, ctx) {
        return None;
    }
    let limits = match pools.as_slice() {
        [(pool, limit)] => {
            let written = pool.path(&["spec", "limits", limit]).string_or_number()?.into_owned();
            format!("`limits.{limit}: {written}` of NodePool `{}` has", pool.display_name())
        }
        pools => format!("the limits of {} NodePools have", pools.len()),
    };
    let (name, has) = (object.display_name(), if at_most { "can have" } else { "has" });
    let message = format!("`{name}` {has} {pods} pods, and {limits} room for {room}");
    let fields = [&["spec", "replicas"][..], &["spec", "parallelism"][..]];
    let written = fields.into_iter().map(|path| object.path(path)).find(Node::is_set);
    let node = written.unwrap_or_else(|| object.path(&["metadata", "name"]));
    let waits = matches!(object.group(), "batch" | "keda.sh");
    let finding = ctx.report(&node, message);
    finding.help("the limit counts whole nodes: raise it, or run fewer pods");
    if at_most || waits {
        finding.severity(Severity::Info);
    }
    tell_autoscaler(finding, cluster.views().autoscaler_of(object).filter(|_| at_most));
    for (pool, limit) in pools.iter().take(MOST_SHOWN) {
        finding.related(pool, &pool.path(&["spec", "limits", limit]), "this limit");
    }
    None
}

/// Whether max-replicas-exceed-gpu-limit reports the replicas for a limit on their devices that is as tight.
fn is_told_of_devices(object: &Object, template: &Template<'_>, room: u64, ctx: &Context<'_>) -> bool {
    let replicated = object.is(Kind::DEPLOYMENT) || object.is(Kind::STATEFUL_SET);
    if !replicated || !ctx.is_rule_enabled("max-replicas-exceed-gpu-limit") {
        return false;
    }
    first_accelerator(template).is_some_and(|(resource, devices)| {
        let one_more = Asked::new(room.saturating_add(1), devices.count);
        Room::below(one_more, template, resource, ctx).is_some()
    })
}

/// Workloads that run on a pool alone, each within a limit and all of them beyond it.
fn together(pool: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let limits = pool.path(&["spec", "limits"]);
    let bounds: Vec<(&str, i128)> = ["cpu", "memory"]
        .into_iter()
        .filter_map(|resource| Some((resource, Quantity::at(&limits.get(resource))?.milli())))
        .collect();
    let workloads = || [Kind::DEPLOYMENT, Kind::STATEFUL_SET].into_iter().flat_map(|kind| cluster.of(kind));
    if bounds.is_empty() || workloads().nth(MAX_ADDED).is_some() {
        return None;
    }
    let alone: Vec<(&Object, i128)> = workloads()
        .filter(|workload| cluster.surely_pairs(pool, workload) && states_its_pods(workload))
        .filter(|workload| runs_on_alone(workload, pool, ctx))
        .filter_map(|workload| Some((workload, i128::from(cluster.views().replicas(workload)?.floor))))
        .collect();
    for (resource, limit) in bounds {
        let requested = |(workload, replicas): &(&'_ Object, i128)| {
            let (each, _) = request_of(templates(workload).first()?, "requests", resource)?;
            Some(each.saturating_mul(*replicas)).filter(|all| *all > 0 && *all <= limit)
        };
        let each: Vec<(&Object, i128)> =
            alone.iter().filter_map(|one| Some((one.0, requested(one)?))).collect();
        let all: i128 = each.iter().map(|(_, amount)| amount).sum();
        if each.len() < 2 || all <= limit {
            continue;
        }
        let node = limits.get(resource);
        let message = format!(
            "the {} workloads that run on NodePool `{}` alone request {} of `{resource}`, beyond `limits.{resource}: {}`",
            each.len(),
            pool.display_name(),
            amount(resource, all),
            node.string_or_number()?
        );
        let finding = ctx.report(&node, message);
        finding.help(
            "raise the limit, which counts whole nodes, or run fewer pods: those beyond it stay Pending",
        );
        for (workload, requested) in each.iter().take(MAX_RELATED) {
            let requests = format!("{} of `{resource}`", amount(resource, *requested));
            finding.related(workload, &workload.path(&["spec", "replicas"]), requests);
        }
        return None;
    }
    None
}

/// Whether the pods of a template run on nodes of NodePools: they ask for these, or the input has all nodes.
fn is_for_pools(object: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    is_on_pools(object, template) || ctx.cluster().is_complete() && is_scheduled(template)
}

/// Whether the pods of a workload run on nodes of a pool alone.
fn runs_on_alone(workload: &Object, pool: &Object, ctx: &Context<'_>) -> bool {
    let [template] = &*templates(workload) else { return false };
    let found = is_for_pools(workload, template, ctx).then(|| ctx.pools_for(template)).flatten();
    found.is_some_and(|found| {
        let pools = found.all_nodes().unwrap_or_default();
        matches!(pools, [only] if only.object().is_same_resource(pool))
    })
}
