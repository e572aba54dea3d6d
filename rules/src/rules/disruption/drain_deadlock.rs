//! A PodDisruptionBudget that allows no eviction keeps nodes from draining.
//!
//! # Why
//! A drain evicts pods, and the eviction API asks their PodDisruptionBudgets. If one never allows an
//! eviction, or if two select one pod, the drain cannot end. An expired node then stays cordoned
//! indefinitely, because a service does not end by itself. With a `terminationGracePeriod` it does go
//! when the time is over, but Karpenter, which could not plan for it, has started nothing instead: the
//! pods are deleted first, and new ones wait for a node. Only workloads for which this pool is the
//! first choice are checked.
//!
//! # Fix
//! Let the PodDisruptionBudget allow one pod to go: `maxUnavailable: 1`, and two replicas or more. One
//! budget is enough for a pod.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec: # <-
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        expireAfter: 336h
//!    limits: {cpu: 400}
//!  ---
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: gateway}
//!  spec:
//! -  maxUnavailable: 0
//! +  maxUnavailable: 1
//!    selector: {matchLabels: {app: gateway}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: gateway}
//!  spec:
//!    replicas: 3
//!    selector: {matchLabels: {app: gateway}}
//!    template:
//!      metadata: {labels: {app: gateway}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/gateway:2.1.0
//!            resources: {requests: {cpu: 1, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#termination-controller>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/#troubleshooting-stuck-evictions>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1842>

use crate::cluster::placement::{EvictionBlocker, PdbBlock, READS};
use crate::cluster::views::disruptions::allows_none;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "drain-deadlock",
    reads: READS,
    docs: docs(include_str!("drain_deadlock.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let period = pool.template_spec().get("terminationGracePeriod");
    if object.is_partial() || (period.is_set() && period.text().is_none()) {
        return None;
    }
    let expires = pool.expire_after().is_some_and(|s| s.seconds().is_some());
    if !period.is_set() && !expires {
        return None;
    }
    let guests = ctx.cluster().views().blockers_on(object, ctx.platform());
    let concerned = |guest: &&EvictionBlocker| {
        runs_forever(&guest.workload)
            && match &guest.pdb_block {
                None => false,
                Some(PdbBlock::Overlapping(..)) => true,
                // If only the number of replicas is too low, Karpenter can still disrupt the pods.
                Some(PdbBlock::NoDisruptions(pdb)) => !period.is_set() || allows_none(pdb),
            }
    };
    let concerned: Vec<&EvictionBlocker> = guests.iter().map(AsRef::as_ref).filter(concerned).collect();
    let (guest, blocker) = concerned.first().and_then(|g| Some((g, g.pdb_block.as_ref()?)))?;
    let name = object.display_name();
    let workload = &guest.workload;
    let whose = format!("{} `{}`", workload.kind(), workload.display_name());
    let help = match blocker {
        PdbBlock::NoDisruptions(_) => {
            "write `maxUnavailable: 1` in the PodDisruptionBudget, and run two replicas or more"
        }
        PdbBlock::Overlapping(..) => {
            "let only one PodDisruptionBudget select each pod: the eviction API does not evict pods with two"
        }
    };
    let message = match (period.text(), blocker) {
        (Some(time), _) => {
            let time = ellipsize(time);
            format!("{time} after a drain of `{name}` starts, {whose} goes without a substitute")
        }
        (None, PdbBlock::NoDisruptions(_)) => {
            format!("expired nodes of `{name}` cannot drain: a PDB allows no eviction of {whose}")
        }
        (None, PdbBlock::Overlapping(..)) => {
            format!("expired nodes of `{name}` never drain: two PDBs select {whose}")
        }
    };
    let finding = ctx.report(&period, message);
    finding.help(help);
    match blocker {
        PdbBlock::NoDisruptions(pdb) => {
            let name_node = pdb.path(&["metadata", "name"]);
            finding.related(pdb, &name_node, "allows no eviction, ever");
        }
        PdbBlock::Overlapping(first, second) => {
            for pdb in [first, second] {
                finding.related(pdb, &pdb.path(&["metadata", "name"]), "selects the pods");
            }
        }
    }
    finding.related(workload, &workload.path(&["metadata", "name"]), "its pods run here");
    None
}
