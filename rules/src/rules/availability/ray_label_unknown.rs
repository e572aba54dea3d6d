//! A selector for the pods of Ray has a label that KubeRay does not give them.
//!
//! # Why
//! KubeRay labels its pods with `ray.io/cluster`, `ray.io/group` and `ray.io/node-type`. A selector with
//! `ray.io/group-name` or another spelling matches no pod: a PodDisruptionBudget protects nothing, an affinity
//! or a spread constraint has no effect, a Service has no endpoints. `ray.io/cluster` is the name of the
//! RayCluster. A RayService and a RayJob make one whose name ends in random characters, and a new one at each
//! upgrade, so their own names select nothing.
//!
//! # Fix
//! Write the label that KubeRay sets. For the pods of a RayService or a RayJob give the pod templates a label
//! of your own, and select that.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: workers, namespace: models}
//!  spec:
//!    maxUnavailable: 1
//!    unhealthyPodEvictionPolicy: AlwaysAllow
//!    selector:
//!      matchLabels:
//! -      ray.io/group-name: gpu # <-
//! +      ray.io/group: gpu
//! ```
//!
//! # References
//! - <https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html>
//! - <https://github.com/ray-project/kuberay/blob/v1.4.2/ray-operator/controllers/ray/utils/constant.go>

use crate::karpenter::pod::affinity_terms;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "ray-label-unknown",
    kinds: kinds![[Kind::PDB, Kind::SERVICE, Kind::NETWORK_POLICY, Kind::POD_MONITOR], WORKLOAD_KINDS],
    reads: kinds![[Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE]],
    docs: docs(include_str!("ray_label_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Spellings of labels, and the labels that KubeRay gives pods (`utils/constant.go` of 1.0 to 1.4).
const SLIPS: [(&str, &str); 10] = [
    ("ray.io/cluster-name", CLUSTER),
    ("ray.io/clusterName", CLUSTER),
    ("ray.io/raycluster", CLUSTER),
    ("ray.io/group-name", "ray.io/group"),
    ("ray.io/groupName", "ray.io/group"),
    ("ray.io/worker-group", "ray.io/group"),
    ("ray.io/worker-group-name", "ray.io/group"),
    ("ray.io/nodeType", "ray.io/node-type"),
    ("ray.io/node_type", "ray.io/node-type"),
    ("ray.io/role", "ray.io/node-type"),
];
const CLUSTER: &str = "ray.io/cluster";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.is_owned() {
        return None;
    }
    for selector in selectors(object) {
        for (key, value, node) in labels_of(&selector) {
            unknown(object, key, &node, ctx);
            of_owner(object, key, value.as_deref(), &node, ctx);
        }
    }
    None
}

/// The selectors of pods in an object.
fn selectors<'a>(object: &'a Object) -> Vec<Node<'a>> {
    match object.kind() {
        "PodDisruptionBudget" | "PodMonitor" => return vec![object.path(&["spec", "selector"])],
        "NetworkPolicy" => return vec![object.path(&["spec", "podSelector"])],
        "Service" => return vec![object.get("spec")],
        _ => {}
    }
    let mut found = Vec::new();
    for template in templates(object) {
        let terms = ["podAffinity", "podAntiAffinity"].map(|kind| affinity_terms(&template.spec, kind));
        let terms = terms.into_iter().flatten().map(|(term, _)| term);
        let spreads = template.spec.get("topologySpreadConstraints");
        found.extend(terms.chain(spreads.items()).map(|rule| rule.get("labelSelector")));
    }
    found
}

/// The labels that a selector requires, each with its value, if that is one text, and its place.
fn labels_of<'a>(selector: &Node<'a>) -> Vec<(&'a str, Option<String>, Node<'a>)> {
    let text = |value: &Node<'_>| value.text().map(str::to_owned);
    // The selector of a Service is a map.
    let maps = ["matchLabels", "selector"].into_iter().flat_map(|field| selector.get(field).entries());
    let mut labels: Vec<_> = maps.map(|(key, value)| (key, text(&value), value)).collect();
    for expression in selector.get("matchExpressions").items() {
        let is_positive = matches!(expression.get("operator").text(), Some("In" | "Exists"));
        let place = expression.get("key");
        let Some(key) = place.text().filter(|_| is_positive) else { continue };
        let mut values = expression.get("values").items();
        let value = values.next().filter(|_| values.next().is_none());
        labels.push((key, value.as_ref().and_then(text), place));
    }
    labels
}

fn unknown(object: &Object, key: &str, node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let (_, label) = SLIPS.iter().find(|(slip, _)| *slip == key)?;
    // A pod template may have it as a label of its own.
    let is_own = |object: &Object| {
        templates(object).iter().any(|template| template.labels().iter().any(|(own, _)| *own == key))
    };
    let kinds = [Kind::RAY_CLUSTER, Kind::RAY_JOB, Kind::RAY_SERVICE];
    if is_own(object) || kinds.iter().any(|kind| ctx.cluster().of(*kind).any(is_own)) {
        return None;
    }
    ctx.report(node, format!("KubeRay gives no pod the label `{key}`: it selects none"))
        .help(format!("write `{label}`"))
        .identified_by(key);
    Some(())
}

/// Reports the name of a RayService or RayJob in the place of that of its RayCluster.
fn of_owner(
    object: &Object,
    key: &str,
    value: Option<&str>,
    node: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let name = value.filter(|_| key == CLUSTER)?;
    let namespace = object.namespace_or_default();
    // A folder may have several versions of one RayService.
    let owner = [Kind::RAY_SERVICE, Kind::RAY_JOB].into_iter().find_map(|kind| {
        let named = ctx.cluster().all(kind.group, kind.kind, namespace, name);
        named.iter().find(|owner| ctx.pairs_with(owner))
    })?;
    if ctx.cluster().has(Kind::RAY_CLUSTER, namespace, name) || owner.may_lack_fields() {
        return None;
    }
    let is_own = |template: &Template<'_>| template.labels().iter().any(|(own, _)| *own == CLUSTER);
    // A RayJob may run on a cluster that exists.
    if templates(owner).iter().any(is_own) || owner.path(&["spec", "clusterSelector"]).is_set() {
        return None;
    }
    let message = format!(
        "the RayCluster of {} `{}` has a name with random characters behind it: this selects no pod",
        owner.kind(),
        owner.display_name()
    );
    ctx.report(node, message)
        .help("give the pod templates a label of your own, and select that")
        .identified_by(key)
        .related(owner, &owner.path(&["metadata", "name"]), "the name that is selected");
    Some(())
}
