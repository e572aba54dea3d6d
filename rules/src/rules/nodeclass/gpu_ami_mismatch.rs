//! The images of a class do not fit the accelerators of its pools.
//!
//! # Why
//! By an alias Karpenter gives every type with a GPU the NVIDIA image: on g4ad (AMD), dl1 (Gaudi) or
//! dl2q (Qualcomm) the driver is missing, the devices never register, and the pods stay Pending on
//! nodes that are paid for. Where a class selects images by tags or patterns instead, Karpenter only
//! tells them apart by processor architecture and takes the newest: in a class for GPU and other pools
//! it is left to chance whether a GPU node gets an image with a driver.
//!
//! # Fix
//! Give pools of such types a class of their own with an image that has their driver; give GPU pools
//! and other pools classes of their own where images are selected by tags or names.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//! +  amiFamily: AL2023
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//! -    - alias: al2023@v20260810 # <-
//! +    - id: ami-0a1b2c3d4e5f67890
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//! +  instanceStorePolicy: RAID0
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: amd}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - key: karpenter.k8s.aws/instance-gpu-manufacturer
//!            operator: In
//!            values: [amd]
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: amd.com/gpu, effect: NoSchedule}
//!    limits: {amd.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamifamily>

use crate::cluster::views::PoolsOfClass;
use crate::karpenter::nodepool::hardware;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-ami-mismatch",
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    docs: docs(include_str!("gpu_ami_mismatch.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let terms = class.get("amiSelectorTerms");
    if !terms.is_sequence() || terms.has_unknown() {
        return None;
    }
    let cluster = ctx.cluster();
    let users = cluster.views().class_pools().pools_of(object);
    match class.alias() {
        Some(alias) => vendor(&alias, &users, ctx),
        None if is_open(&terms) => mixed(&terms, &users, ctx),
        None => {}
    }
    None
}

/// The vendor of an accelerator for which the images of an alias have no driver.
fn without_driver(instance: &InstanceType) -> Option<&'static str> {
    let name = |key: &str| match instance.label(key) {
        crate::catalog::Label::Is(value) => Some(value),
        _ => None,
    };
    let maker = name("karpenter.k8s.aws/instance-gpu-manufacturer")
        .or_else(|| name("karpenter.k8s.aws/instance-accelerator-manufacturer"))?;
    match maker {
        "amd" => Some("AMD"),
        "habana" => Some("Gaudi"),
        "qualcomm" => Some("Qualcomm"),
        _ => None,
    }
}

/// Pools in which all types need a driver that the images of the alias lack. If only some do,
/// gpu-pool-mixed-vendors reports the pool.
fn vendor(alias: &Node<'_>, users: &PoolsOfClass, ctx: &mut Context<'_>) {
    let Some(family) = alias.text().and_then(|a| a.split('@').next()) else { return };
    if !matches!(family, "al2" | "al2023" | "bottlerocket") {
        return;
    }
    let Some((pool, maker)) = users.with_types().find_map(|(pool, types)| {
        let mut makers = types.iter().map(without_driver);
        let first = makers.next()??;
        makers.all(|maker| maker.is_some()).then_some((pool, first))
    }) else {
        return;
    };
    ctx.report(
        alias,
        format!(
            "the images of `{family}` have no {maker} driver, which pool `{}` needs",
            pool.display_name()
        ),
    )
    .help("select an image with the driver by id, tags or parameter, in a class of its own")
    .related(pool, &pool.path(&["metadata", "name"]), "the pool");
}

/// Whether terms without alias may match images of several variants. One term by id, name or parameter per
/// architecture does not.
fn is_open(terms: &Node<'_>) -> bool {
    let mut exact = 0;
    for term in terms.items() {
        let pattern = |t: &str| t.contains(['*', '?']);
        let name = term.get("name");
        let single = term.get("id").is_set()
            || term.get("ssmParameter").is_set()
            || name.text().is_some_and(|t| !pattern(t));
        if !single {
            return true;
        }
        exact += 1;
    }
    exact > 2
}

fn mixed(terms: &Node<'_>, users: &PoolsOfClass, ctx: &mut Context<'_>) {
    let of = |wanted: Hardware| {
        let mut pools = users.with_types();
        pools.find(|(_, types)| hardware(types) == wanted)
    };
    let (Some((gpu, _)), Some((plain, _))) = (of(Hardware::Accelerated), of(Hardware::NoAccelerator)) else {
        return;
    };
    let name = ["metadata", "name"];
    ctx.report(
        terms,
        format!(
            "{} `{}` and pool `{}` take the newest of the same images",
            NodePool::new(gpu).map_or("GPU pool", |pool| pool.noun()),
            gpu.display_name(),
            plain.display_name()
        ),
    )
    .help("give pools with accelerators a class of their own, whose images have the driver")
    .related(gpu, &gpu.path(&name), "a pool with accelerators")
    .related(plain, &plain.path(&name), "a pool without accelerators");
}
