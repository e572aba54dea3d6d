//! A VPA may ask for more than any node of the pools has, and the pod stays Pending.
//!
//! # Why
//! The recommender follows the usage up to `maxAllowed`, and a pod that starts with its recommendation needs
//! one node with all of it. Where `maxAllowed` is above the largest instance type of the NodePools that admit
//! the pods, a leak or a long peak leads to a pod that fits nowhere, after the old one is gone. It is not
//! reported where a LimitRange bounds the resource, which the VPA heeds, or where the input has other nodes that
//! may take the pods, such as a node group of eksctl.
//!
//! # Fix
//! Write a `maxAllowed` that leaves room on the largest instance type for DaemonSets and for the system, or
//! admit larger types.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling.k8s.io/v1
//!  kind: VerticalPodAutoscaler
//!  metadata: {name: index, namespace: search}
//!  spec:
//!    targetRef: {apiVersion: apps/v1, kind: Deployment, name: index}
//!    updatePolicy: {updateMode: Initial}
//!    resourcePolicy:
//!      containerPolicies:
//!        - containerName: main
//!          controlledValues: RequestsOnly
//! -        maxAllowed: {cpu: "4", memory: 96Gi} # <-
//! +        maxAllowed: {cpu: "4", memory: 24Gi}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: index, namespace: search}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: index}}
//!    template:
//!      metadata: {labels: {app: index}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: registry.example.com/search/index:3.0
//!            resources: {requests: {cpu: 500m, memory: 2Gi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    limits: {cpu: 100}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [m6i.large, m6i.2xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/features.md>
//! - <https://github.com/kubernetes/autoscaler/issues/4515>

use super::vpa_hpa_conflict::{policy_for, sets_resource};
use super::vpa_scales_limits::has_maximum;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "vpa-above-nodes",
    kinds: &[Kind::VPA],
    reads: kinds![SCALABLE_KINDS, [Kind::NODE_POOL, Kind::LIMIT_RANGE]],
    docs: docs(include_str!("vpa_above_nodes.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let mode = spec.path(&["updatePolicy", "updateMode"]);
    if mode.is_unknown()
        || mode.text() == Some("Off")
        || object.may_lack_fields()
        || object.is_namespace_unknown()
    {
        return None;
    }
    let reference = spec.get("targetRef");
    let (kind, name) = (reference.get("kind").text()?, reference.get("name").text()?);
    let kind = SCALABLE_KINDS.iter().find(|known| known.kind == kind)?;
    let workload = ctx.partner(*kind, object.namespace_or_default(), name)?;
    let template = templates(workload).into_iter().next().filter(|_| !workload.may_lack_fields())?;
    let found = ctx.pools_for(&template)?;
    let pools = found.all_known()?;
    let first = pools.first()?.object();
    if pools.iter().any(|pool| pool.object().may_lack_fields()) {
        return None;
    }
    let largest = largest(pools.iter().map(|pool| pool.object()))?;
    let policies = spec.path(&["resourcePolicy", "containerPolicies"]);
    let names: Vec<Node<'_>> = template.containers().map(|container| container.get("name")).collect();
    let applies = |policy: &Node<'_>| {
        let names = names.iter().filter_map(Node::text);
        names.filter_map(|name| policy_for(&policies, name)).any(|one| one.pointer() == policy.pointer())
    };
    for policy in policies.items().filter(applies) {
        for (resource, most) in ["cpu", "memory"].into_iter().zip(largest) {
            let node = policy.path(&["maxAllowed", resource]);
            if most == 0
                || Quantity::at(&node).is_none_or(|amount| amount.value() <= most)
                || !sets_resource(&policy, resource)
                || has_maximum(resource, object.namespace_or_default(), ctx)
            {
                continue;
            }
            let shown = match resource {
                "cpu" => most.to_string(),
                _ => format!("{}Gi", most >> 30),
            };
            let message = format!(
                "`{}` may grow beyond every node: the largest type has {shown} of {resource}",
                workload.display_name()
            );
            ctx.report(&node, message)
                .at_key()
                .help(format!("stay below {shown}: a part of each node is for the system and for DaemonSets"))
                .related(
                    first,
                    &first.path(&["spec", "template", "spec", "requirements"]),
                    "a pool of its pods",
                );
        }
    }
    Some(())
}

/// The most CPUs, and bytes of memory, that an instance type of NodePools has. `None` if the types are not known.
fn largest<'a>(pools: impl Iterator<Item = &'a Object>) -> Option<[i128; 2]> {
    let mut largest = [0; 2];
    for pool in pools {
        for one in NodePool::new(pool)?.types()?.iter() {
            largest[0] = largest[0].max(i128::from(one.vcpu));
            largest[1] = largest[1].max(i128::from(one.memory_mib) << 20);
        }
    }
    Some(largest)
}
