//! A Bottlerocket class takes the system volume for the one of images and pods.
//!
//! # Why
//! Bottlerocket has two volumes: `/dev/xvda` for the operating system, 4 GiB by default, and `/dev/xvdb` for
//! images, logs and pods, 20 GiB by default. A class that maps only `/dev/xvda` makes the first larger. The
//! second stays as it is, fills up, and the kubelet evicts pods.
//!
//! With `rootVolume: true` on `/dev/xvda` Karpenter counts that volume as the disk of pods: those that request
//! `ephemeral-storage` do not fit, however large `/dev/xvdb` is.
//!
//! # Fix
//! Map `/dev/xvdb` with the size that images and pods need, and leave out `rootVolume`: Karpenter knows which of
//! the two volumes pods use.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: bottlerocket@v1.44.0}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    blockDeviceMappings:
//! -    - deviceName: /dev/xvda # <-
//! +    - deviceName: /dev/xvdb
//!        ebs: {volumeSize: 200Gi, encrypted: true}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>
//! - <https://github.com/bottlerocket-os/bottlerocket#default-volumes>

use crate::karpenter::node_class::volume_gib;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "bottlerocket-data-volume-unmapped",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("bottlerocket_data_volume_unmapped.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// The size of `/dev/xvda` without a mapping, in GiB.
const DEFAULT_GIB: u64 = 4;

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    miscounted(class, ctx);
    let may_be_data = |m: Node<'_>| m.get("deviceName").text().is_none_or(|d| d == "/dev/xvdb");
    if class.family() != Some(AmiFamily::Bottlerocket) || class.block_devices().any(may_be_data) {
        return None;
    }
    let name = class.block_devices().find_map(|m| {
        let gib = m.path(&["ebs", "volumeSize"]).text().and_then(volume_gib)?;
        let name = m.get("deviceName");
        (name.text() == Some("/dev/xvda") && gib > DEFAULT_GIB).then_some(name)
    })?;
    ctx.report(&name, "Bottlerocket keeps images and pods on `/dev/xvdb`, not on `/dev/xvda`")
        .help("map `/dev/xvdb` with the size that images and pods need")
        .fix(
            Fix::new("map `/dev/xvdb` instead; check how full it gets", Safety::Unsafe)
                .set(&name, json!("/dev/xvdb"))
                .replaces_nodes(),
        );
    None
}

/// The system volume is the one that Karpenter counts as the disk of pods.
fn miscounted(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if class.family() != Some(AmiFamily::Bottlerocket) || class.raid0() != Some(false) {
        return None;
    }
    let is_root = |mapping: &Node<'_>| {
        mapping.get("rootVolume").bool() == Some(true)
            && mapping.get("deviceName").text() == Some("/dev/xvda")
    };
    let mapping = class.block_devices().find(is_root)?;
    let root = mapping.get("rootVolume");
    let size = mapping.path(&["ebs", "volumeSize"]);
    let counted = size.text().map_or(String::new(), |size| format!(" of {}", ellipsize(size)));
    let message =
        format!("Karpenter counts the system volume{counted} as the disk of pods, which is `/dev/xvdb`");
    ctx.report(&root, message)
        .at_key()
        .help("remove `rootVolume`: Karpenter then counts `/dev/xvdb`, or 20Gi where that is not mapped")
        .fix(
            Fix::new("remove `rootVolume`; check how much disk pods request", Safety::Unsafe)
                .remove(&root)
                .replaces_nodes(),
        );
    None
}
