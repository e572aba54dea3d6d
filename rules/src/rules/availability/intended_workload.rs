//! The workload that a Service is meant for, although its selector does not match the pods.

use crate::kind::Kind;
use crate::lint::context::Context;
use crate::object::Object;
use crate::rules::availability::serving::is_owned;
use crate::tree::node::Node;
use crate::workload::template::{WORKLOAD_KINDS, templates, workload_kind};

pub(super) const NAME_LABELS: [&str; 7] =
    ["app", "name", "run", "k8s-app", "app.kubernetes.io/name", "app.kubernetes.io/component", "component"];

/// Suffixes of the names of workloads and Services of one application.
const SUFFIXES: [&str; 7] =
    ["-service", "-svc", "-headless", "-lb", "-deployment", "-deploy", "-statefulset"];

/// A name without such a suffix.
fn stem(name: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The workload that a Service is meant for, if its selector does not match the pods: the first that is applied with the
/// Service and shares its name or one of [`NAME_LABELS`] with it.
pub(super) fn intended_workload<'i>(
    service: &Object,
    selector: &[(&str, Node<'_>)],
    ctx: &Context<'i>,
) -> Option<&'i Object> {
    let cluster = ctx.cluster();
    let namespace = service.namespace_or_default();
    let mut candidates: Vec<&'i Object> = Vec::new();
    for suffix in SUFFIXES.iter().chain(&[""]) {
        let name = format!("{}{suffix}", stem(service.name()));
        let named = WORKLOAD_KINDS.iter().map(|kind| cluster.all(kind.group, kind.kind, namespace, &name));
        candidates.extend(named.flatten());
    }
    for (key, value) in selector.iter().filter(|(key, _)| NAME_LABELS.contains(key)) {
        if let Some(value) = value.text() {
            candidates.extend(cluster.views().with_pod_label(namespace, key, value));
        }
    }
    candidates.retain(|workload| is_intended(service, workload, selector, ctx));
    let rank = |workload: &Object| WORKLOAD_KINDS.iter().position(|kind| workload.is(*kind));
    candidates.into_iter().min_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.sort_key().cmp(&b.sort_key())))
}

/// Whether a Service is meant for a workload that is applied with it: by its name, or by a label that names both.
fn is_intended(
    service: &Object,
    workload: &Object,
    selector: &[(&str, Node<'_>)],
    ctx: &Context<'_>,
) -> bool {
    let unclear = workload.is_partial()
        || is_owned(workload)
        || workload.is_patched_by_kustomize()
        || has_added_labels(workload)
        || service.namespace() != workload.namespace()
        || !ctx.cluster().likely_pairs(service, workload);
    let templates = templates(workload);
    let runs = workload_kind(workload).is_some_and(|row| !row.replicas.is_empty());
    let ([template], true, false) = (templates.as_slice(), runs, unclear) else { return false };
    let labels = template.labels();
    if labels.is_empty() || template.metadata.get("labels").has_unknown() {
        return false;
    }
    let shares = |(key, value): &(&str, Node<'_>)| {
        NAME_LABELS.contains(key)
            && labels
                .iter()
                .any(|(label, have)| label == key && have.text().is_some() && have.text() == value.text())
    };
    stem(service.name()) == stem(workload.name()) || selector.iter().any(shares)
}

/// A workload with one of the names in another namespace, if it is applied with the object and the labels of its pods match
/// there.
pub(in crate::rules) fn workload_elsewhere<'i>(
    object: &Object,
    names: &[&str],
    matches: impl Fn(&[(&str, Node<'_>)]) -> Option<bool>,
    ctx: &Context<'i>,
) -> Option<&'i Object> {
    let kinds = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET];
    ctx.cluster().likely_elsewhere(object, &kinds, names, |workload| {
        let mut templates = templates(workload).into_iter();
        !workload.is_partial() && templates.any(|template| matches(&template.labels()) == Some(true))
    })
}

/// Whether a kustomization adds labels to the pods of an object, or to its selector.
pub(in crate::rules) fn has_added_labels(object: &Object) -> bool {
    object.origin().is_some_and(|origin| origin.source.sets_labels())
}
