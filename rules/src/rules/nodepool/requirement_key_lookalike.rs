//! The key of a requirement looks like an instance label, but is not one.
//!
//! # Why
//! Karpenter takes a key that it does not know for a label of your own: it narrows no instance type
//! and only puts a value on the new node. `node.kubernetes.io/instance-family In [g5]` so admits every
//! type that EC2 has, and each node says it were a g5. And unless the key has one value, Karpenter
//! makes one up: a random number for `Exists`, `NotIn` and comparisons, any one of a list. That is
//! of use only where pods select a value of their own.
//!
//! Pods have such keys as well: in node selectors, and as `topologyKey` of spreads and affinities.
//! `topology.kubernetes.io/hostname` is on no node: a preference for it has no effect, anti-affinity keeps
//! no pods apart, and with `DoNotSchedule` the pods stay Pending.
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

use crate::catalog::{self, HOSTNAME, REGION, ZONE};
use crate::facts::suggest::is_within;
use crate::karpenter::labels::key::{KeyLocation, rejection};
use crate::karpenter::labels::typo::{TypoConfidence, intended_key};
use crate::karpenter::requirement::{Requirement, is_well_known, normalise};
use crate::karpenter::requirement_list::is_comparison;
use crate::rules::prelude::*;
use crate::rules::scheduling::topology_key_of_other_cloud::{TOPOLOGY, exclusive_topologies};
use crate::workload::node_labels::{is_of_other_cloud, requires_other_cloud};

pub(crate) static RULE: Rule = Rule {
    id: "requirement-key-lookalike",
    kinds: kinds![[Kind::NODE_POOL, TOPOLOGY], WORKLOAD_KINDS],
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
        of_pods(object, ctx);
        return of_places(object, ctx);
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
            if is_given(key, ctx) || ctx.other_nodes_for(&template).is_some() {
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

/// Whether somebody labels nodes with a key: a pool or its class.
fn is_given(key: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let names =
        |class: &Object| class.path(&["spec", "userData"]).raw_text().is_some_and(|text| text.contains(key));
    cluster.views().feasibility(ctx.platform()).declares(key) || cluster.of(Kind::EC2_NODE_CLASS).any(names)
}

/// Reports keys that look like the label of a node's host, zone or region, but are on no node.
fn of_places(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let feasibility = cluster.views().feasibility(ctx.platform());
    if object.is(Kind::DAEMON_SET) || object.is_partial() || feasibility.has_unreadable_pools() {
        return None;
    }
    let has_pools = cluster.of(Kind::NODE_POOL).any(|pool| ctx.pairs_with(pool));
    // What a whole cluster cannot satisfy is reported by pod-fits-no-pool.
    let is_whole = has_pools && cluster.is_complete_for(Kind::NODE_POOL);
    let levels = object.path(&["spec", "levels"]);
    let levels = levels.items().filter(|_| object.is(TOPOLOGY)).map(|level| level.get("nodeLabel"));
    let mut places: Vec<LabelReference<'_>> =
        levels.chain(exclusive_topologies(object)).filter_map(topology).collect();
    for template in templates(object) {
        if requires_other_cloud(&template) {
            return None;
        }
        let has_others = ctx.other_nodes_for(&template).is_some();
        places.extend(referenced_labels(&template).into_iter().filter(|label| match label.usage {
            LabelUse::Required => !is_whole && !has_others,
            LabelUse::Topology => !is_whole,
            LabelUse::Preferred | LabelUse::SoftTopology => true,
            LabelUse::Excluded => false,
        }));
    }
    // What is required is reported, with the preferences by the same key as further places.
    places.sort_by_key(|label| is_soft(label.usage));
    for (number, first) in places.iter().enumerate() {
        let Some(word) = place_meant(first.key).filter(|_| !is_given(first.key, ctx)) else { continue };
        let is_alike = |other: &&LabelReference<'_>| other.key == first.key;
        if places[..number].iter().any(|before| is_alike(&before)) {
            continue;
        }
        let others: Vec<&LabelReference<'_>> = places[number + 1..].iter().filter(is_alike).collect();
        // Somebody may label nodes with a zone of their own, where no pool shows who makes the nodes.
        let is_info = is_soft(first.usage) || !has_pools && word != HOSTNAME;
        report_place(object, first, &others, (word, is_info), ctx);
    }
    None
}

/// The text of a field as a topology that pods require.
fn topology<'a>(node: Node<'a>) -> Option<LabelReference<'a>> {
    let (key, usage) = (node.text()?, LabelUse::Topology);
    Some(LabelReference { key, usage, node, selector: None, values: Vec::new() })
}

fn is_soft(usage: LabelUse) -> bool {
    matches!(usage, LabelUse::Preferred | LabelUse::SoftTopology)
}

fn report_place(
    object: &Object,
    place: &LabelReference<'_>,
    others: &[&LabelReference<'_>],
    (word, is_info): (&str, bool),
    ctx: &mut Context<'_>,
) {
    let effect = match place.usage {
        LabelUse::Preferred | LabelUse::SoftTopology => "what prefers it has no effect",
        LabelUse::Topology => "pods cannot be placed by it",
        _ => "no node fits the pods",
    };
    let message = format!("nodes have `{word}`, and not `{}`: {effect}", ellipsize(place.key));
    let finding = ctx.report(&place.node, message);
    finding
        .severity(if is_info { Severity::Info } else { Severity::Warning })
        .help(format!("write `{word}`"));
    for other in others {
        finding.related(object, &other.node, "and here");
    }
    let fix = Fix::new(format!("write `{word}`; check where the pods then go"), Safety::Unsafe);
    match &place.selector {
        Some(selector) => {
            let target = selector.get(word);
            finding.at_key();
            if target.is_absent() && others.is_empty() {
                finding.fix(fix.move_to(&place.node, &target));
            }
        }
        None if others.iter().all(|other| other.selector.is_none()) => {
            let all = std::iter::once(&place.node).chain(others.iter().map(|other| &other.node));
            finding.fix(all.fold(fix, |fix, node| fix.set(node, json!(word))));
        }
        None => {}
    }
}

/// The label that a key stands for: one in a domain of Kubernetes, in which nobody else gives labels, whose name is
/// nearly that of a host, a zone or a region.
fn place_meant(key: &str) -> Option<&'static str> {
    const PLACES: [&str; 3] = [HOSTNAME, ZONE, REGION];
    let (domain, name) = key.split_once('/')?;
    let is_of_kubernetes = domain == "kubernetes.io"
        || domain.ends_with(".kubernetes.io")
        || matches!(domain, "topology.k8s.aws" | "topology.k8s.io" | "k8s.io");
    // Administrators give labels of their own below these two.
    let is_own = domain.ends_with("node-restriction.kubernetes.io") || domain == "node-role.kubernetes.io";
    if !is_of_kubernetes
        || is_own
        || is_of_other_cloud(key)
        || is_well_known(normalise(key))
        || PLACES.contains(&key)
    {
        return None;
    }
    let by_name = match &*name.replace(['-', '_', '.'], "").to_ascii_lowercase() {
        "hostname" | "hostnames" | "host" | "nodename" => Some(HOSTNAME),
        "zone" | "zones" | "zonename" | "az" | "availabilityzone" | "availabilityzones" => Some(ZONE),
        "region" | "regions" => Some(REGION),
        _ => None,
    };
    by_name.or_else(|| PLACES.into_iter().find(|place| is_within(key, place, 2)))
}

/// The label that a key without a domain stands for, by its value.
fn meant_by_pods(key: &str, value: &str) -> Option<(&'static str, Severity)> {
    match key.replace(['-', '_', '.'], "").to_ascii_lowercase().as_str() {
        "instancetype" if catalog::find(value).is_some() => Some((catalog::INSTANCE_TYPE, Severity::Warning)),
        "capacitytype" if matches!(value, "spot" | "on-demand") => Some((CAPACITY_TYPE, Severity::Info)),
        _ => None,
    }
}
