//! The nodes of a training pool expire under a running job.
//!
//! # Why
//! Expiration asks nobody: since v1 it waits for no budget, and `karpenter.sh/do-not-disrupt` does not
//! hold it off. A node is drained when it is as old as `expireAfter` says, thirty days where nothing
//! is said, and whatever trains on it starts again from its last checkpoint.
//!
//! # Fix
//! Write `expireAfter: Never` on pools for training. Nodes go when they are empty, and new AMIs come in
//! through drift, which waits for the pods. Nodes of a live pool are replaced by the change itself.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: training}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p4d, p5]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//! -      expireAfter: 720h # <-
//! +      expireAfter: Never
//!    limits: {nvidia.com/gpu: 64}
//!    disruption:
//!      consolidationPolicy: WhenEmpty
//!      consolidateAfter: 10m
//!      budgets:
//!        - nodes: "1"
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#expiration>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1590>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1750>

use crate::karpenter::do_not_disrupt::pool_annotation;
use crate::rules::prelude::*;
use crate::workload::class::WorkloadClass;
use crate::workload::template::WORKLOAD_KINDS;

pub(crate) static RULE: Rule = Rule {
    id: "expiry-kills-training",
    reads: WORKLOAD_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("expiry_kills_training.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let expiry = pool.template_spec().get("expireAfter");
    if expiry.is_unknown() || expiry.text() == Some("Never") {
        return None;
    }
    let name = object.display_name();
    let purpose = ctx.index().views().purpose(pool, object.name()).map(|p| p.0);
    let what = match purpose {
        Some(WorkloadClass::Training) => "training pool",
        // The annotation is set to prevent disruption, but it does not prevent expiration.
        _ if pool_annotation(object).text() == Some("true") => "protected pool",
        _ => return None,
    };
    let when = match expiry.text() {
        Some(text) => format!("after {text}"),
        None if expiry.is_set() => return None,
        None => "after 720h, the default".to_owned(),
    };
    ctx.report(&expiry, format!("nodes of {what} `{name}` are drained {when}, whatever runs on them"))
        .help("write `expireAfter: Never`; budgets and do-not-disrupt do not hold off expiration")
        .fix(Fix::new("never expire nodes", Safety::Unsafe).replaces_nodes().set(&expiry, json!("Never")));
    None
}
