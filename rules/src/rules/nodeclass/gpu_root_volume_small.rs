//! The volume of GPU nodes is too small for GPU images.
//!
//! # Why
//! Images with CUDA and a serving engine or a training framework are often 10 to 25 GiB, and
//! unpacked they need their size once more. Karpenter's own mapping gives a node 20 GiB for the
//! system, all images and the pods' files: the second image no longer fits, kubelet evicts pods
//! for disk pressure, and the expensive node stands there empty. The same happens with a small
//! mapping of one's own. On types with local disks `instanceStorePolicy: RAID0` puts images and
//! pods there.
//!
//! # Fix
//! Map the device that holds images and pods (`/dev/xvda`, on Bottlerocket `/dev/xvdb`) with
//! 100 GiB or more, or set `instanceStorePolicy: RAID0` where all types have local disks.
//! `minimum-gib` says from which size on the rule is content.
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
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//! -      ebs: {volumeSize: 30Gi, volumeType: gp3, encrypted: true} # <-
//! +      ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}
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
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>
//! - <https://github.com/aws/karpenter-provider-aws/issues/7928>
//! - <https://github.com/aws/karpenter-provider-aws/issues/5283>

use crate::karpenter::node_class::{PodVolume, volume_gib};
use crate::karpenter::nodepool::hardware;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-root-volume-small",
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    params: &[Param {
        name: "minimum-gib",
        description: "the size in GiB from which on a volume is large enough for GPU images",
        default: ParamDefault::Int { default: 50, min: 1, max: 59_000 },
    }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_root_volume_small.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// The size that the fix sets, in GiB.
const ENOUGH: u64 = 100;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let raid0 = class.raid0()?;
    let (size, gib) = match class.pod_volume() {
        PodVolume::Default(gib) => (class.get("blockDeviceMappings"), gib),
        PodVolume::Mapped(ebs) => {
            let size = ebs.get("volumeSize");
            let gib = size.text().and_then(volume_gib).filter(|gib| *gib > 0)?;
            (size, gib)
        }
        PodVolume::Unknown => return None,
    };
    let least = u64::try_from(ctx.int("minimum-gib")).unwrap_or_default();
    if gib >= least {
        return None;
    }
    let cluster = ctx.cluster();
    let users = cluster.views().class_pools().pools_of(object);
    // If a type has local disks, they store images and pods instead.
    let small = users.with_types().find(|(_, types)| {
        hardware(types) == Hardware::Accelerated && !(raid0 && types.iter().all(|t| t.instance_store_gb > 0))
    });
    let (pool, _) = small?;
    let enough = ENOUGH.max(least);
    let written = size.is_set();
    let noun = NodePool::new(pool).map_or("GPU pool", |pool| pool.noun());
    let message = format!("{noun} `{}` has {gib} GiB a node for images and pods", pool.display_name());
    let finding = ctx.report(&size, message);
    finding.related(pool, &pool.path(&["metadata", "name"]), "the pool");
    let title = format!("give the nodes {enough} GiB; check what that costs");
    let volume = json!({"volumeSize": format!("{enough}Gi"), "volumeType": "gp3", "encrypted": true});
    let fix = Fix::new(title, Safety::Unsafe);
    if written {
        finding
            .help(format!("images for accelerators are large: write `{enough}Gi` or more"))
            .fix(fix.set(&size, json!(format!("{enough}Gi"))).replaces_nodes());
    } else if let Some(family) = class.family() {
        let device = family.pod_device();
        finding
            .help(format!(
                "that is the default, and images for accelerators are large: map `{device}` with {enough}Gi"
            ))
            .fix(fix.set(&size, json!([{"deviceName": device, "ebs": volume}])).replaces_nodes());
    }
    None
}
