//! A node class sets a tag that is reserved for Karpenter.
//!
//! # Why
//! Karpenter marks what it makes with tags of its own and finds it again by them. The API server
//! rejects those keys in `spec.tags`, and an empty key. `karpenter.sh/discovery` is no such key.
//!
//! # Fix
//! Remove the tag: Karpenter writes it by itself.
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
//!    tags:
//!      team: platform
//! -    kubernetes.io/cluster/prod: owned # <-
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#spectags>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-restricted-tag",
    rejected_by: &[Authority::ApiServer],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("node_class_restricted_tag.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

/// The reserved keys, in addition to those that start with [`CLUSTER`].
const KEPT: [&str; 4] = [
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
];

const CLUSTER: &str = "kubernetes.io/cluster";

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    for (key, node) in class.get("tags").entries() {
        let (message, help) = if key.is_empty() {
            ("a tag needs a key".to_owned(), "write the key, or remove the tag")
        } else if KEPT.contains(&key) || key.starts_with(CLUSTER) {
            (
                format!(
                    "the tag `{}` is reserved for Karpenter: the API server rejects it here",
                    ellipsize(key)
                ),
                "remove it: Karpenter writes it by itself",
            )
        } else {
            continue;
        };
        let finding = ctx.report(&node, message);
        finding.at_key().help(help);
        if !key.is_empty() {
            let title = format!("remove the tag `{}`", ellipsize(key));
            finding.fix(Fix::new(title, Safety::Safe).remove(&node).replaces_nodes());
        }
    }
    None
}
