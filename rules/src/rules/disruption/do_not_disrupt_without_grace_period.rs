//! The `terminationGracePeriod` of a pool is missing or too short for its pods.
//!
//! # Why
//! `karpenter.sh/do-not-disrupt` does not hold off expiration. When a node is as old as `expireAfter`,
//! it is cordoned and drained, but a protected pod is not evicted: without `terminationGracePeriod` the node
//! waits for it for as long as it runs, half empty and paid for. With one the pods go when it is over, and
//! it has a price: drift, which waits for protected pods while the field is absent, then drains their nodes
//! as well (`grace-period-ends-runs`). A pod whose own `terminationGracePeriodSeconds` is longer is deleted
//! as soon as the drain starts: the time to write a checkpoint is cut short. The pods of which this pool is
//! the first choice are examined. Where all of them end by themselves and use no accelerator, it is
//! information.
//!
//! # Fix
//! Write a `terminationGracePeriod` in which every run on the pool can end or save its work, and longer
//! than any `terminationGracePeriodSeconds` there. Or let nodes never expire: `expireAfter: Never`.
//! Nodes of a live pool are replaced by either change.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: batch}
//!  spec:
//!    template:
//!      metadata: {labels: {example.com/team: batch}}
//!      spec: # <-
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! +      terminationGracePeriod: 24h
//!    limits: {cpu: 400}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: render}
//!  spec:
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector: {example.com/team: batch}
//!        containers:
//!          - name: main
//!            image: example.com/render:1.4.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1789>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1842>

use crate::cluster::placement::{EvictionBlocker, READS, termination_grace_period};
use crate::facts::duration::format_hours;
use crate::rules::prelude::*;
use crate::workload::template::{ends_within_hours, run_limit};

/// Shortest period that the fix sets, in seconds: a protected run may need a whole day.
const DAY: i64 = 24 * 3600;
/// A run that ends within this part of the life of a node keeps it only for a while.
const FAR_BELOW: u64 = 4;

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-without-grace-period",
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("do_not_disrupt_without_grace_period.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let period = pool.template_spec().get("terminationGracePeriod");
    let limit = termination_grace_period(object);
    if object.is_partial() || (period.is_set() && limit.is_none()) {
        return None;
    }
    let expires = pool.expire_after().is_some_and(|s| s.seconds().is_some());
    if limit.is_none() && !expires {
        return None;
    }
    let guests = ctx.cluster().views().blockers_on(object, ctx.platform());
    let concerned = |guest: &&EvictionBlocker| match limit {
        None => guest.protected,
        Some(limit) => guest.grace > limit,
    };
    let concerned: Vec<&EvictionBlocker> = guests.iter().map(AsRef::as_ref).filter(concerned).collect();
    // The first one with the longest grace period.
    let guest = concerned.iter().rev().max_by_key(|g| g.grace)?;
    let workload = &guest.workload;
    let name = object.display_name();
    let whose = format!("{} `{}`", workload.kind(), workload.display_name());
    let wanted = guest.grace.saturating_mul(2).max(DAY);
    let (message, help) = match limit {
        None => (
            format!("expired nodes of `{name}` cannot drain while {whose} runs, which is never evicted"),
            if runs_forever(workload) {
                "write a `terminationGracePeriod`: with it neither expiry nor drift waits for these pods longer"
            } else {
                "write a `terminationGracePeriod` in which the run can end: with it, drift waits no longer either"
            },
        ),
        Some(limit) => (
            format!("{whose} has {} s to end, but a drain of `{name}` ends after {limit} s", guest.grace),
            "make `terminationGracePeriod` longer than any `terminationGracePeriodSeconds` there",
        ),
    };
    let title = format!("let a drain take `{}` at most", format_hours(wanted));
    // Pods that end by themselves, long before the next expiry or on nodes without accelerators, keep an old node only for a
    // while.
    let life = pool.expire_after().and_then(|life| life.seconds());
    let is_mild = |guest: &&EvictionBlocker| {
        let mut templates = templates(&guest.workload).into_iter();
        let limit = run_limit(&guest.workload).and_then(|limit| u64::try_from(limit).ok());
        let ends_soon = limit.zip(life).is_some_and(|(limit, life)| limit <= life / FAR_BELOW);
        !runs_forever(&guest.workload)
            && (ends_within_hours(&guest.workload)
                || ends_soon
                || !templates.any(|template| uses_device(&template)))
    };
    let mild = limit.is_none() && concerned.iter().all(is_mild);
    let finding = ctx.report(&period, message);
    finding.severity(if mild { Severity::Info } else { Severity::Warning });
    finding
        .help(help)
        .fix(Fix::new(title, Safety::Unsafe).replaces_nodes().set(&period, json!(format_hours(wanted))));
    // A workload with several templates is listed once for each.
    let mut shown: Vec<&Object> = Vec::new();
    for guest in &concerned {
        let object = &guest.workload;
        if shown.len() == 3 || shown.iter().any(|o| o.ptr_eq(object)) {
            continue;
        }
        shown.push(object);
        let name_node = object.path(&["metadata", "name"]);
        let label =
            if guest.protected { "its pods run here and are never evicted" } else { "its pods run here" };
        finding.related(object, &name_node, label);
    }
    None
}
