//! A manifest holds metadata or status that Karpenter writes itself.
//!
//! # Why
//! Hashes, compatibility annotations, the termination finalizer and the status come from a live
//! object that was copied into a file. A wrong hash makes Karpenter believe that every node of the
//! pool has drifted; the finalizer makes the object hard to delete; the others are noise that a
//! GitOps tool fights over with the controller.
//!
//! # Fix
//! Remove them.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//! -metadata:
//! -  name: general
//! -  annotations:
//! -    example.com/owner: platform
//! -    karpenter.sh/nodepool-hash: "5113432561093247711" # <-
//! +metadata: {name: general, annotations: {example.com/owner: platform}}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!    limits: {cpu: 100}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#drift>
//! - <https://karpenter.sh/docs/upgrading/v1-migration/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-managed-metadata",
    kinds: &[
        Kind::NODE_POOL,
        Kind::NODE_CLAIM,
        Kind::NODE_OVERLAY,
        Kind::EC2_NODE_CLASS,
        Kind::PROVISIONER,
        Kind::AWS_NODE_TEMPLATE,
    ],
    fix: Some(Safety::Safe),
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("karpenter_managed_metadata.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Migration)
};

const OWNED: &[&str] = &[
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.sh/stored-version-migrated",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
];

const COMPATIBILITY: &[&str] = &["compatibility.karpenter.sh/", "compatibility.karpenter.k8s.aws/"];

/// The annotation in which Karpenter 1.0 stored the version of an alias: the conversion of a v1beta1 class
/// reads it.
const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";

const FINALIZERS: &[&str] = &["karpenter.sh/termination", "karpenter.k8s.aws/termination"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let metadata = object.get("metadata");
    // In objects read from a cluster these fields are expected; only files are checked.
    if metadata.get("uid").is_set() {
        return None;
    }
    let annotations = metadata.get("annotations");
    let count = annotations.entries().len();
    for (key, node) in annotations.entries() {
        let compatibility = COMPATIBILITY.iter().any(|p| key.starts_with(p));
        if key == ALIAS_VERSION && object.version() == "v1beta1" {
            continue;
        }
        if compatibility || OWNED.contains(&key) {
            let whole = if count == 1 { &annotations } else { &node };
            let message = format!("Karpenter writes `{key}` itself");
            report(&node, whole, message, ctx);
        }
    }
    let finalizers = metadata.get("finalizers");
    let count = finalizers.items().count();
    for node in finalizers.items() {
        if let Some(name) = node.text().filter(|n| FINALIZERS.contains(n)) {
            let whole = if count == 1 { &finalizers } else { &node };
            let message = format!("Karpenter adds the finalizer `{name}` itself");
            report(&node, whole, message, ctx);
        }
    }
    let status = object.get("status");
    if !status.entries().is_empty() {
        report(
            &status,
            &status,
            "the status is Karpenter's to write; in a file it does nothing".to_owned(),
            ctx,
        );
    }
    None
}

/// Reports at `node`. The fix removes `whole`: the list or map if this is its last entry.
fn report(node: &Node<'_>, whole: &Node<'_>, message: String, ctx: &mut Context<'_>) {
    let finding = ctx.report(node, message);
    finding.help("remove it from the file").fix(Fix::new("remove it", Safety::Safe).remove(whole));
    if node.shape() == crate::tree::node::Shape::Scalar && !node.pointer().steps().is_empty() {
        finding.at_key();
    }
}
