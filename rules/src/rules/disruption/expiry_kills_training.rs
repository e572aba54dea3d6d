//! Nodes of a training pool expire while a job runs on them.
//!
//! # Why
//! Since v1 no budget delays expiration. When a node is as old as `expireAfter` says, 720 hours by
//! default, Karpenter taints it and starts to drain it. Pods without `karpenter.sh/do-not-disrupt` are
//! evicted, and what trains in them starts again from its last checkpoint. Pods with the annotation, and
//! pods whose PodDisruptionBudget allows no eviction, hold the drain until the pool's
//! `terminationGracePeriod` is over, and without one until they end; no new pod starts on the node.
//!
//! The finding is an info where all known runs have the annotation and the pool has no
//! `terminationGracePeriod`, and where nothing but the pool's name says that it is for training.
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

use crate::cluster::placement::termination_grace_period;
use crate::cluster::views::{TRAINING_PROTECTION, TrainingProtection, training_protection};
use crate::karpenter::do_not_disrupt::pool_annotation;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "expiry-kills-training",
    reads: TRAINING_PROTECTION,
    fix: Some(Safety::Unsafe),
    is_new_in_v1: true,
    docs: docs(include_str!("expiry_kills_training.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

/// Two weeks, as the pools that EKS Auto Mode brings have it, in seconds.
const LONG: u64 = 336 * 3600;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let expiry = pool.template_spec().get("expireAfter");
    if expiry.is_unknown() || expiry.text() == Some("Never") {
        return None;
    }
    // EKS Auto Mode replaces each node within 21 days, so that a long life is all that can be had there.
    let life = pool.expire_after().and_then(|life| life.seconds());
    if pool.is_auto_mode() && (!expiry.is_set() || life.is_none_or(|life| life >= LONG)) {
        return None;
    }
    let best = if pool.is_auto_mode() { "336h" } else { "Never" };
    let name = object.display_name();
    let (what, run) = match ctx.cluster().views().purpose(pool) {
        Some((WorkloadClass::Training, run)) => ("training pool", run),
        // The annotation is set to prevent disruption, but it does not prevent expiration.
        _ if pool_annotation(object).text() == Some("true") => ("protected pool", None),
        _ => return None,
    };
    let when = match expiry.text() {
        Some(text) => format!("after {text}"),
        None if expiry.is_set() => return None,
        None => "after 720h, the default".to_owned(),
    };
    let grace = pool.template_spec().get("terminationGracePeriod");
    let held = match grace.text() {
        Some(text) => format!("for {text} at most"),
        None => "until they end".to_owned(),
    };
    let is_sure = what == "protected pool" || ends_runs(pool, ctx);
    let title = if pool.is_auto_mode() { "let nodes live for two weeks" } else { "never expire nodes" };
    let finding = ctx
        .report(&expiry, format!("nodes of {what} `{name}` start to drain {when}; no budget delays that"))
        .help(format!("write `expireAfter: {best}`; do-not-disrupt pods hold a drain {held}"))
        .fix(Fix::new(title, Safety::Unsafe).replaces_nodes().set(&expiry, json!(best)));
    if !is_sure {
        finding.severity(Severity::Info);
    }
    if let Some(run) = run {
        finding.related(&run.object, &run.object.path(&["metadata", "name"]), "trains on this pool");
    }
    None
}

/// Whether expired nodes are likely to end runs. Where only the name of the pool speaks of training this is a guess, unless a
/// budget of zero says that its nodes are to stay. Protected pods hold a drain that has no end until they are done.
fn ends_runs(pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    let has_zero_budget = || {
        let budgets = pool.written_budgets();
        budgets.is_some_and(|(_, calendar)| calendar.budgets().iter().any(|budget| budget.nodes.is_zero()))
    };
    match training_protection(pool, ctx.cluster(), ctx.platform()) {
        TrainingProtection::Unprotected(_) => true,
        TrainingProtection::Protected => termination_grace_period(pool.object()).is_some(),
        TrainingProtection::None => pool.declares_purpose() || has_zero_budget(),
    }
}
