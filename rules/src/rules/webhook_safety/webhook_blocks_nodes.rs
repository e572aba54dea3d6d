//! A webhook that does not answer keeps nodes from joining.
//!
//! # Why
//! With `failurePolicy: Fail`, the default, a request is rejected while the webhook is down. If it
//! is asked about nodes, NodeClaims, certificate requests, leases or events, no node can join or
//! stay while it is away, and where its own pods need a new node, it never comes back. The same
//! holds for pods of `kube-system`: the network plugin of a fresh node cannot start. Where the input
//! shows in which other namespace Karpenter runs, pods that cannot be created there are a warning:
//! Karpenter cannot restart.
//!
//! # Fix
//! Set `failurePolicy: Ignore`, or leave these resources out of `rules`; for pods, leave out
//! `kube-system` and Karpenter's namespace with a `namespaceSelector` on
//! `kubernetes.io/metadata.name`. A webhook with `matchConditions` or an `objectSelector` is taken
//! to know what it does, and so is one that selects namespaces by labels of its own. A `NotIn` of `namespace`
//! or `metadata.name` leaves out nothing: no namespace has such a label unless somebody adds it.
//! `namespaces` lists more namespaces whose pods must start.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: admissionregistration.k8s.io/v1
//! kind: ValidatingWebhookConfiguration
//! metadata: {name: policy}
//! webhooks:
//!   - name: policy.example.com
//!     failurePolicy: Fail # <-
//!     timeoutSeconds: 5
//!     sideEffects: None
//!     admissionReviewVersions: [v1]
//!     clientConfig:
//!       service: {namespace: policy, name: policy, path: /validate}
//!     rules:
//!       - apiGroups: ["*"]
//!         apiVersions: ["*"]
//!         operations: [CREATE, UPDATE]
//!         resources: ["*"]
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: admissionregistration.k8s.io/v1
//! kind: ValidatingWebhookConfiguration
//! metadata: {name: policy}
//! webhooks:
//!   - name: policy.example.com
//!     failurePolicy: Fail
//!     timeoutSeconds: 5
//!     sideEffects: None
//!     admissionReviewVersions: [v1]
//!     clientConfig:
//!       service: {namespace: policy, name: policy, path: /validate}
//!     namespaceSelector:
//!       matchExpressions:
//!         - key: kubernetes.io/metadata.name
//!           operator: NotIn
//!           values: [kube-system, karpenter, policy]
//!     rules:
//!       - apiGroups: [apps]
//!         apiVersions: [v1]
//!         operations: [CREATE, UPDATE]
//!         resources: [deployments]
//!       - apiGroups: [""]
//!         apiVersions: [v1]
//!         operations: [CREATE]
//!         resources: [pods]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/>
//! - <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>

use crate::rules::prelude::*;
use crate::workload::admission_webhook::{KINDS, NAMESPACE_NAME, NODE_RESOURCES, PODS, Resource, Webhook};

pub(crate) static RULE: Rule = Rule {
    id: "webhook-blocks-nodes",
    kinds: &KINDS,
    reads: &[Kind::DEPLOYMENT, Kind::NAMESPACE],
    params: &[Param {
        name: "namespaces",
        description: "namespaces, beside kube-system and Karpenter's, whose pods must start while a webhook is down",
        default: ParamDefault::Strings(&[]),
    }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("webhook_blocks_nodes.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::WebhookSafety)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A patch may add the selector.
    if object.is_patched_by_kustomize() {
        return None;
    }
    let mut namespaces: Vec<(String, Option<&Object>)> =
        ctx.strings("namespaces").into_iter().map(|namespace| (namespace, None)).collect();
    let deployments = ctx.cluster().satisfying::<KarpenterDeployments>();
    let near = deployments.iter().map(|ObjectKey(deployment)| deployment).filter(|d| ctx.pairs_with(d));
    namespaces.extend(near.filter_map(|d| Some((d.namespace()?.to_owned(), Some(d)))));
    for webhook in Webhook::of(object) {
        if !webhook.fails_closed(object.is_partial()) || is_karpenters(&webhook) {
            continue;
        }
        let mut blocked: Vec<&str> = NODE_RESOURCES
            .iter()
            .filter(|resource| webhook.blocks(**resource, &[]))
            .map(|resource| resource.name)
            .collect();
        blocked.dedup();
        if blocked.is_empty() && excludes_nothing(&webhook, ctx).is_some() {
            continue;
        }
        let policy = webhook.get("failurePolicy");
        let name = webhook.display_name();
        let own = |(namespace, _): &&(String, _)| webhook.blocks(PODS, std::slice::from_ref(namespace));
        let mut karpenter = None;
        let (message, help, severity) = if let [first, more @ ..] = blocked.as_slice() {
            let what = match more.len() {
                0 => format!("`{first}`"),
                n => format!("`{first}` and {n} more"),
            };
            (
                format!("while {name} is down, {what} cannot be written: no node joins"),
                "set `failurePolicy: Ignore`, or leave what nodes need out of `rules`",
                Severity::Error,
            )
        } else if webhook.blocks(PODS, &[]) {
            (
                format!("while {name} is down, no pod can be created in namespace `kube-system`"),
                "set `failurePolicy: Ignore`, or leave the namespace out with a `namespaceSelector`",
                Severity::Error,
            )
        } else if let Some((namespace, deployment)) = namespaces.iter().find(own) {
            karpenter = *deployment;
            (
                format!("while {name} is down, no pod can be created in namespace `{namespace}`"),
                "set `failurePolicy: Ignore`, or leave the namespace out with a `namespaceSelector`",
                Severity::Warning,
            )
        } else {
            continue;
        };
        let finding = ctx.report(&policy, message).severity(severity).help(help).fix(
            Fix::new("write `failurePolicy: Ignore`; check that nothing relies on its veto", Safety::Unsafe)
                .set(&policy, json!("Ignore")),
        );
        if let Some(karpenter) = karpenter {
            finding.related(karpenter, &karpenter.path(&["metadata", "namespace"]), "Karpenter runs here");
        }
    }
    None
}

/// Reports a selector that is to leave out the namespaces of the cluster and leaves out none.
fn excludes_nothing(webhook: &Webhook<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let term = webhook.excludes_by_lookalike()?;
    let key = term.get("key");
    let label = key.text()?;
    let is_namespaced = |resource: &&Resource| !resource.namespaces.is_empty();
    let intercepts = webhook.intercepts(PODS)
        || NODE_RESOURCES.iter().filter(is_namespaced).any(|resource| webhook.intercepts(*resource));
    // Somebody may give namespaces the label.
    let has_label = |namespace: &Object| {
        let labels = namespace.path(&["metadata", "labels"]);
        labels.get(label).is_set() || labels.has_unknown()
    };
    if webhook.has_unevaluated_conditions() || !intercepts || ctx.cluster().of(Kind::NAMESPACE).any(has_label)
    {
        return None;
    }
    let name = webhook.display_name();
    let message = format!("no namespace has a label `{label}` by itself: {name} is asked about all of them");
    ctx.report(&key, message)
        .severity(Severity::Warning)
        .help(format!("write `{NAMESPACE_NAME}`, the label that every namespace has"))
        .fix(Fix::unsafe_(format!("select by `{NAMESPACE_NAME}`")).set(&key, json!(NAMESPACE_NAME)));
    Some(())
}

struct KarpenterDeployments;

impl Predicate for KarpenterDeployments {
    const SLOT: QuerySlot = QuerySlot::KarpenterDeployments;
    const KINDS: &'static [Kind] = &[Kind::DEPLOYMENT];

    fn is_satisfied(deployment: &Object) -> bool {
        let label = deployment.path(&["metadata", "labels", "app.kubernetes.io/name"]);
        deployment.name() == "karpenter" || label.text() == Some("karpenter")
    }
}

/// Karpenter's own webhook: if it is not available, Karpenter starts no nodes anyway.
fn is_karpenters(webhook: &Webhook<'_>) -> bool {
    let service = webhook.get("clientConfig").get("service");
    service.get("name").text().is_some_and(|name| name == "karpenter" || name.starts_with("karpenter-"))
}
