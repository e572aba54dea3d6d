//! A value that no instance type has.
//!
//! # Why
//! Instance labels are compared letter by letter, and nobody checks the value: `A10G`, `g5` as a
//! category or `x86_64` as an architecture match nothing, and a misspelt name in a list silently
//! narrows the choice. A pod that selects such a value waits for ever. Only a tenancy of which no
//! value exists is refused, by Karpenter, from 1.9 on. A name that may be newer than gpulint's
//! catalogue is only a note.
//!
//! Where `platform.region` is set in the configuration, a value that no type offered in that region
//! has is a note as well, and so is, in any case, one that EC2 offers nowhere any more.
//!
//! # Fix
//! Write the value as the instance types have it; label values are in lower case.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//! -        - key: karpenter.k8s.aws/instance-gpu-name
//! -          operator: In
//! -          values: [l4, A10G] # <-
//! +        - {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4, a10g]}
//!          - {key: karpenter.k8s.aws/instance-gpu-count, operator: Gt, values: ["0"]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use std::collections::BTreeSet;

use crate::catalog;
use crate::catalog::TypeSet;
use crate::facts::names::is_label_value;
use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::labels::value::{Suggestion, TENANCY, has_known_values, has_open_values, suggest};
use crate::karpenter::requirement::Operator;
use crate::karpenter::requirement_list::{KINDS_AND_WORKLOADS, Provider, RequirementItem};
use crate::lint::finding::ellipsize;
use crate::platform::Version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-value-unknown",
    kinds: &KINDS_AND_WORKLOADS,
    rejected_by: &[Authority::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("requirement_value_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

/// Who asks for a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A NodePool, NodeClaim or NodeOverlay: every value is meant to be one of EC2's.
    Nodes,
    /// Pods that may run elsewhere as well.
    Pods,
    /// Pods that follow nodes, and list what there may be anywhere.
    Followers,
}

/// The values that are asked for under one key.
struct Asked<'a> {
    asker: Asker,
    /// The key as the catalogue knows it.
    key: &'a str,
    /// `NotIn`: nothing has to have them.
    excluded: bool,
    /// Whether Karpenter turns the object down for them.
    refused: bool,
    values: Vec<Node<'a>>,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if let Some(list) = RequirementList::of(object) {
        nodes(object, &list, ctx);
        return None;
    }
    let asker = if object.is(Kind::DAEMON_SET) { Asker::Followers } else { Asker::Pods };
    for template in templates(object) {
        pods(&template, asker, ctx);
    }
    None
}

/// The requirements and template labels of what makes nodes.
fn nodes(object: &Object, list: &RequirementList<'_>, ctx: &mut Context<'_>) {
    if list.provider == Provider::Other {
        return;
    }
    for item in list.items() {
        asked(&item, Asker::Nodes, list.provider, list.location, ctx);
    }
    if let Some(pool) = NodePool::new(object) {
        for (key, value) in pool.labels().entries() {
            let asked = Asked {
                asker: Asker::Nodes,
                key: &list.provider.catalogue_key(key),
                excluded: false,
                refused: false,
                values: vec![value],
            };
            judge(&asked, ctx);
        }
    }
}

/// The node selector and the required terms of a pod. Which provider makes its nodes, its keys say.
fn pods(template: &Template<'_>, asker: Asker, ctx: &mut Context<'_>) {
    for (key, value) in template.spec.get("nodeSelector").entries() {
        let key = Provider::AutoMode.catalogue_key(key);
        let values = vec![value];
        let refused = is_refused(&key, &values, asker, ctx);
        let asked = Asked { asker, key: &key, excluded: false, refused, values };
        judge(&asked, ctx);
    }
    let terms = template.spec.path(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
    for term in terms.items() {
        let expressions = term.get("matchExpressions");
        for item in expressions.items().filter(Node::is_mapping).map(RequirementItem) {
            asked(&item, asker, Provider::AutoMode, KeyLocation::Pod, ctx);
        }
    }
}

fn asked(
    item: &RequirementItem<'_>,
    asker: Asker,
    provider: Provider,
    place: KeyLocation,
    ctx: &mut Context<'_>,
) {
    let (Some(key), Some(operator)) = (item.key(), item.operator()) else {
        return;
    };
    if !matches!(operator, Operator::In | Operator::NotIn) {
        return;
    }
    let key = provider.catalogue_key(key);
    let values: Vec<Node<'_>> = item.values().items().collect();
    let refused =
        operator == Operator::In && place != KeyLocation::Claim && is_refused(&key, &values, asker, ctx);
    let asked = Asked { asker, key: &key, excluded: operator == Operator::NotIn, refused, values };
    judge(&asked, ctx);
}

/// Whether Karpenter turns down what asks for these values. As for capacity types, one valid value
/// is enough; pods that follow nodes are none of its business.
fn is_refused(key: &str, values: &[Node<'_>], asker: Asker, ctx: &Context<'_>) -> bool {
    let valid = |v: &Node<'_>| {
        let known = catalog::values(TENANCY);
        v.text().is_none_or(|t| known.is_some_and(|k| k.contains(t)))
    };
    key == TENANCY
        && asker != Asker::Followers
        && ctx.platform().karpenter >= Version::new(1, 9)
        && !values.iter().any(valid)
}

fn judge(asked: &Asked<'_>, ctx: &mut Context<'_>) {
    let Some(known) = catalog::values(asked.key).filter(|_| has_known_values(asked.key)) else {
        return;
    };
    for node in &asked.values {
        let Some(text) = node.text() else {
            continue;
        };
        if known.contains(text) {
            offered(node, text, asked, ctx);
        } else if is_label_value(text) {
            // What no label can have is requirement-value-syntax's.
            unknown(node, text, asked, known, ctx);
        }
    }
}

/// A value that no type of the catalogue has.
fn unknown(
    node: &Node<'_>,
    text: &str,
    asked: &Asked<'_>,
    known: &BTreeSet<&'static str>,
    ctx: &mut Context<'_>,
) {
    let meant = suggest(text, asked.key, known);
    let sure = matches!(meant, Suggestion::Certain(_) | Suggestion::Typo(_));
    if !sure && !asked.refused && may_be_elsewhere(asked, known) {
        return;
    }
    let severity = match (has_open_values(asked.key), sure) {
        _ if asked.refused => Severity::Error,
        // A family or type may be newer than the catalogue, but it has a name.
        (true, false) if !text.is_empty() => Severity::Info,
        _ => Severity::Warning,
    };
    let finding =
        ctx.report(node, format!("no instance type has the {} `{}`", short(asked.key), ellipsize(text)));
    finding.severity(severity);
    if asked.refused {
        finding.rejected_by(Some(Authority::Karpenter));
    }
    match meant {
        _ if text.is_empty() => {
            finding.help("take it out, or write what was meant");
            // Beside other values it admits nothing, and in `NotIn` it excludes nothing.
            if asked.values.len() > 1 && !asked.refused {
                finding.fix(Fix::new("take the empty value out", Safety::Safe).remove(node));
            }
        }
        Suggestion::Certain(word) => {
            finding.help(format!("write `{word}`"));
            finding.fix(Fix::new(format!("write `{word}`"), Safety::Safe).set(node, json!(word)));
        }
        Suggestion::Typo(word) | Suggestion::Likely(word) if severity > Severity::Info => {
            finding.help(format!("did you mean `{word}`?"));
            let title = format!("write `{word}`; check that it is what was meant");
            finding.fix(Fix::new(title, Safety::Unsafe).set(node, json!(word)));
        }
        _ if severity == Severity::Info => {
            finding.help("check the spelling, unless it is newer than gpulint's catalogue");
        }
        _ => {
            let all: Vec<&str> = known.iter().copied().take(9).collect();
            let more = if known.len() > all.len() { " …" } else { "" };
            finding.help(format!("it has values such as {}{more}", shown_list(&all)));
        }
    }
}

/// Whether pods may find the value on nodes that are none of EC2's, or do without it.
fn may_be_elsewhere(asked: &Asked<'_>, known: &BTreeSet<&'static str>) -> bool {
    match asked.asker {
        Asker::Nodes => false,
        Asker::Followers => true,
        Asker::Pods => {
            let known = |v: &Node<'_>| v.text().is_none_or(|t| known.contains(t));
            asked.excluded
                || !asked.key.starts_with("karpenter.k8s.aws/")
                || has_open_values(asked.key) && asked.values.iter().any(known)
        }
    }
}

/// A value that types have, but none that can be had: nowhere any more, or not in the region.
fn offered(node: &Node<'_>, text: &str, asked: &Asked<'_>, ctx: &mut Context<'_>) {
    let Some(index) = catalog::index(asked.key).filter(|_| !asked.excluded) else {
        return;
    };
    let Some(with) = index.with(text) else {
        return;
    };
    let region = ctx.platform().region.as_deref();
    let there = region.and_then(catalog::offered_in);
    let gone = |types: &TypeSet| types.is_subset(catalog::retired());
    let absent = |types: &TypeSet| gone(types) || there.is_some_and(|t| t.is_disjoint(types));
    if !absent(with) {
        return;
    }
    // For pods one value that can be had is enough.
    let other = |v: &Node<'_>| {
        let with = v.text().map(|text| index.with(text));
        with.is_none_or(|with| with.is_some_and(|types| !absent(types)))
    };
    let quiet = match asked.asker {
        Asker::Nodes => false,
        Asker::Followers => true,
        Asker::Pods => asked.values.iter().any(other),
    };
    if quiet {
        return;
    }
    let (name, text) = (short(asked.key), ellipsize(text));
    let (message, help) = match region {
        Some(region) if !gone(with) => (
            format!("the {name} `{text}` is not offered in `{region}`"),
            "take it out, unless the region has got it since then",
        ),
        _ => (
            format!("the {name} `{text}` is offered in no region any more"),
            "take a newer one, unless this account still has it",
        ),
    };
    let date = catalog::date();
    ctx.report(node, message).severity(Severity::Info).help(format!("so EC2's lists of {date} say: {help}"));
}

fn short(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn shown_list(words: &[&str]) -> String {
    let mut out = String::new();
    for word in words {
        if out.len() + word.len() > 80 {
            break;
        }
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(word);
    }
    out
}
