//! A block device mapping makes Karpenter panic.
//!
//! # Why
//! Karpenter computes how large the volume of a new node is from the mapping of the family's root device, and
//! does not check that it has `ebs`, or that the last mapping has a `deviceName`. The API server accepts a
//! class without them, and Karpenter then panics for all pools until the class is deleted.
//!
//! # Fix
//! Write `deviceName` and `ebs`, or remove the mapping.
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
//! -  blockDeviceMappings: [{deviceName: /dev/xvda}] # <-
//! ```
//!
//! # References
//! - <https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/providers/instancetype/types.go>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>

use crate::karpenter::scheduling::{self, BlockDevice, NodeClass};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "block-device-incomplete",
    docs: docs(include_str!("block_device_incomplete.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let list = class.get("blockDeviceMappings");
    let ami_family = class.family()?;
    let unknown =
        |m: &Node<'_>| m.is_unknown() || m.get("deviceName").is_unknown() || m.get("rootVolume").is_unknown();
    if list.items().any(|m| unknown(&m) || !m.is_mapping()) {
        return None;
    }
    let devices: Vec<BlockDevice> = list
        .items()
        .map(|m| BlockDevice {
            device_name: m.get("deviceName").text().map(str::to_owned),
            root_volume: m.get("rootVolume").bool() == Some(true),
            ebs: m.get("ebs").is_set(),
            // Only whether a size is set is needed, not its value.
            volume_size: m.path(&["ebs", "volumeSize"]).is_set().then_some(1),
        })
        .collect();
    let crashes = |devices: &[BlockDevice]| {
        let block_devices = devices.to_vec();
        scheduling::crashes(&NodeClass { ami_family, block_devices, ..NodeClass::default() })
    };
    if !crashes(&devices) {
        return None;
    }
    // The mapping whose completion resolves the problem; otherwise the first that lacks something.
    let lacks = |d: &BlockDevice| !d.ebs || d.device_name.is_none();
    let helps = |at: usize| {
        let mut repaired = devices.clone();
        let device = &mut repaired[at];
        device.ebs = true;
        device.device_name.get_or_insert_with(|| "/dev/sdz".to_owned());
        !crashes(&repaired)
    };
    let defective = || (0..devices.len()).filter(|at| lacks(&devices[*at]));
    let at = defective().find(|at| helps(*at)).or_else(|| defective().next())?;
    let field = if devices[at].ebs { "deviceName" } else { "ebs" };
    let message = format!("a block device mapping without `{field}` makes Karpenter panic for all pools");
    ctx.report(&list.index(at).get(field), message).help(format!("add `{field}`, or remove the mapping"));
    None
}
