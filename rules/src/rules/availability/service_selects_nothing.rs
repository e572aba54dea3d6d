//! A Service selects no pod.
//!
//! # Why
//! A Service whose selector fits no pod has no endpoints: each connection to it is refused or times
//! out, and nothing reports an error. A label that was renamed on one side only, or a Service in
//! another namespace than its pods, looks like this. Without `--complete` it is reported only where the
//! Deployment that is meant is in the same file or kustomization, by its name or by a label in common.
//! Labels that operators, controllers or the pods themselves set are not compared.
//!
//! # Fix
//! Write the labels of the pod template into the selector, or put the Service into the namespace of the
//! pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: llm, namespace: models}
//!  spec:
//!    selector:
//! -    app: llm-server # <-
//! +    app: llm
//!    ports: [{port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: llm, namespace: models}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: llm}}
//!    template:
//!      metadata: {labels: {app: llm}}
//!      spec:
//!        containers:
//!          - name: web
//!            image: example.com/llm-gateway:1.4.0
//!            resources: {requests: {cpu: 100m, memory: 128Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service>
//! - <https://kubernetes.io/docs/tasks/debug/debug-application/debug-service/>

use crate::rules::availability::intended_workload::{
    has_added_labels, intended_workload, workload_elsewhere,
};
use crate::rules::availability::serving::is_owned;
use crate::rules::prelude::*;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "service-selects-nothing",
    kinds: &[Kind::SERVICE],
    reads: kinds![[Kind::SERVICE], WORKLOAD_KINDS],
    reports_absence: true,
    docs: docs(include_str!("service_selects_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Words in keys of labels that change while pods run, or tell versions apart of which only some may be applied.
const CHANGING: [&str; 22] = [
    "role",
    "leader",
    "master",
    "primary",
    "replica",
    "active",
    "standby",
    "sealed",
    "initialized",
    "state",
    "status",
    "version",
    "slot",
    "color",
    "colour",
    "canary",
    "track",
    "stable",
    "revision",
    "hash",
    "index",
    "pod",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let node = spec.get("selector");
    let namespace = object.namespace_or_default();
    let unclear = object.is_partial()
        || is_owned(object)
        || object.is_patched_by_kustomize()
        || has_added_labels(object)
        || spec.has_unknown_key()
        || node.has_unknown()
        || object.is_namespace_unknown();
    if unclear
        || !node.is_mapping()
        || spec.get("type").text() == Some("ExternalName")
        || namespace == "kube-system"
    {
        return None;
    }
    let selector = node.entries();
    // A label with a custom domain is usually set by an operator.
    let foreign = |key: &str| key.contains('/') && !key.starts_with("app.kubernetes.io/");
    let operator = |value: &Node<'_>| value.text().is_none_or(|text| text.contains("operator"));
    let may_be_set_later = |key: &str, value: &Node<'_>| foreign(key) || operator(value) || changes(key);
    if selector.is_empty() || selector.iter().any(|(key, value)| may_be_set_later(key, value)) {
        return None;
    }
    let views = ctx.cluster().views();
    let (found, unknown) = views.selected_by_service(object);
    if !found.is_empty() || unknown || has_unread_near(object, ctx.cluster(), WORKLOAD_KINDS) {
        return None;
    }
    if views.has_experiment(namespace) {
        return None;
    }
    if let Some(workload) =
        workload_elsewhere(object, &[object.name()], |labels| selector::includes(&selector, labels), ctx)
    {
        report_other_namespace(object, workload, ctx);
        return None;
    }
    let intended = intended_workload(object, &selector, ctx).or_else(|| of_sibling(object, &selector, ctx));
    match intended {
        Some(workload) if !others_make_pods(object, ctx) => report_difference(&selector, workload, ctx),
        None if ctx.cluster().is_complete() && !others_make_pods(object, ctx) => {
            let message = format!(
                "no workload of namespace `{namespace}` has pods that Service `{}` selects",
                object.display_name()
            );
            ctx.report(&node, message).help("compare it with the labels of the pod templates");
            None
        }
        _ => None,
    }
}

/// The workload that another Service with the same selector is meant for, which is applied with this one.
fn of_sibling<'i>(object: &Object, selector: &[(&str, Node<'_>)], ctx: &Context<'i>) -> Option<&'i Object> {
    let cluster = ctx.cluster();
    let is_same = |other: &[(&str, Node<'_>)]| {
        let text = |(key, value): &(&str, Node<'_>)| Some(((*key).to_owned(), value.text()?.to_owned()));
        let texts = |all: &[(&str, Node<'_>)]| all.iter().map(text).collect::<Option<Vec<_>>>();
        texts(other).is_some() && texts(other) == texts(selector)
    };
    let others = cluster.in_namespace(Kind::SERVICE, object.namespace_or_default());
    others.filter(|other| !other.ptr_eq(object) && cluster.surely_pairs(object, other)).find_map(|other| {
        let selector = other.path(&["spec", "selector"]).entries();
        is_same(&selector).then(|| intended_workload(other, &selector, ctx)).flatten()
    })
}

/// Reports a Service whose pods are in another namespace.
fn report_other_namespace(object: &Object, workload: &Object, ctx: &mut Context<'_>) {
    let namespace = object.namespace_or_default();
    let other = workload.namespace_or_default().to_owned();
    let message = format!(
        "Service `{}` is in namespace `{namespace}`, and the pods that it selects are in `{other}`",
        object.display_name()
    );
    ctx.report(&object.path(&["metadata", "namespace"]), message)
        .help(format!("put it into namespace `{other}`: a Service selects pods of its own namespace"))
        .related(workload, &workload.path(&["metadata", "namespace"]), "the pods");
}

/// Reports the first label in which a selector differs from the pods of the workload that it is meant for.
fn report_difference(selector: &[(&str, Node<'_>)], workload: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(workload);
    let labels = templates.first()?.labels();
    let label = |key: &str| labels.iter().find(|(label, _)| *label == key).map(|(_, value)| value);
    // The API server rejects a workload whose own selector misses its pods: which of the labels stay is open.
    let own = workload.path(&["spec", "selector", "matchLabels"]);
    if own.entries().iter().any(|(key, value)| label(key).is_none_or(|label| label.text() != value.text())) {
        return None;
    }
    let differs = |(key, value): &&(&str, Node<'_>)| label(key).is_none_or(|own| own.text() != value.text());
    let (key, value) = selector.iter().find(differs)?;
    let owner = format!("{} `{}`", workload.kind(), workload.display_name());
    let selected = value.text().unwrap_or_default();
    let message = match label(key).and_then(Node::text) {
        Some(own) => format!("selects `{key}: {selected}`, but the pods of {owner} have `{key}: {own}`"),
        None => format!("selects `{key}: {selected}`, but the pods of {owner} have no label `{key}`"),
    };
    let labels = templates.first()?.metadata.get("labels");
    ctx.report(value, message)
        .help("write the labels of the pod template into the selector: no other pods fit it")
        .related(workload, &labels, "the labels of its pods");
    None
}

/// Whether the key of a label suggests that its value changes.
fn changes(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| CHANGING.contains(&word))
}

/// Whether the input has an object, perhaps applied with the Service, from which an operator may create pods.
fn others_make_pods(service: &Object, ctx: &Context<'_>) -> bool {
    let namespace = service.namespace_or_default();
    let makers = ctx.cluster().views().pod_makers();
    makers.0.iter().any(|other| {
        let id = other.id();
        (id.namespace_or_default() == namespace || id.namespace().is_none())
            && ctx.cluster().pairs(service, other)
    })
}
