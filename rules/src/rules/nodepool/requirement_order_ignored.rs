//! A comment counts on the order of a requirement's values, which has no effect.
//!
//! # Why
//! The values of `In` are a set. Karpenter orders offerings by price, and where a pool allows both
//! `on-demand` and `spot`, it asks for Spot first and takes on-demand only where Spot has no capacity. A
//! list that begins with `on-demand` "to prioritize it" gets Spot, with its interruptions.
//!
//! # Fix
//! Write two NodePools: the one whose nodes are wanted first with the higher `weight`. It is a warning for
//! capacity types whose comment puts on-demand first, and information for other keys.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: web}
//!  spec:
//! +  weight: 20
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - key: karpenter.sh/capacity-type
//!            operator: In
//! -          # On-demand first, Spot as fallback.
//! -          values: [on-demand, spot] # <-
//! +          values: [on-demand]
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!    limits: {cpu: 500}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#capacity-type>
//! - <https://karpenter.sh/docs/concepts/nodepools/#specweight>

use crate::karpenter::requirement::normalise;
use crate::rules::comments::comments_on;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "requirement-order-ignored",
    kinds: &[Kind::NODE_POOL],
    docs: docs(include_str!("requirement_order_ignored.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::NodePool)
};

/// What comments say of an order of values.
const CLAIMS: [&str; 9] = [
    "order of preference",
    "preference order",
    "priority order",
    "order of priority",
    "listed first",
    "preferred first",
    "tried first",
    "in this order",
    "order matters",
];
/// What comments say of on-demand capacity that comes before Spot.
const ON_DEMAND_FIRST: [&str; 13] = [
    "on-demand first",
    "on-demand listed first",
    "on-demand is first",
    "on-demand, then spot",
    "on-demand then spot",
    "prefer on-demand",
    "prefers on-demand",
    "prioritize on-demand",
    "on-demand preferred",
    "spot as fallback",
    "spot as a fallback",
    "fallback to spot",
    "fall back to spot",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for item in ctx.requirements()?.items() {
        let values = item.values();
        let Some((key, texts)) = item.key().zip(item.texts()) else { continue };
        if item.operator() != Some(Operator::In) || texts.len() < 2 {
            continue;
        }
        let comments = comments_on(object, &values);
        if normalise(key) == CAPACITY_TYPE {
            let has_both = ["on-demand", "spot"].iter().all(|one| texts.contains(one));
            if has_both && comments.iter().any(|comment| puts_on_demand_first(comment)) {
                let message =
                    "the order of values has no effect: with both Karpenter takes Spot before on-demand";
                ctx.report(&values, message)
                    .help("write a pool for `on-demand` with the higher `weight`, and one for `spot`");
            }
        } else if comments.iter().any(|comment| mentions(comment, &CLAIMS)) {
            ctx.report(&values, "the order of values has no effect: Karpenter takes the cheapest offering")
                .severity(Severity::Info)
                .help("write a pool for what is preferred, with the higher `weight`");
        }
    }
    None
}

/// Whether a comment says that on-demand capacity comes before Spot.
fn puts_on_demand_first(comment: &str) -> bool {
    let comment = comment.replace("on demand", "on-demand").replace("ondemand", "on-demand");
    let is_first = match (comment.find("on-demand"), comment.find("spot")) {
        (Some(own), Some(other)) => own < other,
        (own, _) => own.is_some(),
    };
    mentions(&comment, &ON_DEMAND_FIRST) || is_first && mentions(&comment, &CLAIMS)
}
