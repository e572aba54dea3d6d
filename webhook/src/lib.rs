//! Answers Kubernetes admission reviews with gpulint's findings.
//!
//! [`review()`] and [`mutate()`] are pure functions from an AdmissionReview v1 to an
//! AdmissionReview v1. They do no I/O; the command line calls them for `gpulint review`, the
//! server ([`serve`]) for every request. [`manifests`] says what installs the server.

mod answer;
mod cache;
mod certificates;
mod judge;
pub mod kinds;
mod limits;
pub mod logs;
pub mod manifests;
mod memory;
mod metrics;
mod mutate;
mod register;
pub mod serve;
mod tls;
mod wire;

pub use answer::{Decision, ReviewContext, ReviewError, ReviewOutcome, answer, review};
pub use certificates::Lifetimes;
pub use limits::Limits;
pub use mutate::mutate;
pub use register::Registration;
pub use tls::{TlsError, TlsFiles, TlsFloor};
