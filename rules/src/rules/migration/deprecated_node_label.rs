//! A pod selects nodes by a deprecated label.
//!
//! # Why
//! Kubernetes renamed the labels of `beta.kubernetes.io` and `failure-domain.beta.kubernetes.io`.
//! Karpenter reads the old names as the stable ones, so they still work, but a later Kubernetes
//! version may stop setting them on nodes.
//!
//! # Fix
//! Write the stable name.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: report}
//!  spec:
//! -  nodeSelector: {beta.kubernetes.io/arch: arm64} # <-
//! +  nodeSelector: {kubernetes.io/arch: arm64}
//!    containers:
//!      - name: main
//!        image: example.com/report:1.4.0
//!        resources: {requests: {cpu: 500m, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/labels-annotations-taints/#beta-kubernetes-io-arch>
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>

use super::rename_label::report_rename;
use crate::karpenter::requirement::normalise;
use crate::rules::prelude::*;
use crate::workload::node_labels::LabelReference;

pub(crate) static RULE: Rule = Rule {
    id: "deprecated-node-label",
    kinds: kinds![[Kind::NODE_POOL], WORKLOAD_KINDS],
    fix: Some(Safety::Safe),
    tag: Some(Tag::Deprecated),
    docs: docs(include_str!("deprecated_node_label.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Migration)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::NODE_POOL) {
        for requirement in object.path(&["spec", "template", "spec", "requirements"]).items() {
            let node = requirement.get("key");
            let Some(key) = node.text() else { continue };
            let usage = LabelUse::Required;
            rename(&LabelReference { key, usage, node, selector: None, values: Vec::new() }, ctx);
        }
    }
    for mention in templates(object).iter().flat_map(referenced_labels) {
        rename(&mention, ctx);
    }
    None
}

fn rename(mention: &LabelReference<'_>, ctx: &mut Context<'_>) {
    let key = mention.key;
    let stable = normalise(key);
    // Karpenter treats the zone label of the EBS driver as the zone, but it is not a deprecated name of it.
    if stable != key && key.contains("beta.kubernetes.io/") {
        let fix = Fix::safe(format!("write `{stable}`"));
        let message = format!("`{key}` is the old name of `{stable}`");
        report_rename(mention, stable, message, Some(fix), ctx).help(format!("write `{stable}`"));
    }
}
