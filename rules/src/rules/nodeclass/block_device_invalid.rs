//! A block device mapping that is refused, or is not what it seems.
//!
//! # Why
//! A size is a whole number with `Gi`, `G`, `Ti` or `T`; a volume needs a size or a snapshot; one
//! mapping is the root at most. The API server refuses the rest. EC2 refuses more, when the node
//! should start: IOPS on a volume type that has none to choose, throughput on anything but gp3, or
//! more of either than a volume of the size can have. Bottlerocket keeps images and pods on
//! `/dev/xvdb`, so a larger `/dev/xvda` changes nothing. And a volume that is not deleted with its
//! instance stays, and is paid for, after every scale-down.
//!
//! # Fix
//! Write sizes such as `100Gi`, `gp3` with `encrypted: true`, and for Bottlerocket map `/dev/xvdb`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
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
//!        ebs:
//! -        volumeSize: 1.5Ti # <-
//! +        volumeSize: 1536Gi
//!          volumeType: gp3
//!          encrypted: true
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>
//! - <https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html>

use crate::karpenter::node_class::{suggest_volume, volume_gib};
use crate::karpenter::scheduling::AmiFamily;
use crate::lint::finding::ellipsize;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "block-device-invalid",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("block_device_invalid.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

/// What a gp3 volume has where nothing is written.
const GP3_IOPS: i64 = 3000;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let mappings: Vec<Node<'_>> = class.block_devices().collect();
    let mut roots = mappings.iter().map(|m| m.get("rootVolume")).filter(|r| r.bool() == Some(true));
    if let (Some(first), Some(second)) = (roots.next(), roots.next()) {
        ctx.report(&second, "two mappings say that they are the root volume")
            .help("keep `rootVolume: true` on the device that kubelet stores pods on")
            .related(object, &first, "the first one");
    }
    let family = class.family();
    for mapping in &mappings {
        let ebs = mapping.get("ebs");
        if !super::is_known(&ebs) {
            continue;
        }
        volume(&ebs, ctx);
        performance(&ebs, ctx);
        encryption(mapping, &ebs, family, ctx);
        let delete = ebs.get("deleteOnTermination");
        if delete.bool() == Some(false) {
            ctx.report(&delete, "the volume stays when the node goes, and is paid for")
                .severity(Severity::Warning)
                .help("remove it: nothing attaches such a volume again")
                .fix(
                    Fix::new("remove it; check that nobody reads the volumes", Safety::Unsafe)
                        .remove(&delete)
                        .replaces_nodes(),
                );
        }
    }
    if family == Some(AmiFamily::Bottlerocket) {
        wrong_device(&mappings, ctx);
    }
    None
}

/// What the API server refuses in a volume.
fn volume(ebs: &Node<'_>, ctx: &mut Context<'_>) {
    let (size, snapshot) = (ebs.get("volumeSize"), ebs.get("snapshotID"));
    if !size.is_set() && !snapshot.is_set() {
        ctx.report(&size, "the volume has neither `volumeSize` nor `snapshotID`")
            .help("add `volumeSize`, such as 100Gi");
    }
    let rate = ebs.get("volumeInitializationRate");
    if rate.is_set() && (!snapshot.is_set() || snapshot.text() == Some("")) {
        ctx.report(&rate, "only a volume from a snapshot is initialized at a rate")
            .help("add `snapshotID`, or remove the rate");
    }
    let Some(text) = size.text() else {
        return;
    };
    match volume_gib(text) {
        None => {
            let message = format!("`{}` is no size that the API server takes here", ellipsize(text));
            let finding = ctx.report(&size, message);
            if let Some(better) = suggest_volume(text) {
                finding.help(format!("write `{better}`"));
                let fix = Fix::new(format!("write `{better}`"), Safety::Safe);
                finding.fix(fix.set(&size, json!(better)));
            } else {
                finding.help("write a whole number with Gi, G, Ti or T, such as 100Gi");
            }
        }
        // The bare unit slips through the pattern.
        Some(0) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            ctx.report(&size, "a unit without a number means 0, and EC2 refuses that")
                .rejected_by(None)
                .help("write a number before the unit");
        }
        Some(_) => {}
    }
}

/// What EC2 refuses when the node should start.
fn performance(ebs: &Node<'_>, ctx: &mut Context<'_>) {
    let Some(kind) = ebs.get("volumeType").text() else {
        return;
    };
    let (iops, throughput) = (ebs.get("iops"), ebs.get("throughput"));
    if iops.is_set() && matches!(kind, "gp2" | "st1" | "sc1" | "standard") {
        ctx.report(&iops, format!("a volume of type {kind} takes no `iops`"))
            .severity(Severity::Warning)
            .help("remove it, or use gp3, io1 or io2");
    }
    if throughput.is_set() && kind != "gp3" {
        ctx.report(&throughput, format!("a volume of type {kind} takes no `throughput`"))
            .severity(Severity::Warning)
            .help("remove it, or use gp3");
    }
    if matches!(kind, "io1" | "io2") && !iops.is_set() {
        ctx.report(&iops, format!("a volume of type {kind} needs `iops`"))
            .severity(Severity::Warning)
            .help("add `iops`, or use gp3, which has 3000 of its own");
    }
    if kind != "gp3" || iops.is_unknown() {
        return;
    }
    let size = ebs.get("volumeSize").text().and_then(volume_gib);
    let most = size.filter(|gib| *gib > 0).map(|gib| {
        let most = i64::try_from(gib).unwrap_or(i64::MAX).saturating_mul(500);
        most.max(GP3_IOPS)
    });
    let provisioned = iops.int().unwrap_or(GP3_IOPS);
    if let Some(most) = most.filter(|m| provisioned > *m) {
        ctx.report(&iops, format!("a gp3 volume of this size has at most {most} IOPS"))
            .severity(Severity::Warning)
            .help("gp3 takes 500 IOPS a GiB: lower it, or make the volume larger");
    }
    if let Some(asked) = throughput.int().filter(|t| *t > provisioned / 4) {
        ctx.report(
            &throughput,
            format!("{asked} MiB/s need {} IOPS, and the volume has {provisioned}", asked.saturating_mul(4)),
        )
        .severity(Severity::Warning)
        .help("gp3 takes a quarter MiB/s an IOPS: add `iops`, or lower the throughput");
    }
}

/// Whether the volume that holds images and pods is encrypted.
fn encryption(mapping: &Node<'_>, ebs: &Node<'_>, family: Option<AmiFamily>, ctx: &mut Context<'_>) {
    let device = mapping.get("deviceName").text();
    let root = mapping.get("rootVolume").bool() == Some(true)
        || device == Some("/dev/xvda")
        || (device == Some("/dev/xvdb") && family == Some(AmiFamily::Bottlerocket))
        || (device == Some("/dev/sda1") && family == Some(AmiFamily::Windows));
    let encrypted = ebs.get("encrypted");
    if !root || encrypted.is_unknown() || encrypted.bool() == Some(true) {
        return;
    }
    let (message, severity) = match encrypted.bool() {
        Some(false) if ebs.get("snapshotID").is_set() => {
            ("the node's volume is as the snapshot is", Severity::Info)
        }
        Some(false) => ("the node's volume is not encrypted", Severity::Warning),
        _ if encrypted.is_set() => return,
        _ => ("whether the node's volume is encrypted is left to the account's default", Severity::Info),
    };
    let finding = ctx.report(&encrypted, message);
    finding.severity(severity).help("add `encrypted: true`, as in Karpenter's own default mapping").fix(
        Fix::new("encrypt it; check who may use the KMS key", Safety::Unsafe)
            .set(&encrypted, json!(true))
            .replaces_nodes(),
    );
}

/// Bottlerocket's second device is the one that fills up.
fn wrong_device(mappings: &[Node<'_>], ctx: &mut Context<'_>) {
    let other = |m: &Node<'_>| {
        let device = m.get("deviceName");
        device.text().is_none_or(|d| d == "/dev/xvdb")
    };
    if mappings.iter().any(other) {
        return;
    }
    // Its own size is 4Gi.
    let large = |m: &&Node<'_>| {
        let size = m.path(&["ebs", "volumeSize"]).text().and_then(volume_gib);
        m.get("deviceName").text() == Some("/dev/xvda") && size.is_some_and(|gib| gib > 4)
    };
    let Some(mapping) = mappings.iter().find(large) else {
        return;
    };
    let name = mapping.get("deviceName");
    ctx.report(&name, "Bottlerocket keeps images and pods on `/dev/xvdb`, not on `/dev/xvda`")
        .severity(Severity::Warning)
        .help("map `/dev/xvdb` with the size that images and pods need")
        .fix(
            Fix::new("map `/dev/xvdb` instead; check how full it gets", Safety::Unsafe)
                .set(&name, json!("/dev/xvdb"))
                .replaces_nodes(),
        );
}
