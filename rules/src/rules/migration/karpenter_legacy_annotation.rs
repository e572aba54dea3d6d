//! An annotation protects nothing because Karpenter no longer reads it.
//!
//! # Why
//! `karpenter.sh/do-not-evict` and `karpenter.sh/do-not-consolidate` were read up to v0.32. Today
//! they are text: a training pod that carries one is consolidated away like any other. So are pods on which a
//! policy of Kyverno writes one. Where Karpenter is known to be older than 0.33, it is information.
//!
//! # Fix
//! Write `karpenter.sh/do-not-disrupt`. On nodes it is broader than the old
//! `do-not-consolidate`: it holds off drift as well.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: pretrain}
//!  spec:
//!    template:
//! -    metadata:
//! -      annotations:
//! -        karpenter.sh/do-not-evict: "true" # <-
//! +    metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/pretrain:1.4.0
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://karpenter.sh/v0.32/upgrading/v1beta1-migration/>

use crate::rules::prelude::*;

const NEW: &str = "karpenter.sh/do-not-disrupt";
const OLD_CONSOLIDATE: &str = "karpenter.sh/do-not-consolidate";
const OLD: [&str; 2] = ["karpenter.sh/do-not-evict", OLD_CONSOLIDATE];
/// The last version with Provisioners, and with these annotations, is 0.32.
const FIRST_WITHOUT: Version = Version::new(0, 33);

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-legacy-annotation",
    kinds: kinds![
        [Kind::NODE_POOL, Kind::NODE, Kind::PROVISIONER, Kind::KYVERNO_CLUSTER_POLICY, Kind::KYVERNO_POLICY],
        WORKLOAD_KINDS
    ],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("karpenter_legacy_annotation.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Migration)
};

/// The object that has the annotations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// Pods, or a workload that creates them.
    Pod,
    Node,
    /// Every node of a pool.
    Pool,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::KYVERNO_CLUSTER_POLICY) || object.is(Kind::KYVERNO_POLICY) {
        return of_policy(object, ctx);
    }
    let own = object.path(&["metadata", "annotations"]);
    let mut carriers: Vec<(Node<'_>, Carrier)> = Vec::new();
    if object.is(Kind::NODE_POOL) {
        let template = object.path(&["spec", "template", "metadata", "annotations"]);
        carriers.push((template, Carrier::Pool));
    }
    if object.is(Kind::PROVISIONER) {
        carriers.push((object.path(&["spec", "annotations"]), Carrier::Pool));
    }
    if object.is(Kind::NODE) {
        carriers.push((own.clone(), Carrier::Node));
    }
    for template in templates(object) {
        carriers.push((template.metadata.get("annotations"), Carrier::Pod));
    }
    // On the workload itself neither the old nor the new name has an effect. Once renamed, it is reported by
    // do-not-disrupt-misplaced.
    if !object.is(Kind::NODE) && !object.is(Kind::POD) {
        carriers.push((own, Carrier::Pod));
    }
    for (annotations, carrier) in carriers {
        for old in OLD {
            let node = annotations.get(old);
            if node.is_set() {
                report(&node, &annotations.get(NEW), old, carrier, ctx);
            }
        }
    }
    None
}

/// Reports what a policy of Kyverno writes on other objects. An anchor such as `+(KEY)` is around the key.
fn of_policy(policy: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let rules = policy.path(&["spec", "rules"]);
    let mut found = Vec::new();
    for rule in rules.items() {
        for part in ["mutate", "generate"] {
            annotations_below(&rule.get(part), MAX_LEVELS, &mut found);
        }
    }
    for (node, old) in found {
        ctx.report(&node, format!("the policy writes `{old}`, which Karpenter does not read since 0.33"))
            .at_key()
            .help(format!("write `{NEW}` instead"));
    }
    None
}

/// The levels of a patch in which annotations are looked for.
const MAX_LEVELS: usize = 16;

fn annotations_below<'a>(node: &Node<'a>, levels: usize, found: &mut Vec<(Node<'a>, &'static str)>) {
    if levels == 0 {
        return;
    }
    for (key, value) in node.entries() {
        let plain = key.trim_start_matches(['+', '=', '<', '^', 'X']).trim_matches(['(', ')']);
        match OLD.into_iter().find(|old| *old == plain) {
            Some(old) => found.push((value, old)),
            None => annotations_below(&value, levels - 1, found),
        }
    }
    for item in node.items() {
        annotations_below(&item, levels - 1, found);
    }
}

fn report(node: &Node<'_>, new: &Node<'_>, old: &str, carrier: Carrier, ctx: &mut Context<'_>) {
    if ctx.platform().karpenter < FIRST_WITHOUT {
        ctx.report(node, format!("Karpenter no longer reads `{old}` from 0.33 on"))
            .at_key()
            .severity(Severity::Info)
            .help(format!("write `{NEW}` before the update to Karpenter 0.33"));
        return;
    }
    let finding =
        ctx.report(node, format!("`{old}` is not read since Karpenter 0.33, so nothing is protected"));
    finding.at_key();
    // The nodes of a live pool get its annotations only when they are replaced.
    let fix = |title: String, safety| match carrier {
        Carrier::Pool => Fix::new(title, safety).replaces_nodes(),
        _ => Fix::new(title, safety),
    };
    let off = node.text().is_some_and(|value| value != "true") || node.bool() == Some(false);
    if new.is_set() || off {
        // The annotation has no effect or duplicates the new one, so removing it removes no protection.
        finding
            .severity(Severity::Info)
            .help(format!("remove it; `{NEW}` is what Karpenter reads"))
            .fix(fix(format!("remove `{old}`"), Safety::Safe).remove(node));
        return;
    }
    finding.help(format!("write `{NEW}` instead"));
    let (title, safety) = match (carrier, old) {
        (Carrier::Pod, OLD_CONSOLIDATE) => {
            (format!("rename it to `{NEW}`; on pods the old one never did anything"), Safety::Unsafe)
        }
        (_, OLD_CONSOLIDATE) => (format!("rename it to `{NEW}`, which holds off drift too"), Safety::Safe),
        _ => (format!("rename it to `{NEW}`"), Safety::Safe),
    };
    finding.fix(fix(title, safety).move_to(node, new));
}
