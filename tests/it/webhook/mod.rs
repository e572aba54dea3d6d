//! The admission server from outside: the built binary over real TLS, and under a real API server.
//!
//! The tests of `in_cluster.rs` need `KUBEBUILDER_ASSETS` (see `cluster/mod.rs`); without it they are skipped.

mod attacks;
mod balancer;
mod bundles;
mod client;
mod confirm;
mod costs;
mod crowd;
mod drain;
mod fake;
mod in_cluster;
mod install;
mod large;
mod load;
mod manifests;
mod mutation;
mod parity;
mod refused;
mod reviews;
mod server;
mod soak;
mod tenants;
mod tls;
mod watched;
