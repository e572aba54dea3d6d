//! Hygiene of suppressions: what `suppress` reports.

pub(crate) mod suppression_expired;
pub(crate) mod suppression_invalid;
pub(crate) mod suppression_unused;
pub(crate) mod suppression_without_reason;
