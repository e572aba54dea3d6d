//! A ResourceFlavor of Kueue has node labels with which no NodePool starts nodes.
//!
//! # Why
//! Kueue adds the `nodeLabels` of a flavor to the `nodeSelector` of the pods that it admits. If no NodePool
//! gives its nodes such labels, the workload is admitted, holds its quota, and its pods stay Pending.
//! Labels that GPU feature discovery sets, such as `nvidia.com/gpu.product`, appear only when a node has
//! joined: Karpenter starts none for them.
//!
//! # Fix
//! Write labels that Karpenter knows: `karpenter.sh/nodepool`, `karpenter.k8s.aws/instance-gpu-name`, or those
//! in `spec.template.metadata.labels` of a NodePool.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ResourceFlavor
//!  metadata: {name: l4}
//!  spec:
//!    nodeLabels:
//! -    karpenter.sh/nodepool: gpu-l4 # <-
//! +    karpenter.sh/nodepool: l4-gpu
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: l4-gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.2xlarge, g6.4xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/>
//! - <https://karpenter.sh/docs/concepts/scheduling/#labels>

use crate::cluster::together::is_renamed;
use crate::karpenter::auto_mode::is_built_in_pool;
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::rules::prelude::*;

const MULTI_KUEUE: Kind = Kind::new("kueue.x-k8s.io", "MultiKueueConfig");
/// Domains of labels that feature discovery sets on nodes.
const LATE: [&str; 2] = ["nvidia.com/", "feature.node.kubernetes.io/"];
/// Maximum number of NodePools that are compared.
const MAX_COMPARED: usize = 256;

pub(crate) static RULE: Rule = Rule {
    id: "kueue-flavor-unmatched",
    kinds: &[Kind::RESOURCE_FLAVOR],
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, MULTI_KUEUE],
    reports_absence: true,
    docs: docs(include_str!("kueue_flavor_unmatched.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(flavor: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let labels = flavor.path(&["spec", "nodeLabels"]);
    // The workloads may run in another cluster.
    if flavor.may_lack_fields() || labels.has_unknown_key() || ctx.cluster().has_any(MULTI_KUEUE) {
        return None;
    }
    let entries = labels.entries();
    if entries.iter().any(|(key, _)| key.starts_with("eks.amazonaws.com/") || key.contains("nodegroup")) {
        return None;
    }
    let pools: Vec<&Object> = ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED).collect();
    if pools.len() == MAX_COMPARED || ctx.cluster().views().feasibility(ctx.platform()).has_unreadable_pools()
    {
        return None;
    }
    // The name that a kustomization gives a pool is not the one that is written.
    if pools.iter().any(|pool| is_renamed(pool)) {
        return None;
    }
    let own: Vec<&Object> = pools.iter().copied().filter(|pool| ctx.pairs_with(pool)).collect();
    let first = *own.first()?;
    for (key, node) in &entries {
        let Some(value) = node.text().filter(|value| !is_placeholder(value)) else { continue };
        if LATE.iter().any(|domain| key.starts_with(domain)) {
            late(key, node, &pools, &own, ctx);
        } else if *key == NODEPOOL_LABEL {
            if is_built_in_pool(value) || pools.iter().any(|pool| pool.name() == value) {
                continue;
            }
            // Something outside the input may make a pool of quite another name.
            let (help, severity) = match nearest(value, own.iter().map(|pool| pool.name())) {
                Some(near) => (format!("write `{near}`"), Severity::Warning),
                None => {
                    let is_known = ctx.cluster().is_complete_for(Kind::NODE_POOL);
                    let severity = if is_known { Severity::Warning } else { Severity::Info };
                    (format!("write the name of a NodePool, such as `{}`", first.display_name()), severity)
                }
            };
            report(flavor, node, &format!("no NodePool is called `{}`", ellipsize(value)), first, ctx)
                .help(help)
                .severity(severity);
        } else if let Some(pool) = own.iter().find(|pool| gives(pool, key, value) == Some(false))
            && pools.iter().all(|pool| gives(pool, key, value).is_none_or(|gives| !gives))
        {
            let what = format!("no NodePool gives its nodes `{key}: {}`", ellipsize(value));
            report(flavor, node, &what, pool, ctx)
                .severity(Severity::Info)
                .help("write a value that a NodePool gives, unless nodes of another kind have the label");
        }
    }
    None
}

/// Whether a pool gives its nodes a value of a label. `None` if it says nothing about the label.
pub(super) fn gives(pool: &Object, key: &str, value: &str) -> Option<bool> {
    if pool.may_lack_fields() {
        return Some(true);
    }
    let template = pool.path(&["spec", "template"]);
    let label = template.path(&["metadata", "labels"]).get(key);
    if label.is_set() {
        return Some(label.is_unknown() || label.text() == Some(value));
    }
    let list = template.path(&["spec", "requirements"]);
    let mut items = list.items().filter(|item| item.get("key").text() == Some(key)).peekable();
    // What Karpenter knows of instance types is for other rules.
    if items.peek().is_none() || key.starts_with("karpenter.k8s.aws/") || key.contains("kubernetes.io/") {
        return None;
    }
    Some(
        list.has_unknown()
            || items.all(|item| {
                let has = item.get("values").items().any(|one| one.text() == Some(value));
                match item.get("operator").text() {
                    Some("In") => has,
                    Some("NotIn") => !has,
                    Some("DoesNotExist") => false,
                    _ => true,
                }
            }),
    )
}

fn report<'c>(
    flavor: &Object,
    node: &Node<'_>,
    what: &str,
    pool: &Object,
    ctx: &'c mut Context<'_>,
) -> &'c mut Finding {
    let message = format!("{what}: pods that `{}` admits stay Pending", flavor.display_name());
    ctx.report(node, message).related(pool, &pool.path(&["metadata", "name"]), "a NodePool of the input")
}

/// Reports a label that nodes get after they have joined.
fn late(key: &str, node: &Node<'_>, pools: &[&Object], own: &[&Object], ctx: &mut Context<'_>) -> Option<()> {
    let declares = |pool: &&Object| gives(pool, key, "").is_some();
    let is_gpu =
        |pool: &&&Object| NodePool::new(pool).is_some_and(|pool| pool.hardware() == Hardware::Accelerated);
    let pool = *own.iter().find(is_gpu)?;
    let is_static = |pool: &&Object| pool.path(&["spec", "replicas"]).is_set();
    if pools.iter().any(declares) || pools.iter().any(is_static) {
        return None;
    }
    let message = format!("nodes get `{key}` after they join, so Karpenter starts none for admitted pods");
    ctx.report(node, message)
        .severity(Severity::Info)
        .reports_absence(false)
        .help("write `karpenter.k8s.aws/instance-gpu-name` or another label of Karpenter")
        .related(
            pool,
            &pool.path(&["metadata", "name"]),
            "a pool with accelerators, which does not declare the label",
        );
    None
}
