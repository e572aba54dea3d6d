//! Nodes expire within a day, and the only pod of a GPU workload with them.
//!
//! # Why
//! Since v1 Karpenter drains a node as soon as it is as old as `expireAfter` says: it starts no other node
//! first, and no budget delays it. A model server with one replica then answers nothing until a new GPU node
//! has booted and the model is loaded, which takes minutes, at each expiry. Hours are sometimes written to get
//! back to Spot or to cheaper nodes, which consolidation does, and that starts the new node first.
//!
//! Only Deployments and StatefulSets that use accelerators are looked at, which no autoscaler scales.
//!
//! # Fix
//! Write days, as the default of 720h, or run a second replica.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}
//!    template:
//!      spec:
//! -      expireAfter: 6h # <-
//! +      expireAfter: 720h
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: chat}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: chat}}
//!    template:
//!      metadata: {labels: {app: chat}}
//!      spec:
//!        nodeSelector: {karpenter.sh/nodepool: gpu}
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists}]
//!        containers:
//!          - name: main
//!            image: vllm/vllm-openai:v0.11.0
//!            resources: {requests: {cpu: 3, memory: 12Gi}, limits: {memory: 12Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#expiration>
//! - <https://github.com/aws/karpenter-provider-aws/issues/6362>

use super::goes_to;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "expiry-interrupts-server",
    reads: kinds![[Kind::NODE_POOL, Kind::HPA, Kind::SCALED_OBJECT], WORKLOAD_KINDS],
    is_new_in_v1: true,
    docs: docs(include_str!("expiry_interrupts_server.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

const DAY: u64 = 24 * 3600;
/// Shorter lives are reported by expire-after-short.
const HOUR: u64 = 3600;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let expiry = pool.template_spec().get("expireAfter");
    let text = expiry.text()?;
    let life = pool.expire_after().and_then(|life| life.seconds())?;
    if !(HOUR..=DAY).contains(&life) || pool.hardware() != Hardware::Accelerated {
        return None;
    }
    let cluster = ctx.cluster();
    let is_alone = |server: &Object| {
        !server.may_lack_fields()
            && ctx.pairs_with(server)
            && uses_accelerators(server)
            && cluster
                .views()
                .replicas(server)
                .is_some_and(|replicas| replicas.floor == 1 && replicas.max == 1)
            && goes_to(server, pool, ctx)
    };
    let mut servers = [Kind::DEPLOYMENT, Kind::STATEFUL_SET].into_iter().flat_map(|kind| cluster.of(kind));
    let server = servers.find(|server| is_alone(server))?;
    let often = match DAY / life {
        1 => "once".to_owned(),
        times => format!("about {times} times"),
    };
    let message = format!(
        "the only pod of `{}` loses its node after {text}, {often} a day, and no other starts first",
        server.display_name()
    );
    ctx.report(&expiry, message).help("write days, as the default of 720h, or run a second replica").related(
        server,
        &server.path(&["metadata", "name"]),
        "its pod runs in this pool",
    );
    None
}
