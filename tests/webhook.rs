//! The admission server from outside: the built binary over real TLS, and under a real API server.
//!
//! The tests of `webhook/in_cluster.rs` need `KUBEBUILDER_ASSETS` (see `cluster.rs`); without it they say that they are skipped.

#![cfg(feature = "webhook")]
#![allow(clippy::unwrap_used)]

#[path = "webhook/balancer.rs"]
mod balancer;
#[path = "webhook/client.rs"]
mod client;
#[path = "cluster/server.rs"]
mod cluster;
#[path = "webhook/drain.rs"]
mod drain;
#[path = "webhook/fake.rs"]
mod fake;
#[path = "webhook/in_cluster.rs"]
mod in_cluster;
#[path = "webhook/load.rs"]
mod load;
#[path = "webhook/manifests.rs"]
mod manifests;
#[path = "webhook/mutation.rs"]
mod mutation;
#[path = "webhook/parity.rs"]
mod parity;
#[path = "webhook/refused.rs"]
mod refused;
#[path = "webhook/reviews.rs"]
mod reviews;
#[path = "webhook/server.rs"]
mod server;
#[path = "webhook/soak.rs"]
mod soak;
#[path = "webhook/tls.rs"]
mod tls;
#[path = "../rules/tests/support/walk.rs"]
mod walk;
