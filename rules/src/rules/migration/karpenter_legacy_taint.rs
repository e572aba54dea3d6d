//! A pod tolerates a taint that Karpenter does not set.
//!
//! # Why
//! Nodes that Karpenter drains carried `karpenter.sh/disruption=disrupting:NoSchedule` before v1 and
//! carry `karpenter.sh/disrupted:NoSchedule` since. A log shipper or network agent that tolerates the
//! old one is no longer placed on nodes that drain, and one that is there is evicted with the rest.
//! `karpenter.sh/not-ready` is a taint of Karpenter before v0.20, and `karpenter.sh/unschedulable` and
//! `karpenter.sh/disrupting` have never been taints of Karpenter. Keys that a NodePool of the input
//! sets are left alone. It is a warning for a DaemonSet, and where a NodePool of the input has a taint of
//! this domain that the pods do not tolerate and may mean; for other workloads it is information.
//!
//! # Fix
//! In a DaemonSet, tolerate `karpenter.sh/disrupted`, which has no value. In any other workload, remove
//! the toleration, which has no effect: Karpenter neither evicts a pod that tolerates
//! `karpenter.sh/disrupted` nor waits for it, so that the pod ends with the instance.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: log-shipper}
//!  spec:
//!    selector: {matchLabels: {app: log-shipper}}
//!    template:
//!      metadata: {labels: {app: log-shipper}}
//!      spec:
//!        tolerations:
//! -        - key: karpenter.sh/disruption # <-
//! -          operator: Equal
//! -          value: disrupting
//! -          effect: NoSchedule
//! +        - {key: karpenter.sh/disrupted, operator: Equal, effect: NoSchedule}
//!        containers:
//!          - name: main
//!            image: example.com/shipper:2.1.0
//!            resources: {requests: {cpu: 50m, memory: 64Mi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>
//! - <https://karpenter.sh/docs/concepts/disruption/#termination-controller>

use crate::rules::prelude::*;

/// Keys that Karpenter does not set, and whether it did before v1.
const OLD: [(&str, bool); 4] = [
    ("karpenter.sh/disruption", true),
    ("karpenter.sh/not-ready", true),
    ("karpenter.sh/unschedulable", false),
    ("karpenter.sh/disrupting", false),
];
const NEW: &str = "karpenter.sh/disrupted";

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-taint",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("karpenter_legacy_taint.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.platform().karpenter < Version::new(1, 0) {
        return None;
    }
    for template in templates(object) {
        let tolerations = template.spec.get("tolerations");
        let both = tolerations.items().any(|t| t.get("key").text() == Some(NEW));
        for toleration in tolerations.items() {
            let key = toleration.get("key");
            let Some((old, was_set)) = OLD.into_iter().find(|(old, _)| key.text() == Some(old)) else {
                continue;
            };
            // A NodePool of the input may set it.
            if !ctx.cluster().views().pools_with_taint(old).is_empty() {
                continue;
            }
            let meant_taint = meant_taint(object, &tolerations, ctx);
            let value = toleration.get("value");
            let never = if was_set { "no longer" } else { "never" };
            let finding = ctx.report(&key, format!("Karpenter {never} sets the taint `{old}`"));
            // Only for the taint of a drain is the replacement certain.
            let safety = if old == "karpenter.sh/disruption" { Safety::Safe } else { Safety::Unsafe };
            if both {
                // Tolerations for both versions: a deliberate upgrade.
                finding
                    .severity(Severity::Info)
                    .help("remove it once no Karpenter before v1 runs")
                    .fix(Fix::new("remove the old toleration", safety).remove(&toleration));
                continue;
            }
            if !object.is(Kind::DAEMON_SET) {
                if let Some((pool, taint, meant)) = meant_taint {
                    finding
                        .help(format!("to run on nodes of `{}`, tolerate `{meant}`", pool.display_name()))
                        .related(pool, &taint, "its nodes have this taint");
                    continue;
                }
                finding
                    .severity(Severity::Info)
                    .help(format!(
                        "remove it; a pod that tolerates `{NEW}` is not drained and ends with its node"
                    ))
                    .fix(Fix::new("remove the toleration", safety).remove(&toleration));
                continue;
            }
            if old == "karpenter.sh/not-ready" {
                finding
                    .help("remove it; Karpenter's own taint of new nodes is `karpenter.sh/unregistered`")
                    .fix(Fix::new("remove the toleration", safety).remove(&toleration));
                continue;
            }
            finding.help(format!("tolerate `{NEW}`, which has no value"));
            // Any other value never matched the old taint, so the intention is not known.
            if !value.is_set() || value.text() == Some("disrupting") {
                let mut fix = Fix::new(format!("tolerate `{NEW}`"), safety).set(&key, json!(NEW));
                if !value.is_absent() {
                    fix = fix.remove(&value);
                }
                finding.fix(fix);
            }
        }
    }
    None
}

/// The taint that the pods of a workload may mean, with its pool: the only one in Karpenter's domain that the pools of the input set, and
/// that the pods do not tolerate.
fn meant_taint<'c>(
    object: &Object,
    tolerations: &Node<'_>,
    ctx: &Context<'c>,
) -> Option<(&'c Object, Node<'c>, &'c str)> {
    let is_tolerated = |key: &str| {
        tolerations.items().any(|one| {
            let own = one.get("key");
            own.text() == Some(key) || !own.is_set()
        })
    };
    let pools = ctx.cluster().of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool) && !pool.is_partial());
    let taints = pools.flat_map(|pool| {
        let taints = pool.path(&["spec", "template", "spec", "taints"]);
        taints.items().map(move |taint| (pool, taint.get("key"))).collect::<Vec<_>>()
    });
    let mut found = taints.filter_map(|(pool, key)| {
        let name = key.text()?;
        (name.starts_with("karpenter.sh/") && !is_tolerated(name)).then_some((pool, key, name))
    });
    let first = found.next().filter(|_| !object.is_partial())?;
    found.all(|(_, _, name)| name == first.2).then_some(first)
}
