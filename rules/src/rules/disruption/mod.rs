//! Budgets, consolidation, expiry, do-not-disrupt.

pub(crate) mod budget_blocks_forever;
pub(crate) mod budget_schedule_invalid;
pub(crate) mod budget_unlimited_outside_window;
pub(crate) mod consolidation_disrupts_training;
pub(crate) mod do_not_disrupt_invalid_value;
pub(crate) mod do_not_disrupt_misplaced;
pub(crate) mod do_not_disrupt_missing;
pub(crate) mod training_pool_without_budget;
