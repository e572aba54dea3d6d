//! A volume is not deleted with its node.
//!
//! # Why
//! With `deleteOnTermination: false` the volume of every node that goes away stays and is paid for.
//! Karpenter never attaches it again, so a pool that scales up and down each day leaves volumes behind each day.
//!
//! # Fix
//! Remove the field, whose default is `true`. Data that must survive belongs on a PersistentVolume.
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
//!          volumeSize: 100Gi
//!          encrypted: true
//! -        deleteOnTermination: false # <-
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-outlives-node",
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("volume_outlives_node.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for ebs in class.block_devices().map(|m| m.get("ebs")).filter(super::is_known) {
        let delete = ebs.get("deleteOnTermination");
        if delete.bool() == Some(false) {
            ctx.report(&delete, "the volume stays when the node goes, and is paid for")
                .help("remove it: nothing attaches such a volume again")
                .fix(
                    Fix::new("remove it; check that nobody reads the volumes", Safety::Unsafe)
                        .remove(&delete)
                        .replaces_nodes(),
                );
        }
    }
    None
}
