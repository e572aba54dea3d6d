//! Answers Kubernetes admission reviews with gpulint's findings.
//!
//! [`review()`] and [`mutate()`] are functions from an AdmissionReview v1 to an AdmissionReview v1,
//! without I/O. `gpulint review` calls them on the command line, the server ([`serve`]) for every
//! request. [`manifests`] generates the objects that install the server in a cluster.

mod cache;
mod cause;
mod certificates;
mod confirm;
mod evaluate;
mod evaluation_cache;
mod exemption;
#[cfg(test)]
mod growth;
pub mod kinds;
mod limits;
pub mod logs;
pub mod manifests;
mod metrics;
mod mutate;
mod registration;
mod review;
pub mod serve;
mod supervise;
mod tls;
mod warm;
mod wire;

pub use cache::kept;
pub use certificates::Lifetimes;
pub use limits::Limits;
pub use mutate::mutate;
pub use registration::Registration;
pub use review::{ReviewContext, ReviewError, ReviewOutcome, review, review_in_context};
pub use tls::{TlsError, TlsFiles, TlsFloor};
