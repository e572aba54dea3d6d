//! A workload has more pods than the nodes of a static NodePool have room for.
//!
//! # Why
//! A NodePool with `replicas` keeps that many nodes. Karpenter starts none there for pods that wait, so
//! pods beyond what these nodes have room for wait until others end. The room is counted as if nothing else
//! but the DaemonSets ran on the nodes, and once more for all workloads that run there alone. NodePools
//! without `replicas` that admit the pods, or may, keep the rule silent. It looks at pods with accelerators
//! and at those that select a NodePool by name: others may run on nodes that Karpenter does not start.
//!
//! # Fix
//! Raise `replicas` of the NodePool, lower the number of pods, or add a NodePool without `replicas` for the rest.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: base}
//!  spec:
//! -  replicas: 2
//! +  replicas: 4
//!    template:
//!      spec:
//!        nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
//!        expireAfter: 336h
//!        requirements:
//!          - key: node.kubernetes.io/instance-type
//!            operator: In
//!            values: [m7i.2xlarge]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {nodes: 6}
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
//!        nodeSelector: {karpenter.sh/nodepool: base}
//!        containers:
//!          - name: main
//!            image: example.com/index-builder:1.4.0
//!            resources:
//!              requests: {cpu: 6, memory: 20Gi}
//!              limits: {memory: 20Gi}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#specreplicas>

use crate::fit::{BeyondStandingNodes, Situation, amount};
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::requirement::{is_well_known, normalise};
use crate::rules::prelude::*;
use crate::rules::scheduling::{AROUND_PODS, MAX_POOLS, all_pools, is_scheduled, states_its_pods};
use crate::workload::node_labels::{is_of_other_nodes, is_written_late, labels_of_all_nodes};

pub(crate) static RULE: Rule = Rule {
    id: "static-pool-exceeded",
    kinds: WORKLOAD_KINDS,
    reads: AROUND_PODS,
    reports_absence: true,
    docs: docs(include_str!("static_pool_exceeded.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

const HELP: &str =
    "a static pool starts no nodes for pods that wait: raise its `replicas`, or add a pool without it";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !states_its_pods(object) || !ctx.cluster().views().has_static_pool() {
        return None;
    }
    let templates = templates(object);
    let on_pools: Vec<_> =
        templates.iter().filter(|template| is_on_standing_nodes(object, template, ctx)).collect();
    if on_pools.is_empty() {
        return None;
    }
    let pools = all_pools(MAX_POOLS, ctx)?;
    let situation = Situation::around(ctx.cluster(), ctx.platform(), Some(object), (pools, Vec::new()));
    for template in on_pools {
        alone(object, template, &situation, ctx).or_else(|| with_others(object, template, &situation, ctx));
    }
    None
}

/// Reports a workload for which the nodes of its static pools are not enough.
fn alone(
    object: &Object,
    template: &Template<'_>,
    situation: &Situation<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let BeyondStandingNodes { pods, at_most, room, pools } =
        situation.beyond_standing_nodes(ctx.cluster(), object, template)?;
    let pool = pools.first()?;
    let which = match pools.as_slice() {
        [pool] => format!("static NodePool `{}`", pool.display_name()),
        pools => format!("{} static NodePools", pools.len()),
    };
    let (name, has) = (object.display_name(), if at_most { "can have" } else { "has" });
    let message = format!("`{name}` {has} {pods} pods, and the nodes of {which} have room for {room}");
    let replicas = object.path(&["spec", "replicas"]);
    // The number of pods of each group is the one to look at where there is one group.
    let size = object.path(&["spec", "leaderWorkerTemplate", "size"]);
    let node = match replicas.int_or(1) {
        Some(1) if size.is_set() => size,
        _ if replicas.is_set() => replicas,
        _ => template.spec.clone(),
    };
    ctx.report(&node, message).help(HELP).related(
        pool,
        &pool.path(&["spec", "replicas"]),
        "as many nodes stand",
    );
    Some(())
}

/// Reports the last of several workloads for which the nodes of their static pool are not enough together.
fn with_others(
    object: &Object,
    template: &Template<'_>,
    situation: &Situation<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let is_here = |other: &Object, template: &Template<'_>| is_on_standing_nodes(other, template, ctx);
    let crowd = situation.crowd(ctx.cluster(), object, template, is_here)?;
    let (last, others) = crowd.workloads.split_last()?;
    let first = others.first().filter(|_| last.is_same_resource(object))?;
    let (name, resource, pool) = (object.display_name(), &crowd.resource, &crowd.pool);
    let who = match others {
        [one] => format!("`{name}` and `{}` need", one.display_name()),
        _ => format!("`{name}` and {} other workloads need", others.len()),
    };
    let (asked, has) = (amount(resource, crowd.asked), amount(resource, crowd.has));
    let message = format!(
        "{who} {asked} of `{resource}`, and the nodes of static NodePool `{}` have {has}",
        pool.display_name()
    );
    ctx.report(&template.spec, message)
        .help(HELP)
        .related(pool, &pool.path(&["spec", "replicas"]), "as many nodes stand")
        .related(first, &first.path(&["metadata", "name"]), "this one runs there as well");
    Some(())
}

/// Whether the pods of a template run on nodes of NodePools alone: those of [`is_on_pools`], and those that select a
/// custom label which only static pools give their nodes.
fn is_on_standing_nodes(object: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let is_standing = |pool: &Object| pool.path(&["spec", "replicas"]).is_set();
    let of_static_pools = |(key, values): &(&str, Vec<Node<'_>>)| {
        !is_well_known(normalise(key))
            && !is_written_late(key)
            && !is_of_other_nodes(key)
            && !values.is_empty()
            && values.iter().all(|value| {
                let pools = value.text().map(|value| ctx.cluster().views().pools_with_label(key, value));
                pools.is_some_and(|pools| !pools.is_empty() && pools.iter().all(is_standing))
            })
    };
    let selects = || is_scheduled(template) && labels_of_all_nodes(template).iter().any(of_static_pools);
    is_on_pools(object, template) || selects() && ctx.other_nodes_for(template).is_none()
}

/// Whether the pods of a template run on nodes of NodePools alone, and a scheduler looks at them.
pub(super) fn is_on_pools(object: &Object, template: &Template<'_>) -> bool {
    let accelerated = || requests_device_plugin(object) && requests_accelerator(template);
    let names_pool = || template.spec.get("nodeSelector").get(NODEPOOL_LABEL).is_set();
    is_scheduled(template) && (accelerated() || names_pool())
}
