//! Pods with security groups of their own fit no instance type of their pools.
//!
//! # Why
//! A pod that a SecurityGroupPolicy selects asks for `vpc.amazonaws.com/pod-eni`: Amazon's VPC resource
//! controller adds the request when the pod is created. Only instance types with branch interfaces have the
//! resource: no type of the families t2, t3, t3a and t4g has. Where no type of the pools that admit the pods
//! has it, Karpenter starts no node for them. It is not reported where the input has a node group or a Fargate
//! profile of eksctl that may take the pods, or nodes of another tool. Nodes of EKS Auto Mode have no security
//! groups for pods: where the pods select these, the policy changes nothing.
//!
//! # Fix
//! Admit types with branch interfaces to the pool, most types of the families m5, c5 and r5 and later. In EKS
//! Auto Mode all pods of a NodeClass have the groups of its `podSecurityGroupSelectorTerms`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: vpcresources.k8s.aws/v1beta1
//!  kind: SecurityGroupPolicy
//!  metadata: {name: payments, namespace: shop}
//!  spec:
//!    podSelector: {matchLabels: {app: payments}} # <-
//!    securityGroups: {groupIds: [sg-0a1b2c3d4e5f60718]}
//!  ---
//!  apiVersion: batch/v1
//!  kind: CronJob
//!  metadata: {name: payments, namespace: shop}
//!  spec:
//!    schedule: "0 4 * * *"
//!    concurrencyPolicy: Forbid
//!    jobTemplate:
//!      spec:
//!        backoffLimit: 2
//!        template:
//!          metadata: {labels: {app: payments}}
//!          spec:
//!            restartPolicy: Never
//!            containers:
//!              - name: main
//!                image: registry.example.com/shop/payments:4.2
//!                resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {memory: 256Mi}}
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
//! -        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [t3, t3a]}
//! +        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i, m6a]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/security-groups-for-pods.html>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auto-networking.html>

use super::auto_mode_volume_driver::is_pinned_to_auto_mode;
use crate::cluster::branch_interfaces::selects;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "security-group-pods-unplaced",
    kinds: &[Kind::SECURITY_GROUP_POLICY],
    reads: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    docs: docs(include_str!("security_group_pods_unplaced.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_namespace_unknown() {
        return None;
    }
    on_auto_mode(object, ctx);
    let selector = object.path(&["spec", "podSelector"]);
    let namespace = object.namespace_or_default();
    let mut workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().in_namespace(*kind, namespace));
    let (workload, pool) = workloads.find_map(|workload| {
        if !ctx.pairs_with(workload) || workload.may_lack_fields() {
            return None;
        }
        let all = templates(workload);
        let pool = all
            .iter()
            .find_map(|template| selects(object, template).then(|| pool_without(template, ctx)).flatten())?;
        Some((workload, pool))
    })?;
    let (name, pool_name) = (workload.display_name(), pool.display_name());
    let message = format!(
        "Karpenter starts no node for pods of `{name}`: no type of `{pool_name}` has branch interfaces"
    );
    ctx.report(&selector, message)
        .at_key()
        .help("admit types with `vpc.amazonaws.com/pod-eni` to the pool: m5, c5, r5 and later, no t3")
        .related(workload, &workload.path(&["metadata", "name"]), "its pods are selected")
        .related(&pool, &pool.path(&["spec", "template", "spec", "requirements"]), "the types of the pool");
    Some(())
}

/// Reports a policy for pods that run on nodes of EKS Auto Mode, which has no security groups for pods. Without a selector the pods
/// may be Fargate's.
fn on_auto_mode(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    let mut workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().in_namespace(*kind, namespace));
    let is_there = |workload: &&Object| {
        let all = templates(workload);
        let mut selected = all.iter().filter(|template| selects(object, template)).peekable();
        selected.peek().is_some()
            && selected.all(|template| is_pinned_to_auto_mode(template, ctx))
            && ctx.pairs_with(workload)
            && !workload.may_lack_fields()
    };
    let workload = workloads.find(is_there)?;
    let name = workload.display_name();
    let message =
        format!("nodes of EKS Auto Mode have no groups for pods: those of `{name}` keep their node's");
    ctx.report(&object.path(&["spec", "securityGroups"]), message)
        .at_key()
        .help("write the groups as `podSecurityGroupSelectorTerms` of a NodeClass of its own, or choose other nodes")
        .related(workload, &workload.path(&["metadata", "name"]), "its pods are selected");
    None
}

/// The first of the pools that admit the pods of a template, if no type of any of them has branch interfaces.
fn pool_without(template: &Template<'_>, ctx: &Context<'_>) -> Option<Object> {
    let found = ctx.pools_for(template)?;
    let pools = found.all_known()?;
    let lacks = |object: &Object| {
        NodePool::new(object).is_some_and(|pool| {
            // The nodes of EKS Auto Mode do not read the policies.
            !pool.is_auto_mode()
                && !object.may_lack_fields()
                && pool.types().is_some_and(|types| types.iter().all(|one| one.pod_eni == Some(0)))
        })
    };
    pools
        .iter()
        .all(|pool| lacks(pool.object()))
        .then(|| pools.first())
        .flatten()
        .map(|pool| pool.object().clone())
}
