//! Whether pods can run on Spot nodes.

use std::sync::Arc;

use crate::cluster::placement::{CandidatePool, requested_capacity_types};
use crate::karpenter::nodepool::CAPACITY_TYPE;
use crate::lint::context::Context;
use crate::tree::node::Node;
use crate::workload::template::Template;

/// How pods come to Spot nodes.
pub(super) enum Spot {
    /// The template requires it.
    Asked,
    /// Every pool that admits the pods has only Spot nodes.
    Only(Arc<CandidatePool>),
    /// A pool that admits the pods has Spot nodes, and the pods explicitly tolerate them.
    Tolerated(Arc<CandidatePool>),
    /// A pool that admits the pods also has Spot nodes.
    Possible(Arc<CandidatePool>),
}

/// Whether the pods of a template can run on Spot nodes; `None` where they cannot, or it is not known.
pub(super) fn spot(template: &Template<'_>, ctx: &Context<'_>) -> Option<Spot> {
    let asked = requested_capacity_types(template);
    if let Some(asked) = &asked {
        if !asked.contains("spot") {
            return None;
        }
        if asked.len() == 1 {
            return Some(Spot::Asked);
        }
    }
    let places = ctx.index().views().feasibility(ctx.platform());
    let sites = places.feasible_pools_of(template)?;
    let near = |site: &&Arc<CandidatePool>| ctx.pairs_with(site.object());
    let first = sites.iter().filter(near).find(|site| site.allows_capacity_type("spot")).cloned()?;
    let takes_on_demand = asked.is_none_or(|asked| asked.contains("on-demand"));
    let is_spot = |site: &Arc<CandidatePool>| {
        site.allows_capacity_type("spot") && !(takes_on_demand && site.allows_capacity_type("on-demand"))
    };
    let only = sites.iter().all(is_spot);
    Some(if only && !places.has_unreadable_pools() {
        Spot::Only(first)
    } else if template.spec.get("tolerations").items().any(|t| is_for_spot(&t)) {
        Spot::Tolerated(first)
    } else {
        Spot::Possible(first)
    })
}

/// Whether a toleration is for the taint of Spot nodes: its key mentions spot or is the capacity type.
fn is_for_spot(toleration: &Node<'_>) -> bool {
    let Some(key) = toleration.get("key").text() else {
        return false;
    };
    let exists = toleration.get("operator").text() == Some("Exists");
    let value = toleration.get("value").text();
    if key == CAPACITY_TYPE {
        return exists || value == Some("spot");
    }
    key.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.eq_ignore_ascii_case("spot"))
        && value != Some("false")
}
