//! Workloads: pod templates, classes of work, and requirements on nodes.

pub(crate) mod admission_webhook;
pub mod class;
pub mod dra;
pub mod gpu;
pub(crate) mod node_labels;
pub mod selector;
pub mod template;
