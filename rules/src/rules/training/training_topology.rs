//! Workers of a distributed training run may be spread over zones.
//!
//! # Why
//! The workers exchange gradients at every step. Between availability zones each exchange takes several
//! times as long as within one, traffic between zones is billed, and EFA does not cross them: ranks that ask for
//! it in two zones never find each other. This is a warning where the pods ask to be spread over zones, or for
//! EFA, as the groups of a server over several nodes do as well; otherwise information. Pods that name their
//! nodes, or must run on one, are where the author put them. A spread over the labels of network nodes
//! (`topology.k8s.aws/network-node-layer-2`) puts workers under different switches: that is a warning as well.
//!
//! # Fix
//! Keep the run in one zone: a node selector on `topology.kubernetes.io/zone`, pod affinity by that
//! key, or the topology annotation of Kueue, JobSet or LeaderWorkerSet.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    parallelism: 2
//!    completions: 2
//!    completionMode: Indexed
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//! -    spec: # <-
//! +    spec:
//! +      nodeSelector: {topology.kubernetes.io/zone: us-west-2a}
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, --nnodes=2, train.py]
//!            env: [{name: SAVE_TO, value: "s3://runs/bert"}]
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-networking.html>
//! - <https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/>

use crate::catalog::{HOSTNAME, ZONE};
use crate::rules::karpenter_in_use::{READS, is_on_karpenter, is_on_other_platform};
use crate::rules::prelude::*;
use crate::rules::training::{is_distributed, is_serving_group, trains};
use crate::workload::gpu::EFA;
use crate::workload::node_labels::{names_nodes, shared_topologies};

pub(crate) static RULE: Rule = Rule {
    id: "training-topology",
    kinds: WORKLOAD_KINDS,
    reads: kinds![READS, [Kind::AUTO_MODE_NODE_CLASS]],
    docs: docs(include_str!("training_topology.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

/// The labels of the switches above a node, of which pods on one have the shortest ways to each other.
const NETWORK_NODES: &str = "topology.k8s.aws/network-node-layer-";

/// Parts of keys with which queues and controllers place the pods of a run together.
const GANGS: [&str; 5] =
    ["kueue.x-k8s.io/", "exclusive-topology", "subgroup-", "scheduling.x-k8s.io/", "volcano.sh/"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let serves = is_serving_group(object, ctx);
    let runs = serves || trains(object, ctx) && is_distributed(object);
    if !runs || object.is_partial() {
        return None;
    }
    let templates = templates(object);
    // The pods with most accelerators: a launcher or a driver may have one as well.
    let devices = |template: &Template<'_>| -> i64 {
        let devices = pod_devices(template);
        devices.iter().filter(|(name, _)| is_accelerator(name)).map(|(_, devices)| devices.count).sum()
    };
    let candidates = templates.iter().filter(|template| requests_accelerator(template));
    let template = candidates.rev().max_by_key(|template| devices(template))?;
    let asks_for_efa = pod_devices(template).contains_key(EFA);
    // The ranks of a server may speak TCP, which crosses zones.
    if serves && !asks_for_efa {
        return None;
    }
    let what = if serves { "server" } else { "training run" };
    let name = object.display_name();
    for spread in template.spec.get("topologySpreadConstraints").items() {
        let key = spread.get("topologyKey");
        if key.text() == Some(ZONE) {
            ctx.report(&key, format!("workers of {what} `{name}` are spread over zones"))
                .severity(Severity::Warning)
                .help("keep the workers of a run in one zone: a node selector, or pod affinity, by zone");
            return None;
        }
        if key.text().is_some_and(|key| key.starts_with(NETWORK_NODES)) {
            ctx.report(
                &key,
                format!("workers of {what} `{name}` are spread over network nodes, away from each other"),
            )
            .severity(Severity::Warning)
            .help("bring them together: a preferred `podAffinity` by this key, without the spread");
            return None;
        }
    }
    let scheduler = template.spec.get("schedulerName");
    let placed = scheduler.is_set() && scheduler.text() != Some("default-scheduler");
    if placed || is_gang(object, template) || may_be_in_one_zone(template, ctx) {
        return None;
    }
    // Other clouds place nodes in other ways, and some have one zone a region.
    if !asks_for_efa && is_on_other_platform(ctx) {
        return None;
    }
    let message = if asks_for_efa {
        format!("workers of {what} `{name}` use EFA, which does not cross zones, and may land in several")
    } else {
        format!("workers of {what} `{name}` may land in several zones")
    };
    // A node group with EFA is usually in one zone, for its placement group.
    let is_sure = asks_for_efa && is_on_karpenter(template, ctx);
    let severity = if is_sure { Severity::Warning } else { Severity::Info };
    ctx.report(&template.spec.get("nodeSelector"), message)
        .severity(severity)
        .help("select one `topology.kubernetes.io/zone`, or let a queue place the run by topology");
    None
}

/// Whether labels or annotations name a queue or controller that places the pods together.
fn is_gang(object: &Object, template: &Template<'_>) -> bool {
    let own = object.get("metadata");
    let maps = [&own, &template.metadata].into_iter().flat_map(|m| [m.get("labels"), m.get("annotations")]);
    let mut keys = maps.flat_map(|map| map.entries()).map(|(key, _)| key);
    keys.any(|key| GANGS.iter().any(|gang| key.contains(gang)))
}

/// Whether the pods require one zone, one group of nodes or nodes by their names, or every pool that admits them is in one zone.
fn may_be_in_one_zone(template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let spec = &template.spec;
    let is_on_one_node = || shared_topologies(template).any(|key| key.text() == Some(HOSTNAME));
    if spec.get("nodeSelector").has_unknown()
        || spec.get("affinity").has_unknown()
        || names_nodes(template)
        || is_on_one_node()
    {
        return true;
    }
    let is_in_one_place = referenced_labels(template).into_iter().any(|label| match label.usage {
        LabelUse::Required => {
            label.key == ZONE
                || label.key == "topology.k8s.aws/zone-id"
                || label.key.contains("network-node")
                || label.key.contains("capacity-reservation")
                || label.key.contains("nodegroup")
                || label.key == "karpenter.sh/capacity-type" && label.values.iter().all(is_reserved)
        }
        LabelUse::Topology | LabelUse::SoftTopology => label.key == ZONE,
        _ => false,
    });
    if is_in_one_place {
        return true;
    }
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let Some(pools) = feasibility.feasible_pools_of(template) else { return true };
    !pools.is_empty() && pools.iter().all(|pool| has_one_zone(pool.object(), ctx))
}

fn is_reserved(value: &Node<'_>) -> bool {
    value.text() == Some("reserved")
}

/// Whether the requirements of a pool admit one zone, or its class has one subnet.
fn has_one_zone(pool: &Object, ctx: &Context<'_>) -> bool {
    let Some(pool) = NodePool::new(pool) else { return false };
    let is_required = pool.requirement(ZONE).is_some_and(|requirement| {
        requirement.get("operator").text() == Some("In") && requirement.get("values").items().count() == 1
    });
    let reference = pool.template_spec().get("nodeClassRef");
    let class = || {
        let kind = [Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS];
        let kind = kind.into_iter().find(|kind| reference.get("kind").text() == Some(kind.kind))?;
        ctx.partner(kind, "default", reference.get("name").text()?)
    };
    is_required || class().is_some_and(has_one_subnet)
}

/// Whether a class names one subnet, which is in one zone.
fn has_one_subnet(class: &Object) -> bool {
    let terms: Vec<Node<'_>> = class.path(&["spec", "subnetSelectorTerms"]).items().collect();
    matches!(terms.as_slice(), [only] if only.get("id").is_set())
}
