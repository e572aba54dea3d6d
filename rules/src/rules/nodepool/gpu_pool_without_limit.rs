//! A GPU pool has no limit on its accelerators.
//!
//! # Why
//! Karpenter starts a node for every pod that fits the pool. Without a limit on accelerators the
//! only ceiling is the account's quota: an autoscaler that reads a broken metric, or a Job with
//! one zero too many, buys 8-GPU machines at 30 to 100 dollars an hour until somebody looks. A limit
//! on what all nodes have, such as `cpu` or `memory`, bounds the accelerators too, but seldom where you
//! think: that is a warning, which says how many it allows, and information up to 16 of them. A limit on
//! `nodes` counts a small and a large machine alike: information, and nothing where all have the same number.
//!
//! # Fix
//! Write under `spec.limits` how many accelerators the pool may have in all, by the name of the
//! resource that pods ask for. gpulint cannot guess the number.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-inference}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6e]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//! -  limits: # <-
//! -    cpu: 1000
//! +  limits: {nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::platform::Platform;
use crate::rules::prelude::*;
use crate::workload::gpu::INSTANCE_RESOURCES;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-pool-without-limit",
    reads: &[Kind::NODE_OVERLAY],
    docs: docs(include_str!("gpu_pool_without_limit.rs")),
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    // The size of a static pool is fixed by its replicas.
    if pool.is_other_provider() || pool.is_static() {
        return None;
    }
    let resources = counted(pool);
    let &resource = resources.first()?;
    let limits = pool.limits();
    let entries = limits.entries();
    if limits.is_unknown() || entries.iter().any(|(key, _)| is_placeholder(key)) {
        return None;
    }
    if resources.iter().any(|r| limits.get(r).is_set()) {
        return None;
    }
    let (noun, name) = (pool.noun(), object.display_name());
    let node = limits.get(resource);
    let plain = format!("{noun} `{name}` has no limit on `{resource}`");
    let bounds = bounds(pool, resource, ctx);
    if bounds.is_empty() {
        let why = "a runaway autoscaler buys all that the quota allows";
        let help = help(pool, resource, None, why, ctx.platform());
        ctx.report(&node, plain).help(help);
        return None;
    }
    if bounds.iter().any(|bound| bound.is_exact) {
        return None;
    }
    if limits.get("nodes").is_set() {
        ctx.report(&node, plain)
            .severity(Severity::Info)
            .help(format!("`nodes` counts machines of any size alike; add a limit on `{resource}`"));
        return None;
    }
    let is_open = bounds.iter().any(|bound| bound.is_open);
    let lowest = bounds.into_iter().filter_map(|bound| bound.most).min_by_key(|most| most.devices);
    // A limit below every node is reported by limit-below-any-instance.
    let message = match &lowest {
        Some(most) if most.devices == 0 => return None,
        Some(Most { by, amount, devices, .. }) => {
            format!("{plain}: its `{by}` limit of {amount} allows {devices} of them")
        }
        None => plain,
    };
    let few = is_open || lowest.as_ref().is_some_and(|most| most.devices <= FEW_DEVICES);
    let of_count = lowest.map(|most| most.instance);
    let help = help(pool, resource, of_count, "the number that you are ready to pay for", ctx.platform());
    let severity = if few { Severity::Info } else { Severity::Warning };
    ctx.report(&node, message).severity(severity).help(help);
    None
}

/// The help, with the price of a node of the type that the message counts by, otherwise of the most expensive type, or `why` if the
/// price is not known.
fn help(
    pool: &NodePool<'_>,
    resource: &str,
    of_count: Option<&InstanceType>,
    why: &str,
    platform: &Platform,
) -> String {
    let region = platform.region.as_deref();
    let types = pool.types().unwrap_or(TypeSet::EMPTY);
    let limits = pool.to_pool().limits;
    let started = types.iter().filter(|instance| instance.is_within(&limits));
    let is_meant = |instance: &&InstanceType| of_count.is_none_or(|counted| counted.name == instance.name);
    let priced = started.filter(|instance| instance.devices(resource) > 0).filter(is_meant);
    let priced = priced.filter_map(|instance| Some((instance.list_price(region)?, instance.name)));
    match priced.max_by_key(|(price, name)| (price.micro_dollars, *name)) {
        Some((price, name)) => {
            let list =
                if region == Some(price.region) { String::new() } else { format!(" in {}", price.region) };
            let (dollars, date) = (price.dollars(), price.date);
            format!(
                "add `{resource}` to `spec.limits`: `{name}` is ${dollars:.2} an hour{list} (list price on {date})"
            )
        }
        None => format!("add `{resource}` to `spec.limits`: {why}"),
    }
}

/// A limit on something else that allows at most this number of accelerators is deliberate.
const FEW_DEVICES: i128 = 16;

/// A limit on something else that bounds the accelerators.
#[derive(Default)]
struct Bound<'a> {
    /// Whether a placeholder hides the amount.
    is_open: bool,
    /// Whether it is a limit on nodes that all have the same number of accelerators.
    is_exact: bool,
    /// `None` if types or amounts are not known.
    most: Option<Most<'a>>,
}

/// The most accelerators of whole nodes under a limit.
struct Most<'a> {
    by: &'a str,
    /// The amount, as the manifest writes it.
    amount: String,
    devices: i128,
    /// The type with the most accelerators under the limit; of several the most expensive one.
    instance: &'static InstanceType,
}

/// The limits that bound the accelerators of a pool: those on what each of its nodes has.
fn bounds<'a>(pool: &NodePool<'a>, resource: &str, ctx: &Context<'_>) -> Vec<Bound<'a>> {
    let views = ctx.cluster().views();
    let types = pool.types().unwrap_or(TypeSet::EMPTY);
    let with_devices: Vec<_> = types.iter().filter(|instance| instance.devices(resource) > 0).collect();
    let bound = |(by, node): (&'a str, Node<'a>)| -> Option<Bound<'a>> {
        if OF_CLASS.contains(&by) || views.may_be_overlaid(by) {
            return Some(Bound::default());
        }
        let per_node = |instance: &InstanceType| if by == "nodes" { 1000 } else { instance.capacity(by) };
        // Nodes without a resource are not limited by it.
        let is_on_all = with_devices.iter().all(|instance| per_node(instance) > 0);
        if !(is_on_all && (by == "nodes" || INSTANCE_RESOURCES.contains(&by))) {
            return None;
        }
        if views.may_be_overlaid(resource) {
            return Some(Bound::default());
        }
        let Some(amount) = node.string_or_number() else {
            return Some(Bound { is_open: true, ..Bound::default() });
        };
        let limit = Quantity::parse(&amount).ok()?.milli();
        let counts = || with_devices.iter().map(|instance| instance.devices(resource));
        let is_exact = by == "nodes" && counts().next().is_some() && counts().min() == counts().max();
        let price = |instance: &InstanceType| instance.list_price(None).map(|price| price.micro_dollars);
        let under =
            |instance: &InstanceType| limit / per_node(instance) * i128::from(instance.devices(resource));
        let most = with_devices
            .iter()
            .copied()
            .max_by_key(|instance| (under(instance), price(instance), instance.name))
            .map(|instance| Most { by, amount: amount.into_owned(), devices: under(instance), instance });
        Some(Bound { is_open: false, is_exact, most })
    };
    let entries = pool.limits().entries().into_iter();
    entries.filter(|(_, node)| node.is_set()).filter_map(bound).collect()
}

/// What the node class decides: its volumes, and how many pods the kubelet takes.
const OF_CLASS: [&str; 2] = ["ephemeral-storage", "pods"];

/// The accelerator resources that can limit the pool, the most common first. Empty if the pool is not
/// intended for accelerators.
fn counted(pool: &NodePool<'_>) -> Vec<&'static str> {
    if let Some(types) = pool.types()
        && pool.hardware() == Hardware::Accelerated
    {
        let mut counts: Vec<(usize, &'static str)> = KARPENTER_ACCELERATORS
            .iter()
            .map(|r| (types.iter().filter(|t| t.devices(r) > 0).count(), *r))
            .filter(|(count, _)| *count > 0)
            .collect();
        counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        return counts.into_iter().map(|(_, resource)| resource).collect();
    }
    // A taint on nodes that have no device is one of no GPU pool.
    if !pool.is_gpu_intended() {
        return Vec::new();
    }
    let tainted: Vec<&str> =
        pool.template_spec().get("taints").items().filter_map(|t| t.get("key").text()).collect();
    let named = |r: &&'static str| tainted.contains(r);
    let Some(first) = KARPENTER_ACCELERATORS.iter().copied().find(|r| named(r)) else {
        return Vec::new();
    };
    // The types are not known for sure: a limit on any accelerator is sufficient.
    let others = KARPENTER_ACCELERATORS.iter().copied();
    std::iter::once(first).chain(others.filter(|r| *r != first)).collect()
}
