//! A PodDisruptionBudget selects nothing, or every pod of its namespace.
//!
//! # Why
//! `policy/v1` reads an empty selector as every pod of the namespace: one budget then covers serving,
//! training and helpers alike, and two budgets over one pod make its eviction fail forever. Without a
//! selector, or with one that matches no pod, the budget protects nothing. Labels of the Deployment itself
//! are not those of its pods, pods of another namespace are out of reach, and Flagger changes a label of the
//! pods that serve. Without `--complete` a selector without pods is reported only for these mistakes, and if
//! just one workload of the namespace, without a PDB of its own, has a label that is much like that of the
//! selector, or its value under another of the usual keys, such as `run` for `app`.
//!
//! # Fix
//! Select the labels of one workload's pods.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: policy/v1
//!  kind: PodDisruptionBudget
//!  metadata: {name: embedder}
//!  spec:
//!    maxUnavailable: 1
//! -  selector: {} # <-
//! +  selector: {matchLabels: {app: embedder}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>

use crate::facts::suggest::is_within;
use crate::rules::availability::intended_workload::{NAME_LABELS, has_added_labels, workload_elsewhere};
use crate::rules::prelude::*;
use crate::schema::validation::may_hold_more_fields;
use crate::schema::validation::pdb::has_valid_selector;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "pdb-selector",
    kinds: &[Kind::PDB],
    reads: kinds![[Kind::CANARY, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION, Kind::PDB], WORKLOAD_KINDS],
    reports_absence: true,
    docs: docs(include_str!("pdb_selector.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let node = spec.get("selector");
    // In v1beta1 an empty selector selects nothing; removed-api-version reports that.
    if !spec.is_mapping()
        || object.is_partial()
        || object.version() != "v1"
        || may_hold_more_fields(&spec)
        || may_hold_more_fields(&node)
        || !has_valid_selector(object)
    {
        return None;
    }
    if !node.is_set() {
        ctx.report(&node, "without `selector` the PDB protects no pod")
            .help("select the labels of the pods to protect")
            .severity(Severity::Warning)
            .reports_absence(false);
        return None;
    }
    if !node.is_mapping() {
        return None;
    }
    let (workloads, unknown) = ctx.cluster().views().selected_by(object);
    let has_terms = |field: &str| {
        let part = node.get(field);
        part.is_unknown() || !part.entries().is_empty() || part.items().next().is_some()
    };
    if !has_terms("matchLabels") && !has_terms("matchExpressions") {
        let several = workloads.len() > 1;
        let message = if several {
            format!("an empty `selector` selects every pod, here of {} workloads", workloads.len())
        } else {
            "an empty `selector` selects every pod of the namespace".to_owned()
        };
        let finding = ctx.report(&node, message);
        finding.help("select the labels of one workload's pods").reports_absence(false);
        if !several {
            finding.severity(Severity::Warning);
        }
        return None;
    }
    if unknown {
        return None;
    }
    if let [workload] = workloads.as_slice() {
        return behind_canary(object, &node, &workload.object, ctx);
    }
    if !workloads.is_empty() || selects_primary(object, &node, ctx) {
        return None;
    }
    if let Some(workload) = labelled(object, &node, ctx) {
        return report_difference(&node, workload, ctx);
    }
    // Operators and charts create pods from objects whose pod templates are not known.
    let namespace = object.namespace_or_default();
    let is_here = |other: &Object| other.namespace_or_default() == namespace;
    let makers = ctx.cluster().views().pod_makers();
    let makes_pods = makers.0.iter().any(is_here) || namespace == "kube-system";
    let is_open = makes_pods || may_bring_objects(ctx.cluster());
    if !is_open
        && (report_elsewhere(object, &node, ctx).is_some() || report_near(object, &node, ctx).is_some())
    {
        return None;
    }
    if !ctx.cluster().is_complete() {
        return None;
    }
    let mut partial = ctx.cluster().partial().iter();
    if makers.0.iter().any(is_here) || partial.any(|other| is_here(other) && !creates_no_pods(other.group()))
    {
        return None;
    }
    ctx.report(&node, "`selector` matches the pods of no workload")
        .help("compare it with the labels of the pod templates")
        .severity(Severity::Warning);
    None
}

/// The labels of which Flagger changes one in the pods that serve (`-selector-labels`, in pkg/canary/util.go).
const PRIMARY_LABELS: [&str; 3] = ["app", "name", "app.kubernetes.io/name"];

/// The name of the workload of a Canary, whose copy with `-primary` behind its name serves.
fn target_of(canary: &Object) -> Option<&str> {
    canary.path(&["spec", "targetRef", "name"]).text()
}

/// Whether a selector has a label that Flagger gives to the serving pods of a Canary.
fn selects_primary(object: &Object, selector: &Node<'_>, ctx: &Context<'_>) -> bool {
    let labels = selector.get("matchLabels");
    let named = |label: &str| labels.get(label).text().and_then(|value| value.strip_suffix("-primary"));
    let mut canaries = ctx.cluster().in_namespace(Kind::CANARY, object.namespace_or_default());
    canaries.any(|canary| {
        PRIMARY_LABELS.iter().any(|label| named(label).is_some_and(|n| Some(n) == target_of(canary)))
    })
}

/// Reports a PDB over the pods of a Canary's workload, which Flagger scales to zero between rollouts: those that serve have
/// another label.
fn behind_canary(
    object: &Object,
    selector: &Node<'_>,
    workload: &Object,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let mut canaries = ctx.cluster().in_namespace(Kind::CANARY, object.namespace_or_default());
    let canary = canaries.find(|canary| target_of(canary) == Some(workload.name()))?;
    let own = workload.path(&["spec", "selector", "matchLabels"]);
    let label = PRIMARY_LABELS.iter().find(|label| own.get(label).is_set())?;
    let written = selector.get("matchLabels").get(label);
    if written.text()? != own.get(label).text()? || !ctx.pairs_with(canary) {
        return None;
    }
    let serving = format!("{}-primary", workload.name());
    ctx.report(&written, format!("Flagger calls the pods that serve `{label}: {}`", ellipsize(&serving)))
        .help(format!("select `{label}: {}`: between rollouts no other pods run", ellipsize(&serving)))
        .reports_absence(false)
        .severity(Severity::Warning)
        .related(canary, &canary.path(&["spec", "targetRef"]), "its pods are a copy of these");
    None
}

/// Reports a PDB in another namespace than its pods.
fn report_elsewhere(object: &Object, selector: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let workload = elsewhere(object, selector, ctx)?;
    let there = ellipsize(workload.namespace_or_default());
    let name = workload.display_name();
    let message = format!("selects no pod: those of {} `{name}` are in namespace `{there}`", workload.kind());
    ctx.report(&object.path(&["metadata", "namespace"]), message)
        .help(format!("write `namespace: {there}`: a PDB protects pods of its own namespace"))
        .severity(Severity::Warning)
        .related(workload, &workload.path(&["metadata", "namespace"]), "the pods");
    Some(())
}

/// A workload of another namespace that has the name of the PDB, or one that a label of its selector gives.
fn elsewhere<'i>(object: &Object, selector: &Node<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let own = object.name();
    let labels = selector.get("matchLabels").entries();
    let mut names = vec![own, own.strip_suffix("-pdb").unwrap_or(own)];
    names.extend(labels.iter().filter_map(|(_, value)| value.text()));
    names.dedup();
    workload_elsewhere(object, &names, |labels| selector::matches(selector, labels), ctx)
}

/// Reports a workload that the PDB may be meant for, because of a label that is much like that of the selector.
fn report_near(object: &Object, selector: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let labels = selector.get("matchLabels").entries();
    let ([(key, node)], None) = (labels.as_slice(), selector.get("matchExpressions").items().next()) else {
        return None;
    };
    let wanted = node.text().filter(|_| NAME_LABELS.contains(key))?;
    let workload = near(object, key, wanted, ctx)?;
    let templates = templates(workload);
    let labels = templates.first()?.labels();
    let under = |key: &str| labels.iter().find(|(label, _)| *label == key).cloned();
    let renamed = || labels.iter().find(|(label, own)| is_renamed(label, own, key, wanted)).cloned();
    let is_near = |(_, own): &(&str, Node<'_>)| own.text().is_some_and(|own| is_near(own, wanted));
    let (label, own) = under(key).filter(is_near).or_else(renamed)?;
    let (has, whose) = (ellipsize(own.text()?), format!("{} `{}`", workload.kind(), workload.display_name()));
    if are_siblings(own.text()?, wanted) {
        return None;
    }
    // Of one first word are also several programs of a team.
    let is_slip = is_slip_of(own.text()?, wanted);
    let wanted = ellipsize(wanted);
    let is_applied_together = ctx.cluster().is_complete() || ctx.cluster().likely_pairs(object, workload);
    ctx.report(node, format!("no pod has `{key}: {wanted}`, and those of {whose} have `{label}: {has}`"))
        .help("write the label of the pods into the selector, if the PDB is meant for them")
        .severity(if is_slip && is_applied_together { Severity::Warning } else { Severity::Info })
        .related(workload, &own, "the label of its pods");
    Some(())
}

/// The only workload of the namespace, among those without a PDB, that has a value much like this one in a label.
fn near<'i>(object: &Object, key: &str, wanted: &str, ctx: &Context<'i>) -> Option<&'i Object> {
    let (namespace, views) = (object.namespace_or_default(), ctx.cluster().views());
    let is_like = |template: &Template<'_>| {
        template.labels().iter().any(|(label, own)| {
            *label == key && own.text().is_some_and(|own| is_near(own, wanted))
                || is_renamed(label, own, key, wanted)
        })
    };
    let without_pdb = |template: &Template<'_>| {
        let (pdbs, unknown) = views.pdbs_of(namespace, template);
        pdbs.is_empty() && !unknown
    };
    let mut found = views.workloads_in(namespace).map(|workload| &workload.object).filter(|workload| {
        runs_forever(workload)
            && !workload.may_lack_fields()
            && !has_added_labels(workload)
            && ctx.pairs_with(workload)
            && matches!(templates(workload).as_slice(), [one] if is_like(one) && without_pdb(one))
    });
    found.next().filter(|_| found.next().is_none())
}

fn is_near(own: &str, wanted: &str) -> bool {
    shares_first_word(own, wanted) || is_slip_of(own, wanted)
}

/// Whether a label of pods has the value of a selector, under another key for the name of a workload.
fn is_renamed(label: &str, own: &Node<'_>, key: &str, wanted: &str) -> bool {
    label != key && NAME_LABELS.contains(&label) && own.text() == Some(wanted)
}

/// Whether two names are a few typing errors apart. Short names are one or two letters from many others.
fn is_slip_of(a: &str, b: &str) -> bool {
    is_within(a, b, if a.len().min(b.len()) > 5 { 2 } else { 1 })
}

/// Last words of the names of programs that run beside others of one application.
const ROLES: [&str; 14] = [
    "adapter",
    "api",
    "backend",
    "cluster",
    "exporter",
    "frontend",
    "gateway",
    "indexer",
    "proxy",
    "scheduler",
    "server",
    "ui",
    "web",
    "worker",
];

/// Whether two names are those of two programs of one application, such as `shop-web` and `shop-api`.
fn are_siblings(a: &str, b: &str) -> bool {
    fn role(name: &str) -> &str {
        name.rsplit(['-', '_', '.']).next().unwrap_or_default()
    }
    let (a_role, b_role) = (role(a), role(b));
    a_role != b_role && ROLES.contains(&a_role) && ROLES.contains(&b_role)
}

/// Whether two names begin with one word of at least four letters.
fn shares_first_word(a: &str, b: &str) -> bool {
    let first =
        |name: &str| name.find(['-', '_', '.']).filter(|end| *end > 3).map(|end| name[..end].to_owned());
    first(a).is_some_and(|word| first(b) == Some(word))
}

/// A workload, applied with the PDB, whose own labels the selector matches, while it does not match those of its pods.
fn labelled<'i>(object: &Object, selector: &Node<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let mut around = ctx.cluster().views().workloads_in(object.namespace_or_default());
    let found = around.find(|workload| {
        let workload = &workload.object;
        runs_forever(workload)
            && !workload.may_lack_fields()
            && !has_added_labels(workload)
            && ctx.cluster().likely_pairs(object, workload)
            && selector::matches(selector, &workload.path(&["metadata", "labels"]).entries()) == Some(true)
    })?;
    Some(&found.object)
}

/// Reports the first label that the pods lack or have with another value.
fn report_difference(selector: &Node<'_>, workload: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let templates = templates(workload);
    let template = templates.first()?;
    let own = template.labels();
    let wanted = selector.get("matchLabels").entries();
    let value = |key: &str| own.iter().find(|(label, _)| *label == key).and_then(|(_, value)| value.text());
    let of_labels = wanted.iter().find(|(key, wanted)| value(key) != wanted.text());
    let of_labels =
        of_labels.and_then(|(key, node)| Some((node.clone(), format!("{key}: {}", node.text()?))));
    let of_terms = || {
        selector.get("matchExpressions").items().find_map(|term| {
            let key = term.get("key").text()?;
            let values = term.get("values");
            let mut listed = values.items().filter_map(|value| value.text());
            let label = match term.get("operator").text()? {
                "Exists" if value(key).is_none() => key.to_owned(),
                "In" if !values.items().any(|listed| listed.text() == value(key)) => {
                    format!("{key}: {}", listed.next()?)
                }
                _ => return None,
            };
            Some((term.clone(), label))
        })
    };
    let (written, label) = of_labels.or_else(of_terms)?;
    let whose = format!("{} `{}`", workload.kind(), workload.display_name());
    ctx.report(&written, format!("label `{label}` is on {whose} itself and not on its pods"))
        .help(format!("add `{label}` to the labels of the pod template, or remove it from the selector"))
        .reports_absence(false)
        .severity(Severity::Warning)
        .related(workload, &template.metadata.get("labels"), "the labels of its pods");
    None
}

/// Groups whose objects create no pods.
fn creates_no_pods(group: &str) -> bool {
    group.ends_with(".k8s.io") || matches!(group, "keda.sh" | "karpenter.sh" | "karpenter.k8s.aws")
}
