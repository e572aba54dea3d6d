//! The key of a requirement looks like an instance label, but is not one.
//!
//! # Why
//! Karpenter takes a key that it does not know for a label of your own: it narrows no instance type
//! and only puts a value on the new node. `node.kubernetes.io/instance-family In [g5]` so admits every
//! type that EC2 has, and each node says it were a g5. And unless the key has one value, Karpenter
//! makes one up: a random number for `Exists`, `NotIn` and comparisons, any one of a list. That is
//! of use only where pods select a value of their own.
//!
//! A key that some workload of the input selects is deliberate, and so is one of the template's labels.
//! Domains whose names happen to look alike go into the parameter `domains`.
//!
//! # Fix
//! Write the key as Karpenter documents it. For a label of your own, give it one value, or let the
//! workloads select theirs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//! -        - key: node.kubernetes.io/instance-family # <-
//! -          operator: In
//! -          values: [m7i, m7a]
//! +        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i, m7a]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://karpenter.sh/docs/concepts/scheduling/#user-defined-labels>

use crate::catalog;
use crate::karpenter::labels::key::{KeyLocation, rejection};
use crate::karpenter::labels::typo::{TypoConfidence, intended_key};
use crate::karpenter::requirement::{Requirement, is_well_known, normalise};
use crate::karpenter::requirement_list::is_comparison;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-key-lookalike",
    kinds: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    reads: kinds![[Kind::NODE_POOL, Kind::EC2_NODE_CLASS], WORKLOAD_KINDS],
    reports_absence: true,
    params: &[Param {
        name: "domains",
        description: "Domains of label keys of your own, which are never taken for slips",
        default: ParamDefault::Strings(&[]),
    }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("requirement_key_lookalike.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !object.is(Kind::NODE_POOL) {
        return of_pods(object, ctx);
    }
    let (pool, list) = (NodePool::new(object)?, ctx.requirements()?);
    if list.provider == Provider::Other {
        return None;
    }
    for item in list.items() {
        let Some(key) = item.key() else { continue };
        let known = is_well_known(normalise(key)) || is_well_known(&list.provider.catalogue_key(key));
        let aws = list.provider == Provider::Aws;
        // Rejected keys, and those of the other provider, have another finding.
        if known
            || (aws && key.starts_with("eks.amazonaws.com/instance-"))
            || rejection(key, KeyLocation::Pool, ctx.platform().karpenter, aws).is_some()
            || pool.labels().get(key).is_set()
        {
            continue;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let index = ctx.cluster();
        if ctx.strings("domains").iter().any(|own| own == domain)
            || index.views().referenced_labels().contains(key)
        {
            continue;
        }
        match intended_key(item, list.provider) {
            Some((word, sure)) => {
                let is_only = !list.items().any(|other| other.key() == Some(&*word));
                lookalike(item, key, &word, sure, is_only, ctx);
            }
            // These are labels of GPU feature discovery, which have another rule.
            None if domain == "nvidia.com" => {}
            None => made_up(item, key, ctx),
        }
    }
    None
}

/// Whether the values of a requirement are those that the intended label has.
fn has_valid_values(item: &RequirementItem<'_>, word: &str) -> bool {
    let known = catalog::values(word);
    item.texts().is_none_or(|texts| texts.iter().all(|text| known.is_none_or(|known| known.contains(*text))))
}

fn lookalike(
    item: &RequirementItem<'_>,
    key: &str,
    word: &str,
    sure: TypoConfidence,
    is_only: bool,
    ctx: &mut Context<'_>,
) {
    let node = item.node.get("key");
    let finding = ctx.report(
        &node,
        format!("`{}` is not a label of instances: it does not restrict the instance types", ellipsize(key)),
    );
    if sure == TypoConfidence::Likely {
        finding.severity(Severity::Warning);
    }
    let title = format!("write `{word}`; check which nodes the pool then gets");
    finding.reports_absence(false).help(format!("write `{word}`"));
    if is_only && has_valid_values(item, word) {
        finding.fix(Fix::new(title, Safety::Unsafe).set(&node, json!(word)).replaces_nodes());
    }
}

/// A custom label whose value Karpenter generates.
fn made_up(item: &RequirementItem<'_>, key: &str, ctx: &mut Context<'_>) {
    let (Some(operator), Some(values)) = (item.operator(), item.texts()) else { return };
    let any_of_a_list = operator == Operator::In;
    let made_up = match operator {
        Operator::In => values.len() > 1,
        Operator::DoesNotExist => false,
        _ => true,
    };
    // An empty range makes Karpenter panic, which is reported by another rule.
    if !made_up || Requirement::new(operator, &values, None).is_empty_range() {
        return;
    }
    let cluster = ctx.cluster();
    let whole = knows_workloads(cluster);
    let severity = if whole || is_comparison(operator) {
        Severity::Warning
    } else if cluster.views().referenced_labels().has_workloads() {
        Severity::Info
    } else {
        // Pods outside the input may select a specific value.
        return;
    };
    let value = if any_of_a_list { "any one of these values" } else { "a random number" };
    let here = if whole { "" } else { " here" };
    let message = format!("no workload{here} selects `{}`, so each node gets {value} for it", ellipsize(key));
    ctx.report(&item.node.get("key"), message)
        .severity(severity)
        .help("give it one value with `In`, or let pods select theirs; it narrows no instance type");
}

/// Whether all workloads are known.
fn knows_workloads(cluster: &Cluster) -> bool {
    WORKLOAD_KINDS.iter().all(|kind| cluster.is_complete_for(*kind))
}

/// Reports node selectors whose key has the name of a label of instances without its domain, and a value that only that label has.
fn of_pods(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::DAEMON_SET) || object.is_partial() {
        return None;
    }
    let cluster = ctx.cluster();
    for template in templates(object) {
        let selector = template.spec.get("nodeSelector");
        for (key, node) in selector.entries() {
            let Some((word, severity)) = node.text().and_then(|value| meant_by_pods(key, value)) else {
                continue;
            };
            let has_pools = cluster.of(Kind::NODE_POOL).any(|pool| ctx.pairs_with(pool));
            // What fits no pool of a whole cluster is reported by pod-fits-no-pool. People label nodes of their own by capacity types, so
            // that these say nothing without a NodePool.
            let is_of_another_rule = has_pools && cluster.is_complete_for(Kind::NODE_POOL);
            if is_of_another_rule || !has_pools && word == CAPACITY_TYPE {
                continue;
            }
            // Somebody labels nodes so: a pool, its class or what other nodes the input has.
            let is_known = cluster.views().feasibility(ctx.platform()).declares(key)
                || ctx.other_nodes_for(&template).is_some()
                || cluster.of(Kind::EC2_NODE_CLASS).any(|class| {
                    class.path(&["spec", "userData"]).raw_text().is_some_and(|text| text.contains(key))
                });
            if is_known {
                continue;
            }
            let target = selector.get(word);
            let message =
                format!("`{key}` is not a label of instances: no pod starts unless somebody labels nodes so");
            let finding = ctx.report(&node, message).at_key();
            finding.severity(severity).help(format!("write `{word}`, which every node of Karpenter has"));
            if target.is_absent() {
                let title = format!("write `{word}`; check which nodes the pod then gets");
                finding.fix(Fix::new(title, Safety::Unsafe).move_to(&node, &target));
            }
        }
    }
    None
}

/// The label that a key without a domain stands for, by its value.
fn meant_by_pods(key: &str, value: &str) -> Option<(&'static str, Severity)> {
    match key.replace(['-', '_', '.'], "").to_ascii_lowercase().as_str() {
        "instancetype" if catalog::find(value).is_some() => Some((catalog::INSTANCE_TYPE, Severity::Warning)),
        "capacitytype" if matches!(value, "spot" | "on-demand") => Some((CAPACITY_TYPE, Severity::Info)),
        _ => None,
    }
}
