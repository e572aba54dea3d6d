//! Consolidation moves the only pod of a StatefulSet, often.
//!
//! # Why
//! The volume of a StatefulSet goes from node to node with its pod, so that consolidation ends the only pod
//! before the next one starts: minutes without Jenkins, Nexus or a database each time. Karpenter looks for a
//! cheaper place as soon as `consolidateAfter` has passed since a pod came to the node or ended there. With
//! a few minutes, every short-lived pod beside it makes room that is worth a move.
//!
//! It is reported once for a pool, for `consolidateAfter` of less than five minutes, and where no budget of
//! zero keeps hours of work free.
//!
//! # Fix
//! Annotate the pods with `karpenter.sh/do-not-disrupt: "true"`, give them a pool with `WhenEmpty`, or write a
//! budget that allows consolidation at night alone.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: tools}
//!  spec:
//!    limits: {cpu: 100}
//! -  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m} # <-
//! +  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: tools}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!  ---
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: nexus}
//!  spec:
//!    replicas: 1
//!    serviceName: nexus
//!    selector: {matchLabels: {app: nexus}}
//!    template:
//!      metadata: {labels: {app: nexus}}
//!      spec:
//!        nodeSelector: {karpenter.sh/nodepool: tools}
//!        containers:
//!          - name: nexus
//!            image: sonatype/nexus3:3.80.0
//!            resources: {requests: {cpu: 1, memory: 4Gi}, limits: {memory: 4Gi}}
//!            volumeMounts: [{name: data, mountPath: /nexus-data}]
//!    volumeClaimTemplates:
//!      - metadata: {name: data}
//!        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 50Gi}}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#consolidation>
//! - <https://github.com/aws/karpenter-provider-aws/issues/8868>

use super::goes_to;
use crate::cluster::views::disruptions::allows_none;
use crate::karpenter::budget::DisruptionReason;
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "consolidation-interrupts-singleton",
    reads: kinds![[Kind::NODE_POOL, Kind::HPA, Kind::SCALED_OBJECT, Kind::PDB], WORKLOAD_KINDS],
    docs: docs(include_str!("consolidation_interrupts_singleton.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Disruption)
};

/// Seconds from which on moves are rare.
const RARE: i64 = 300;

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let disruption = pool.disruption();
    let after = disruption.get("consolidateAfter");
    let seconds = GoDuration::parse(after.text()?).ok()?.seconds();
    let (budgets, policy) = (disruption.get("budgets"), disruption.get("consolidationPolicy"));
    let has_zero = || {
        let written = pool.written_budgets();
        written.is_none_or(|(_, calendar)| calendar.budgets().iter().any(|budget| budget.nodes.is_zero()))
    };
    if seconds >= RARE
        || pool.consolidation_policy().is_none()
        || !pool.is_disrupted_as(DisruptionReason::Underutilized)
        || protects_nodes(pool.object())
        || pool.object().may_lack_fields()
        || budgets.is_set() && has_zero()
    {
        return None;
    }
    let cluster = ctx.cluster();
    let is_alone = |server: &Object| {
        let replicas = cluster.views().replicas(server);
        replicas.is_some_and(|replicas| replicas.floor == 1 && replicas.max == 1)
            && server.path(&["spec", "volumeClaimTemplates"]).items().next().is_some()
    };
    let is_kept = |server: &Object| {
        templates(server).iter().any(|template| {
            let (pdbs, unknown) = cluster.views().pdbs_of(server.namespace_or_default(), template);
            let annotations = template.metadata.get("annotations");
            let annotation = template.annotation(DO_NOT_DISRUPT);
            unknown
                || annotations.is_unknown()
                || annotations.has_unknown_key()
                || annotation.is_set()
                || annotation.is_unknown()
                || pdbs.iter().any(|pdb| allows_none(pdb) || allows_no_eviction_of_one(pdb))
        })
    };
    let server = cluster.of(Kind::STATEFUL_SET).find(|server| {
        !server.may_lack_fields()
            && !server.is_owned()
            && is_alone(server)
            && !is_kept(server)
            && ctx.pairs_with(server)
            && goes_to(server, pool, ctx)
    })?;
    let node = if policy.is_set() { policy } else { after.clone() };
    let message = format!(
        "consolidation looks for a cheaper place every {}: each move ends the only pod of `{}`",
        after.text()?,
        server.display_name()
    );
    ctx.report(&node, message)
        .help("annotate its pods with do-not-disrupt, use a pool with `WhenEmpty`, or a budget for its hours")
        .related(server, &server.path(&["metadata", "name"]), "its only pod runs in this pool");
    None
}

/// Whether a PDB keeps the only pod of a workload.
fn allows_no_eviction_of_one(pdb: &Object) -> bool {
    pdb.path(&["spec", "minAvailable"]).is_set()
}
