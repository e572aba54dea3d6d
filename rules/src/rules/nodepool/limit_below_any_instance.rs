//! A limit is smaller than any instance type of the pool.
//!
//! # Why
//! Karpenter starts a node only if its whole capacity still fits under `spec.limits`, and it counts
//! the instance, not what pods use of it. A limit below the smallest admitted instance means that
//! the pool never starts a node: the pods stay Pending and the event speaks of the limit alone. A
//! limit below an instance that the pool names makes that name worthless.
//!
//! # Fix
//! Raise the limit above one instance at least, or admit smaller ones. A limit of 0 parks a pool;
//! then this is only a note.
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
//!          - key: node.kubernetes.io/instance-type
//!            operator: In
//!            values: [p4d.24xlarge, p5.48xlarge]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//! -  limits:
//! -    memory: 500Gi # <-
//! -    nvidia.com/gpu: 16
//! +  limits: {memory: 4000Gi, nvidia.com/gpu: 16}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#speclimits>
//! - <https://github.com/aws/karpenter-provider-aws/issues/8068>

use crate::catalog;
use crate::facts::quantity::amount;
use crate::karpenter::requirement::normalise;
use crate::rules::prelude::*;
use crate::workload::gpu::is_of_type;

pub(crate) static RULE: Rule = Rule {
    id: "limit-below-any-instance",
    docs: docs(include_str!("limit_below_any_instance.rs")),
    reads: &[Kind::NODE_OVERLAY],
    check: Check::NodePool(check),
    ..Rule::error(Group::NodePool)
};

/// The keys that name types or groups of types.
const NAMING: [&str; 3] = [
    "node.kubernetes.io/instance-type",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-gpu-name",
];

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    if pool.is_static() {
        return None;
    }
    let types = pool.types().filter(|types| !types.is_empty())?;
    let limits: Vec<(Node<'_>, &str, i128)> = pool
        .limits()
        .entries()
        .into_iter()
        .filter(|(name, _)| is_of_type(name))
        .filter_map(|(name, node)| {
            let limit = Quantity::parse(&node.string_or_number()?).ok()?;
            Some((node, name, limit.milli()))
        })
        .collect();
    // A type that is newer than the catalogue may be smaller.
    let unsure = pool.names_uncatalogued_values();
    let limits: Vec<_> =
        limits.into_iter().filter(|(_, name, _)| !ctx.cluster().views().may_be_overlaid(name)).collect();
    let mut told = false;
    for (node, name, limit) in &limits {
        if types.iter().any(|t| t.capacity(name) <= *limit) {
            continue;
        }
        told = true;
        let parked = *limit <= 0;
        let finding = ctx.report(
            node,
            if parked {
                format!("a limit of 0 on `{name}` parks the pool: it starts no node")
            } else {
                format!("no instance type of the pool fits under this limit on `{name}`")
            },
        );
        if parked {
            finding.severity(Severity::Info);
        } else if unsure {
            finding.severity(Severity::Warning);
        }
        if let Some(least) = types.iter().min_by_key(|t| t.capacity(name))
            && !parked
        {
            let text = node.string_or_number().unwrap_or_default();
            if *name == "memory" && text.bytes().all(|byte| byte.is_ascii_digit()) {
                finding.help(format!(
                    "`{text}` without a unit is a number of bytes: write `{text}Gi`, or what is meant"
                ));
            } else {
                finding.help(format!(
                    "the smallest, {}, has {}: raise the limit, or admit smaller ones",
                    least.name,
                    amount(name, least.capacity(name))
                ));
            }
        }
    }
    if !told {
        named(object, &types, &limits, ctx);
    }
    None
}

/// Types that the pool names and a limit excludes.
fn named(object: &Object, types: &TypeSet, limits: &[(Node<'_>, &str, i128)], ctx: &mut Context<'_>) {
    let Some(list) = ctx.requirements() else { return };
    for item in list.items() {
        let Some(key) = item.key().map(normalise).filter(|k| NAMING.contains(k)) else { continue };
        let Some(index) = catalog::index(key).filter(|_| item.operator() == Some(Operator::In)) else {
            continue;
        };
        for value in item.values().items() {
            let Some(text) = value.text() else { continue };
            let Some(with) = index.with(text).map(|with| with.and(types)) else { continue };
            let exceeded =
                limits.iter().find(|(_, name, limit)| with.iter().all(|t| t.capacity(name) > *limit));
            let Some((node, name, _)) = exceeded.filter(|_| !with.is_empty()) else { continue };
            ctx.report(&value, format!("`{}` never fits under the limit on `{name}`", ellipsize(text)))
                .severity(Severity::Warning)
                .help("raise the limit, or take the name out")
                .related(object, node, "the limit");
        }
    }
}
