//! A training pool may launch Spot nodes.
//!
//! # Why
//! AWS takes a Spot node back with two minutes' notice. A training run loses what it did since
//! the last checkpoint, and a run over several nodes stops on all of them when one goes. A pool
//! that says nothing about capacity types gets Spot first as well.
//!
//! # Fix
//! Allow only on-demand or reserved capacity. Where the runs write checkpoints often and can start
//! again by themselves, suppress the finding with that reason.
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
//!        requirements:
//!          - key: karpenter.k8s.aws/instance-family
//!            operator: In
//!            values: [p4d, p4de, p5, p5e, p5en]
//!          - key: karpenter.sh/capacity-type
//!            operator: In
//!            values:
//! -            - spot # <-
//!              - on-demand
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!        expireAfter: Never
//!    limits: {nvidia.com/gpu: 64}
//!    disruption:
//!      consolidationPolicy: WhenEmpty
//!      consolidateAfter: 30m
//!      budgets:
//!        - nodes: "1"
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#interruption>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::rules::class_evidence::CLASSED_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "training-pool-on-spot",
    reads: CLASSED_WORKLOADS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("training_pool_on_spot.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let requirements = pool.requirements();
    let is_for_cpus = || pool.hardware() == Hardware::NoAccelerator && !pool.has_accelerator_taint();
    if pool.is_other_provider() || object.is_partial() || !pool.allows_spot() || is_for_cpus() {
        return None;
    }
    // A placeholder may be, or complete, the requirement on the capacity type.
    let unknown = |r: &Node<'_>| {
        let key = r.get("key");
        r.is_unknown() || key.is_unknown() || (key.text() == Some(CAPACITY_TYPE) && r.has_unknown())
    };
    let label = pool.labels().get(CAPACITY_TYPE);
    if requirements.is_unknown()
        || requirements.items().any(|r| unknown(&r))
        || pool.labels().is_unknown()
        || label.is_unknown()
    {
        return None;
    }
    let views = ctx.cluster().views();
    let name = object.display_name();
    let (WorkloadClass::Training, _) = views.purpose(pool)? else { return None };
    let by_itself = pool.purpose().is_some();
    let selecting = views.selecting(pool).into_iter();
    let trainer = selecting
        .map(|workload| (&workload.object, ctx.class_of(&workload.object)))
        .find(|(_, classified)| classified.is(WorkloadClass::Training));
    let (node, fix) = spot_node_and_fix(pool, &requirements, &label);
    let message = if pool.capacity_types().is_some() {
        format!("training pool `{name}` may buy Spot nodes, which go with two minutes' notice")
    } else {
        format!("training pool `{name}` names no capacity type, so Karpenter buys Spot first")
    };
    let finding = ctx.report(&node, message);
    finding.help("allow only `on-demand` or `reserved`, or say in a suppression that runs resume");
    if let (false, Some((object, classified))) = (by_itself, trainer) {
        finding.related(
            object,
            &object.path(&["metadata", "name"]),
            format!("trains on this pool: {}", classified.evidence),
        );
    }
    if let Some(fix) = fix {
        finding.fix(fix);
    }
    None
}

/// The location that allows Spot, and the fix that removes it.
fn spot_node_and_fix<'a>(
    pool: &NodePool<'a>,
    requirements: &Node<'a>,
    label: &Node<'a>,
) -> (Node<'a>, Option<Fix>) {
    let fix = |title: &str| Fix::new(title, Safety::Unsafe).replaces_nodes();
    if let Some(requirement) = pool.requirement(CAPACITY_TYPE) {
        let values = requirement.get("values");
        let is_in = requirement.get("operator").text() == Some("In");
        let spot = values.items().find(|v| v.text() == Some("spot"));
        return match spot {
            Some(spot) if is_in => {
                let others = values.items().any(|v| v.text() != Some("spot"));
                let fix = if others {
                    fix("take `spot` out of the list").remove(&spot)
                } else {
                    fix("buy on-demand nodes").set(&spot, json!("on-demand"))
                };
                (spot, Some(fix))
            }
            _ => (requirement.get("operator"), None),
        };
    }
    if label.is_set() {
        let fix = fix("buy on-demand nodes").set(label, json!("on-demand"));
        return (label.clone(), Some(fix));
    }
    let wanted = json!({"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]});
    let fix = fix("buy on-demand nodes").append(requirements, wanted);
    (requirements.clone(), Some(fix))
}
