//! A label key is used where Karpenter does not allow it.
//!
//! # Why
//! The labels under `karpenter.sh` and `karpenter.k8s.aws` belong to Karpenter. Only the documented ones can
//! be required, and some came with a later version or are allowed only at some places. In NodePools,
//! NodeClaims and NodeOverlays the API server rejects the others; what it accepts the controller rejects, and
//! the pool is never Ready. A pod that selects such a label is ignored, with an event and no node. So is one
//! whose required affinity leaves out hosts by `kubernetes.io/hostname`. A preference for nodes without such a
//! label gets into the NodeClaims, and the API server rejects each of them.
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
use crate::catalog::HOSTNAME;
use crate::fit::label_of_other_nodes;
use crate::karpenter::labels::key::{
    KeyLocation, KeyRejection, KeyRejectionReason, RejectedBy, rejection, suggest_key,
};
use crate::karpenter::requirement::is_refused_in_claims;
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-key-restricted",
    kinds: &KINDS_AND_WORKLOADS,
    reads: &[Kind::NODE_POOL],
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
            excluded_hosts(&template, ctx);
            refused_preference(&template, ctx);
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
    let Some(refusal) = refusal else { return };
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
    if matches!(key, HOSTNAME | "karpenter.sh/provisioner-name") {
        return;
    }
    let Some(refusal) = rejection(key, KeyLocation::Pod, ctx.platform().karpenter, true) else { return };
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

/// The operator of an expression that nodes without the label meet.
fn is_absent(expression: &Node<'_>) -> bool {
    matches!(expression.get("operator").text(), Some("NotIn" | "DoesNotExist"))
}

/// Reports a required affinity that leaves out hosts, such as those that are drained. Karpenter ignores the pod whatever the
/// operator is. One that names a host to be on expects an existing node.
fn excluded_hosts(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let affinity = template.spec.path(&["affinity", "nodeAffinity"]);
    let terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution").get("nodeSelectorTerms");
    let by_host: Vec<Node<'_>> = terms
        .items()
        .flat_map(|term| term.get("matchExpressions").items())
        .filter(|expression| expression.get("key").text() == Some(HOSTNAME))
        .collect();
    let first = by_host.first()?;
    let is_pinned = !by_host.iter().all(is_absent) || template.spec.get("nodeName").is_set();
    if is_pinned || affinity.has_unknown() || label_of_other_nodes(template).is_some() {
        return None;
    }
    let pool = ctx.cluster().of(Kind::NODE_POOL).find(|pool| ctx.pairs_with(pool))?;
    let message =
        format!("Karpenter ignores pods whose required affinity names `{HOSTNAME}`, whatever the operator");
    ctx.report(&first.get("key"), message)
        .severity(Severity::Warning)
        .rejected_by(Some(Authority::Karpenter))
        .help("make it a preference, or cordon the node: no NodePool starts a node for the pod")
        .related(pool, &pool.path(&["metadata", "name"]), "Karpenter starts nodes here");
    None
}

/// Reports the preference that Karpenter tries first, if every pool meets it and NodeClaims may not name its key.
fn refused_preference(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let affinity = template.spec.path(&["affinity", "nodeAffinity"]);
    let preferences = affinity.get("preferredDuringSchedulingIgnoredDuringExecution");
    if preferences.has_unknown() || label_of_other_nodes(template).is_some() {
        return None;
    }
    let weight = |preference: &Node<'_>| preference.get("weight").int().unwrap_or(0);
    // The first of those with the highest weight.
    let first = preferences.items().collect::<Vec<_>>().into_iter().rev().max_by_key(weight)?;
    let expressions: Vec<Node<'_>> = first.path(&["preference", "matchExpressions"]).items().collect();
    if !expressions.iter().all(is_absent) {
        return None;
    }
    let keys = expressions.iter().map(|expression| expression.get("key"));
    let key = keys.into_iter().find(|key| key.text().is_some_and(is_refused_in_claims))?;
    let name = ellipsize(key.text()?).into_owned();
    ctx.report(
        &key,
        format!("a preference for nodes without `{name}`: the API server rejects the NodeClaims of the pod"),
    )
    .severity(Severity::Warning)
    .help("remove it; to keep pods off Karpenter's nodes, require `karpenter.sh/nodepool` to be absent");
    None
}
