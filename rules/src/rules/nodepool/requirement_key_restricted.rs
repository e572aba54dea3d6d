//! A label key is used where Karpenter does not allow it.
//!
//! # Why
//! The labels under `karpenter.sh` and `karpenter.k8s.aws` belong to Karpenter. Only the documented ones can
//! be required, and some came with a later version or are allowed only at some places. In NodePools,
//! NodeClaims and NodeOverlays the API server rejects the others; what it accepts the controller rejects, and
//! the pool is never Ready. A pod that selects such a label is ignored, with an event and no node.
//!
//! # Fix
//! Write the key that Karpenter documents; for a label of your own take a domain of your own.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//! -        - {key: karpenter.sh/instance-category, operator: In, values: [c, m, r]} # <-
//! +        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://github.com/aws/karpenter-provider-aws/issues/9553>

use super::is_too_long;
use crate::karpenter::labels::key::{
    KeyLocation, KeyRejection, KeyRejectionReason, RejectedBy, rejection, suggest_key,
};
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-key-restricted",
    kinds: &KINDS_AND_WORKLOADS,
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("requirement_key_restricted.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(list) = RequirementList::of(object) {
        for item in list.items() {
            let node = item.0.get("key");
            if let Some(key) = node.text() {
                inspect(&node, key, list.location, list.provider, ctx);
            }
        }
        if let Some(pool) = NodePool::new(object) {
            for (key, node) in pool.labels().entries() {
                inspect(&node, key, KeyLocation::TemplateLabel, list.provider, ctx);
            }
        }
        return None;
    }
    // Karpenter starts no node for a DaemonSet.
    if !object.is(Kind::DAEMON_SET) {
        for template in templates(object) {
            for (key, node) in template.spec.get("nodeSelector").entries() {
                of_pod(&node, key, true, ctx);
            }
            for (key, node) in super::required_keys(&template).iter().flatten() {
                of_pod(node, key, false, ctx);
            }
        }
    }
    None
}

/// A key of a NodePool, NodeClaim or NodeOverlay. `node` is the text of a requirement's key, or the value of
/// a label.
fn inspect(node: &Node<'_>, key: &str, location: KeyLocation, provider: Provider, ctx: &mut Context<'_>) {
    if crate::tree::placeholder::is_placeholder(key) {
        return;
    }
    let version = provider.karpenter_version(ctx.platform());
    let refusal = rejection(key, location, version, provider == Provider::Aws);
    let label = location == KeyLocation::TemplateLabel;
    let Some(refusal) = refusal else {
        return;
    };
    // Other malformed keys do not match the pattern of the CRD.
    if refusal.reason == KeyRejectionReason::Malformed && !label && !is_too_long(key) {
        return;
    }
    let finding = ctx.report(node, message(key, refusal.reason, label));
    finding.rejected_by(Some(authority(refusal))).help(help(key, refusal.reason));
    if label {
        finding.at_key();
    } else if let Some(word) = suggest_key(key) {
        finding.fix(super::rename_key(node, &word));
    }
}

fn authority(rejection: KeyRejection) -> Authority {
    match rejection.by {
        RejectedBy::Crd => Authority::ApiServer,
        RejectedBy::Controller => Authority::Karpenter,
    }
}

fn message(key: &str, reason: KeyRejectionReason, label: bool) -> String {
    let key = ellipsize(key);
    match reason {
        KeyRejectionReason::Domain(domain) => {
            format!("`{key}` is none of the labels that Karpenter allows under `{domain}`")
        }
        KeyRejectionReason::NodePool => {
            "every node has `karpenter.sh/nodepool` by itself: it cannot be set".to_owned()
        }
        KeyRejectionReason::Hostname if label => {
            "`kubernetes.io/hostname` cannot have the same value on every node".to_owned()
        }
        KeyRejectionReason::Hostname => {
            "`kubernetes.io/hostname` names a node that does not exist yet".to_owned()
        }
        KeyRejectionReason::NodeClass => {
            "`karpenter.k8s.aws/ec2nodeclass` passes the API server, but Karpenter rejects it".to_owned()
        }
        KeyRejectionReason::Since(version) => format!("`{key}` is taken from Karpenter {version} on"),
        KeyRejectionReason::NotInOverlay => format!("`{key}` cannot be asked for in a NodeOverlay"),
        KeyRejectionReason::Kubernetes => {
            format!("`{key}` lies in a domain that Karpenter reserves before 1.9")
        }
        KeyRejectionReason::Malformed => format!("`{key}` is not a label key"),
    }
}

fn help(key: &str, reason: KeyRejectionReason) -> String {
    match reason {
        KeyRejectionReason::Domain(_) => match suggest_key(key) {
            Some(word) => format!("write `{word}`"),
            None => "take a documented key, or a domain of your own for a label of your own".to_owned(),
        },
        KeyRejectionReason::NodePool => {
            "remove it; to choose this pool, pods select `karpenter.sh/nodepool`".to_owned()
        }
        KeyRejectionReason::Hostname => "remove it: Karpenter makes the nodes".to_owned(),
        KeyRejectionReason::NodeClass => {
            "remove it: `nodeClassRef` says which class the nodes have".to_owned()
        }
        KeyRejectionReason::Since(version) => {
            format!("remove it, or set `platform.karpenter` to \"{version}\" once that runs")
        }
        KeyRejectionReason::NotInOverlay => "choose the types by the `instance-…` labels".to_owned(),
        KeyRejectionReason::Kubernetes => {
            "take a domain of your own, or set `platform.karpenter` to what runs".to_owned()
        }
        KeyRejectionReason::Malformed => {
            "a key is a name of at most 63 letters, digits, `-`, `_`, `.`, after `domain/` or not".to_owned()
        }
    }
}

fn of_pod(node: &Node<'_>, key: &str, selector: bool, ctx: &mut Context<'_>) {
    // A pod that selects a host expects an existing node; the deprecated key has another rule.
    if matches!(key, "kubernetes.io/hostname" | "karpenter.sh/provisioner-name") {
        return;
    }
    let Some(refusal) = rejection(key, KeyLocation::Pod, ctx.platform().karpenter, true) else {
        return;
    };
    let finding = ctx.report(node, format!("Karpenter ignores pods that select `{}`", ellipsize(key)));
    finding.rejected_by(Some(authority(refusal)));
    finding.help(match suggest_key(key) {
        Some(word) => format!("select `{word}`"),
        None => "select `karpenter.sh/nodepool`, or a label that the pool gives its nodes".to_owned(),
    });
    if selector {
        finding.at_key();
    } else if let Some(word) = suggest_key(key) {
        let title = format!("write `{word}`; check which nodes the pod then gets");
        finding.fix(Fix::new(title, Safety::Unsafe).set(node, json!(word)));
    }
}
