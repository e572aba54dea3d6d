//! Nodes with several interfaces cannot start with a public address.
//!
//! # Why
//! EC2 gives no public address to an instance that starts with several network interfaces: with
//! `associatePublicIPAddress: true`, where pods ask for EFA on a type with more than one interface for it, or
//! where `networkInterfaces` names several, each launch fails and the pods stay Pending.
//!
//! # Fix
//! Keep nodes in private subnets behind a NAT gateway or VPC endpoints, and leave the field out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! -  associatePublicIPAddress: true # <-
//! +  associatePublicIPAddress: false
//!    networkInterfaces:
//!      - {networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}
//!      - {networkCardIndex: 1, deviceIndex: 0, interfaceType: interface}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specassociatepublicipaddress>
//! - <https://github.com/aws/karpenter-provider-aws/pull/5666>
//! - <https://github.com/aws/karpenter-provider-aws/issues/3127>

use std::sync::Arc;

use crate::cluster::placement::CandidatePool;
use crate::rules::prelude::*;
use crate::workload::gpu::{EFA, requested_extended_resources};

pub(crate) static RULE: Rule = Rule {
    id: "efa-public-ip",
    reads: kinds![[Kind::NODE_POOL, Kind::EC2_NODE_CLASS], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("efa_public_ip.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let public = class.get("associatePublicIPAddress");
    if public.bool() != Some(true) {
        return None;
    }
    let index = ctx.cluster();
    let interfaces = class.get("networkInterfaces");
    let addressed =
        (interfaces.items()).filter(|i| i.get("interfaceType").text() == Some("interface")).nth(1);
    let name = |pool: &Object| pool.path(&["metadata", "name"]).pointer();
    // The message, and the location of the reason.
    let several: Option<(String, Object, Pointer)> = if let Some(second) = addressed {
        let message = "an instance with several interfaces gets no public address: it cannot start";
        Some((message.to_owned(), object.clone(), second.pointer()))
    } else if interfaces.is_set() {
        None
    } else {
        let takers = takers(ctx);
        let users = index.views().class_pools().pools_of(object);
        users.with_types().find_map(|(pool, types)| {
            let instance = types.iter().find(|t| t.efa > 1)?.name;
            takers.iter().find(|taker| taker.object().ptr_eq(pool))?;
            let message =
                format!("{instance} and its like cannot start with a public address where pods ask for EFA");
            Some((message, pool.clone(), name(pool)))
        })
    };
    let fix = Fix::new("give no public address; check how the nodes reach the internet", Safety::Unsafe)
        .set(&public, json!(false))
        .replaces_nodes();
    let (message, other, node) = several?;
    let node = other.root().at(&node);
    ctx.report(&public, message)
        .help("use private subnets, and write `false` or leave the field out")
        .related(&other, &node, "because of this")
        .fix(fix);
    None
}

/// The pools that may start nodes for pods that request EFA.
fn takers(ctx: &Context<'_>) -> Vec<Arc<CandidatePool>> {
    let views = ctx.cluster().views();
    let workloads = views.requesting_efa();
    if workloads.is_empty() {
        return Vec::new();
    }
    let feasibility = views.feasibility(ctx.platform());
    let templates = workloads.iter().flat_map(templates);
    let asking = templates.filter(|template| requested_extended_resources(template).contains(&EFA));
    let pools = asking.filter_map(|template| feasibility.feasible_pools_of(&template));
    pools.flat_map(|pools| pools.to_vec()).collect()
}
