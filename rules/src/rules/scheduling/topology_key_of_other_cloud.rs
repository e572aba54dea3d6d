//! Pods are placed by a label that only nodes of another cloud have.
//!
//! # Why
//! Examples of JobSet, LeaderWorkerSet and Kueue place pods by labels of GKE, such as
//! `cloud.google.com/gke-nodepool`. Nodes that Karpenter starts in AWS have no such label. A required
//! affinity or spread over it is never satisfied, and with exclusive placement the controllers add one to
//! the pods: they stay Pending, and Karpenter starts no node. A Topology of Kueue counts only nodes that
//! have the labels of all its levels, so that workloads with a flavor of that Topology are never admitted.
//!
//! # Fix
//! Use a label that nodes have in AWS: `topology.kubernetes.io/zone`, `kubernetes.io/hostname`, or one that the
//! NodePool gives its nodes.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: jobset.x-k8s.io/v1alpha2
//!  kind: JobSet
//!  metadata:
//!    name: slices
//!    namespace: models
//!    annotations:
//! -    alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool # <-
//! +    alpha.jobset.sigs.k8s.io/exclusive-topology: topology.kubernetes.io/zone
//!  spec:
//!    replicatedJobs:
//!      - name: slice
//!        replicas: 2
//!        template:
//!          spec:
//!            backoffLimit: 0
//!            template:
//!              spec:
//!                restartPolicy: Never
//!                containers:
//!                  - name: train
//!                    image: example.com/train:1.4.0
//!                    resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://jobset.sigs.k8s.io/docs/concepts/>
//! - <https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/>
//! - <https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/>

use crate::fit::label_of_other_nodes;
use crate::rules::prelude::*;
use crate::workload::node_labels::is_of_other_cloud;
use crate::workload::template::REQUIRED_AFFINITY;

pub(crate) static RULE: Rule = Rule {
    id: "topology-key-of-other-cloud",
    kinds: kinds![[TOPOLOGY], WORKLOAD_KINDS],
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    docs: docs(include_str!("topology_key_of_other_cloud.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

pub(in crate::rules) const TOPOLOGY: Kind = Kind::new("kueue.x-k8s.io", "Topology");
/// A stand-in in the documentation of Kueue, which people may give their own nodes.
const STAND_IN: &str = "cloud.provider.com/";
/// With this annotation, JobSet (0.11) adds a node selector in the place of an affinity: the nodes have its label before.
const NODE_SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";
/// The annotations with which JobSet (0.11) and LeaderWorkerSet add an affinity to their pods.
const EXCLUSIVE: [&str; 3] = [
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
];
/// Maximum number of NodePools that are compared.
const MAX_COMPARED: usize = 64;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(TOPOLOGY) {
        let levels = object.path(&["spec", "levels"]);
        let mut labels = levels.items().map(|level| level.get("nodeLabel"));
        let node =
            labels.find(|node| node.text().is_some_and(is_of_cloud)).filter(|_| !object.is_partial())?;
        let effect =
            format!("Topology `{}` has no nodes, and its flavors admit nothing", object.display_name());
        return report(&node, &effect, ctx);
    }
    let templates = templates(object);
    // Pods for nodes of another kind, or of another cloud.
    let is_elsewhere = templates.iter().any(|template| {
        let selector = template.spec.get("nodeSelector");
        label_of_other_nodes(template).is_some() || selector.entries().iter().any(|(key, _)| is_of_cloud(key))
    });
    if is_elsewhere || object.is_partial() {
        return None;
    }
    if annotations(object).iter().any(|annotations| annotations.get(NODE_SELECTOR).is_set()) {
        return None;
    }
    let required = templates.iter().flat_map(required_keys);
    let node = exclusive_topologies(object)
        .into_iter()
        .chain(required)
        .find(|node| node.text().is_some_and(is_of_cloud))?;
    report(&node, &format!("pods of `{}` stay Pending", object.display_name()), ctx)
}

/// The annotations of an object and of the Jobs of a JobSet.
fn annotations(object: &Object) -> Vec<Node<'_>> {
    let jobs = object.path(&["spec", "replicatedJobs"]);
    let jobs = jobs.items().map(|job| job.path(&["template", "metadata", "annotations"]));
    std::iter::once(object.path(&["metadata", "annotations"])).chain(jobs).collect()
}

/// The labels over which a JobSet or a LeaderWorkerSet places its groups exclusively.
pub(in crate::rules) fn exclusive_topologies(object: &Object) -> Vec<Node<'_>> {
    annotations(object).iter().flat_map(|annotations| EXCLUSIVE.map(|name| annotations.get(name))).collect()
}

/// Reports a label that no node has, where the nodes of a pool are in AWS.
fn report(node: &Node<'_>, effect: &str, ctx: &mut Context<'_>) -> Option<()> {
    let key = node.text()?;
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    if feasibility.has_unreadable_pools() || feasibility.declares(key) {
        return None;
    }
    let in_aws = |pool: &&Object| {
        let group = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
        matches!(group.text(), Some("karpenter.k8s.aws" | "eks.amazonaws.com")) && ctx.pairs_with(pool)
    };
    let pool = ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED).find(in_aws)?;
    let message = format!("no node in AWS has the label `{key}`: {effect}");
    let severity = if key.starts_with(STAND_IN) { Severity::Info } else { Severity::Warning };
    ctx.report(node, message)
        .severity(severity)
        .help("write `topology.kubernetes.io/zone`, or a label that the NodePool gives its nodes")
        .related(pool, &pool.path(&["metadata", "name"]), "the nodes of this pool are in AWS");
    None
}

fn is_of_cloud(key: &str) -> bool {
    is_of_other_cloud(key) || key.starts_with(STAND_IN)
}

/// The keys over which the pods of a template must be placed.
fn required_keys<'a>(template: &Template<'a>) -> Vec<Node<'a>> {
    let spread = template.spec.get("topologySpreadConstraints");
    let hard = spread.items().filter(|item| item.get("whenUnsatisfiable").text() == Some("DoNotSchedule"));
    let affinity = template.spec.path(&["affinity", "podAffinity", REQUIRED_AFFINITY]);
    hard.chain(affinity.items()).map(|item| item.get("topologyKey")).collect()
}
