//! Answers Kubernetes admission reviews with gpulint's findings.
//!
//! [`review()`] is a pure function from an AdmissionReview v1 to an AdmissionReview v1. It does no
//! I/O; the command line calls it for `gpulint review`, a server for every request.

mod answer;
pub mod kinds;
mod wire;

pub use answer::{Answer, Decision, ReviewError, answer, review};
