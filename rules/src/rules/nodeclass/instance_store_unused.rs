//! Nothing uses the nodes' local disks, or RAID0 is set where there are none.
//!
//! # Why
//! Most GPU types come with fast local disks, 30 TB of them on a p5.48xlarge, and they are paid for
//! with the type. Nothing touches them unless `instanceStorePolicy: RAID0` joins them into the
//! volume of kubelet and containerd. With it pods see the local disks as their ephemeral storage,
//! and a large or fast EBS volume beside them is mostly idle. Where no type has local disks, the
//! setting does nothing, and the nodes have Karpenter's small volume.
//!
//! # Fix
//! Set `instanceStorePolicy: RAID0` where the types have local disks, and keep the EBS volume at
//! the size of the system. Local disks are empty after each start: what has to stay belongs
//! elsewhere.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec: # <-
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//!        ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}
//! +  instanceStorePolicy: RAID0
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specinstancestorepolicy>
//! - <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-store-volumes.html>

use crate::cluster::views::PoolsOfClass;
use crate::karpenter::node_class::{PodVolume, volume_gib};
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "instance-store-unused",
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::DAEMON_SET],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("instance_store_unused.rs")),
    check: Check::NodeClass(check),
    ..Rule::info(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let cluster = ctx.cluster();
    let users = cluster.views().class_pools().pools_of(object);
    match class.raid0() {
        Some(true) => joined(class, &users, ctx),
        Some(false) if class.is_joined_by_nodeadm() => uncounted(class, &users, ctx),
        Some(false) if takes_raid0(class) && !uses_disks(class, cluster) => {
            unused(class, &users, ctx);
        }
        _ => {}
    }
    None
}

fn has_disks(types: &TypeSet) -> bool {
    types.iter().all(|t| t.instance_store_gb > 0)
}

/// Reports local disks that are not used. One pool with such disks is enough, because the setting does not
/// affect the others.
fn unused(class: &Ec2NodeClass<'_>, users: &PoolsOfClass, ctx: &mut Context<'_>) {
    let Some((pool, types)) = users.with_types().find(|(_, types)| has_disks(types)) else { return };
    let least = types.iter().map(|t| t.instance_store_gb).min();
    let policy = class.get("instanceStorePolicy");
    ctx.report(
        &policy,
        format!(
            "the types of pool `{}` have local disks, {} GB or more, and nothing uses them",
            pool.display_name(),
            least.unwrap_or_default()
        ),
    )
    .help("set `instanceStorePolicy: RAID0` to keep images and pods' files there")
    .related(pool, &pool.path(&["metadata", "name"]), "the pool")
    .fix(
        Fix::new("join the local disks; check that nothing mounts them by itself", Safety::Unsafe)
            .set(&policy, json!("RAID0"))
            .replaces_nodes(),
    );
}

/// User data joins the disks: Karpenter does not read it, and counts the EBS volume.
fn uncounted(class: &Ec2NodeClass<'_>, users: &PoolsOfClass, ctx: &mut Context<'_>) {
    let Some((pool, _)) = users.with_types().find(|(_, types)| has_disks(types)) else { return };
    let policy = class.get("instanceStorePolicy");
    ctx.report(
        &policy,
        "user data joins the local disks, and Karpenter counts the EBS volume for pods all the same",
    )
    .help("replace nodeadm's `localStorage` by `instanceStorePolicy: RAID0`, which Karpenter counts")
    .related(class.object(), &class.get("userData"), "nodeadm's `localStorage`")
    .related(pool, &pool.path(&["metadata", "name"]), "a pool whose types have local disks")
    .fix(
        Fix::new("let Karpenter count the local disks; check how much disk pods request", Safety::Unsafe)
            .set(&policy, json!("RAID0"))
            .replaces_nodes(),
    );
}

/// RAID0 is set: reports volumes that are then unused, or that no type has local disks.
fn joined(class: &Ec2NodeClass<'_>, users: &PoolsOfClass, ctx: &mut Context<'_>) {
    let Some(pools) = users.all_types() else { return };
    if pools.iter().all(|(_, types)| has_disks(types)) {
        idle_volume(class, pools[0].0, ctx);
        return;
    }
    let none = |types: &TypeSet| types.iter().all(|t| t.instance_store_gb == 0);
    if !pools.iter().all(|(_, types)| none(types)) {
        return;
    }
    // Pools outside the input may have types with local disks.
    let severity =
        if ctx.cluster().is_complete_for(Kind::NODE_POOL) { Severity::Warning } else { Severity::Info };
    let pool = pools[0].0;
    let message = format!("no type of {} has local disks, so RAID0 does nothing", which(&pools));
    ctx.report(&class.get("instanceStorePolicy"), message)
        .severity(severity)
        .reports_absence(false)
        .help("map the volume that images and pods need, or choose types with local disks")
        .related(pool, &pool.path(&["metadata", "name"]), "the pool");
}

fn which(pools: &[(&Object, TypeSet)]) -> String {
    match pools {
        [(pool, _)] => format!("pool `{}`", pool.display_name()),
        several => format!("{} pools", several.len()),
    }
}

/// An EBS volume with a size or speed that only matters if it stores pods.
fn idle_volume(class: &Ec2NodeClass<'_>, pool: &Object, ctx: &mut Context<'_>) {
    let PodVolume::Mapped(ebs) = class.pod_volume() else { return };
    let (size, iops) = (ebs.get("volumeSize"), ebs.get("iops"));
    let large = size.text().and_then(volume_gib).is_some_and(|g| g >= 200);
    let fast = iops.int().is_some_and(|n| n > 3000);
    if large || fast {
        ctx.report(
            if large { &size } else { &iops },
            "with RAID0 images and pods are on the local disks, and this volume is mostly idle",
        )
        .reports_absence(false)
        .help("a volume for the system alone, such as 50Gi of gp3 as it comes, is enough")
        .related(pool, &pool.path(&["metadata", "name"]), "a pool whose types have local disks");
    }
}

/// Whether the images of the family combine the disks.
fn takes_raid0(class: &Ec2NodeClass<'_>) -> bool {
    matches!(class.family(), Some(AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Bottlerocket))
}

/// Whether user data, or a DaemonSet of the input, appears to set up the disks.
fn uses_disks(class: &Ec2NodeClass<'_>, cluster: &Cluster) -> bool {
    const DATA: [&str; 8] = [
        "nvme",
        "mdadm",
        "lvm",
        "vgcreate",
        "instance-store",
        "instancestore",
        "localstorage",
        "ephemeral-storage",
    ];
    const NAMES: [&str; 6] = ["local-volume", "local-static", "local-path", "nvme", "openebs", "topolvm"];
    let data = class.user_data();
    data.is_some_and(|text| mentions(text, &DATA))
        || cluster.of(Kind::DAEMON_SET).any(|o| mentions(o.name(), &NAMES))
}
