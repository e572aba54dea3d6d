//! Argo CD cannot apply the large CustomResourceDefinitions of a chart.
//!
//! # Why
//! Argo CD writes each object into an annotation of it (`kubectl.kubernetes.io/last-applied-configuration`),
//! and all annotations of an object have 256 KiB together. The CustomResourceDefinitions of some charts are
//! larger: the API server rejects them (`metadata.annotations: Too long: may not be more than 262144 bytes`),
//! and the sync fails. With the server-side apply there is no such annotation.
//!
//! # Fix
//! Write `ServerSideApply=true` in `syncOptions`, or in the annotation `argocd.argoproj.io/sync-options` of the
//! CustomResourceDefinitions where the chart has a value for it, or apply them in another way.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Application
//!  metadata: {name: monitoring, namespace: argocd}
//!  spec:
//!    project: platform
//!    destination: {server: https://kubernetes.default.svc, namespace: monitoring}
//!    source:
//!      repoURL: https://prometheus-community.github.io/helm-charts
//!      chart: kube-prometheus-stack # <-
//!      targetRevision: 79.1.0
//!    syncPolicy:
//!      automated: {prune: true}
//! -    syncOptions: [CreateNamespace=true]
//! +    syncOptions: [CreateNamespace=true, ServerSideApply=true]
//! ```
//!
//! # References
//! - <https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#server-side-apply>
//! - <https://github.com/argoproj/argo-cd/issues/8128>

use crate::cluster::versions::minor_of;
use crate::rules::prelude::*;
use crate::workload::charts::sources;

pub(crate) static RULE: Rule = Rule {
    id: "applied-object-too-large",
    kinds: &[Kind::ARGO_APPLICATION],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("applied_object_too_large.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Manifest)
};

/// Charts with a CustomResourceDefinition of more than 256 KiB, the first version for which that was reported, and the value that
/// leaves them out: argo-cd#8128, keda#4740, kuberay#504, actions-runner-controller#3415. An older chart, or another one of the name,
/// may fit.
const CHARTS: [(&str, Version, &[&str]); 5] = [
    ("kube-prometheus-stack", Version::new(30, 0), &["crds", "enabled"]),
    ("prometheus-operator-crds", Version::new(0, 1), &[]),
    ("keda", Version::new(2, 11), &["crds", "install"]),
    ("kuberay-operator", Version::new(0, 3), &[]),
    ("gha-runner-scale-set-controller", Version::new(0, 7), &[]),
];

/// Options with which Argo CD writes no such annotation.
const OPTIONS: [&str; 2] = ["ServerSideApply=true", "Replace=true"];

/// The annotation of a single object with options.
const OPTIONS_OF_OBJECT: &str = "argocd.argoproj.io/sync-options";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let options = spec.path(&["syncPolicy", "syncOptions"]);
    let is_option = |option: Node<'_>| OPTIONS.iter().any(|known| option.raw_text() == Some(*known));
    if object.may_lack_fields()
        || spec.has_unknown_key()
        || options.has_unknown()
        || options.items().any(is_option)
    {
        return None;
    }
    let (source, chart, off) = sources(&spec).find_map(|source| {
        let chart = source.get("chart");
        let (name, since, off) = CHARTS.into_iter().find(|(name, ..)| chart.text() == Some(*name))?;
        let version = source.get("targetRevision").string_or_number();
        let is_old = version.and_then(|text| minor_of(&text)).is_some_and(|version| version < since);
        let skips = source.path(&["helm", "skipCrds"]).bool() == Some(true);
        (!is_old && !skips).then_some((source, name, off))
    })?;
    let mut has_crds = false;
    for_each_values(object, chart, |values| {
        let switch = values.root.path(off);
        let is_on = off.is_empty() || switch.is_absent() || switch.bool() == Some(true);
        has_crds |= !values.may_differ && is_on && !leaves_out(&values.root.get("crds"));
    });
    if !has_crds || source.get("helm").has_unknown_key() {
        return None;
    }
    let option = json!("ServerSideApply=true");
    let fix = Fix::unsafe_("use server-side apply");
    let fix =
        if options.is_set() { fix.append(&options, option) } else { fix.set(&options, json!([option])) };
    let message =
        format!("Argo CD cannot apply `{chart}`: a CustomResourceDefinition does not fit into an annotation");
    ctx.report(&source.get("chart"), message).help("write `ServerSideApply=true` in `syncOptions`").fix(fix);
    Some(())
}

/// Whether the values of the CustomResourceDefinitions give them the option as an annotation, or switch off the largest ones of the
/// Prometheus operator.
fn leaves_out(crds: &Node<'_>) -> bool {
    let has_option = |field: &&str| {
        let annotation = crds.get(field).get(OPTIONS_OF_OBJECT);
        annotation.text().is_some_and(|text| text.split(',').any(|one| OPTIONS.contains(&one.trim())))
    };
    ["annotations", "additionalAnnotations"].iter().any(has_option)
        || crds.path(&["prometheuses", "enabled"]).bool() == Some(false)
}
