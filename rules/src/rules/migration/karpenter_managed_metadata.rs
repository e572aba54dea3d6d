//! A manifest holds metadata or status that Karpenter writes itself.
//!
//! # Why
//! Hashes, compatibility annotations, the termination finalizer and the status come from a live
//! object that was copied into a file. A wrong hash makes Karpenter believe that every node of the
//! pool has drifted; the finalizer makes the object hard to delete; the others are noise that a
//! GitOps tool fights over with the controller. One has an effect: on Karpenter 1.0 the kubelet that
//! the conversion from v1beta1 stored at a NodePool overrides `spec.kubelet` of its class, and 1.1
//! does not start with it.
//!
//! # Fix
//! Remove them. On Karpenter 1.0 write the kubelet that the nodes are to have to the class before:
//! without the annotation they get that of the class, and are replaced.
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

use crate::cluster::views::kubelet_settings;
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
    depends_on: &[Product::Karpenter],
    reads: &[Kind::EC2_NODE_CLASS],
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

/// The annotation in which the conversion from v1beta1 stored the kubelet of a NodePool. Karpenter 1.0 reads it in place of
/// `spec.kubelet` of the class.
const KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";

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
            if key == KUBELET && overrides_class(object, &node, whole, ctx) {
                continue;
            }
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

/// Reports a stored kubelet that Karpenter 1.0 reads, unless it is that of the class.
fn overrides_class(pool: &Object, node: &Node<'_>, whole: &Node<'_>, ctx: &mut Context<'_>) -> bool {
    let platform = ctx.platform();
    let reads = platform.is_stated(Product::Karpenter) && platform.karpenter == Version::new(1, 0);
    if !pool.is(Kind::NODE_POOL) || pool.version() != "v1" || !reads {
        return false;
    }
    let name = pool.path(&["spec", "template", "spec", "nodeClassRef", "name"]);
    let class = name.text().and_then(|name| ctx.partner(Kind::EC2_NODE_CLASS, "default", name));
    let class = class.filter(|class| !class.may_lack_fields());
    let stored = node.text().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let kubelet = class.map(|class| class.path(&["spec", "kubelet"]));
    let known = stored.zip(kubelet.filter(|kubelet| !kubelet.has_unknown()));
    let differs =
        known.map(|(stored, kubelet)| kubelet_settings(&stored) != kubelet_settings(&kubelet.to_json()));
    if differs == Some(false) {
        return false;
    }
    let title = "remove it: nodes get the kubelet of the class and are replaced";
    let fix = Fix::unsafe_(title).remove(whole);
    let finding = match class.filter(|_| differs == Some(true)) {
        Some(class) => {
            let class_name = class.display_name();
            let message =
                format!("Karpenter 1.0 gives nodes this kubelet, not `spec.kubelet` of `{class_name}`");
            ctx.report(node, message)
                .severity(Severity::Warning)
                .help("write the kubelet that nodes are to have to the class, and remove this: 1.1 does not start with it")
                .related(class, &class.path(&["spec", "kubelet"]), "has no effect for this pool")
        }
        None => ctx
            .report(node, format!("Karpenter writes `{KUBELET}` itself"))
            .help("compare it with `spec.kubelet` of the class, and remove it: Karpenter 1.1 does not start with it"),
    };
    finding.fix(fix).at_key();
    true
}

/// Reports at `node`. The fix removes `whole`: the list or map if this is its last entry.
fn report(node: &Node<'_>, whole: &Node<'_>, message: String, ctx: &mut Context<'_>) {
    let finding = ctx.report(node, message);
    finding.help("remove it from the file").fix(Fix::new("remove it", Safety::Safe).remove(whole));
    if node.shape() == crate::tree::node::Shape::Scalar && !node.pointer().steps().is_empty() {
        finding.at_key();
    }
}
