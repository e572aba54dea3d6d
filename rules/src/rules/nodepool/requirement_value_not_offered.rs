//! A requirement names instance types that EC2 does not offer.
//!
//! # Why
//! EC2 retires instance types, and a region does not have all of them. A pool that allows only such types
//! starts no nodes, and in a list they narrow the choice without a message. The region is that of
//! `platform.region` in the configuration; without it only types count that no region offers any more. EC2's
//! lists may have changed since, so this is a note.
//!
//! # Fix
//! Remove the value, or write one that the region offers.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//! -        - key: karpenter.k8s.aws/instance-family
//! -          operator: In
//! -          values: [m7i, p3] # <-
//! +        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!    limits: {cpu: 500}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/reference/instance-types/>
//! - <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-discovery.html>

use super::requested_values::{Requested, Requester, short_name, visit_values};
use crate::catalog;
use crate::karpenter::labels::value::has_known_values;
use crate::karpenter::requirement_list::KINDS_AND_WORKLOADS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-value-not-offered",
    kinds: KINDS_AND_WORKLOADS,
    docs: docs(include_str!("requirement_value_not_offered.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::NodePool)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    visit_values(object, ctx, check_values);
    None
}

fn check_values(requested: &Requested<'_>, ctx: &mut Context<'_>) {
    if !requested.excluded && has_known_values(requested.key) {
        for node in &requested.values {
            check_value(node, requested, ctx);
        }
    }
}

fn check_value(node: &Node<'_>, requested: &Requested<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let text =
        node.text().filter(|t| catalog::values(requested.key).is_some_and(|known| known.contains(t)))?;
    let index = catalog::index(requested.key)?;
    let with = index.with(text)?;
    let region = ctx.platform().region.as_deref();
    let there = region.and_then(catalog::offered_in);
    let gone = |types: &TypeSet| types.is_subset(catalog::retired());
    let absent = |types: &TypeSet| gone(types) || there.is_some_and(|t| t.is_disjoint(types));
    // Pods need only one value that EC2 offers.
    let other = |v: &Node<'_>| {
        let with = v.text().map(|text| index.with(text));
        with.is_none_or(|with| with.is_some_and(|types| !absent(types)))
    };
    let has_alternative = || match requested.requester {
        Requester::Nodes => false,
        Requester::Followers => true,
        Requester::Pods => requested.values.iter().any(other),
    };
    if !absent(with) || has_alternative() {
        return None;
    }
    let (name, text) = (short_name(requested.key), ellipsize(text));
    let (message, help) = match region {
        Some(region) if !gone(with) => (
            format!("the {name} `{text}` is not offered in `{region}`"),
            "take it out, unless the region has got it since then",
        ),
        _ => (
            format!("the {name} `{text}` is no longer offered in any region"),
            "take a newer one, unless this account still has it",
        ),
    };
    let date = catalog::date();
    ctx.report(node, message).help(format!("{help} (according to EC2's lists of {date})"));
    None
}
