//! A real kube-apiserver, with the real CRDs and KEDA's own admission webhooks, verifies the findings of
//! gpulint that claim a rejection.
//!
//! `KUBEBUILDER_ASSETS=$(tests/cluster/build) cargo test --test it cluster::`; without the variable each test
//! prints that it was skipped, and passes.

mod cases;
mod certificates;
mod differences;
mod expressions;
mod judge;
mod keda;
mod mutants;
mod places;
mod process;
mod scalers;
pub(crate) mod server;
mod tally;
mod verdicts;
