//! Self-signed certificates: a CA and a serving certificate, in a Secret that all replicas share.
//!
//! The next step follows only from the Secret and the time ([`plan`]), so every replica computes the same; optimistic
//! concurrency on the resource version lets one of them write it.
//!
//! A CA is replaced in two steps, so that API servers trust the served certificate at any time:
//!
//! 1. Publish. The new CA is added to the caBundle of both webhook configurations; the old CA still
//!    signs serving certificates. The Secret records when both configurations were seen to contain it.
//! 2. Switch. [`Lifetimes::propagation_delay`] later every API server has read the bundle, and the new CA
//!    signs. The old CA stays in the bundle until it expires; its key is deleted.
//!
//! If the Secret is deleted, the same happens with what the replicas remember of it, except that the old
//! CA leaves the bundle as soon as every replica serves a certificate of the new one.

mod data;
mod make;
mod plan;
mod secret;

use std::time::Duration;

pub(crate) use data::SecretData;
pub(crate) use secret::Store;

#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Lifetime of the CA; it is replaced when a third of it is left.
    pub ca: Duration,
    /// Lifetime of the serving certificate; it is replaced when a third of it is left.
    pub serving: Duration,
    /// Time for which a new CA is in the webhook configurations before it signs certificates.
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

/// The parameters of certificates.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSpec {
    /// DNS names and IP addresses of the server.
    pub(crate) names: Vec<String>,
    pub(crate) lifetimes: Lifetimes,
    /// The CA, as PEM, that this replica last saw in all webhook configurations.
    pub(crate) published: Option<Vec<u8>>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub(crate) struct MakeError(#[from] rcgen::Error);
