//! The volume that holds images and pods is not encrypted.
//!
//! # Why
//! The node's own volume holds container images, logs, `emptyDir` volumes and with them model weights and tokens.
//! Karpenter's default mapping is encrypted; a mapping of one's own is so only if it says it. Where nothing is
//! written the account's setting decides, and a volume from a snapshot is as the snapshot is.
//!
//! # Fix
//! Add `encrypted: true`, and check that the nodes may use the KMS key.
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
//! -      ebs: {volumeSize: 100Gi, encrypted: false} # <-
//! +      ebs: {volumeSize: 100Gi, encrypted: true}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>
//! - <https://docs.aws.amazon.com/ebs/latest/userguide/encryption-by-default.html>

use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "root-volume-unencrypted",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("root_volume_unencrypted.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let family = class.family();
    for mapping in class.block_devices() {
        let holds_pods = mapping.get("rootVolume").bool() == Some(true)
            || match mapping.get("deviceName").text() {
                Some("/dev/xvda") => true,
                Some("/dev/xvdb") => family == Some(AmiFamily::Bottlerocket),
                Some("/dev/sda1") => family == Some(AmiFamily::Windows),
                _ => false,
            };
        let ebs = mapping.get("ebs");
        if holds_pods && super::is_known(&ebs) {
            check_volume(&ebs, ctx);
        }
    }
    None
}

fn check_volume(ebs: &Node<'_>, ctx: &mut Context<'_>) {
    let encrypted = ebs.get("encrypted");
    let (message, severity) = match encrypted.bool() {
        Some(false) if ebs.get("snapshotID").is_set() => {
            ("the node's volume is as the snapshot is", Severity::Info)
        }
        Some(false) => ("the node's volume is not encrypted", Severity::Warning),
        None if !encrypted.is_set() && !encrypted.is_unknown() => {
            ("whether the node's volume is encrypted is left to the account's default", Severity::Info)
        }
        _ => return,
    };
    ctx.report(&encrypted, message)
        .severity(severity)
        .help("add `encrypted: true`, as in Karpenter's own default mapping")
        .fix(
            Fix::new("encrypt it; check who may use the KMS key", Safety::Unsafe)
                .set(&encrypted, json!(true))
                .replaces_nodes(),
        );
}
