//! Typed questions over the cursor: what a quantity, a budget, a workload, a pool is.

pub(crate) mod admission;
pub mod budget;
pub mod class;
pub mod cron;
pub(crate) mod do_not_disrupt;
pub mod dra;
pub mod duration;
pub(crate) mod fallback;
pub mod gpu;
pub mod keda;
pub(crate) mod label_key;
pub mod migration;
pub mod names;
pub(crate) mod node_class;
pub(crate) mod node_labels;
pub mod nodepool;
pub mod quantity;
pub mod requirement;
pub(crate) mod requirement_list;
pub mod scheduling;
pub mod selector;
pub mod timezone;
pub mod views;
pub mod workload;
