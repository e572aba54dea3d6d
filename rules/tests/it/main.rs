//! Tests of the engine through its public API, as the command line and the admission server use it.

#![allow(
    clippy::disallowed_methods,
    clippy::module_inception,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests read files, and what fails here fails the test"
)]

mod agreement;
mod capacity;
mod cases;
mod catalogue;
mod complete;
mod config;
mod controllers;
mod costs;
mod crds;
mod fit;
mod fixes;
mod identity;
mod keda_versions;
mod laws;
mod layers;
mod pairs;
mod pdbs;
mod placement;
mod pools;
mod reads;
mod regions;
mod remedies;
mod rule_index;
mod sets;
mod suppress;
mod version_matrix;
mod versions;
mod words;
mod workspace;
