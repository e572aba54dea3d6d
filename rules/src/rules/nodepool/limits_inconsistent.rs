//! Another limit stops the pool long before its GPU limit does.
//!
//! # Why
//! Limits hold together: the first one that is reached stops the pool. Where `cpu`, `memory` or
//! `nodes` allows fewer GPUs than the GPU limit says, the GPU limit is never reached, pods wait
//! although GPUs seem to be left, and Karpenter's log names a resource that nobody watches. The
//! number in the finding is the most that whole nodes can bring under the other limit. Where a NodeOverlay
//! changes how many devices a node has, nothing is reported.
//!
//! # Fix
//! Raise the other limit, take it out (a GPU limit alone is enough for a GPU pool), or lower the
//! GPU limit to what can be had.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p5]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//! -  limits:
//! -    memory: 4000Gi # <-
//! -    nvidia.com/gpu: 64
//! +  limits: {memory: 16000Gi, nvidia.com/gpu: 64}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6328>

use crate::facts::quantity::amount_rounded_up;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "limits-inconsistent",
    reads: &[Kind::NODE_OVERLAY],
    docs: docs(include_str!("limits_inconsistent.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::NodePool)
};

/// The resources other than devices whose amount depends only on the type, not on the class.
const OTHERS: [&str; 3] = ["cpu", "memory", "nodes"];

/// Up to this number of devices whole nodes are counted; real limits are not higher.
const COUNTED: i128 = 10_000;

struct Limit<'a> {
    node: Node<'a>,
    name: &'a str,
    milli: i128,
}

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let limits: Vec<Limit<'_>> = (pool.limits().entries().into_iter())
        .filter_map(|(name, node)| {
            let milli = Quantity::parse(&node.string_or_number()?).ok()?.milli();
            Some(Limit { node, name, milli })
        })
        .collect();
    let devices = |l: &&Limit<'_>| KARPENTER_ACCELERATORS.contains(&l.name) && l.milli > 0;
    if pool.is_static() || !limits.iter().any(|l| devices(&l)) {
        return None;
    }
    // A type that is newer than the catalogue may need less per GPU.
    let types = pool
        .types()
        .filter(|_| limits.iter().any(|l| OTHERS.contains(&l.name)) && !pool.names_uncatalogued_values())?;
    let fits = |t: &&InstanceType| {
        (limits.iter())
            .filter(|l| OTHERS.contains(&l.name) || KARPENTER_ACCELERATORS.contains(&l.name))
            .all(|l| amount(t, l.name) <= l.milli)
    };
    let types: Vec<&InstanceType> = types.iter().filter(fits).collect();
    for wanted in limits.iter().filter(devices) {
        if ctx.cluster().views().may_be_overlaid(wanted.name) {
            continue;
        }
        let least = (limits.iter())
            .filter(|l| OTHERS.contains(&l.name))
            .filter_map(|other| Some((reach(&types, wanted, other)?, other)))
            .min_by_key(|(reach, _)| reach.most);
        if let Some((reach, other)) = least {
            report(object, wanted, other, &reach, ctx);
        }
    }
    None
}

fn report(object: &Object, wanted: &Limit<'_>, other: &Limit<'_>, reach: &Reach, ctx: &mut Context<'_>) {
    let (resource, goal) = (wanted.name, reach.goal);
    let finding = ctx.report(
        &other.node,
        format!("the `{}` limit stops the pool at {} of {goal} `{resource}`", other.name, reach.most),
    );
    finding.help(match reach.need {
        Some(need) => format!(
            "{goal} of them take about {} {}: raise it, or lower the limit on `{resource}`",
            amount_rounded_up(other.name, need),
            other.name
        ),
        None => format!("raise it, or lower the limit on `{resource}`"),
    });
    finding.related(object, &wanted.node, "the limit that is never reached");
}

/// How many devices a limit allows.
struct Reach {
    /// Maximum number of devices on whole nodes within the other limit.
    most: i128,
    /// Maximum number of devices on whole nodes within the device limit alone.
    goal: i128,
    /// Amount of the other resource needed for `goal`, in thousandths, if it was computed.
    need: Option<i128>,
}

/// How many devices the other limit allows. `None` if it allows as many as the wanted limit.
fn reach(types: &[&InstanceType], wanted: &Limit<'_>, other: &Limit<'_>) -> Option<Reach> {
    let goal = wanted.milli / 1000;
    let bearing = || {
        types.iter().filter_map(|t| {
            let devices = i128::from(t.devices(wanted.name));
            (devices > 0).then(|| (devices, amount(t, other.name)))
        })
    };
    // The best type alone, counting fractions of nodes, has at least as many devices as any mix of whole
    // nodes.
    let (devices, cost) = bearing().min_by(|(d1, c1), (d2, c2)| (c1 * d2).cmp(&(c2 * d1)))?;
    if cost <= 0 || other.milli.checked_mul(devices)? >= goal.checked_mul(cost)? {
        return None;
    }
    if goal > COUNTED {
        return Some(Reach { most: other.milli * devices / cost, goal, need: None });
    }
    let mut sizes: Vec<(usize, i128)> =
        bearing().filter_map(|(devices, cost)| Some((usize::try_from(devices).ok()?, cost))).collect();
    sizes.sort_unstable();
    sizes.dedup_by_key(|(devices, _)| *devices);
    // The minimum cost of each number of devices.
    let mut least: Vec<Option<i128>> = vec![Some(0)];
    for count in 1..=usize::try_from(goal).ok()? {
        let cheapest = (sizes.iter())
            .filter_map(|(devices, cost)| Some(least[count.checked_sub(*devices)?]? + cost))
            .min();
        least.push(cheapest);
    }
    let last = |keep: &dyn Fn(i128) -> bool| least.iter().rposition(|cost| cost.is_some_and(keep));
    let most = last(&|cost| cost <= other.milli)?;
    let alone = last(&|_| true)?;
    (most < alone).then(|| Reach { most: most as i128, goal: alone as i128, need: least[alone] })
}

/// The amount of a resource on one node of a type, in thousandths.
fn amount(instance: &InstanceType, resource: &str) -> i128 {
    match resource {
        "nodes" => 1000,
        _ => instance.capacity(resource),
    }
}
