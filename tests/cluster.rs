//! A real kube-apiserver, with the real CRDs and KEDA's own admission webhooks, judges what gpulint says about refusals.
//!
//! `KUBEBUILDER_ASSETS=$(tests/cluster/build) cargo test --test cluster`; without the variable each test says that it was
//! skipped, and passes.

#![allow(clippy::unwrap_used)]

#[path = "cluster/cases.rs"]
mod cases;
#[path = "cluster/differences.rs"]
mod differences;
#[path = "cluster/judge.rs"]
mod judge;
#[path = "cluster/keda.rs"]
mod keda;
#[path = "cluster/mutants.rs"]
mod mutants;
#[path = "cluster/places.rs"]
mod places;
#[path = "cluster/server.rs"]
mod server;
#[path = "cluster/tally.rs"]
mod tally;
#[path = "cluster/verdicts.rs"]
mod verdicts;
#[path = "../rules/tests/support/walk.rs"]
mod walk;
