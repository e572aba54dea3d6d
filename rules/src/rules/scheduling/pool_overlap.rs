//! Two NodePools admit the same pods, and no intended order is written.
//!
//! # Why
//! Karpenter tries the pools of a pod by weight, the highest first. Pools of equal weight are tried by
//! name in reverse order, so a rename moves pods to other nodes, and which budget, expiry and limit
//! apply to a pod follows from the alphabet. The same is true of a Spot pool and an on-demand pool, unless
//! pods choose a capacity type. Nor do pools for training and for serving keep their pods
//! apart where taints, labels and requirements let a pod into both: all go to the heavier one first.
//! And an on-demand GPU pool that is heavier than the Spot pool beside it is filled first, so the Spot
//! pool is used only at its limit. EKS Auto Mode and a Karpenter of one's own beside it are two controllers:
//! each starts a node for a pod that its pools admit, whatever the weights are.
//!
//! # Fix
//! Give the pool that is to be tried first the higher `weight`. Or separate the pools: a taint, a
//! label that pods select, or requirements that exclude each other.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-a}
//!  spec:
//! -  weight: 10 # <-
//! +  weight: 20
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-b}
//!  spec:
//!    weight: 10
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 32}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#specweight>
//! - <https://karpenter.sh/docs/concepts/scheduling/#weighted-nodepools>

use crate::cluster::views::OverlapGroup;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pool-overlap",
    reads: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    docs: docs(include_str!("pool_overlap.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Scheduling)
};

/// Maximum number of pools to compare a pool with.
const MOST_COMPARED: usize = 64;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let own = OverlapGroup::new(object);
    if !own.is_known() || object.is_partial() {
        return None;
    }
    let cluster = ctx.cluster();
    // Examples of one folder are often alternatives.
    let certain = |other: &Object| {
        cluster.surely_pairs(object, other)
            || cluster.likely_pairs(object, other) && !is_example(object) && !is_example(other)
    };
    let group = cluster.views().overlap_group(&own);
    let named = |other: &OverlapGroup| {
        NodePool::new(other.object()).is_some_and(|other| is_selected_by_name(&other, ctx))
    };
    // Most pairs of pools do not overlap, so the cheap comparisons come first.
    for other in group.iter().take(MOST_COMPARED) {
        let is_meant = || other.object().name() != object.name() && certain(other.object());
        let Some((severity, message, help)) = unmeant(pool, (&own, other), &is_meant)
            .or_else(|| untold_capacity(pool, (&own, other), &is_meant, ctx))
        else {
            continue;
        };
        if is_selected_by_name(pool, ctx) {
            return None;
        }
        if named(other) {
            continue;
        }
        let weight = object.path(&["spec", "weight"]);
        let theirs = other.object().path(&["metadata", "name"]);
        let finding = ctx.report(&weight, message).severity(severity).help(help);
        finding.identified_by(other.object().name()).related(other.object(), &theirs, "admits the same pods");
        return None;
    }
    None
}

/// What nobody means of two pools that admit the same pods, with what to do.
fn unmeant(
    pool: &NodePool<'_>,
    (own, other): (&OverlapGroup, &OverlapGroup),
    is_meant: &dyn Fn() -> bool,
) -> Option<(Severity, String, &'static str)> {
    let weights = (own.weight(), other.weight());
    let (a, b) = (own.object().display_name(), other.object().display_name());
    let is_tried_first =
        weights.1 > weights.0 || weights.1 == weights.0 && other.object().name() > own.object().name();
    let is_auto_mode = NodePool::new(other.object())?.is_auto_mode();
    // Each controller tries its own pools.
    if is_auto_mode != pool.is_auto_mode() {
        let message = format!(
            "Karpenter starts nodes of `{a}`, and EKS Auto Mode nodes of `{b}`, for the same pods at once"
        );
        let help = "separate the two by a taint, or by a label that pods select: a `weight` does not";
        return (is_auto_mode && own.overlaps(other) && is_meant()).then_some((
            Severity::Warning,
            message,
            help,
        ));
    }
    if weights.0 == weights.1 {
        let message =
            format!("pools `{a}` and `{b}` of equal weight admit the same pods: `{b}` is tried first");
        let help = "give the pool that is to be tried first the higher `weight`, or separate the two";
        return (is_tried_first && own.overlaps(other) && is_meant()).then_some((
            Severity::Info,
            message,
            help,
        ));
    }
    if is_tried_first && own.overlaps(other) && separates_purposes(pool, other.object()) && is_meant() {
        let message = format!("pods meant for `{a}` go to `{b}` first, of weight {}", weights.1);
        let help = "separate the two by a taint, or by a label that pods select";
        return Some((Severity::Info, message, help));
    }
    let is_filled_first = !is_tried_first
        && own.is_only("on-demand")
        && other.is_only("spot")
        && own.overlaps_but_for_capacity(other)
        && pool.hardware() == Hardware::Accelerated
        && !is_for_training(pool, other.object())
        && is_meant();
    let message = format!(
        "on-demand pool `{a}` is tried before Spot pool `{b}`: weight {} over {}",
        weights.0, weights.1
    );
    let help = "give the Spot pool the higher `weight` where its pods can bear interruptions";
    is_filled_first.then_some((Severity::Info, message, help))
}

/// What nobody means of a Spot pool and an on-demand pool of equal weight that are alike otherwise: pods that choose no capacity type
/// go to one of them by its name.
fn untold_capacity(
    pool: &NodePool<'_>,
    (own, other): (&OverlapGroup, &OverlapGroup),
    is_meant: &dyn Fn() -> bool,
    ctx: &Context<'_>,
) -> Option<(Severity, String, &'static str)> {
    let are_both = |one: &OverlapGroup, two: &OverlapGroup| one.is_only("on-demand") && two.is_only("spot");
    let is_tried_first = other.object().name() > own.object().name();
    let is_choice = own.weight() == other.weight()
        && is_tried_first
        && (are_both(own, other) || are_both(other, own))
        && own.overlaps_but_for_capacity(other)
        && beside_capacity(pool) == beside_capacity(&NodePool::new(other.object())?);
    // Pods that choose a capacity type choose a pool by it.
    if !is_choice || ctx.cluster().views().referenced_labels().contains(CAPACITY_TYPE) || !is_meant() {
        return None;
    }
    let (a, b) = (own.object().display_name(), other.object().display_name());
    let message =
        format!("pods that choose no capacity type fit `{a}` and `{b}`: `{b}` is tried first, by its name");
    let help = "give the pool that is to be tried first the higher `weight`, or separate the two by a taint";
    Some((Severity::Info, message, help))
}

/// The requirements of a pool but for its capacity type, in an order of their own.
fn beside_capacity(pool: &NodePool<'_>) -> Vec<(String, String, Vec<String>)> {
    let text = |node: Node<'_>| node.string_or_number().unwrap_or_default().into_owned();
    let of = |item: Node<'_>| {
        let mut values: Vec<String> = item.get("values").items().map(text).collect();
        values.sort();
        (text(item.get("key")), text(item.get("operator")), values)
    };
    let mut all: Vec<_> =
        pool.requirements().items().map(of).filter(|(key, ..)| key != CAPACITY_TYPE).collect();
    all.sort();
    all
}

/// Whether workloads of the input select the pool, which makes their choice explicit.
fn is_selected_by_name(pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    !ctx.cluster().views().selecting(pool).is_empty()
}

/// Whether one pool is for training and the other one for something else.
fn separates_purposes(pool: &NodePool<'_>, other: &Object) -> bool {
    let Some((own, theirs)) = pool.purpose().zip(NodePool::new(other).and_then(|other| other.purpose()))
    else {
        return false;
    };
    own != theirs && (own == WorkloadClass::Training || theirs == WorkloadClass::Training)
}

fn is_for_training(pool: &NodePool<'_>, other: &Object) -> bool {
    let training = |pool: &NodePool<'_>| pool.purpose() == Some(WorkloadClass::Training);
    training(pool) || NodePool::new(other).is_some_and(|other| training(&other))
}
