//! Reservations that one NodeClass of EKS Auto Mode selects are used by no other.
//!
//! # Why
//! Nodes of EKS Auto Mode run in open capacity reservations by themselves, until one NodeClass of the
//! cluster has `capacityReservationSelectorTerms`. From then on nodes of all other classes leave open
//! reservations unused, and both are paid for. Whether there are open reservations, the manifests do not
//! say.
//!
//! # Fix
//! Give each class whose nodes should run in reservations terms of its own.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: eks.amazonaws.com/v1
//!  kind: NodeClass
//!  metadata: {name: training}
//!  spec:
//!    role: AmazonEKSAutoNodeRole
//!    subnetSelectorTerms: [{id: subnet-0123456789abcdef0}]
//!    securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]
//!    capacityReservationSelectorTerms: [{id: cr-0123456789abcdef0}]
//!  ---
//!  apiVersion: eks.amazonaws.com/v1
//!  kind: NodeClass
//!  metadata: {name: web}
//! -spec: # <-
//! +spec:
//!    role: AmazonEKSAutoNodeRole
//!    subnetSelectorTerms: [{id: subnet-0123456789abcdef0}]
//!    securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]
//! +  capacityReservationSelectorTerms: [{tags: {team: web}}]
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auto-odcr.html>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-reservation-scope",
    kinds: &[Kind::AUTO_MODE_NODE_CLASS],
    reads: &[Kind::AUTO_MODE_NODE_CLASS],
    docs: docs(include_str!("auto_mode_reservation_scope.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::NodeClass)
};

const TERMS: &str = "capacityReservationSelectorTerms";
/// Maximum number of classes to look at.
const MAX_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let terms = object.path(&["spec", TERMS]);
    if object.is_partial() || object.is_incomplete() || terms.is_set() || terms.is_unknown() {
        return None;
    }
    let selects = |other: &&Object| other.path(&["spec", TERMS]).items().next().is_some();
    let mut others = ctx.cluster().of(Kind::AUTO_MODE_NODE_CLASS).take(MAX_COMPARED);
    let other = others.find(|other| selects(other) && ctx.pairs_with(other))?;
    let (name, selecting) = (object.display_name(), other.display_name());
    let message = format!(
        "nodes of NodeClass `{name}` use no open reservation, since `{selecting}` selects reservations"
    );
    ctx.report(&terms, message)
        .help(format!("write `{TERMS}` where nodes of this class should run in reservations"))
        .related(other, &other.path(&["spec", TERMS]), "these terms hold for the whole cluster");
    None
}
