//! Typed questions over the cursor: what a quantity, a budget, a workload, a pool is.

pub mod requirement;
pub mod views;
