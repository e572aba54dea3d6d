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

use super::serving::is_owned;
use crate::cluster::together::routes;
use crate::rules::prelude::*;
use crate::workload::selector;
use crate::workload::template::{WORKLOAD_KINDS, workload_kind};

pub(crate) static RULE: Rule = Rule {
    id: "service-selects-nothing",
    kinds: &[Kind::SERVICE],
    reads: WORKLOAD_KINDS,
    reports_absence: true,
    docs: docs(include_str!("service_selects_nothing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Labels by which a workload is told from others.
const NAMES: [&str; 6] =
    ["app", "name", "k8s-app", "app.kubernetes.io/name", "app.kubernetes.io/component", "component"];

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
    let wanted = node.entries();
    // A domain of its own is mostly that of an operator, which sets the label.
    let foreign = |key: &str| key.contains('/') && !key.starts_with("app.kubernetes.io/");
    let operator = |value: &Node<'_>| value.text().is_none_or(|text| text.contains("operator"));
    if wanted.is_empty() || wanted.iter().any(|(key, value)| foreign(key) || operator(value) || changes(key))
    {
        return None;
    }
    let views = ctx.index().views();
    let (found, unknown) = views.selected_by_service(object);
    if !found.is_empty() || unknown {
        return None;
    }
    if views.has_experiment(namespace) {
        return None;
    }
    if let Some(workload) = in_other_namespace(&wanted, ctx) {
        let there = workload.namespace_or_default().to_owned();
        let place = object.path(&["metadata", "namespace"]);
        ctx.report(
            &place,
            format!(
                "Service `{}` is in namespace `{namespace}`, and the pods that it selects are in `{there}`",
                object.display_name()
            ),
        )
        .help(format!("put it into namespace `{there}`: a Service selects pods of its own namespace"))
        .related(workload, &workload.path(&["metadata", "namespace"]), "the pods");
        return None;
    }
    let meant = meant(object, &wanted, ctx);
    if let Some(workload) = meant
        && !others_make_pods(object, ctx)
    {
        let templates = templates(workload);
        let labels = templates.first()?.labels();
        let differs = |(key, value): &&(&str, Node<'_>)| {
            labels.iter().find(|(label, _)| label == key).is_none_or(|(_, have)| have.text() != value.text())
        };
        let (key, value) = wanted.iter().find(differs)?;
        let whose = format!("{} `{}`", workload.kind(), workload.display_name());
        let have = labels.iter().find(|(label, _)| label == key).and_then(|(_, have)| have.text());
        let value_text = value.text().unwrap_or_default();
        let message = match have {
            Some(have) => {
                format!("selects `{key}: {value_text}`, but the pods of {whose} have `{key}: {have}`")
            }
            None => format!("selects `{key}: {value_text}`, but the pods of {whose} have no label `{key}`"),
        };
        let place = templates.first()?.metadata.get("labels");
        ctx.report(value, message)
            .help("write the labels of the pod template into the selector: no other pods fit it")
            .related(workload, &place, "the labels of its pods");
        return None;
    }
    if ctx.index().is_complete() && meant.is_none() && !others_make_pods(object, ctx) {
        let message = format!(
            "no workload of namespace `{namespace}` has pods that Service `{}` selects",
            object.display_name()
        );
        ctx.report(&node, message).help("compare it with the labels of the pod templates");
    }
    None
}

/// Whether a kustomization adds labels to selectors and pods.
fn has_added_labels(object: &Object) -> bool {
    object.origin().is_some_and(|origin| origin.source.sets_labels())
}

fn changes(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| CHANGING.contains(&word))
}

/// What names of workloads and Services end in beside the name that they share.
const SUFFIXES: [&str; 7] =
    ["-service", "-svc", "-headless", "-lb", "-deployment", "-deploy", "-statefulset"];

/// A name without such an end.
fn stem(name: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The first of the workloads that a Service is made for ([`is_meant`]). Only those are looked at that share a name or a
/// label with it.
fn meant<'i>(service: &Object, wanted: &[(&str, Node<'_>)], ctx: &Context<'i>) -> Option<&'i Object> {
    let index = ctx.index();
    let namespace = service.namespace_or_default();
    let mut near: Vec<&'i Object> = Vec::new();
    for suffix in SUFFIXES.iter().chain(&[""]) {
        let name = format!("{}{suffix}", stem(service.name()));
        let named = WORKLOAD_KINDS.iter().map(|kind| index.all(kind.group, kind.kind, namespace, &name));
        near.extend(named.flatten());
    }
    for (key, value) in wanted.iter().filter(|(key, _)| NAMES.contains(key)) {
        if let Some(value) = value.text() {
            near.extend(index.views().with_pod_label(namespace, key, value));
        }
    }
    near.retain(|workload| is_meant(service, workload, wanted, ctx));
    let rank = |workload: &Object| WORKLOAD_KINDS.iter().position(|kind| workload.is(*kind));
    near.into_iter().min_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.sort_key().cmp(&b.sort_key())))
}

/// Whether a Service is made for a workload that is applied with it: by its name, or by a label that names both.
fn is_meant(service: &Object, workload: &Object, wanted: &[(&str, Node<'_>)], ctx: &Context<'_>) -> bool {
    let unclear = workload.is_partial()
        || is_owned(workload)
        || workload.is_patched_by_kustomize()
        || has_added_labels(workload)
        || service.namespace() != workload.namespace()
        || !ctx.index().surely_pairs(service, workload);
    let templates = templates(workload);
    let runs = workload_kind(workload).is_some_and(|row| !row.replicas.is_empty());
    let ([template], true, false) = (templates.as_slice(), runs, unclear) else {
        return false;
    };
    let labels = template.labels();
    if labels.is_empty() || template.metadata.get("labels").has_unknown() {
        return false;
    }
    let shares = |(key, value): &(&str, Node<'_>)| {
        NAMES.contains(key)
            && labels
                .iter()
                .any(|(label, have)| label == key && have.text().is_some() && have.text() == value.text())
    };
    stem(service.name()) == stem(workload.name()) || wanted.iter().any(shares)
}

/// A workload of the same name in another namespace whose pods the Service would select there.
fn in_other_namespace<'i>(wanted: &[(&str, Node<'_>)], ctx: &Context<'i>) -> Option<&'i Object> {
    let service = ctx.object();
    let sets_namespace = |object: &Object| routes(object).iter().any(|route| route.namespace.is_some());
    let own = service.namespace()?;
    let kinds = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET];
    let named = kinds.iter().flat_map(|kind| {
        ctx.index().named(kind.group, kind.kind, service.name()).flatten().collect::<Vec<&'i Object>>()
    });
    let found = named.into_iter().find(|workload| {
        let explicit = workload.namespace().is_some_and(|namespace| namespace != own);
        let known = !workload.is_namespace_unknown() && !workload.is_partial();
        explicit
            && known
            && ctx.index().surely_pairs(service, workload)
            && templates(workload).iter().any(|t| selector::includes(wanted, &t.labels()) == Some(true))
    });
    found.filter(|workload| !sets_namespace(service) && !sets_namespace(workload))
}

/// Whether the input has an object near the Service from which an operator may make pods.
fn others_make_pods(service: &Object, ctx: &Context<'_>) -> bool {
    let namespace = service.namespace_or_default();
    let makers = ctx.index().views().pod_makers();
    makers.0.iter().any(|other| {
        let id = other.id();
        (id.namespace_or_default() == namespace || id.namespace().is_none())
            && ctx.index().surely_pairs(service, other)
    })
}
