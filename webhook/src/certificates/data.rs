//! The data of the Secret: its keys, and the parsed values.

use std::collections::BTreeMap;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{CertificateSpec, MakeError, make};
use crate::tls::{Pair, validity};

/// The data of the Secret. Debug prints the keys only.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct SecretData(pub(crate) BTreeMap<String, Vec<u8>>);

impl std::fmt::Debug for SecretData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

pub(super) const CA: &str = "ca.crt";
pub(super) const CA_KEY: &str = "ca.key";
/// When the CA was created, in Unix time.
pub(super) const CA_SINCE: &str = "ca-since";
/// When both webhook configurations were first seen to contain the CA, in Unix time.
pub(super) const CA_PUBLISHED: &str = "ca-announced";
/// The previous CA, as long as it is trusted.
pub(super) const CA_OLD: &str = "ca-old.crt";
/// Its private key, as long as it signs serving certificates.
pub(super) const CA_OLD_KEY: &str = "ca-old.key";
/// Present if the previous CA comes from a Secret that was deleted.
pub(super) const CA_OLD_LOST: &str = "ca-old-lost";
/// When trust in the previous CA ends, in Unix time, if that is before it expires.
pub(super) const CA_OLD_UNTIL: &str = "ca-old-until";
pub(super) const SERVING: &str = "tls.crt";
pub(super) const SERVING_KEY: &str = "tls.key";
/// When the serving certificate was issued, in Unix time.
pub(super) const SERVING_SINCE: &str = "tls-since";
/// The names of the serving certificate, one per line.
pub(super) const NAMES: &str = "tls-names";

/// All keys above. Other keys of the Secret are not changed.
pub(super) const KEYS: [&str; 12] = [
    CA,
    CA_KEY,
    CA_SINCE,
    CA_PUBLISHED,
    CA_OLD,
    CA_OLD_KEY,
    CA_OLD_LOST,
    CA_OLD_UNTIL,
    SERVING,
    SERVING_KEY,
    SERVING_SINCE,
    NAMES,
];

impl SecretData {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.0.get(key)?).ok()
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.text(key)?.parse().ok()
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// The CA, as PEM.
    pub(crate) fn ca(&self) -> Option<Vec<u8>> {
        self.0.get(CA).cloned()
    }

    /// When the CA expires.
    pub(crate) fn ca_expiry(&self) -> Option<i64> {
        self.text(CA).and_then(pem_validity).map(|(_, end)| end)
    }

    /// The serving certificate and its key.
    pub(crate) fn pair(&self, clients: Option<Vec<u8>>) -> Option<Pair> {
        Some(Pair {
            certificate: self.0.get(SERVING)?.clone(),
            key: self.0.get(SERVING_KEY)?.clone(),
            clients,
        })
    }

    /// The caBundle: the CA, and the previous one as long as it is trusted.
    pub(crate) fn bundle(&self) -> Vec<u8> {
        let mut out = self.0.get(CA).cloned().unwrap_or_default();
        out.extend_from_slice(self.0.get(CA_OLD).map_or(&[], Vec::as_slice));
        out
    }
}

/// A CA that signs serving certificates.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Ca {
    pub(super) certificate: String,
    key: String,
    /// When it was created, in Unix time; at the same time its serial number.
    pub(super) since: i64,
}

impl Ca {
    /// The CA of the Secret; `None` if it is incomplete, damaged, expired or not valid yet.
    pub(super) fn parse(data: &SecretData, now: i64) -> Option<Ca> {
        let text = |key| data.text(key).map(str::to_owned);
        let ca = Ca { certificate: text(CA)?, key: text(CA_KEY)?, since: data.number(CA_SINCE)? };
        is_usable(&ca.certificate, &ca.key, now).then_some(ca)
    }

    /// Creates a CA. `last` is the serial number of the previous CA, if there was one.
    pub(super) fn create(last: Option<i64>, spec: &CertificateSpec, now: i64) -> Result<Ca, MakeError> {
        // Serial numbers increase even if several CAs are created within a second.
        let since = last.map_or(now, |last| now.max(last.saturating_add(1)));
        let made = make::ca(since, now, now + seconds(spec.lifetimes.ca))?;
        Ok(Ca { certificate: made.certificate, key: made.key, since })
    }

    pub(super) fn issue(
        &self,
        names: &[String],
        spec: &CertificateSpec,
        now: i64,
    ) -> Result<Serving, MakeError> {
        Serving::issue(&self.certificate, &self.key, names, spec, now)
    }

    /// Whether less than a third of its lifetime is left.
    pub(super) fn is_due(&self, now: i64) -> bool {
        let end = pem_validity(&self.certificate).map_or(now, |(_, end)| end);
        is_due(Some(self.since), end, now)
    }

    pub(super) fn into_previous(self) -> PreviousCa {
        PreviousCa { certificate: self.certificate, key: Some(self.key), deleted: false, until: None }
    }

    pub(super) fn write(&self, data: &mut SecretData) {
        data.set(CA, self.certificate.as_str());
        data.set(CA_KEY, self.key.as_str());
        data.set(CA_SINCE, self.since.to_string());
    }
}

/// The CA before the current one. API servers trust it as long as it is in the bundle.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PreviousCa {
    pub(super) certificate: String,
    /// `None` after the current CA has taken over.
    pub(super) key: Option<String>,
    /// Its Secret was deleted, perhaps because the key leaked: it is removed from the bundle as soon as no replica
    /// serves a certificate issued by it, instead of when it expires.
    pub(super) deleted: bool,
    /// When it is removed from the bundle, if that is before it expires.
    pub(super) until: Option<i64>,
}

impl PreviousCa {
    pub(super) fn parse(data: &SecretData) -> Option<PreviousCa> {
        Some(PreviousCa {
            certificate: data.text(CA_OLD)?.to_owned(),
            key: data.text(CA_OLD_KEY).map(str::to_owned),
            deleted: data.0.contains_key(CA_OLD_LOST),
            until: data.number(CA_OLD_UNTIL),
        })
    }

    /// Whether it has to be removed from the bundle.
    pub(super) fn is_over(&self, now: i64) -> bool {
        let end = pem_validity(&self.certificate).map(|(_, end)| end);
        self.until.or(end).is_none_or(|end| end <= now)
    }

    pub(super) fn signing_key(&self, now: i64) -> Option<&str> {
        self.key.as_deref().filter(|key| is_usable(&self.certificate, key, now))
    }

    /// Makes it the previous CA: the current one signs from now on.
    pub(super) fn retire(self, spec: &CertificateSpec, now: i64) -> PreviousCa {
        let until = if self.deleted {
            // By then every replica serves a certificate issued by the current CA.
            Some(now + seconds(spec.lifetimes.propagation_delay))
        } else {
            self.until
        };
        PreviousCa { key: None, deleted: false, until, ..self }
    }

    pub(super) fn write(&self, data: &mut SecretData) {
        data.set(CA_OLD, self.certificate.as_str());
        if let Some(key) = &self.key {
            data.set(CA_OLD_KEY, key.as_str());
        }
        if self.deleted {
            data.set(CA_OLD_LOST, "true");
        }
        if let Some(until) = self.until {
            data.set(CA_OLD_UNTIL, until.to_string());
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Serving {
    certificate: String,
    key: String,
    /// When it was issued, in Unix time.
    since: Option<i64>,
    pub(super) names: Vec<String>,
}

impl Serving {
    pub(super) fn parse(data: &SecretData) -> Option<Serving> {
        Some(Serving {
            certificate: data.text(SERVING)?.to_owned(),
            key: data.text(SERVING_KEY).unwrap_or_default().to_owned(),
            since: data.number(SERVING_SINCE),
            names: data.text(NAMES).unwrap_or_default().lines().map(str::to_owned).collect(),
        })
    }

    /// Issues a serving certificate; it does not outlive its CA.
    pub(super) fn issue(
        ca: &str,
        ca_key: &str,
        names: &[String],
        spec: &CertificateSpec,
        now: i64,
    ) -> Result<Serving, MakeError> {
        let ca_end = pem_validity(ca).map_or(now, |(_, end)| end);
        let end = (now + seconds(spec.lifetimes.serving)).min(ca_end);
        let made = make::serving(ca, ca_key, names, now, end)?;
        Ok(Serving { certificate: made.certificate, key: made.key, since: Some(now), names: names.to_vec() })
    }

    pub(super) fn is_issued_by(&self, ca: &str) -> bool {
        make::is_issued_by(&self.certificate, ca)
    }

    /// Whether it can be served now.
    pub(super) fn is_usable(&self, now: i64) -> bool {
        is_usable(&self.certificate, &self.key, now)
    }

    /// Whether it has to be replaced: it cannot be served, or less than a third of its lifetime is left.
    pub(super) fn is_due(&self, now: i64) -> bool {
        let end = pem_validity(&self.certificate).map_or(now, |(_, end)| end);
        !self.is_usable(now) || is_due(self.since, end, now)
    }

    /// The names for a replacement, if one is needed.
    ///
    /// Replicas of two versions may need different names. Until the certificate is due each adds its own, so that they
    /// do not alternate in replacing each other's certificate.
    pub(super) fn names_to_issue(&self, spec: &CertificateSpec, now: i64) -> Option<Vec<String>> {
        if self.is_due(now) {
            return Some(spec.names.clone());
        }
        let missing = spec.names.iter().filter(|name| !self.names.contains(name));
        let names: Vec<String> = self.names.iter().chain(missing).cloned().collect();
        (names.len() > self.names.len()).then_some(names)
    }

    pub(super) fn write(&self, data: &mut SecretData) {
        data.set(SERVING, self.certificate.as_str());
        data.set(SERVING_KEY, self.key.as_str());
        data.set(NAMES, self.names.join("\n"));
        if let Some(since) = self.since {
            data.set(SERVING_SINCE, since.to_string());
        }
    }
}

/// The validity of a certificate as PEM, in Unix time.
pub(super) fn pem_validity(pem: &str) -> Option<(i64, i64)> {
    validity(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?).ok()
}

/// Whether certificate and key belong together and the certificate is valid now. One that is not valid
/// yet was issued by a replica whose clock is far ahead.
fn is_usable(certificate: &str, key: &str, now: i64) -> bool {
    pem_validity(certificate).is_some_and(|(start, end)| start <= now && now < end)
        && make::is_pair(certificate, key)
}

/// Whether less than a third of the time from `since` to `end` is left; if `since` is unknown, whether no time is
/// left.
fn is_due(since: Option<i64>, end: i64, now: i64) -> bool {
    let lifetime = since.map_or(0, |since| end - since);
    end - now <= lifetime / 3
}

pub(super) fn seconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4)
}
