//! A volume has a size, IOPS or throughput that its type cannot have.
//!
//! # Why
//! The API server accepts any combination, and EC2 rejects the volume when a node should start, so that the
//! pool never starts one. Each type of volume has bounds: gp3 has 3000 IOPS and 125 MiB/s of its own and
//! accepts no less, at most 500 IOPS for each GiB, and a quarter MiB/s for each IOPS; io1 allows 50 IOPS for
//! each GiB and io2 1000; the types on magnetic disks neither boot a node nor have IOPS to choose.
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
//! - <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html>

use crate::karpenter::node_class::volume_gib;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-performance-invalid",
    kinds: &[Kind::EC2_NODE_CLASS, Kind::AWS_NODE_TEMPLATE],
    docs: docs(include_str!("volume_performance_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodeClass)
};

/// The bounds of a type of volume.
struct Bounds {
    kind: &'static str,
    /// Size in GiB.
    size: (i64, i64),
    /// IOPS; `None` if they cannot be chosen.
    iops: Option<(i64, i64)>,
    /// Maximum of IOPS for each GiB.
    ratio: i64,
    /// Throughput in MiB/s; `None` if it cannot be chosen.
    throughput: Option<(i64, i64)>,
}

/// Bounds of EBS, of volumes that a node can have: <https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html>.
const BOUNDS: [Bounds; 7] = [
    Bounds {
        kind: "gp3",
        size: (1, 65_536),
        iops: Some((3000, 80_000)),
        ratio: 500,
        throughput: Some((125, 2000)),
    },
    Bounds { kind: "gp2", size: (1, 16_384), iops: None, ratio: 0, throughput: None },
    Bounds { kind: "io1", size: (4, 16_384), iops: Some((100, 64_000)), ratio: 50, throughput: None },
    Bounds { kind: "io2", size: (4, 65_536), iops: Some((100, 256_000)), ratio: 1000, throughput: None },
    Bounds { kind: "st1", size: (125, 16_384), iops: None, ratio: 0, throughput: None },
    Bounds { kind: "sc1", size: (125, 16_384), iops: None, ratio: 0, throughput: None },
    Bounds { kind: "standard", size: (1, 1024), iops: None, ratio: 0, throughput: None },
];

/// IOPS of a gp3 volume by default.
const GP3_IOPS: i64 = 3000;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let list = object.path(&["spec", "blockDeviceMappings"]);
    let is_alone = list.items().nth(1).is_none();
    for mapping in list.items().filter(super::is_known) {
        let ebs = mapping.get("ebs");
        if super::is_known(&ebs) {
            check_volume(&ebs, ctx);
            boots(&mapping, &ebs, is_alone, ctx);
        }
    }
    None
}

/// A node cannot boot from a volume on magnetic disks.
fn boots(mapping: &Node<'_>, ebs: &Node<'_>, is_alone: bool, ctx: &mut Context<'_>) -> Option<()> {
    let kind = ebs.get("volumeType");
    let text = kind.text().filter(|text| matches!(*text, "st1" | "sc1"))?;
    let is_root = matches!(mapping.get("deviceName").text()?, "/dev/xvda" | "/dev/sda1");
    if is_root || (is_alone && mapping.get("rootVolume").bool() == Some(true)) {
        ctx.report(&kind, format!("a node cannot boot from a volume of type {text}")).help("use gp3");
    }
    None
}

fn check_volume(ebs: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kind = ebs.get("volumeType").text()?;
    let bounds = BOUNDS.iter().find(|bounds| bounds.kind == kind)?;
    let (iops, throughput, size) = (ebs.get("iops"), ebs.get("throughput"), ebs.get("volumeSize"));
    if iops.is_set() && bounds.iops.is_none() {
        ctx.report(&iops, format!("`iops` is not allowed for a volume of type {kind}"))
            .help("remove it, or use gp3, io1 or io2");
    }
    if throughput.is_set() && bounds.throughput.is_none() {
        ctx.report(&throughput, format!("`throughput` is not allowed for a volume of type {kind}"))
            .help("remove it, or use gp3");
    }
    if matches!(kind, "io1" | "io2") && !iops.is_set() {
        ctx.report(&iops, format!("a volume of type {kind} needs `iops`"))
            .help("add `iops`, or use gp3, which has 3000 of its own");
    }
    let gib = size.text().and_then(volume_gib).and_then(|gib| i64::try_from(gib).ok()).filter(|gib| *gib > 0);
    if let Some(gib) = gib.filter(|gib| !(bounds.size.0..=bounds.size.1).contains(gib)) {
        let (least, most) = bounds.size;
        ctx.report(&size, format!("a volume of type {kind} has {least} to {most} GiB, not {gib}"))
            .help("choose another size, or another type of volume");
    }
    check_iops(&iops, bounds, gib, ctx);
    if kind == "gp3" && !iops.is_unknown() {
        check_throughput(&throughput, iops.int().unwrap_or(GP3_IOPS), bounds, ctx);
    }
    None
}

fn check_iops(iops: &Node<'_>, bounds: &Bounds, gib: Option<i64>, ctx: &mut Context<'_>) -> Option<()> {
    let (least, most) = bounds.iops?;
    let (number, kind) = (iops.int()?, bounds.kind);
    let a = if kind.starts_with('i') { "an" } else { "a" };
    if number < least {
        let finding =
            ctx.report(iops, format!("{a} {kind} volume has at least {least} IOPS: EC2 rejects {number}"));
        finding.help(match kind {
            "gp3" => "remove it: 3000 IOPS are included".to_owned(),
            _ => format!("write {least} or more"),
        });
        return None;
    }
    let by_size = gib.map(|gib| gib.saturating_mul(bounds.ratio).max(least));
    let most_here = by_size.map_or(most, |by_size| by_size.min(most));
    if number > most_here {
        let finding = ctx.report(
            iops,
            match by_size {
                Some(by_size) if by_size < most => {
                    format!("{a} {kind} volume of this size has at most {most_here} IOPS")
                }
                _ => format!("{a} {kind} volume has at most {most} IOPS"),
            },
        );
        finding.help(format!(
            "{kind} allows {} IOPS per GiB: lower it, or make the volume larger",
            bounds.ratio
        ));
    }
    None
}

fn check_throughput(
    throughput: &Node<'_>,
    provisioned: i64,
    bounds: &Bounds,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let ((least, most), requested) = (bounds.throughput?, throughput.int()?);
    if requested < least {
        ctx.report(throughput, format!("a gp3 volume has at least {least} MiB/s: EC2 rejects {requested}"))
            .help("remove it: 125 MiB/s are included");
    } else if requested > most {
        ctx.report(throughput, format!("a gp3 volume has at most {most} MiB/s"))
            .help("lower it, or use local disks");
    } else if provisioned >= GP3_IOPS && requested > provisioned / 4 {
        // Fewer IOPS than a volume has at least are reported alone.
        let needed = requested.saturating_mul(4);
        ctx.report(
            throughput,
            format!("{requested} MiB/s need {needed} IOPS, and the volume has {provisioned}"),
        )
        .help("gp3 allows 0.25 MiB/s per IOPS: add `iops`, or lower the throughput");
    }
    None
}
