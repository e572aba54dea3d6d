//! The kubelet reserves more than the nodes of a NodePool have.
//!
//! # Why
//! `kubeReserved`, `systemReserved` and `evictionHard` come off what each node has. Where nothing is left on
//! any instance type of a NodePool, Karpenter leaves all of them out: the pool is Ready and starts no node for
//! any pod, and the log says only that no instance type is left.
//!
//! # Fix
//! Reserve less, or leave the fields out: Karpenter and the images of EKS reserve by the size of the node then.
//! Or let the pool have larger types.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: web}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  kubelet: {kubeReserved: {memory: 10Gi}} # <-
//! +  kubelet: {kubeReserved: {memory: 1Gi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: web}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large]}
//!    limits: {cpu: 100}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>
//! - <https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/>

use crate::fit::Situation;
use crate::rules::prelude::*;
use crate::rules::scheduling::PLACEMENT_READS;

pub(crate) static RULE: Rule = Rule {
    id: "kubelet-reserves-nodes",
    reads: PLACEMENT_READS,
    docs: docs(include_str!("kubelet_reserves_nodes.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

/// The settings that come off what a node has.
const RESERVED: [&str; 3] = ["kubeReserved", "systemReserved", "evictionHard"];
/// Maximum number of pools to look at.
const MAX_POOLS: usize = 16;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kubelet = class.get("kubelet");
    let node = RESERVED.iter().map(|name| kubelet.get(name)).find(Node::is_set)?;
    let users = ctx.cluster().views().class_pools().pools_of(class.object());
    let is_left_empty = |pool: &&Object| {
        ctx.pairs_with(pool) && Situation::of_pool(ctx.cluster(), ctx.platform(), pool).reserves_all()
    };
    let pools: Vec<Object> = users.with_types().take(MAX_POOLS).map(|(pool, _)| pool.clone()).collect();
    let pool = pools.iter().find(is_left_empty)?;
    let name = pool.display_name();
    ctx.report(&node, format!("no instance type of pool `{name}` has more than the kubelet reserves"))
        .at_key()
        .help("reserve less: the pool is Ready and starts no node for any pod")
        .related(pool, &pool.path(&["metadata", "name"]), "this NodePool");
    None
}
