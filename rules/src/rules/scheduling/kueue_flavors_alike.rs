//! Two ResourceFlavors of one queue select the same nodes.
//!
//! # Why
//! Kueue gives the pods that it admits the `nodeLabels` of their flavor as a `nodeSelector`, and its tolerations.
//! Where two flavors of a resource group say the same, or nothing, it counts two quotas for the same nodes: pods
//! that spend the quota for an L4 start on an H100, wherever the scheduler finds room first. Labels in the
//! `metadata` of a ResourceFlavor are those of the object alone.
//!
//! Flavors of different resource groups, queues with admission checks, which may choose nodes by themselves,
//! and clusters of MultiKueue, whose pods run elsewhere, are left alone.
//!
//! # Fix
//! Write in `spec.nodeLabels` of each flavor what tells its nodes apart.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ResourceFlavor
//!  metadata: {name: l4}
//!  spec:
//!    nodeLabels: {gpu-pool: l4}
//!  ---
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ResourceFlavor
//!  metadata: {name: h100}
//!  spec:
//! -  nodeLabels: {gpu-pool: l4}
//! +  nodeLabels: {gpu-pool: h100}
//!  ---
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ClusterQueue
//!  metadata: {name: research}
//!  spec:
//!    cohort: models
//!    namespaceSelector: {}
//!    resourceGroups:
//!      - coveredResources: [nvidia.com/gpu]
//!        flavors:
//!          - name: l4
//!            resources: [{name: nvidia.com/gpu, nominalQuota: 8}]
//!          - name: h100 # <-
//!            resources: [{name: nvidia.com/gpu, nominalQuota: 16}]
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/>
//! - <https://github.com/kubernetes-sigs/kueue/issues/406>

use std::collections::BTreeSet;

use crate::rules::prelude::*;

const MULTI_KUEUE: Kind = Kind::new("kueue.x-k8s.io", "MultiKueueConfig");

pub(crate) static RULE: Rule = Rule {
    id: "kueue-flavors-alike",
    kinds: &[Kind::CLUSTER_QUEUE],
    reads: &[Kind::RESOURCE_FLAVOR, MULTI_KUEUE],
    docs: docs(include_str!("kueue_flavors_alike.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Fields of a flavor that say on which nodes its pods run.
const FIELDS: [&str; 4] = ["nodeLabels", "nodeTaints", "tolerations", "topologyName"];
/// Fields of a queue with checks that may choose nodes: a ProvisioningRequest has labels of its own.
const CHECKS: [&str; 2] = ["admissionChecks", "admissionChecksStrategy"];

fn check(queue: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = queue.get("spec");
    let has_checks = CHECKS.iter().any(|field| spec.get(field).is_set());
    if queue.may_lack_fields() || spec.has_unknown_key() || has_checks || ctx.cluster().has_any(MULTI_KUEUE) {
        return None;
    }
    for group in spec.get("resourceGroups").items() {
        let mut known: Vec<(&Object, Value, BTreeSet<&str>)> = Vec::new();
        for item in group.get("flavors").items() {
            let name = item.get("name");
            let flavor = name.text().and_then(|text| ctx.partner(Kind::RESOURCE_FLAVOR, "default", text));
            let Some((flavor, nodes)) = flavor.and_then(|flavor| Some((flavor, nodes(flavor)?))) else {
                continue;
            };
            let resources = resources(&item);
            let is_alike = |(other, same, theirs): &&(&Object, Value, BTreeSet<&str>)| {
                *same == nodes && other.name() != flavor.name() && !theirs.is_disjoint(&resources)
            };
            match known.iter().find(is_alike) {
                Some((other, ..)) => report(&name, flavor, other, ctx),
                None => known.push((flavor, nodes, resources)),
            }
        }
    }
    None
}

/// The resources of which a flavor has a quota. Each flavor of a group lists all its resources, so 0 says that it has none.
fn resources<'a>(item: &Node<'a>) -> BTreeSet<&'a str> {
    let is_set = |one: &Node<'_>| one.get("nominalQuota").string_or_number().is_some_and(|text| text != "0");
    item.get("resources").items().filter(is_set).filter_map(|one| one.get("name").text()).collect()
}

/// The fields that choose nodes, without those that are empty. `None` if one is unknown.
fn nodes(flavor: &Object) -> Option<Value> {
    let spec = flavor.get("spec");
    if flavor.may_lack_fields() || spec.has_unknown() || spec.has_unknown_key() {
        return None;
    }
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let written = FIELDS.map(|field| Some(spec.get(field).to_json()).filter(|value| !is_empty(value)));
    Some(json!(written))
}

fn report(name: &Node<'_>, flavor: &Object, other: &Object, ctx: &mut Context<'_>) {
    let message = format!(
        "ResourceFlavors `{}` and `{}` select the same nodes: the quota of one is spent on those of the other",
        other.display_name(),
        flavor.display_name()
    );
    let labels = flavor.path(&["metadata", "labels"]);
    // Keys of other tools have a domain.
    let own = labels.entries().into_iter().find(|(key, _)| !key.contains('/') && *key != "app");
    let finding = ctx.report(name, message);
    match own.filter(|_| flavor.path(&["spec", "nodeLabels"]).entries().is_empty()) {
        Some((key, _)) => finding.help(format!(
            "write `{}` in `spec.nodeLabels` of the flavors: `metadata.labels` selects no node",
            ellipsize(key)
        )),
        None => finding.help("write in `spec.nodeLabels` of each flavor what tells its nodes apart"),
    };
    finding.related(other, &other.path(&["metadata", "name"]), "the flavor with the same nodes");
    finding.related(flavor, &flavor.path(&["metadata", "name"]), "this flavor");
}
