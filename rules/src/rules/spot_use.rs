//! Whether pods can run on Spot nodes.

use std::sync::Arc;

use crate::catalog::CAPACITY_TYPE;
use crate::cluster::placement::{CandidatePool, requested_capacity_types};
use crate::lint::context::Context;
use crate::tree::node::Node;
use crate::workload::template::Template;

pub(super) enum SpotUse {
    /// The template requires them.
    Required,
    /// Every pool that admits the pods has only Spot nodes.
    Only(Arc<CandidatePool>),
    /// A pool that admits the pods has Spot nodes, and the pods explicitly tolerate them.
    Tolerated(Arc<CandidatePool>),
    /// A pool that admits the pods also has Spot nodes.
    Possible(Arc<CandidatePool>),
}

/// Whether the pods of a template can run on Spot nodes, and why. `None` if they cannot, or it is not known.
pub(super) fn spot_use(template: &Template<'_>, ctx: &Context<'_>) -> Option<SpotUse> {
    let capacity_types = requested_capacity_types(template);
    if let Some(types) = &capacity_types {
        if !types.contains("spot") {
            return None;
        }
        if types.len() == 1 {
            return Some(SpotUse::Required);
        }
    }
    let found = ctx.pools_for(template)?;
    let first = found.pools.iter().find(|pool| pool.allows_capacity_type("spot")).cloned()?;
    let accepts_on_demand = capacity_types.is_none_or(|types| types.contains("on-demand"));
    let has_only_spot = |pool: &Arc<CandidatePool>| {
        pool.allows_capacity_type("spot") && !(accepts_on_demand && pool.allows_capacity_type("on-demand"))
    };
    Some(if found.all_known().is_some_and(|pools| pools.iter().all(has_only_spot)) {
        SpotUse::Only(first)
    } else if template.spec.get("tolerations").items().any(|t| is_for_spot(&t)) {
        SpotUse::Tolerated(first)
    } else {
        SpotUse::Possible(first)
    })
}

/// Whether a toleration is for the taint of Spot nodes: its key mentions spot or is the capacity type.
fn is_for_spot(toleration: &Node<'_>) -> bool {
    let Some(key) = toleration.get("key").text() else { return false };
    let exists = toleration.get("operator").text() == Some("Exists");
    let value = toleration.get("value").text();
    if key == CAPACITY_TYPE {
        return exists || value == Some("spot");
    }
    key.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.eq_ignore_ascii_case("spot"))
        && value != Some("false")
}
