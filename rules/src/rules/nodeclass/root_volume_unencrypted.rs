//! The volume that holds images and pods is not encrypted.
//!
//! # Why
//! The node's own volume holds container images, logs, `emptyDir` volumes and with them model weights and tokens.
//! Karpenter's default mapping is encrypted; a mapping of one's own is so only if it says it. Where nothing is
//! written the account's setting decides, and a volume from a snapshot is as the snapshot is.
//!
//! A list of one's own replaces all of Karpenter's mappings: on Bottlerocket, which has two volumes, a list with
//! `/dev/xvdb` alone leaves the system volume as the image has it, which is not encrypted.
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
    if family == Some(AmiFamily::Bottlerocket) {
        system_volume(class, ctx);
    }
    None
}

/// Reports a list that maps the volume for images and pods of Bottlerocket, and not that of the system.
fn system_volume(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let list = class.get("blockDeviceMappings");
    let names: Option<Vec<&str>> =
        class.block_devices().map(|mapping| mapping.get("deviceName").text()).collect();
    let names = names.filter(|_| !list.has_unknown())?;
    let is_complete = list.items().all(|item| item.is_mapping());
    if !is_complete || !names.contains(&"/dev/xvdb") || names.contains(&"/dev/xvda") {
        return None;
    }
    let volume = json!({"deviceName": "/dev/xvda",
        "ebs": {"volumeSize": "4Gi", "volumeType": "gp3", "encrypted": true}});
    let message =
        "`/dev/xvda` is not mapped: whether the system volume is encrypted is left to the account's default";
    ctx.report(&list, message)
        .severity(Severity::Info)
        .at_key()
        .help("map `/dev/xvda` with `encrypted: true` as well: a list of one's own replaces all defaults")
        .fix(
            Fix::new("map it as Karpenter's default does; check who may use the KMS key", Safety::Unsafe)
                .append(&list, volume)
                .replaces_nodes(),
        );
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
