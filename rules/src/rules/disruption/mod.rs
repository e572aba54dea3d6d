//! Budgets, consolidation, expiry, do-not-disrupt.

pub(crate) mod ami_unpinned;
pub(crate) mod budget_blocks_forever;
mod budget_comments;
mod budget_hours;
pub(crate) mod budget_reason_inert;
pub(crate) mod budget_schedule_invalid;
pub(crate) mod budget_shadowed;
pub(crate) mod budget_unlimited_outside_window;
pub(crate) mod budget_utc;
pub(crate) mod consolidation_defaulted_on_gpu;
pub(crate) mod consolidation_disrupts_training;
pub(crate) mod consolidation_interrupts_singleton;
pub(crate) mod consolidation_never;
pub(crate) mod consolidation_restarted_by_jobs;
pub(crate) mod do_not_disrupt_invalid_value;
pub(crate) mod do_not_disrupt_misplaced;
pub(crate) mod do_not_disrupt_missing;
pub(crate) mod do_not_disrupt_on_daemonset;
pub(crate) mod do_not_disrupt_on_serving;
pub(crate) mod do_not_disrupt_on_spot;
pub(crate) mod do_not_disrupt_without_grace_period;
pub(crate) mod drain_deadlock;
pub(crate) mod expire_after_short;
pub(crate) mod expiry_ignores_budgets;
pub(crate) mod expiry_interrupts_server;
pub(crate) mod expiry_kills_training;
pub(crate) mod grace_period_ends_runs;
mod runners;
mod runs;
pub(crate) mod tolerates_disruption_taint;
pub(crate) mod training_pool_without_budget;
pub(crate) mod workflow_retry_misses_node_loss;

use crate::karpenter::nodepool::NodePool;
use crate::lint::context::Context;
use crate::object::Object;
use crate::workload::template::{Template, templates};

/// Whether all pods of a workload go to nodes of the pool, as far as is known.
fn goes_to(workload: &Object, pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    let goes = |template: &Template<'_>| {
        let found = ctx.pools_for(template)?;
        let [only] = found.all_known()? else { return None };
        Some(only.object().is_same_resource(pool.object()))
    };
    let templates = templates(workload);
    !templates.is_empty() && templates.iter().all(|template| goes(template) == Some(true))
}
