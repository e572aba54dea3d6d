//! A label key is used where Karpenter does not allow it.
//!
//! # Why
//! The labels under `karpenter.sh` and `karpenter.k8s.aws` belong to Karpenter. Only the documented ones can
//! be required, and some came with a later version or are allowed only at some places. In NodePools,
//! NodeClaims and NodeOverlays the API server rejects the others; what it accepts the controller rejects, and
//! the pool is never Ready. A pod that selects such a label is ignored, with an event and no node. So is one
//! whose required affinity leaves out hosts, by `kubernetes.io/hostname` or by `matchFields`, or names EC2
//! instances alone, which nothing starts again once they are gone; before 1.5 a
//! preference does so too. A preference for nodes without such a label gets into the NodeClaims, and the API
//! server rejects each of them; those without `karpenter.sh/registered` or `karpenter.sh/initialized` only
//! before 1.14. A preference for nodes without `karpenter.sh/nodepool` is taken for a requirement if no other
//! has a higher weight: the pod is ignored.
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
//! - <https://github.com/kubernetes-sigs/karpenter/issues/1265>

use super::is_too_long;
use crate::catalog::HOSTNAME;
use crate::fit::label_of_other_nodes;
use crate::karpenter::installation::is_controller;
use crate::karpenter::labels::PROVISIONER_NAME;
use crate::karpenter::labels::key::{
    KeyLocation, KeyRejection, KeyRejectionReason, RejectedBy, rejection, suggest_key,
};
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::requirement::{is_refused_in_claims, simulates_lifecycle};
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;
use crate::workload::template::PREFERRED_AFFINITY;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-key-restricted",
    kinds: KINDS_AND_WORKLOADS,
    reads: &[Kind::NODE_POOL],
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    fix: Some(Safety::Unsafe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("requirement_key_restricted.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(list) = ctx.requirements() {
        for item in list.items() {
            let node = item.node.get("key");
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
            pinned_host(object, &template, ctx);
            excluded_hosts(&template, ctx);
            refused_preference(&template, ctx);
        }
    }
    None
}

/// A key of a NodePool, NodeClaim or NodeOverlay. `node` is the text of a requirement's key, or the value of
/// a label.
fn inspect(node: &Node<'_>, key: &str, location: KeyLocation, provider: Provider, ctx: &mut Context<'_>) {
    let version = provider.karpenter_version(ctx.platform());
    let refusal = rejection(key, location, version, provider == Provider::Aws);
    let label = location == KeyLocation::TemplateLabel;
    let Some(refusal) = refusal.filter(|_| !is_placeholder(key)) else { return };
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
    if matches!(key, HOSTNAME | PROVISIONER_NAME) {
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

/// Reports pods of a controller that select one EC2 instance by its host name: no instance after it has that name, and Karpenter
/// ignores the pods. A host with a name of its own is kept, and a Pod or a Job may be for what runs there now.
fn pinned_host(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::POD) || object.is(Kind::JOB) || object.may_lack_fields() {
        return None;
    }
    let host = instance_of(template)?;
    let name = host.text()?;
    let pool = ctx.cluster().of(Kind::NODE_POOL).find(|pool| ctx.pairs_with(pool))?;
    let message = format!("`{}` is one EC2 instance: without it the pods stay Pending", ellipsize(name));
    let is_bound = host.pointer() == template.spec.get("nodeName").pointer();
    let help = if is_bound {
        "select a label that the pool gives its nodes: no scheduler and no Karpenter looks at pods with `nodeName`"
    } else {
        "select a label that the pool gives its nodes: Karpenter ignores pods that select a host"
    };
    ctx.report(&host, message)
        .severity(Severity::Warning)
        .rejected_by(Some(Authority::Karpenter).filter(|_| !is_bound))
        .help(help)
        .related(pool, &pool.path(&["metadata", "name"]), "Karpenter starts nodes here");
    None
}

/// The name of the EC2 instance on which alone the pods of a template run. Of several terms of an affinity each must
/// name one.
fn instance_of<'a>(template: &Template<'a>) -> Option<Node<'a>> {
    let spec = &template.spec;
    let written = [spec.get("nodeName"), spec.path(&["nodeSelector", HOSTNAME])];
    if let Some(host) = written.into_iter().find(Node::is_set) {
        return host.text().is_some_and(is_of_instance).then_some(host);
    }
    let of_term = |term: Node<'a>| {
        let labels = term.get("matchExpressions").items();
        let labels = labels.filter(|one| one.get("key").text() == Some(HOSTNAME));
        let fields = term.get("matchFields").items();
        let mut named = labels.chain(fields).filter(|one| one.get("operator").text() == Some("In"));
        let values: Vec<Node<'a>> = named.next()?.get("values").items().collect();
        let are_instances = values.iter().all(|value| value.text().is_some_and(is_of_instance));
        values.into_iter().next().filter(|_| are_instances)
    };
    let terms: Option<Vec<Node<'a>>> = template.required_terms().items().map(of_term).collect();
    terms?.into_iter().next()
}

/// Whether a name is the private DNS name of an EC2 instance: of its address, or of its id.
fn is_of_instance(name: &str) -> bool {
    let by_address =
        name.strip_prefix("ip-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let by_id =
        name.strip_prefix("i-0").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    (by_address || by_id) && (name.ends_with(".compute.internal") || name.ends_with(".ec2.internal"))
}

/// The operator of an expression that nodes without the label meet.
fn is_absent(expression: &Node<'_>) -> bool {
    matches!(expression.get("operator").text(), Some("NotIn" | "DoesNotExist"))
}

/// Whether Karpenter rejects a pod for a preference as well: `validateAffinity` of its provisioner reads them until 1.4.
fn checks_preferences(ctx: &Context<'_>) -> bool {
    ctx.platform().karpenter < Version::new(1, 5)
}

/// Reports a node affinity that leaves out hosts, such as those that are drained. Karpenter ignores the pod whatever the
/// operator is, and for any `matchFields`. One that names a host to be on expects an existing node.
fn excluded_hosts(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let affinity = template.spec.path(&["affinity", "nodeAffinity"]);
    let required: Vec<Node<'_>> = template.required_terms().items().collect();
    let by_host = hosts(&required);
    let is_pinned = !by_host.iter().all(is_absent) || template.spec.get("nodeName").is_set();
    if is_pinned || affinity.has_unknown() || label_of_other_nodes(template).is_some() {
        return None;
    }
    let reads_preferences = checks_preferences(ctx);
    let preferences = affinity.get(PREFERRED_AFFINITY);
    let preferred: Vec<Node<'_>> = preferences.items().map(|one| one.get("preference")).collect();
    let (first, is_required) = match by_host.into_iter().next() {
        Some(first) => (first, true),
        None => (hosts(&preferred).into_iter().next().filter(|_| reads_preferences)?, false),
    };
    let pool = ctx.cluster().of(Kind::NODE_POOL).find(|pool| ctx.pairs_with(pool))?;
    let kind = if is_required { "required affinity" } else { "preference" };
    let what = if first.get("key").text() == Some(HOSTNAME) {
        format!("names `{HOSTNAME}`, whatever the operator")
    } else {
        "has `matchFields`, which it does not support".to_owned()
    };
    let until = if is_required { "" } else { " before 1.5" };
    let help = match (is_required, reads_preferences) {
        (true, false) => "make it a preference, or cordon the node: no NodePool starts a node for the pod",
        _ => {
            "remove it and cordon the node, or leave it out by a label of your own: no NodePool starts a node for the pod"
        }
    };
    ctx.report(&first.get("key"), format!("Karpenter{until} ignores pods whose {kind} {what}"))
        .severity(Severity::Warning)
        .rejected_by(Some(Authority::Karpenter))
        .help(help)
        .related(pool, &pool.path(&["metadata", "name"]), "Karpenter starts nodes here");
    None
}

/// What the terms of an affinity say about the names of hosts: by the label, and in fields.
fn hosts<'a>(terms: &[Node<'a>]) -> Vec<Node<'a>> {
    let labels = terms.iter().flat_map(|term| term.get("matchExpressions").items());
    let fields = terms.iter().flat_map(|term| term.get("matchFields").items());
    labels.filter(|one| one.get("key").text() == Some(HOSTNAME)).chain(fields).collect()
}

/// Reports the preference that Karpenter tries first, if every pool meets it and NodeClaims may not name its key, or if it is for
/// nodes of no NodePool: `validateKarpenterManagedLabelCanExist` takes it for a requirement (Karpenter 0.37 to 1.14).
fn refused_preference(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let affinity = template.spec.path(&["affinity", "nodeAffinity"]);
    let preferences = affinity.get(PREFERRED_AFFINITY);
    if preferences.has_unknown() || label_of_other_nodes(template).is_some() {
        return None;
    }
    let weight = |preference: &Node<'_>| preference.get("weight").int().unwrap_or(0);
    // The first of those with the highest weight.
    let first = preferences.items().collect::<Vec<_>>().into_iter().rev().max_by_key(weight)?;
    let expressions: Vec<Node<'_>> = first.path(&["preference", "matchExpressions"]).items().collect();
    if let Some(expression) = expressions.iter().find(|expression| is_off_pools(expression)) {
        return off_pools(template, expression, ctx);
    }
    if !expressions.iter().all(is_absent) {
        return None;
    }
    let keys = expressions.iter().map(|expression| expression.get("key"));
    let simulates_lifecycle = simulates_lifecycle(ctx.platform().karpenter);
    let is_refused = |key: &Node<'_>| Some(is_refused_in_claims(key.text()?, simulates_lifecycle));
    let key = keys.into_iter().find(|key| is_refused(key) == Some(true))?;
    let name = ellipsize(key.text()?).into_owned();
    ctx.report(
        &key,
        format!("a preference for nodes without `{name}`: the API server rejects the NodeClaims of the pod"),
    )
    .severity(Severity::Warning)
    .help("remove it; to keep pods off Karpenter's nodes, require `karpenter.sh/nodepool` to be absent");
    None
}

/// Whether an expression is for nodes that no NodePool starts.
fn is_off_pools(expression: &Node<'_>) -> bool {
    expression.get("key").text() == Some(NODEPOOL_LABEL)
        && expression.get("operator").text() == Some("DoesNotExist")
}

/// Reports a preference for nodes of no NodePool, where nothing required says that. Karpenter's own pods are kept off its nodes.
fn off_pools(template: &Template<'_>, expression: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms = template.required_terms();
    let is_meant =
        terms.items().any(|term| term.get("matchExpressions").items().any(|one| is_off_pools(&one)));
    if is_meant || terms.has_unknown() || template.containers().any(|one| is_controller(&one)) {
        return None;
    }
    let pool = ctx.cluster().of(Kind::NODE_POOL).find(|pool| ctx.pairs_with(pool))?;
    let message = format!(
        "Karpenter takes this preference for a requirement: it ignores pods that prefer nodes without `{NODEPOOL_LABEL}`"
    );
    ctx.report(&expression.get("key"), message)
        .severity(Severity::Warning)
        .rejected_by(Some(Authority::Karpenter))
        .help("prefer a label of the other nodes, such as `eks.amazonaws.com/nodegroup`; a requirement keeps pods off the pools")
        .related(pool, &pool.path(&["metadata", "name"]), "no node of it is started for these pods");
    None
}
