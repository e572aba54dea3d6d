//! A volume asks for IOPS or throughput that its type and size cannot have.
//!
//! # Why
//! The API server accepts any combination, and EC2 rejects the volume when a node should start: `iops` on a type
//! that has none to choose, `throughput` on anything but gp3, io1 and io2 without `iops`. A gp3 volume has 3000
//! IOPS of its own and at most 500 for each GiB, and a quarter MiB/s of throughput for each IOPS.
//!
//! # Fix
//! Use gp3, with `iops` and `throughput` within its ratios.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//!        ebs:
//!          {volumeSize: 100Gi, encrypted: true, volumeType: gp3,
//! -         throughput: 1000} # <-
//! +         throughput: 1000, iops: 4000}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html>
//! - <https://docs.aws.amazon.com/ebs/latest/userguide/provisioned-iops.html>

use crate::karpenter::node_class::volume_gib;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-performance-invalid",
    docs: docs(include_str!("volume_performance_invalid.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// IOPS of a gp3 volume by default.
const GP3_IOPS: i64 = 3000;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for ebs in class.block_devices().map(|m| m.get("ebs")).filter(super::is_known) {
        check_volume(&ebs, ctx);
    }
    None
}

fn check_volume(ebs: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kind = ebs.get("volumeType").text()?;
    let (iops, throughput) = (ebs.get("iops"), ebs.get("throughput"));
    if iops.is_set() && matches!(kind, "gp2" | "st1" | "sc1" | "standard") {
        ctx.report(&iops, format!("`iops` is not allowed for a volume of type {kind}"))
            .help("remove it, or use gp3, io1 or io2");
    }
    if throughput.is_set() && kind != "gp3" {
        ctx.report(&throughput, format!("`throughput` is not allowed for a volume of type {kind}"))
            .help("remove it, or use gp3");
    }
    if matches!(kind, "io1" | "io2") && !iops.is_set() {
        ctx.report(&iops, format!("a volume of type {kind} needs `iops`"))
            .help("add `iops`, or use gp3, which has 3000 of its own");
    }
    if kind != "gp3" || iops.is_unknown() {
        return None;
    }
    let provisioned = iops.int().unwrap_or(GP3_IOPS);
    let size = ebs.get("volumeSize").text().and_then(volume_gib).filter(|gib| *gib > 0);
    let most = size.map(|gib| i64::try_from(gib).unwrap_or(i64::MAX).saturating_mul(500).max(GP3_IOPS));
    if let Some(most) = most.filter(|m| provisioned > *m) {
        ctx.report(&iops, format!("a gp3 volume of this size has at most {most} IOPS"))
            .help("gp3 allows 500 IOPS per GiB: lower it, or make the volume larger");
    }
    let requested = throughput.int().filter(|t| *t > provisioned / 4)?;
    let needed = requested.saturating_mul(4);
    let message = format!("{requested} MiB/s need {needed} IOPS, and the volume has {provisioned}");
    ctx.report(&throughput, message)
        .help("gp3 allows 0.25 MiB/s per IOPS: add `iops`, or lower the throughput");
    None
}
