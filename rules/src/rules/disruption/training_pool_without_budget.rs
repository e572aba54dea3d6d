//! A training pool has no disruption budget of its own.
//!
//! # Why
//! Where no budgets are written, Karpenter may replace 10% of the pool's nodes at a time, rounded
//! up: one node even of a pool of two. A new AMI or a changed node class then ends training runs
//! at any hour. Pods with `karpenter.sh/do-not-disrupt` are spared; the pool is only quiet where
//! every workload on it has that. Where consolidation evicts running pods as well,
//! `consolidation-disrupts-training` reports both.
//!
//! # Fix
//! Write budgets: a small number of nodes, and zero during the hours in which runs must not be
//! cut. Leave a window, or patches never arrive.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-training}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        expireAfter: Never
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p4d, p5]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 32}
//!    disruption: # <-
//!      consolidationPolicy: WhenEmpty
//!      consolidateAfter: 30m
//! +    budgets:
//! +      - nodes: "1"
//! +      - {nodes: "0", schedule: 0 0 * * mon-fri, duration: 20h}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use super::consolidation_disrupts_training;
use crate::cluster::views::{TRAINING_PROTECTION, TrainingProtection, training_protection};
use crate::karpenter::do_not_disrupt::protects_nodes;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "training-pool-without-budget",
    reads: TRAINING_PROTECTION,
    docs: docs(include_str!("training_pool_without_budget.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Disruption)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let budgets = pool.disruption().get("budgets");
    if budgets.is_set() || pool.disruption().is_unknown() || pool.is_static() || protects_nodes(object) {
        return None;
    }
    if consolidation_disrupts_training::is_reported(pool, ctx) {
        return None;
    }
    let name = object.display_name();
    let cluster = ctx.cluster();
    let Some((WorkloadClass::Training, _)) = cluster.views().purpose(pool) else { return None };
    let unprotected = match training_protection(pool, cluster, ctx.platform()) {
        TrainingProtection::Protected => return None,
        TrainingProtection::Unprotected(workload) => Some(workload),
        TrainingProtection::None => None,
    };
    let message = format!("training pool `{name}` writes no budgets: 10% of its nodes may go at any time");
    let finding = ctx.report(&budgets, message);
    finding.help("add `budgets`: a number of nodes, and zero in the hours when runs must go on");
    if let Some(workload) = unprotected {
        let object = &workload.object;
        finding.related(object, &object.path(&["metadata", "name"]), "chooses the pool and is not protected");
    }
    None
}
