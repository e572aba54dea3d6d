//! `maxPods` or `podsPerCore` leaves no room for pods of workloads on nodes of EKS.
//!
//! # Why
//! On nodes of EKS the DaemonSets `aws-node` and `kube-proxy` run two pods, and those for volumes and
//! credentials one each. Karpenter counts them before it starts a node: with `maxPods` of 1 or 2 no pod of
//! a workload ever fits, and the pools of the class start no nodes for any. `podsPerCore` is multiplied by
//! the vCPUs of the instance type; Bottlerocket does not read it.
//!
//! # Fix
//! Leave the field out, or write a number that has room for the DaemonSets. To run one pod of a kind on
//! each node, use anti-affinity or requests of the size of the node.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: player}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  kubelet: {maxPods: 1} # <-
//! +  kubelet: {maxPods: 20}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html>

use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "max-pods-too-few",
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    docs: docs(include_str!("max_pods_too_few.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// The pods of the DaemonSets that EKS puts on every node.
const OF_EKS: i64 = 2;

const HELP: &str =
    "leave it out, or count the DaemonSets in: with so few pods Karpenter starts no node for any workload";

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !ctx.platform().eks {
        return None;
    }
    let node = class.get("kubelet").get("maxPods");
    let Some(most) = node.int().filter(|most| (0..=OF_EKS).contains(most)) else {
        return per_core(class, ctx);
    };
    let message = format!(
        "`maxPods: {most}` leaves no room beside `aws-node` and `kube-proxy`, which run on each node"
    );
    ctx.report(&node, message).help(HELP);
    None
}

/// Reports a number of pods for each vCPU with which the largest type of all pools has too few.
fn per_core(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = class.get("kubelet").get("podsPerCore");
    let each = node.int().filter(|each| *each > 0)?;
    if matches!(class.family()?, AmiFamily::Bottlerocket | AmiFamily::Windows) {
        return None;
    }
    let users = ctx.cluster().views().class_pools().pools_of(class.object());
    let all = users.all_types()?;
    let types = all.iter().flat_map(|(_, types)| types.iter());
    let cores = types.map(|one| i64::from(one.vcpu)).max()?;
    let most = each.checked_mul(cores).filter(|most| *most <= OF_EKS)?;
    let plural = if cores == 1 { "" } else { "s" };
    let message = format!(
        "`podsPerCore: {each}` leaves {most} pods on {cores} vCPU{plural}: no room beside `aws-node` and `kube-proxy`"
    );
    let finding = ctx.report(&node, message);
    finding.help(HELP);
    if let Some((pool, _)) = all.first() {
        finding.related(
            pool,
            &pool.path(&["metadata", "name"]),
            format!("its types have at most {cores} vCPU{plural}"),
        );
    }
    None
}
