//! The Node Termination Handler drains nodes whose interruptions Karpenter handles.
//!
//! # Why
//! With an interruption queue Karpenter learns of Spot interruptions and scheduled events, starts a new node
//! and drains the old one, with its taint and its grace period. A DaemonSet of the Node Termination Handler sees
//! these events as well, and cordons and drains the node by itself. Karpenter's documentation advises against
//! both: they get into each other's way. Only for rebalance recommendations, which Karpenter does not act on, may
//! it stay, with the draining of Spot interruptions off.
//!
//! A handler that a node selector or an affinity keeps on other nodes is right there. One that reads a queue of
//! its own acts on tagged nodes alone, and is left out.
//!
//! # Fix
//! Remove the handler once all its nodes are Karpenter's, or keep it on those of node groups.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: karpenter, version: 1.14.1, sourceRef: {kind: HelmRepository, name: karpenter}}
//!    values:
//!      settings: {clusterName: prod, interruptionQueue: prod-karpenter}
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: termination-handler, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//! -      chart: aws-node-termination-handler # <-
//! +      chart: aws-node-termination-handler
//!        version: 0.27.2
//!        sourceRef: {kind: HelmRepository, name: eks}
//! +  values:
//! +    nodeSelector: {eks.amazonaws.com/nodegroup: core}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/faq/>
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>
//! - <https://karpenter.sh/docs/troubleshooting/#aws-node-termination-handler-nth-interactions>

use super::karpenter_setting_missing::DRAINS_SPOT;
use crate::karpenter::installation::{INSTALLERS, is_controller};
use crate::rules::prelude::*;
use crate::workload::charts::{installs, is_for_other_cluster};
use crate::workload::environment::entry;

pub(crate) static RULE: Rule = Rule {
    id: "termination-handler-beside-karpenter",
    kinds: &[Kind::DAEMON_SET, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: &INSTALLERS,
    docs: docs(include_str!("termination_handler_beside_karpenter.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_for_other_cluster(object) {
        return None;
    }
    let place = if object.is(Kind::DAEMON_SET) { of_daemon_set(object) } else { of_chart(object) }?;
    let cluster = ctx.cluster();
    let mut all = INSTALLERS.iter().flat_map(|kind| cluster.of(*kind));
    let karpenter = all.find(|one| ctx.pairs_with(one) && !is_for_other_cluster(one) && has_queue(one))?;
    ctx.report(
        &place,
        "Karpenter handles interruptions by its queue, and this handler drains its nodes as well",
    )
    .help("remove it, or keep it on the nodes of node groups by a node selector")
    .related(karpenter, &karpenter.path(&["metadata", "name"]), "Karpenter, with an interruption queue");
    None
}

/// The image of a handler that drains the nodes which EC2 takes back, on any node.
fn of_daemon_set(object: &Object) -> Option<Node<'_>> {
    let template = templates(object).into_iter().next()?;
    let is_handler =
        |container: &Node<'_>| image_of(container).is_some_and(|image| image.last() == DRAINS_SPOT);
    let container = template.containers().find(is_handler)?;
    let is = |variable: &str, value: &str| {
        entry(&container, variable).is_some_and(|entry| entry.get("value").raw_text() == Some(value))
    };
    let selector = template.spec.get("nodeSelector").entries();
    let is_everywhere =
        selector.iter().all(|(key, _)| matches!(*key, "kubernetes.io/os" | "kubernetes.io/arch"))
            && !template.spec.path(&["affinity", "nodeAffinity"]).is_set();
    let drains =
        !is("ENABLE_SPOT_INTERRUPTION_DRAINING", "false") && !is("ENABLE_SQS_TERMINATION_DRAINING", "true");
    (is_everywhere && drains && !container.get("envFrom").is_set()).then(|| container.get("image"))
}

/// Values of the chart that keep its pods on some nodes.
const PLACES: [&str; 6] = [
    "nodeSelector",
    "affinity",
    "daemonsetNodeSelector",
    "daemonsetAffinity",
    "linuxNodeSelector",
    "linuxAffinity",
];

/// The name of the chart of such a handler: aws-node-termination-handler 0.27 in `aws/eks-charts`.
fn of_chart(object: &Object) -> Option<Node<'_>> {
    if !installs(object, DRAINS_SPOT) {
        return None;
    }
    let mut drains = false;
    for_each_values(object, DRAINS_SPOT, |values| {
        let root = values.root;
        let is = |key: &str, on: bool| root.get(key).bool() == Some(on);
        let is_placed =
            PLACES.iter().any(|key| root.get(key).is_unknown() || !root.get(key).entries().is_empty());
        drains |= !values.may_differ
            && !root.has_unknown_key()
            && !is_placed
            && !is("enableSpotInterruptionDraining", false)
            && !is("enableSqsTerminationDraining", true);
    });
    let spec = object.get("spec");
    let names = [spec.path(&["chart", "spec", "chart"]), spec.path(&["source", "chart"])];
    let name = names.into_iter().find(Node::is_set);
    drains.then(|| name.unwrap_or_else(|| object.path(&["metadata", "name"])))
}

/// Whether an object installs Karpenter with an interruption queue.
fn has_queue(object: &Object) -> bool {
    let is_named = |node: &Node<'_>| node.is_set() && node.raw_text() != Some("");
    if object.is(Kind::DEPLOYMENT) {
        let all = templates(object);
        let mut containers = all.iter().flat_map(Template::containers).filter(is_controller);
        return containers
            .any(|one| entry(&one, "INTERRUPTION_QUEUE").is_some_and(|entry| is_named(&entry.get("value"))));
    }
    let mut found = false;
    for_each_values(object, "karpenter", |values| {
        found |= is_named(&values.root.path(&["settings", "interruptionQueue"]));
    });
    found
}
