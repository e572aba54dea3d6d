//! Kueue waits for nodes, and Karpenter starts nodes for pods.
//!
//! # Why
//! A flavor with `topologyName` admits workloads onto nodes that exist: Kueue adds up what they have free.
//! Karpenter starts a node for a pod that is Pending, and a workload that waits in a queue has no pods. Once
//! the nodes of a NodePool are gone, nothing is admitted there any more. An admission check that creates
//! ProvisioningRequests waits in a similar way: Cluster Autoscaler answers them, and Karpenter does not.
//!
//! # Fix
//! Leave `topologyName` out of flavors for NodePools that scale to zero, and place pods with affinity; or keep
//! nodes running, with a static NodePool (`replicas`). Remove the check from queues for Karpenter's nodes.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ResourceFlavor
//!  metadata: {name: l4}
//!  spec:
//!    nodeLabels: {karpenter.sh/nodepool: l4}
//! -  topologyName: racks # <-
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: l4}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.2xlarge, g6.4xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/>
//! - <https://kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request/>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/742>

use super::kueue_flavor_unmatched::gives;
use crate::cluster::queues::admission_checks;
use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::rules::karpenter_in_use::may_have_cluster_autoscaler;
use crate::rules::prelude::*;
use crate::rules::scheduling::node_helpers::INSTALLING_KINDS;

/// How long an empty node has to stay, in seconds, so that workloads meet it: a day.
const LONG_SECONDS: i64 = 24 * 3600;
const CAPACITY_BUFFER: Kind = Kind::new("autoscaling.x-k8s.io", "CapacityBuffer");
/// The controller of checks that create ProvisioningRequests.
const PROVISIONING: &str = "kueue.x-k8s.io/provisioning-request";

pub(crate) static RULE: Rule = Rule {
    id: "kueue-waits-for-nodes",
    kinds: &[Kind::RESOURCE_FLAVOR, Kind::CLUSTER_QUEUE],
    reads: kinds![
        [Kind::NODE_POOL, Kind::RESOURCE_FLAVOR, Kind::ADMISSION_CHECK, CAPACITY_BUFFER, Kind::DEPLOYMENT],
        INSTALLING_KINDS
    ],
    docs: docs(include_str!("kueue_waits_for_nodes.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || object.get("spec").has_unknown() {
        return None;
    }
    if object.is(Kind::RESOURCE_FLAVOR) { of_flavor(object, ctx) } else { of_queue(object, ctx) }
}

/// What Kueue adds up: kueue 0.17 `pkg/cache/scheduler/tas_flavor.go` (`snapshot`), the nodes of the cluster with the flavor's labels.
fn of_flavor(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let topology = object.path(&["spec", "topologyName"]);
    topology.text().filter(|name| !name.is_empty())?;
    // An admission check may ask for nodes, or send the workload to another cluster. A buffer keeps nodes running.
    if ctx.cluster().has_any(Kind::ADMISSION_CHECK) || ctx.cluster().has_any(CAPACITY_BUFFER) {
        return None;
    }
    let pool = pool_of(object, ctx)?;
    let pool_name = pool.display_name();
    let message =
        format!("Kueue admits to nodes that exist, and NodePool `{pool_name}` starts nodes only for pods");
    ctx.report(&topology, message)
        .help("leave `topologyName` out, or keep nodes running with a static NodePool")
        .related(&pool, &pool.path(&["metadata", "name"]), "starts nodes for pods");
    None
}

fn of_queue(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let asks = |check: &Node<'_>| {
        let found = check.text().and_then(|name| ctx.partner(Kind::ADMISSION_CHECK, "default", name));
        found.is_some_and(|found| found.path(&["spec", "controllerName"]).text() == Some(PROVISIONING))
    };
    let node = admission_checks(object).find(asks)?;
    // The Cluster Autoscaler answers ProvisioningRequests.
    if may_have_cluster_autoscaler(ctx) {
        return None;
    }
    let groups = object.path(&["spec", "resourceGroups"]);
    let flavors = groups.items().flat_map(|group| group.get("flavors").items());
    let mut pool = None;
    for flavor in flavors {
        let flavor = ctx.partner(Kind::RESOURCE_FLAVOR, "default", flavor.get("name").text()?)?;
        pool = Some(pool_of(flavor, ctx)?);
    }
    let pool = pool?;
    let message = format!(
        "nothing answers the ProvisioningRequests for NodePool `{}`: Karpenter does not read them",
        pool.display_name()
    );
    ctx.report(&node, message)
        .help("remove the check: Karpenter starts nodes for the pods of admitted workloads")
        .related(&pool, &pool.path(&["metadata", "name"]), "the nodes of the queue's flavor");
    None
}

/// The NodePool of Karpenter that has the labels of a flavor, if it starts nodes for pods and removes those that are empty.
fn pool_of(flavor: &Object, ctx: &Context<'_>) -> Option<Object> {
    let labels = flavor.path(&["spec", "nodeLabels"]);
    let named = labels.get(NODEPOOL_LABEL);
    let pool = match named.text() {
        Some(name) => ctx.partner(Kind::NODE_POOL, "default", name)?,
        None => {
            let entries = labels.entries();
            let (key, value) = entries.first()?;
            let pools = ctx.cluster().views().pools_with_label(key, value.text()?);
            // Other labels may be those of nodes that Karpenter does not start, or of another pool.
            let has_all = |pool: &Object| {
                entries.iter().all(|(key, value)| {
                    value.text().is_some_and(|value| gives(pool, key, value) == Some(true))
                })
            };
            let mut own = pools.iter().filter(|pool| ctx.pairs_with(pool));
            let pool = own.next().filter(|pool| has_all(pool))?;
            if own.any(|other| other.path(&["spec", "replicas"]).is_set()) {
                return None;
            }
            pool
        }
    };
    (!keeps_nodes(pool)? && !pool.may_lack_fields()).then(|| pool.clone())
}

/// Whether empty nodes of a NodePool stay: then there are nodes to which Kueue admits. `None` if it cannot be told.
fn keeps_nodes(pool: &Object) -> Option<bool> {
    let spec = NodePool::new(pool)?;
    let after = pool.path(&["spec", "disruption", "consolidateAfter"]);
    let is_long = match after.text() {
        Some("Never") => true,
        Some(text) => GoDuration::parse(text).ok()?.seconds() >= LONG_SECONDS,
        None if after.is_unknown() => return None,
        None => false,
    };
    let annotations = pool.path(&["spec", "template", "metadata", "annotations"]);
    let is_closed = spec.calendar()?.is_always(DisruptionReason::Empty, AllowanceState::Zero);
    Some(
        is_long
            || is_closed
            || annotations.get(DO_NOT_DISRUPT).is_set()
            || pool.path(&["spec", "replicas"]).is_set(),
    )
}
