//! Certificates of our own: a CA and a serving pair, kept in a Secret that all replicas share.
//!
//! What is to be done follows from the Secret and the time alone ([`plan`]), so every replica
//! comes to the same result, and the resource version lets only one of them write it.
//!
//! A CA is replaced in two steps. First the new one is announced: both CAs stand in the caBundle,
//! and the serving certificate is still the old CA's, which renews it where that is due. The Secret
//! notes when both webhook configurations were seen to hold the new bundle. [`Lifetimes::trust`]
//! after that, when every API server has read it, the serving certificate is made anew by the new
//! CA. The old one stays in the bundle until it ends, its key does not. Where somebody deletes the
//! Secret, the same is done with what the replicas remember of it, and the old CA leaves as soon as
//! every replica serves what the new one signed.

mod make;
mod plan;
mod secret;

use std::time::Duration;

pub(crate) use plan::{SecretData, plan};
pub(crate) use secret::Store;

/// How long certificates live.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// The CA; it is replaced when a third of it is left.
    pub ca: Duration,
    /// The serving certificate; it is replaced when a third of it is left.
    pub serving: Duration,
    /// How long a new CA stands in the webhook configurations before anything is signed by it.
    pub propagation_delay: Duration,
}

const DAY: u64 = 24 * 60 * 60;

impl Default for Lifetimes {
    fn default() -> Lifetimes {
        Lifetimes {
            ca: Duration::from_secs(3 * 365 * DAY),
            serving: Duration::from_secs(90 * DAY),
            propagation_delay: Duration::from_secs(300),
        }
    }
}

/// What certificates are made for.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSpec {
    /// DNS names and addresses of the server.
    pub(crate) names: Vec<String>,
    pub(crate) lifetimes: Lifetimes,
    /// The CA, as PEM, that this replica saw in all webhook configurations last.
    pub(crate) published: Option<Vec<u8>>,
}

/// A certificate cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub(crate) struct MakeError(#[from] rcgen::Error);
