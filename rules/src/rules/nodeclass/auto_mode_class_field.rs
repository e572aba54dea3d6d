//! A NodeClass of EKS Auto Mode has a field of an EC2NodeClass.
//!
//! # Why
//! In EKS Auto Mode AWS decides about the image, the kubelet and the metadata service of nodes. The
//! NodeClass has none of these fields: the API server rejects them, or drops them where fields are not
//! validated, and the nodes are as AWS makes them.
//!
//! # Fix
//! Remove the field, or write what the help names instead. What the nodes must have beside that belongs
//! into a DaemonSet.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: eks.amazonaws.com/v1
//!  kind: NodeClass
//!  metadata: {name: web}
//!  spec:
//!    role: AmazonEKSAutoNodeRole
//!    subnetSelectorTerms: [{tags: {kubernetes.io/role/internal-elb: "1"}}]
//!    securityGroupSelectorTerms: [{tags: {aws:eks:cluster-name: prod}}]
//! -  associatePublicIPAddress: false # <-
//! +  advancedNetworking: {associatePublicIPAddress: false}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-class-field",
    kinds: &[Kind::AUTO_MODE_NODE_CLASS],
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("auto_mode_class_field.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodeClass)
};

const PUBLIC_ADDRESS: &str = "associatePublicIPAddress";

/// The fields of an EC2NodeClass that a NodeClass does not have, and what to write instead.
const OTHER_CLASS: [(&str, &str); 16] = [
    ("amiFamily", "remove it: AWS chooses the image, which is a Bottlerocket of its own"),
    ("amiSelectorTerms", "remove it: AWS chooses the image, which is a Bottlerocket of its own"),
    (PUBLIC_ADDRESS, "write it below `advancedNetworking`"),
    ("blockDeviceMappings", "write `ephemeralStorage` with `size`, `iops` and `throughput`"),
    ("connectionTracking", "remove it: EKS Auto Mode has no such setting"),
    ("context", "remove it: EKS Auto Mode has no such setting"),
    ("cpuOptions", "remove it: EKS Auto Mode has no such setting"),
    ("detailedMonitoring", "remove it: EKS Auto Mode has no such setting"),
    ("enclaveOptions", "remove it: EKS Auto Mode has no such setting"),
    ("instanceStorePolicy", "remove it: local disks are joined for images and pods in any case"),
    ("ipPrefixCount", "remove it: EKS Auto Mode has no such setting"),
    ("kubelet", "remove it: AWS decides about the kubelet, and nodes run 110 pods at most"),
    ("metadataOptions", "remove it: nodes answer IMDSv2 alone, over one hop"),
    ("networkInterfaces", "remove it: EKS Auto Mode has no such setting"),
    ("placementGroupSelector", "remove it: EKS Auto Mode has no such setting"),
    ("userData", "remove it: what nodes must have beside the image belongs into a DaemonSet"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for (name, node) in object.get("spec").entries() {
        // Typing errors are unknown-field's.
        if let Some((_, help)) = OTHER_CLASS.into_iter().find(|(other, _)| *other == name) {
            foreign(object, name, &node, help, ctx);
        }
    }
    None
}

fn foreign(object: &Object, name: &str, node: &Node<'_>, help: &str, ctx: &mut Context<'_>) {
    let message = format!("a NodeClass of EKS Auto Mode has no `{name}`, which an EC2NodeClass has");
    let finding = ctx.report(node, message);
    finding.at_key().help(help);
    let networking = object.path(&["spec", "advancedNetworking"]);
    let fix = |title: &str| Fix::new(title, Safety::Unsafe).remove(node);
    if name == "instanceStorePolicy" {
        finding.fix(fix("remove it: nodes use their local disks in any case"));
    } else if name == PUBLIC_ADDRESS
        && let (false, Some(value)) = (networking.is_set(), node.bool())
    {
        let fix = fix("move it below `advancedNetworking`; check that the nodes keep their way out");
        finding.fix(fix.set(&networking, json!({PUBLIC_ADDRESS: value})));
    }
}
