//! A NodeOverlay has no effect because another of equal weight sets the same.
//!
//! # Why
//! Where two overlays of equal weight set the price, or the capacity of one resource, for the same
//! instance types, Karpenter applies only the one whose name sorts last, also where both values are
//! equal. The other overlay gets the condition `ValidationSucceeded=False` with the reason
//! `Conflict`, and nothing of it is applied, not even what it sets alone.
//!
//! # Fix
//! Give the overlays different weights: the higher one wins where both match, and the other one
//! applies everywhere else. Or narrow their requirements until no instance type meets both.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1alpha1
//!  kind: NodeOverlay
//!  metadata: {name: discount}
//!  spec:
//! -  weight: 10
//! -  priceAdjustment: "-20%" # <-
//! +  weight: 20
//! +  priceAdjustment: "-20%"
//!    requirements:
//!      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, m7i]}
//!  ---
//!  apiVersion: karpenter.sh/v1alpha1
//!  kind: NodeOverlay
//!  metadata: {name: prefer-small-gpus}
//!  spec:
//!    weight: 10
//!    priceAdjustment: "-10%"
//!    requirements:
//!      - {key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4]}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeoverlays/>

use crate::karpenter::nodepool::requirement_spec;
use crate::karpenter::requirement::{Requirement, Requirements, is_well_known};
use crate::karpenter::scheduling::admitted_without_class;
use crate::rules::partners::overlays;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-overlay-conflict",
    kinds: &[Kind::NODE_OVERLAY],
    reads: &[Kind::NODE_OVERLAY],
    pairs: &[Pair { with: &[Kind::NODE_OVERLAY], partners: overlays, beside: nothing }],
    docs: docs(include_str!("node_overlay_conflict.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of overlays of one weight to compare; with more, nothing is reported.
const MOST_COMPARED: usize = 32;
/// The fields that change the price: an overlay has at most one of them.
const PRICES: [&str; 2] = ["price", "priceAdjustment"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let own = Overlay::read(object)?;
    let weight = object.path(&["spec", "weight"]);
    let weight = if weight.is_set() { weight.int()? } else { 0 };
    let same = ctx.cluster().views().overlays_of_weight(weight);
    let mut later: Vec<&Object> =
        same.iter().filter(|other| other.name() > object.name() && ctx.pairs_with(other)).collect();
    if later.is_empty() || later.len() > MOST_COMPARED {
        return None;
    }
    later.sort_by(|a, b| b.name().cmp(a.name()));
    // An overlay that conflicts with an earlier one is not applied, so no other overlay conflicts with it.
    let mut applied: Vec<Overlay<'_>> = Vec::new();
    for other in later {
        let other = Overlay::read(other)?;
        if !applied.iter().any(|winner| other.conflict(winner).is_some()) {
            applied.push(other);
        }
    }
    let (winner, conflict) = applied.iter().find_map(|winner| Some((winner, own.conflict(winner)?)))?;
    let what = match conflict.resource {
        None => "the price".to_owned(),
        Some(resource) => format!("`{resource}`"),
    };
    let (name, other) = (object.display_name(), winner.object.display_name());
    let example = conflict.example;
    let of_pools = |overlay: &Overlay<'_>| overlay.requirements.iter().any(|(key, _)| is_of_pools(key));
    let together = ctx.cluster().surely_pairs(object, winner.object);
    let finding = ctx.report(
        &conflict.own,
        format!(
            "NodeOverlay `{name}` has no effect: `{other}`, of equal weight, sets {what} of {example} too"
        ),
    );
    finding
        .at_key()
        .help("give them different weights, or requirements that no instance type meets both of")
        .related(winner.object, &conflict.theirs, "applied, because its name sorts last");
    // Files of one folder may be alternatives, and no pool may have the label that one of them requires.
    if !together || of_pools(&own) || of_pools(winner) {
        finding.severity(Severity::Info);
    }
    None
}

/// The fields that an overlay sets, and the nodes that it applies to.
struct Overlay<'a> {
    object: &'a Object,
    price: Option<Node<'a>>,
    capacity: Vec<(&'a str, Node<'a>)>,
    requirements: Requirements,
}

/// A field that two overlays set on the same types.
struct Conflict<'a> {
    resource: Option<&'a str>,
    own: Node<'a>,
    theirs: Node<'a>,
    /// One of the types.
    example: &'static str,
}

impl<'a> Overlay<'a> {
    /// `None` if it depends on a placeholder or an unreadable value.
    fn read(object: &'a Object) -> Option<Overlay<'a>> {
        let list = RequirementList::of(object)?.list;
        let capacity = object.path(&["spec", "capacity"]);
        if object.is_partial() || list.has_unknown() || !list.is_set() || capacity.has_unknown_key() {
            return None;
        }
        let mut requirements = Requirements::new();
        for item in list.items() {
            let spec = requirement_spec(&item)?;
            requirements.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
        }
        let prices = PRICES.map(|name| object.path(&["spec", name]));
        let capacity = capacity.entries().into_iter().filter(|(name, _)| !is_placeholder(name));
        Some(Overlay {
            object,
            price: prices.into_iter().find(Node::is_set),
            capacity: capacity.collect(),
            requirements,
        })
    }

    /// The first field that both overlays set on the same types.
    fn conflict<'b>(&self, other: &Overlay<'b>) -> Option<Conflict<'a>>
    where
        'b: 'a,
    {
        let price = self.price.clone().zip(other.price.clone()).map(|both| (None, both));
        let (resource, (own, theirs)) = price.or_else(|| {
            self.capacity.iter().find_map(|(name, own)| {
                let (_, theirs) = other.capacity.iter().find(|(theirs, _)| theirs == name)?;
                Some((Some(*name), (own.clone(), theirs.clone())))
            })
        })?;
        let example = self.common_type(other)?;
        Some(Conflict { resource, own, theirs, example })
    }

    /// An instance type that both apply to.
    fn common_type(&self, other: &Overlay<'_>) -> Option<&'static str> {
        // Both apply only to a pool that has the labels of both, and whether there is one is not known.
        let only = |a: &Requirements, b: &Requirements| {
            a.iter().any(|(key, _)| is_of_pools(key) && b.get(key).is_none())
        };
        let (a, b) = (&self.requirements, &other.requirements);
        if only(a, b) && only(b, a) || a.intersects(b).is_err() {
            return None;
        }
        let mut both = a.clone();
        both.add_all(b);
        if both.get(CAPACITY_TYPE).is_some_and(|types| types.has("reserved")) {
            both.remove(CAPACITY_TYPE);
        }
        let admitted = admitted_without_class(&both);
        let certain = admitted.uncertainties.is_empty();
        admitted.types.names().next().filter(|_| certain)
    }
}

fn is_of_pools(key: &str) -> bool {
    key == "karpenter.sh/nodepool" || !is_well_known(key)
}
