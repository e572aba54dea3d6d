//! Answers Kubernetes admission reviews with gpulint's findings.
//!
//! [`review()`] and [`mutate()`] are pure functions from an AdmissionReview v1 to an
//! AdmissionReview v1. They do no I/O; the command line calls them for `gpulint review`, a server for every request.

mod answer;
pub mod kinds;
mod mutate;
mod wire;

pub use answer::{Answer, Decision, ReviewError, answer, review};
pub use mutate::mutate;
