//! Workloads: pod templates, classes of work, and requirements on nodes.

pub(crate) mod admission_webhook;
pub(crate) mod architecture;
pub(crate) mod attention;
pub(crate) mod checkpoint;
pub mod class;
pub(crate) mod command;
pub(crate) mod devices;
pub(crate) mod diagnostic;
pub mod dra;
pub(crate) mod gang;
pub mod gpu;
pub(crate) mod gpu_nodes;
pub(crate) mod gpu_share;
pub(crate) mod launcher;
pub(crate) mod mig;
pub(crate) mod model;
mod mpi;
pub(crate) mod node_labels;
pub(crate) mod node_spread;
pub(crate) mod processes;
pub(crate) mod ray;
pub(crate) mod security;
pub mod selector;
pub(crate) mod server;
pub(crate) mod suspended;
pub mod template;
pub(crate) mod workflow;
