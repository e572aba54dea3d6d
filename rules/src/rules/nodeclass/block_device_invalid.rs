//! The API server or EC2 rejects a block device mapping.
//!
//! # Why
//! A size is a whole number with `Gi`, `G`, `Ti` or `T`; a volume needs a size or a snapshot; only a volume
//! from a snapshot has an initialization rate; at most one mapping is the root volume. The API server rejects the
//! rest. A unit without a number passes its pattern, means 0, and is rejected by EC2 when a node should start.
//!
//! # Fix
//! Write sizes such as `100Gi`, and `rootVolume` once.
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
//! -      ebs: {volumeSize: 1.5Ti, encrypted: true} # <-
//! +      ebs: {volumeSize: 1536Gi, encrypted: true}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>

use crate::karpenter::node_class::{suggest_volume, volume_gib};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "block-device-invalid",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("block_device_invalid.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let mut roots = class.block_devices().map(|m| m.get("rootVolume")).filter(|r| r.bool() == Some(true));
    if let (Some(first), Some(second)) = (roots.next(), roots.next()) {
        ctx.report(&second, "two mappings say that they are the root volume")
            .help("keep `rootVolume: true` on the device that kubelet stores pods on")
            .related(class.object(), &first, "the first one");
    }
    for ebs in class.block_devices().map(|m| m.get("ebs")).filter(super::is_known) {
        check_volume(&ebs, ctx);
    }
    None
}

fn check_volume(ebs: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
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
    let text = size.text()?;
    match volume_gib(text) {
        None => {
            let message = format!("`{}` is not a size that the API server accepts here", ellipsize(text));
            let finding = ctx.report(&size, message);
            if let Some(better) = suggest_volume(text) {
                let title = format!("write `{better}`");
                finding.help(title.clone()).fix(Fix::new(title, Safety::Safe).set(&size, json!(better)));
            } else {
                finding.help("write a whole number with Gi, G, Ti or T, such as 100Gi");
            }
        }
        // The pattern of the CRD accepts a unit without number.
        Some(0) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            ctx.report(&size, "a unit without a number means 0: EC2 rejects the volume")
                .rejected_by(None)
                .help("write a number before the unit");
        }
        Some(_) => {}
    }
    None
}
