//! Self-signed certificates: a CA and a serving certificate, in a Secret that all replicas share.
//!
//! What to do next follows from the Secret and the time alone ([`plan`]), so every replica computes the
//! same; optimistic concurrency on the resource version lets one of them write it.
//!
//! A CA is replaced in two steps, so that API servers trust what is served at every moment:
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

/// Lifetimes of certificates.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// The CA; it is replaced when a third of it is left.
    pub ca: Duration,
    /// The serving certificate; it is replaced when a third of it is left.
    pub serving: Duration,
    /// How long a new CA is in the webhook configurations before it signs anything.
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

/// What certificates are issued for.
#[derive(Clone, Debug)]
pub(crate) struct CertificateSpec {
    /// DNS names and IP addresses of the server.
    pub(crate) names: Vec<String>,
    pub(crate) lifetimes: Lifetimes,
    /// The CA, as PEM, that this replica last saw in all webhook configurations.
    pub(crate) published: Option<Vec<u8>>,
}

/// A certificate cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub(crate) struct MakeError(#[from] rcgen::Error);
