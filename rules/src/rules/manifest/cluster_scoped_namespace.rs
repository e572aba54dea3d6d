//! A cluster-scoped object has a namespace.
//!
//! # Why
//! NodePools, EC2NodeClasses and the other kinds here belong to the cluster. The API server drops
//! `metadata.namespace` when it stores them. Whoever reads the manifest looks in the wrong place,
//! and a tool that compares it with the cluster may show a difference forever.
//!
//! # Fix
//! Remove `metadata.namespace`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ClusterTriggerAuthentication
//! -metadata:
//! -  name: queue
//! -  namespace: keda # <-
//! +metadata: {name: queue}
//!  spec:
//!    podIdentity:
//!      provider: aws
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/>

use crate::rules::manifest::message_parts::with_article;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "cluster-scoped-namespace",
    kinds: &[
        Kind::NODE_POOL,
        Kind::NODE_CLAIM,
        Kind::NODE_OVERLAY,
        Kind::EC2_NODE_CLASS,
        Kind::AUTO_MODE_NODE_CLASS,
        Kind::PROVISIONER,
        Kind::AWS_NODE_TEMPLATE,
        Kind::CLUSTER_TRIGGER_AUTHENTICATION,
        Kind::DEVICE_CLASS,
        Kind::VALIDATING_WEBHOOK_CONFIGURATION,
        Kind::MUTATING_WEBHOOK_CONFIGURATION,
    ],
    fix: Some(Safety::Safe),
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("cluster_scoped_namespace.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.path(&["metadata", "namespace"]);
    // A template engine may set it for namespaced and cluster-scoped objects alike.
    if !namespace.is_set() || namespace.is_unknown() || namespace.text() == Some("") {
        return None;
    }
    let kind = object.kind();
    ctx.report(
        &namespace,
        format!("{} is cluster-scoped: the API server ignores `metadata.namespace`", with_article(kind)),
    )
    .help("remove `metadata.namespace`")
    .fix(Fix::new("remove the namespace", Safety::Safe).remove(&namespace));
    None
}
