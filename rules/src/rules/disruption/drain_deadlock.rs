//! A PodDisruptionBudget that allows no eviction keeps nodes from draining.
//!
//! # Why
//!
//! A drain evicts pods, and the eviction API asks their PodDisruptionBudgets. If one never allows an
//! eviction, or if two select one pod, the drain cannot end. An expired node then stays cordoned for
//! ever, because a service does not end by itself. With a `terminationGracePeriod` it does go when the
//! time is over, but Karpenter, which could not plan for it, has started nothing instead: the pods are
//! deleted first, and new ones wait for a node. Asked are the pods of which this pool is the first
//! choice.
//!
//! # Fix
//!
//! Let the PodDisruptionBudget allow one pod to go: `maxUnavailable: 1`, and two replicas or more. One
//! budget is enough for a pod.
//!
//! # Bad
//!
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: general
//! spec:
//!   template:
//!     spec: # <-
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!       requirements:
//!         - key: karpenter.k8s.aws/instance-family
//!           operator: In
//!           values: [m6i, m7i]
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!       expireAfter: 336h
//!   limits:
//!     cpu: 400
//! ---
//! apiVersion: policy/v1
//! kind: PodDisruptionBudget
//! metadata:
//!   name: gateway
//! spec:
//!   maxUnavailable: 0
//!   selector: {matchLabels: {app: gateway}}
//! ---
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata:
//!   name: gateway
//! spec:
//!   replicas: 3
//!   selector: {matchLabels: {app: gateway}}
//!   template:
//!     metadata:
//!       labels: {app: gateway}
//!     spec:
//!       containers:
//!         - name: main
//!           image: example.com/gateway:2.1.0
//!           resources:
//!             requests: {cpu: 1, memory: 1Gi}
//! ```
//!
//! # Good
//!
//! ```yaml,good
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: general
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!       requirements:
//!         - key: karpenter.k8s.aws/instance-family
//!           operator: In
//!           values: [m6i, m7i]
//!         - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!       expireAfter: 336h
//!   limits:
//!     cpu: 400
//! ---
//! apiVersion: policy/v1
//! kind: PodDisruptionBudget
//! metadata:
//!   name: gateway
//! spec:
//!   maxUnavailable: 1
//!   selector: {matchLabels: {app: gateway}}
//! ---
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata:
//!   name: gateway
//! spec:
//!   replicas: 3
//!   selector: {matchLabels: {app: gateway}}
//!   template:
//!     metadata:
//!       labels: {app: gateway}
//!     spec:
//!       containers:
//!         - name: main
//!           image: example.com/gateway:2.1.0
//!           resources:
//!             requests: {cpu: 1, memory: 1Gi}
//! ```
//!
//! # References
//!
//! - <https://karpenter.sh/docs/concepts/disruption/#termination-controller>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/#troubleshooting-stuck-evictions>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1842>

use crate::cluster::placement::{Blocker, Guest, READS};
use crate::cluster::views::disruptions::is_shut;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::lint::finding::{Severity, shown};
use crate::lint::rule::{Check, Context, Group, Rule, docs};
use crate::object::Object;
use crate::workload::template::runs_forever;

pub(crate) static RULE: Rule = Rule {
    id: "drain-deadlock",
    group: Group::Disruption,
    severity: Severity::Warning,
    since: "0.1.0",
    kinds: &[Kind::NODE_POOL],
    reads: READS,
    params: &[],
    refused_by: &[],
    fix: None,
    docs: docs(include_str!("drain_deadlock.rs")),
    check: Check::Object(check),
};

fn check(object: &Object, ctx: &mut Context<'_>) {
    let Some(pool) = NodePool::new(object) else {
        return;
    };
    let period = pool.template_spec().get("terminationGracePeriod");
    if object.is_partial() || (period.exists() && period.text().is_none()) {
        return;
    }
    let expires = pool.expire_after().is_some_and(|s| s.seconds().is_some());
    if !period.exists() && !expires {
        return;
    }
    let guests = ctx.index().views().guests_of(object, ctx.platform());
    let concerned = |guest: &&&Guest| {
        runs_forever(&guest.workload)
            && match &guest.blocker {
                None => false,
                Some(Blocker::Two(..)) => true,
                // Where only the replicas are too few, Karpenter does plan for the pods.
                Some(Blocker::Zero(pdb)) => !period.exists() || is_shut(pdb),
            }
    };
    let concerned: Vec<&Guest> = guests.iter().filter(concerned).copied().collect();
    let Some((guest, blocker)) = concerned.first().and_then(|g| Some((g, g.blocker.as_ref()?))) else {
        return;
    };
    let name = object.title();
    let workload = &guest.workload;
    let whose = format!("{} `{}`", workload.id().kind, workload.title());
    let help = match blocker {
        Blocker::Zero(_) => {
            "write `maxUnavailable: 1` in the PodDisruptionBudget, and run two replicas or more"
        }
        Blocker::Two(..) => {
            "let one PodDisruptionBudget select each pod: the eviction API refuses pods with two"
        }
    };
    let message = match (period.text(), blocker) {
        (Some(time), _) => {
            let time = shown(time);
            format!("{time} after a drain of `{name}` starts, {whose} goes without a substitute")
        }
        (None, Blocker::Zero(_)) => {
            format!("expired nodes of `{name}` never drain: a PDB allows no eviction of {whose}")
        }
        (None, Blocker::Two(..)) => {
            format!("expired nodes of `{name}` never drain: two PDBs select {whose}")
        }
    };
    let finding = ctx.report(&period, message);
    finding.help(help);
    match blocker {
        Blocker::Zero(pdb) => {
            let place = pdb.path(&["metadata", "name"]);
            finding.related(pdb, &place, "allows no eviction, ever");
        }
        Blocker::Two(first, second) => {
            for pdb in [first, second] {
                finding.related(pdb, &pdb.path(&["metadata", "name"]), "selects the pods");
            }
        }
    }
    finding.related(workload, &workload.path(&["metadata", "name"]), "its pods run here");
}
