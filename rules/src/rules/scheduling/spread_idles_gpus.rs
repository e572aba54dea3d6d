//! Pods keep each other off nodes with many GPUs, and each leaves most of them idle.
//!
//! # Why
//! An anti-affinity over `kubernetes.io/hostname`, or a spread constraint with `maxSkew: 1`, gives each pod
//! a node of its own. Karpenter can always start another node, and treats also what is only preferred as
//! required, as long as a new node satisfies it: six pods with one GPU each start six nodes with eight
//! GPUs, and consolidation does not move them together. A port of the node does the same: pods with
//! `hostPort`, or with ports and `hostNetwork`, cannot share a node. Where other pods with GPUs use these
//! nodes as well, they may fill the rest, and this is info.
//!
//! # Fix
//! Spread over `topology.kubernetes.io/zone`, or admit instance types with fewer GPUs to the NodePool.
//! Reach the pods through a Service and not through a port of the node.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: rerank, namespace: search}
//!  spec:
//!    replicas: 6
//!    selector: {matchLabels: {app: rerank}}
//!    template:
//!      metadata: {labels: {app: rerank}}
//!      spec:
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!        topologySpreadConstraints:
//! -        - topologyKey: kubernetes.io/hostname # <-
//! +        - topologyKey: topology.kubernetes.io/zone
//!            maxSkew: 1
//!            whenUnsatisfiable: ScheduleAnyway
//!            labelSelector: {matchLabels: {app: rerank}}
//!        containers:
//!          - name: rerank
//!            image: registry.example.com/search/rerank:5.0
//!            resources: {requests: {cpu: 4, memory: 16Gi}, limits: {memory: 16Gi, nvidia.com/gpu: 1}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: l4}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.48xlarge, g5.48xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!        expireAfter: Never
//!    limits: {nvidia.com/gpu: 64}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#preferences>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>

use super::AROUND_PODS;
use crate::cluster::placement::requests_of;
use crate::karpenter::scheduling::types_with_room;
use crate::rules::gpu::gpu_sharing_mismatch::{SHARING_SOURCES, counts_shares};
use crate::rules::gpu::selected_types;
use crate::rules::prelude::*;
use crate::workload::devices::first_accelerator;
use crate::workload::node_spread::{Cause, node_spreads};

pub(crate) static RULE: Rule = Rule {
    id: "spread-idles-gpus",
    kinds: REPLICATED_KINDS,
    reads: kinds![AROUND_PODS, SHARING_SOURCES],
    docs: docs(include_str!("spread_idles_gpus.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// A node has to have this many times the devices of the pods that it may have, so that at least half of them are idle.
const IDLE: i64 = 2;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(object);
    let [template] = templates.as_slice() else { return None };
    let spreads = node_spreads(template);
    let spread = spreads.iter().min_by_key(|one| one.most)?;
    if object.may_lack_fields() {
        return None;
    }
    let (resource, devices) = first_accelerator(template)?;
    let each = devices.count;
    let replicas = ctx.cluster().views().replicas(object)?.min;
    if replicas <= spread.most || counts_shares(template, resource, ctx) != Some(false) {
        return None;
    }
    let found = ctx.pools_for(template)?;
    let pools = found.all_nodes()?;
    let pool = pools.first()?;
    let (types, _) = selected_types(template, ctx)?;
    let devices_of = |one: &InstanceType| i64::from(one.devices(resource));
    let smallest = types.iter().map(devices_of).filter(|devices| *devices >= each).min()?;
    // Where the CPU and memory of a node are used up, the rule is not what leaves its devices idle.
    let one_more = i128::from(spread.most) + 1;
    let requests = requests_of(template)?;
    let need = requests.iter().map(|(name, amount)| (name.clone(), amount * one_more));
    let room = types_with_room(&need.collect())?;
    if !types.and(&room).iter().any(|one| devices_of(one) == smallest) {
        return None;
    }
    // Where the limits have no room for a second node, what is only preferred is given up.
    let nodes =
        pools.iter().map(|pool| pool.limit(resource).map(|limit| limit / 1000 / i128::from(smallest)));
    if !spread.is_required && nodes.sum::<Option<i128>>().is_some_and(|nodes| nodes < 2) {
        return None;
    }
    let used = each.checked_mul(spread.most)?;
    if smallest < used.checked_mul(IDLE)? {
        return None;
    }
    let has_others = pools.iter().any(|pool| {
        let users = ctx.cluster().views().accelerators_on(pool.object(), ctx.platform()).admitted;
        users.iter().any(|other| !other.is_same_resource(object))
    });
    let name = object.display_name();
    let pods = if spread.most == 1 { "one pod".to_owned() } else { format!("{} pods", spread.most) };
    let message = format!(
        "{pods} of `{name}` on each node with {smallest} or more `{resource}`: {} of them stay idle",
        smallest - used
    );
    let help = match spread.is_required {
        _ if spread.cause == Cause::HostPort => {
            "remove the port of the node and use a Service, or admit types with fewer GPUs"
        }
        true => "spread over `topology.kubernetes.io/zone`, or admit types with fewer GPUs",
        false => {
            "spread over `topology.kubernetes.io/zone`: Karpenter starts a node for each pod rather than break a preference"
        }
    };
    ctx.report(&spread.node, message)
        .severity(if has_others { Severity::Info } else { Severity::Warning })
        .help(help)
        .related(
            pool.object(),
            &pool.object().path(&["spec", "template", "spec", "requirements"]),
            "these nodes",
        );
    None
}
