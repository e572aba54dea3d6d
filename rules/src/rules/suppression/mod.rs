//! Hygiene of suppressions: what `suppress` reports.

pub(crate) mod suppression_expired;
pub(crate) mod suppression_invalid;
pub(crate) mod suppression_unused;
