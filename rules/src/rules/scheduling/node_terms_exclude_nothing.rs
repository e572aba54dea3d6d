//! Terms of a node affinity each exclude some nodes, and together almost none.
//!
//! # Why
//! The terms under `nodeSelectorTerms` are alternatives: a node has to match one of them. A term that only
//! excludes, such as "not Spot", matches each node that another term excludes. Two such terms leave out the
//! nodes that both exclude, and nothing else: with "not Spot" and "not arm64" the pods go to Spot nodes of
//! amd64 and to on-demand nodes of arm64. Karpenter takes the first term with which a node can be started.
//!
//! Nothing is said where a term also demands a label, or where all terms exclude one value: they may be
//! alternatives on purpose.
//!
//! # Fix
//! Write all expressions into one term: the expressions of a term hold together.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: index, namespace: search}
//!  spec:
//!    affinity:
//!      nodeAffinity:
//!        requiredDuringSchedulingIgnoredDuringExecution:
//!          nodeSelectorTerms:
//! -          - matchExpressions: # <-
//! -              - {key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}
//! -          - matchExpressions:
//! -              - {key: kubernetes.io/arch, operator: NotIn, values: [arm64]}
//! +          - matchExpressions:
//! +              - {key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}
//! +              - {key: kubernetes.io/arch, operator: NotIn, values: [arm64]}
//!    containers:
//!      - name: main
//!        image: example.com/index:1.4.0
//!        resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity>
//! - <https://karpenter.sh/docs/concepts/scheduling/#node-affinity>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-terms-exclude-nothing",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("node_terms_exclude_nothing.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Scheduling)
};

/// The labels that a term excludes: a key with its values, of which none stands for all.
type Excluded<'a> = Vec<(&'a str, Vec<&'a str>)>;

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms = template.required_terms();
    let excluded: Vec<Excluded<'_>> = terms.items().map(|term| excluded_by(&term)).collect::<Option<_>>()?;
    let is_apart = |at: usize| excluded[..at].iter().all(|before| !overlap(before, &excluded[at]));
    if excluded.len() < 2 || !(1..excluded.len()).all(is_apart) {
        return None;
    }
    let first = terms.items().next()?;
    let keys: Vec<&str> = excluded.iter().flatten().map(|(key, _)| *key).collect();
    let message = match keys.as_slice() {
        [one, other] if one == other => {
            format!("these terms are alternatives, and together exclude no value of `{one}`")
        }
        [one, other] => {
            format!(
                "these terms are alternatives: one lets in what the other excludes, by `{one}` or `{other}`"
            )
        }
        _ => "these terms are alternatives: each lets in what the others exclude".to_owned(),
    };
    ctx.report(&first, message)
        .help("write all expressions into the `matchExpressions` of one term: there they hold together");
    None
}

/// What a term excludes; `None` if it demands something, or is not known.
fn excluded_by<'a>(term: &Node<'a>) -> Option<Excluded<'a>> {
    let expressions = term.get("matchExpressions");
    if term.has_unknown() || !term.get("matchFields").is_absent() || expressions.items().next().is_none() {
        return None;
    }
    let of = |expression: Node<'a>| {
        let values = match expression.get("operator").text()? {
            "DoesNotExist" => Vec::new(),
            "NotIn" => {
                let values: Option<Vec<_>> =
                    expression.get("values").items().map(|value| value.text()).collect();
                values.filter(|values| !values.is_empty())?
            }
            _ => return None,
        };
        Some((expression.get("key").text()?, values))
    };
    expressions.items().map(of).collect()
}

/// Whether two terms exclude a value both.
fn overlap(one: &Excluded<'_>, other: &Excluded<'_>) -> bool {
    one.iter().any(|(key, values)| {
        let mut same_key = other.iter().filter(|(other, _)| other == key);
        same_key.any(|(_, others)| {
            values.is_empty() || others.is_empty() || values.iter().any(|value| others.contains(value))
        })
    })
}
