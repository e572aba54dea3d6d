//! A requirement has a value that no instance type has.
//!
//! # Why
//! Instance labels are compared letter by letter, and nothing checks the value: `A10G`, `g5` as a category or
//! `x86_64` as an architecture match nothing, and a misspelt name in a list silently narrows the choice. A
//! pod that selects such a value stays Pending. Only a tenancy that does not exist is rejected, by Karpenter,
//! from 1.9 on. A name that may be newer than gpulint's catalogue is only a note. A zone that no region has is
//! also a domain of topology spread in which no pod ever runs. The id of a zone (`use1-az1`) is another
//! label than its name (`us-east-1a`).
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
//! -        - {key: kubernetes.io/arch, operator: In, values: [x86_64]} # <-
//! +        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use std::collections::BTreeSet;

use super::requested_values::{Requested, Requester, short_name, visit_values};
use crate::catalog::{self, REGION, ZONE, ZONE_ID};
use crate::facts::names::is_label_value;
use crate::karpenter::labels::value::{
    MissingZone, Suggestion, has_known_values, has_open_values, label_of, suggest, topology_label_of,
};
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-value-unknown",
    kinds: KINDS_AND_WORKLOADS,
    rejected_by: &[Authority::Karpenter],
    fix: Some(Safety::Safe),
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("requirement_value_unknown.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    visit_values(object, ctx, check_values);
    None
}

fn check_values(requested: &Requested<'_>, ctx: &mut Context<'_>) {
    if matches!(requested.key, ZONE | ZONE_ID | REGION) {
        of_other_topology(requested, ctx);
        if requested.key == ZONE && !requested.excluded {
            zones(requested, ctx);
        }
        return;
    }
    let Some(known) = catalog::values(requested.key).filter(|_| has_known_values(requested.key)) else {
        return;
    };
    // Invalid label values are reported by requirement-value-syntax.
    let is_unknown = |text: &&str| !known.contains(text) && is_label_value(text);
    let strangers = requested.values.iter().filter_map(|node| Some((node, node.text().filter(is_unknown)?)));
    let strangers: Vec<_> =
        strangers.map(|(node, text)| (node, text, label_of(text, requested.key))).collect();
    let has_no_other = matches!(requested.requester, Requester::Nodes)
        && !requested.excluded
        && strangers.len() == requested.values.len();
    // Values of other labels are no newer types, so that a list of nothing else admits none.
    let admits = match has_no_other {
        true if strangers.iter().all(|(_, _, home)| home.is_some()) => Admits::None,
        true => Admits::NewerOnly,
        false => Admits::Others,
    };
    for (at, (node, text, home)) in strangers.iter().enumerate() {
        let is_alike = |other: &&(_, _, _)| home.is_some() && other.2 == *home;
        // Several values of one other label are one mistake, reported at the first of them.
        if strangers[..at].iter().any(|other| is_alike(&other)) {
            continue;
        }
        let more = strangers[at + 1..].iter().filter(is_alike).map(|(_, text, _)| *text);
        let alike: Vec<&str> = std::iter::once(*text).chain(more).collect();
        unknown(node, &alike, admits, requested, known, ctx);
    }
}

/// Reports the first value that is one of another label: the id of a zone as its name, a region as a zone.
fn of_other_topology(requested: &Requested<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let home_of = |node: &Node<'_>| topology_label_of(node.text()?).filter(|home| *home != requested.key);
    let (node, home) = requested.values.iter().find_map(|node| Some((node, home_of(node)?)))?;
    let text = node.text()?;
    let what = match home {
        ZONE => "a zone",
        ZONE_ID => "the id of a zone",
        _ => "a region",
    };
    let admits_none = matches!(requested.requester, Requester::Nodes)
        && !requested.excluded
        && requested.values.iter().all(|node| home_of(node).is_some());
    let so = if admits_none { ": the pool starts no nodes" } else { "" };
    let message =
        format!("no node has the {} `{}`, which is {what}{so}", short_name(requested.key), ellipsize(text));
    let severity = if admits_none { Severity::Error } else { Severity::Warning };
    ctx.report(node, message).severity(severity).help(format!("it is a value of `{home}`: write that key"));
    None
}

/// Reports zones that no region has.
fn zones(requested: &Requested<'_>, ctx: &mut Context<'_>) {
    let missing_of = |node: &Node<'_>| node.text().map_or(MissingZone::No, MissingZone::of);
    let admits_none = matches!(requested.requester, Requester::Nodes)
        && requested.values.iter().all(|node| missing_of(node) == MissingZone::Yes);
    for node in &requested.values {
        let missing = missing_of(node);
        let (Some(text), true) = (node.text(), missing != MissingZone::No) else { continue };
        let so = if admits_none { ": the pool starts no nodes" } else { "" };
        let finding = ctx.report(node, format!("no region has the zone `{}`{so}", ellipsize(text)));
        finding.severity(match missing {
            _ if admits_none => Severity::Error,
            MissingZone::Yes => Severity::Warning,
            _ => Severity::Info,
        });
        finding.help(match requested.requester {
            Requester::Nodes if admits_none => {
                "write a zone of the cluster's region: Karpenter also counts this one as a zone to spread over"
            }
            Requester::Nodes => {
                "take it out: Karpenter counts it as a zone to spread over, where no pod ever runs"
            }
            _ => "write a zone of the cluster's region: no node is in this one",
        });
    }
}

/// What a list with unknown values admits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admits {
    None,
    /// Nothing but what is newer than the catalogue.
    NewerOnly,
    Others,
}

/// Values that no type of the catalogue has, of which the first stands at the node.
fn unknown(
    node: &Node<'_>,
    texts: &[&str],
    admits: Admits,
    requested: &Requested<'_>,
    known: &BTreeSet<&'static str>,
    ctx: &mut Context<'_>,
) {
    let text = texts.first().copied().unwrap_or_default();
    let meant = suggest(text, requested.key, known);
    let home = label_of(text, requested.key);
    // `p6` of `p6-b200` and `p6-b300`.
    let is_beginning = |value: &&&str| value.strip_prefix(text).is_some_and(|rest| rest.starts_with('-'));
    let longer: Vec<&str> = known.iter().filter(is_beginning).copied().collect();
    let sure = home.is_some()
        || !longer.is_empty() && !text.is_empty()
        || matches!(meant, Suggestion::Certain(_) | Suggestion::Typo(_));
    if !sure && !requested.refused && may_be_elsewhere(requested, known) {
        return;
    }
    let severity = match (has_open_values(requested.key), sure) {
        _ if requested.refused || admits == Admits::None => Severity::Error,
        // A family or type that is not in the catalogue may be newer.
        (true, false) if !text.is_empty() && admits == Admits::Others => Severity::Info,
        _ => Severity::Warning,
    };
    let named = alternatives(texts);
    let so = if admits == Admits::None { ": the pool starts no nodes" } else { "" };
    let finding =
        ctx.report(node, format!("no instance type has the {} {named}{so}", short_name(requested.key)));
    finding.severity(severity);
    finding.rejected_by(requested.refused.then_some(Authority::Karpenter));
    match meant {
        _ if text.is_empty() => {
            finding.help("take it out, or write what was meant");
            // Among other values it admits nothing, and in `NotIn` it excludes nothing.
            if requested.values.len() > 1 && !requested.refused {
                finding.fix(Fix::new("take the empty value out", Safety::Safe).remove(node));
            }
        }
        _ if home.is_some() => {
            let home = home.unwrap_or_default();
            finding.help(format!("`{text}` is a value of `{home}`: write that key"));
        }
        _ if !longer.is_empty() => {
            finding.help(format!("write which: {}", shown_list(&longer)));
        }
        Suggestion::Certain(word) => {
            finding.help(format!("write `{word}`"));
            finding.fix(Fix::new(format!("write `{word}`"), Safety::Safe).set(node, json!(word)));
        }
        _ if admits == Admits::NewerOnly && has_open_values(requested.key) && !sure => {
            finding.help("unless it is newer than gpulint's catalogue, no node can have it");
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

/// Whether pods may find the value on nodes outside EC2, or do not depend on it.
fn may_be_elsewhere(requested: &Requested<'_>, known: &BTreeSet<&'static str>) -> bool {
    match requested.requester {
        Requester::Nodes => false,
        Requester::Followers => true,
        Requester::Pods => {
            let known = |v: &Node<'_>| v.text().is_none_or(|t| known.contains(t));
            requested.excluded
                || !requested.key.starts_with("karpenter.k8s.aws/")
                || has_open_values(requested.key) && requested.values.iter().any(known)
        }
    }
}

/// The first values, in backticks.
fn alternatives(texts: &[&str]) -> String {
    let shown: Vec<String> = texts.iter().take(3).map(|text| format!("`{}`", ellipsize(text))).collect();
    let more = texts.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!(" or {more} more of the list") };
    format!("{}{more}", shown.join(" or "))
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
