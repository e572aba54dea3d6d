//! A spread or an anti-affinity selects no pod, so it keeps none apart.
//!
//! # Why
//! The scheduler counts only the pods that `labelSelector` selects, and without it none: a null selector matches
//! no object. Each node and zone then looks empty, so that all replicas may run on one node or in one zone, and
//! nothing reports it. So does a selector with a label that the pods do not have, such as
//! `app.kubernetes.io/name` where the template has `app`. Karpenter computes the same, and starts no node for the
//! spread. A required `podAffinity` without a selector is never satisfied: the pods stay Pending.
//!
//! A spread is compared with the labels of its own pods. An anti-affinity may be about other pods: without
//! a match it is reported where its value is the name of the workload or that of another of its labels, or
//! nearly so.
//!
//! # Fix
//! Select the labels of the pod template. `labelSelector: {}` selects all pods of the namespace.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: api, namespace: shop}
//!  spec:
//!    replicas: 4
//!    selector: {matchLabels: {app: api}}
//!    template:
//!      metadata: {labels: {app: api}}
//!      spec:
//!        topologySpreadConstraints:
//! -        - maxSkew: 1 # <-
//! +        - maxSkew: 1
//!            topologyKey: topology.kubernetes.io/zone
//!            whenUnsatisfiable: DoNotSchedule
//! +          labelSelector:
//! +            matchLabels:
//! +              app: api
//!        containers:
//!          - name: main
//!            image: example.com/api:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/>
//! - <https://github.com/kubernetes/kubernetes/issues/135797>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::facts::suggest::is_within;
use crate::fit::counts;
use crate::karpenter::pod::rules_of;
use crate::karpenter::scheduling::TopologyKind;
use crate::rules::availability::intended_workload::has_added_labels;
use crate::rules::prelude::*;
use crate::workload::selector::{is_set_by_controllers, matches};

pub(crate) static RULE: Rule = Rule {
    id: "spread-selects-no-pod",
    kinds: &[
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::REPLICA_SET,
        Kind::REPLICATION_CONTROLLER,
        Kind::ROLLOUT,
        Kind::JOB,
        Kind::CRON_JOB,
        Kind::JOB_SET,
        Kind::LEADER_WORKER_SET,
        Kind::RAY_CLUSTER,
        Kind::RAY_JOB,
        Kind::RAY_SERVICE,
        Kind::PYTORCH_JOB,
        Kind::VOLCANO_JOB,
    ],
    reads: kinds![[Kind::HPA, Kind::SCALED_OBJECT, Kind::NODE_POOL], POD_POLICIES, WORKLOAD_KINDS],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("spread_selects_no_pod.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// A rule of a pod template that selects none of its pods.
struct Fault<'a> {
    kind: TopologyKind,
    is_required: bool,
    /// The spread constraint, or the term of an affinity.
    term: Node<'a>,
    /// The first label of the selector that the pods do not have. `None` if there is no selector.
    missed: Option<MissedLabel<'a>>,
}

/// A label, or an expression, that keeps a selector from matching pods.
struct MissedLabel<'a> {
    node: Node<'a>,
    key: &'a str,
    /// The values of which a pod needs one; empty if any will do.
    wanted: Vec<&'a str>,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.controller().is_some() {
        return None;
    }
    for template in templates(object) {
        let faults: Vec<Fault<'_>> = rules_of(&template)
            .into_iter()
            .filter_map(|(kind, is_required, term)| fault(object, &template, kind, is_required, term, ctx))
            .collect();
        let is_alike =
            |a: &Fault<'_>, b: &Fault<'_>| a.kind == b.kind && a.missed.is_some() == b.missed.is_some();
        // Required rules are first.
        for (number, first) in faults.iter().enumerate() {
            if faults[..number].iter().any(|before| is_alike(before, first)) {
                continue;
            }
            let others: Vec<&Fault<'_>> =
                faults[number + 1..].iter().filter(|other| is_alike(first, other)).collect();
            report(object, &template, first, &others, ctx);
        }
    }
    None
}

/// What is wrong with a rule, if it surely selects no pod of the template and is meant to.
fn fault<'a>(
    object: &Object,
    template: &Template<'a>,
    kind: TopologyKind,
    is_required: bool,
    term: Node<'a>,
    ctx: &Context<'_>,
) -> Option<Fault<'a>> {
    let selector = term.get("labelSelector");
    let is_open = selector.is_unknown() || term.has_unknown_key() || object.may_be_set_by_patch(&selector);
    if is_open {
        return None;
    }
    let is_alone = || counts(ctx.cluster(), object, template).is_none_or(|(_, most)| most < 2);
    if selector.is_set() {
        if kind == TopologyKind::Affinity || is_alone() {
            return None;
        }
        let missed = missed(object, template, kind, &term, ctx)?;
        return Some(Fault { kind, is_required, term, missed: Some(missed) });
    }
    // With all pools in the input, pod-fits-no-pool reports what is never satisfied.
    let is_reported = || {
        let pools = ctx.cluster().of(Kind::NODE_POOL).next();
        ctx.cluster().is_complete_for(Kind::NODE_POOL) && pools.is_some()
    };
    let is_harmless = match kind {
        TopologyKind::Affinity => is_required && is_reported(),
        _ => is_alone(),
    };
    (!is_harmless).then_some(Fault { kind, is_required, term, missed: None })
}

/// The label for which a selector surely does not match the pods of a template, if it is meant for them.
fn missed<'a>(
    object: &Object,
    template: &Template<'a>,
    kind: TopologyKind,
    term: &Node<'a>,
    ctx: &Context<'_>,
) -> Option<MissedLabel<'a>> {
    let (selector, labels) = (term.get("labelSelector"), template.pod_labels());
    let own = template.metadata.get("labels");
    let is_of_kubernetes = matches!(object.group(), "" | "apps" | "batch");
    let keys = selector_keys(&selector)?;
    // Operators label pods under domains of theirs, and Argo Rollouts gives canaries labels of their own.
    let is_set_later = is_set_by_controllers(keys.iter().copied())
        || keys
            .iter()
            .any(|key| key.contains('/') && !is_of_kubernetes || *key == "rollouts-pod-template-hash")
        || ["canaryMetadata", "stableMetadata"]
            .iter()
            .any(|field| object.path(&["spec", "strategy", "canary", field]).is_set());
    let is_unclear = template.metadata.has_unknown_key()
        || own.has_unknown()
        || own.is_unknown()
        || selector.has_unknown()
        || is_set_later
        || has_added_labels(object)
        || object.is_patched_by_kustomize()
        || may_change_pods(ctx.cluster(), object.namespace_or_default(), PodPart::Labels);
    if is_unclear || matches(&selector, &labels) != Some(false) {
        return None;
    }
    let value =
        |key: &str| labels.iter().find(|(label, _)| *label == key).and_then(|(_, value)| value.text());
    let of_labels = selector.get("matchLabels").entries().into_iter();
    let of_labels = of_labels.filter_map(|(key, node)| {
        let wanted = node.text()?;
        (value(key) != Some(wanted)).then_some(MissedLabel { node, key, wanted: vec![wanted] })
    });
    let of_expressions = selector.get("matchExpressions").items().filter_map(|node| {
        let key = node.get("key").text()?;
        let wanted: Vec<&str> = node.get("values").items().filter_map(|value| value.text()).collect();
        let is_missed = match node.get("operator").text()? {
            "In" => value(key).is_none_or(|own| !wanted.contains(&own)),
            "Exists" => value(key).is_none(),
            // The pods have a label that they must not have: a rule about others.
            _ => false,
        };
        is_missed.then_some(MissedLabel { node, key, wanted })
    });
    let all: Vec<MissedLabel<'a>> = of_labels.chain(of_expressions).collect();
    if kind == TopologyKind::AntiAffinity {
        let is_of_others = term.get("namespaces").is_set() || term.get("namespaceSelector").is_set();
        let means_own = |one: &MissedLabel<'_>| {
            one.wanted.iter().any(|wanted| is_own_name(object, &labels, one.key, wanted))
        };
        let (found, may_be_others) = ctx.cluster().views().selected_by_labels(object, &selector);
        if is_of_others || !found.is_empty() || may_be_others || !all.iter().all(means_own) {
            return None;
        }
    }
    all.into_iter().next()
}

/// The keys that a selector names. `None` if one is not known.
fn selector_keys<'a>(selector: &Node<'a>) -> Option<Vec<&'a str>> {
    let mut keys: Vec<&str> = selector.get("matchLabels").entries().into_iter().map(|(key, _)| key).collect();
    for expression in selector.get("matchExpressions").items() {
        keys.push(expression.get("key").text()?);
    }
    Some(keys)
}

/// Whether a value of a selector names the workload itself: by its name, by the value of another label of its pods
/// that its own selector has, or nearly by that of the same label.
fn is_own_name(object: &Object, labels: &[(&str, Node<'_>)], key: &str, wanted: &str) -> bool {
    let selected = object.path(&["spec", "selector", "matchLabels"]);
    let own = labels.iter().filter_map(|(label, value)| Some((*label, value.text()?)));
    let mut names = own.filter(|(label, _)| selected.get(label).is_set());
    wanted == object.name()
        || names.any(|(label, value)| if label == key { is_slip(wanted, value) } else { value == wanted })
}

/// Whether one name is another one with a letter more or less, or with other separators. Names of siblings differ in
/// a letter or a number: `web-a` and `web-b`, `node-1` and `node-2`.
fn is_slip(a: &str, b: &str) -> bool {
    let plain = |name: &str| name.replace(['-', '_', '.'], "").to_ascii_lowercase();
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    plain(a) == plain(b)
        || a.len().min(b.len()) > 5 && a.len() != b.len() && digits(a) == digits(b) && is_within(a, b, 1)
}

fn report(
    object: &Object,
    template: &Template<'_>,
    fault: &Fault<'_>,
    others: &[&Fault<'_>],
    ctx: &mut Context<'_>,
) {
    let own_selector = object.path(&["spec", "selector", "matchLabels"]);
    let labels = template.pod_labels();
    let selector = fault.term.get("labelSelector");
    let (node, message) = match &fault.missed {
        None => {
            let what = match fault.kind {
                TopologyKind::Spread => {
                    "this spread has no `labelSelector`, so it counts no pod and spreads none"
                }
                TopologyKind::AntiAffinity => {
                    "this anti-affinity has no `labelSelector`, so it selects no pod and keeps none apart"
                }
                TopologyKind::Affinity if fault.is_required => {
                    "this affinity has no `labelSelector`, so no pod satisfies it: the pods stay Pending"
                }
                TopologyKind::Affinity => {
                    "this affinity has no `labelSelector`, so it selects no pod and has no effect"
                }
            };
            (selector.clone(), what.to_owned())
        }
        Some(missed) => {
            let label = match missed.wanted.first() {
                Some(value) => format!("{}: {}", ellipsize(missed.key), ellipsize(value)),
                None => ellipsize(missed.key).into_owned(),
            };
            let what = if fault.kind == TopologyKind::Spread { "spread" } else { "anti-affinity" };
            let mut own = labels.iter().filter(|(key, _)| *key == missed.key);
            let have = match own.next().and_then(|(_, value)| value.text()) {
                Some(value) => format!("have `{}: {}`", ellipsize(missed.key), ellipsize(value)),
                None => "do not have it".to_owned(),
            };
            (missed.node.clone(), format!("this {what} selects `{label}`, but the pods {have}"))
        }
    };
    let label = labels.iter().find(|(label, _)| own_selector.get(label).is_set());
    let label = label.and_then(|(label, value)| Some(format!("{label}: {}", ellipsize(value.text()?))));
    let help = match (fault.kind, label) {
        (TopologyKind::Affinity, _) => "select the pods beside which they belong".to_owned(),
        (_, None) => "select labels of the pod template".to_owned(),
        (_, Some(label)) if fault.missed.is_none() => {
            format!("write `labelSelector: {{matchLabels: {{{label}}}}}`")
        }
        (_, Some(label)) => format!("write `{label}`, a label of the pods"),
    };
    let selected = ctx.cluster().views().selected_by_labels(object, &selector).0;
    let severity = if fault.is_required { Severity::Warning } else { Severity::Info };
    // Another workload, which is applied later, may have the pods that an anti-affinity selects.
    let depends_on_others = fault.kind == TopologyKind::AntiAffinity && fault.missed.is_some();
    let finding = ctx.report(&node, message).severity(severity).help(help).reports_absence(depends_on_others);
    for other in others {
        let place = other.missed.as_ref().map_or(&other.term, |missed| &missed.node);
        finding.related(object, place, "and here");
    }
    if let Some(other) = selected.first().filter(|_| fault.missed.is_some()) {
        let labels = templates(&other.object).first().map(|template| template.metadata.get("labels"));
        finding.related(
            &other.object,
            &labels.unwrap_or_else(|| other.object.root()),
            "it selects these pods",
        );
    } else if fault.missed.is_some() {
        finding.related(object, &template.metadata.get("labels"), "the labels of the pods");
    }
    let is_known = own_selector.is_mapping() && !own_selector.has_unknown();
    if is_known && fault.kind != TopologyKind::Affinity {
        let mut fix = Fix::unsafe_("select the pods of the workload");
        for fault in std::iter::once(&fault).chain(others) {
            let selector = fault.term.get("labelSelector");
            fix = fix.set(&selector, json!({"matchLabels": own_selector.to_json()}));
        }
        finding.fix(fix);
    }
}
