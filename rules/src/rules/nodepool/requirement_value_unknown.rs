//! A value that no instance type has.
//!
//! # Why
//!
//! Instance labels are compared letter by letter, and nobody checks the value: `A10G`, `g5` as a
//! category or `x86_64` as an architecture match nothing, and a misspelt name in a list silently
//! narrows the choice. Only a tenancy of which no value exists is refused, by Karpenter, from 1.9
//! on. A name that may be newer than gpulint's catalogue is only a note.
//!
//! # Fix
//!
//! Write the value as the instance types have it; label values are in lower case.
//!
//! # Bad
//!
//! ```yaml,bad
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: gpu
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!       requirements:
//!         - key: karpenter.k8s.aws/instance-gpu-name
//!           operator: In
//!           values: [l4, A10G] # <-
//!         - key: karpenter.k8s.aws/instance-gpu-count
//!           operator: Gt
//!           values: ["0"]
//!         - key: kubernetes.io/arch
//!           operator: In
//!           values: [amd64]
//!         - key: karpenter.sh/capacity-type
//!           operator: In
//!           values: [on-demand]
//!       taints:
//!         - key: nvidia.com/gpu
//!           value: "true"
//!           effect: NoSchedule
//!   limits:
//!     nvidia.com/gpu: 8
//!   disruption:
//!     consolidationPolicy: WhenEmpty
//!     consolidateAfter: 5m
//! ```
//!
//! # Good
//!
//! ```yaml,fixed
//! apiVersion: karpenter.sh/v1
//! kind: NodePool
//! metadata:
//!   name: gpu
//! spec:
//!   template:
//!     spec:
//!       nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!       requirements:
//!         - key: karpenter.k8s.aws/instance-gpu-name
//!           operator: In
//!           values: [l4, a10g]
//!         - key: karpenter.k8s.aws/instance-gpu-count
//!           operator: Gt
//!           values: ["0"]
//!         - key: kubernetes.io/arch
//!           operator: In
//!           values: [amd64]
//!         - key: karpenter.sh/capacity-type
//!           operator: In
//!           values: [on-demand]
//!       taints:
//!         - key: nvidia.com/gpu
//!           value: "true"
//!           effect: NoSchedule
//!   limits:
//!     nvidia.com/gpu: 8
//!   disruption:
//!     consolidationPolicy: WhenEmpty
//!     consolidateAfter: 5m
//! ```
//!
//! # References
//!
//! - <https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>
//! - <https://karpenter.sh/docs/reference/instance-types/>

use std::collections::BTreeSet;

use serde_json::json;

use crate::catalog;
use crate::finding::{Severity, shown};
use crate::fix::{Fix, Safety};
use crate::model::label_key::Place;
use crate::model::names::is_label_value;
use crate::model::requirement::{Operator, normalise};
use crate::model::requirement_list::{Provider, RequirementList};
use crate::node::Node;
use crate::object::{Kind, Object};
use crate::rule::{Authority, Check, Context, Group, Rule, docs};
use crate::settings::Version;
use crate::suggest::nearest;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-value-unknown",
    group: Group::NodePool,
    severity: Severity::Warning,
    since: "0.1.0",
    kinds: &[Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::NODE_OVERLAY],
    reads: &[],
    params: &[],
    refused_by: &[Authority::Karpenter],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("requirement_value_unknown.rs")),
    check: Check::Object(check),
};

const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// Labels of which new values come every year.
const OPEN: [&str; 4] = [
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-size",
    "node.kubernetes.io/instance-type",
];

/// Labels whose values are words that seldom grow.
const CLOSED: [&str; 10] = [
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-capability-flex",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-name",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    TENANCY,
];

fn check(object: &Object, ctx: &mut Context<'_>) {
    let Some(list) = RequirementList::of(object) else {
        return;
    };
    if list.provider == Provider::Foreign {
        return;
    }
    for item in list.items() {
        let (Some(key), Some(operator)) = (item.key(), item.operator()) else {
            continue;
        };
        if !matches!(operator, Operator::In | Operator::NotIn) {
            continue;
        }
        let auto = key
            .strip_prefix("eks.amazonaws.com/instance-")
            .filter(|_| list.provider == Provider::AutoMode)
            .map(|rest| format!("karpenter.k8s.aws/instance-{rest}"));
        let key = auto.as_deref().unwrap_or_else(|| normalise(key));
        if !OPEN.contains(&key) && !CLOSED.contains(&key) {
            continue;
        }
        let Some(known) = catalog::values(key) else {
            continue;
        };
        let values = item.values();
        // As for capacity types, one valid value is enough.
        let refused = key == TENANCY
            && operator == Operator::In
            && list.place != Place::Claim
            && ctx.platform().karpenter >= Version::new(1, 9)
            && !(values.items()).any(|v| v.text().is_none_or(|t| known.contains(t)));
        for node in values.items() {
            if let Some(text) = node.text().filter(|t| !known.contains(t)) {
                judge(&node, text, key, known, refused, ctx);
            }
        }
    }
}

fn judge(
    node: &Node<'_>,
    text: &str,
    key: &str,
    known: &BTreeSet<&'static str>,
    refused: bool,
    ctx: &mut Context<'_>,
) {
    // What no label can have is requirement-value-syntax's.
    if !is_label_value(text) {
        return;
    }
    let name = key.rsplit('/').next().unwrap_or(key);
    let certain = certain(text, key, known);
    let near = certain.or_else(|| guess(text, key, known));
    let slip = near.is_some_and(|near| is_slip(text, near));
    let severity = match (OPEN.contains(&key), certain.is_some() || slip) {
        _ if refused => Severity::Error,
        // A family or type may be newer than the catalogue.
        (true, false) => Severity::Info,
        _ => Severity::Warning,
    };
    let finding = ctx.report(
        node,
        format!("no instance type has the {name} `{}`", shown(text)),
    );
    finding.severity(severity);
    if refused {
        finding.refused_by(Some(Authority::Karpenter));
    }
    match (certain, near) {
        (Some(word), _) => {
            finding.help(format!("write `{word}`"));
            finding.fix(Fix::new(format!("write `{word}`"), Safety::Safe).set(node, json!(word)));
        }
        (None, Some(word)) if severity > Severity::Info => {
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

/// The value that another spelling can only mean: other case, or a processor's other name.
fn certain(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let word = match (key, lower.as_str()) {
        ("kubernetes.io/arch", "x86_64" | "x86-64" | "x64") => "amd64",
        ("kubernetes.io/arch", "aarch64") => "arm64",
        (_, word) => word,
    };
    known.get(word).copied()
}

/// The value that is probably meant.
fn guess(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    if key.ends_with("gpu-name") {
        // `nvidia-h100` or `NVIDIA-H100-80GB`: one part is the name.
        let part = lower.split(['-', '_']).find_map(|part| known.get(part));
        if let Some(part) = part {
            return Some(part);
        }
    }
    if key.ends_with("instance-category") {
        // A family or a type names its category by the letters that it starts with.
        let end = lower.find(|c: char| !c.is_ascii_lowercase())?;
        return known.get(&lower[..end]).copied();
    }
    nearest(&lower, known.iter().copied())
}

/// Whether one text is at most two letters from the other and of its length, so that it is no
/// newer name but a slip.
fn is_slip(text: &str, near: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (text.chars().collect(), near.chars().collect());
    let digits = |all: &[char]| -> Vec<char> {
        all.iter().filter(|c| c.is_ascii_digit()).copied().collect()
    };
    // A newer generation or size differs in its digits.
    a.len().abs_diff(b.len()) <= 2 && a.len() >= 5 && digits(&a) == digits(&b)
}
