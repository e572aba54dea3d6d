//! `maxPods` leaves no room for pods of workloads on nodes of EKS.
//!
//! # Why
//! On nodes of EKS the DaemonSets `aws-node` and `kube-proxy` run two pods, and those for volumes and
//! credentials one each. Karpenter counts them before it starts a node: with `maxPods` of 1 or 2 no pod of
//! a workload ever fits, and the pools of the class start no nodes for any.
//!
//! # Fix
//! Leave `maxPods` out, or write a number that has room for the DaemonSets. To run one pod of a kind on
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

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "max-pods-too-few",
    docs: docs(include_str!("max_pods_too_few.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// The pods of the DaemonSets that EKS puts on every node.
const OF_EKS: i64 = 2;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = class.get("kubelet").get("maxPods");
    let most = node.int().filter(|most| (0..=OF_EKS).contains(most))?;
    if !ctx.platform().eks {
        return None;
    }
    let message = format!(
        "`maxPods: {most}` leaves no room beside `aws-node` and `kube-proxy`, which run on each node"
    );
    ctx.report(&node, message)
        .help("leave it out, or count the DaemonSets in: with so few pods Karpenter starts no node for any workload");
    None
}
