//! What the Secret should hold, from what it holds and the time.

use std::collections::BTreeMap;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{CertificateSpec, MakeError, make};
use crate::tls::{Pair, validity};

/// The data of the Secret. Its Debug shows nothing of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct SecretData(pub(crate) BTreeMap<String, Vec<u8>>);

impl std::fmt::Debug for SecretData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
/// When the CA was made, in Unix time.
const CA_SINCE: &str = "ca-since";
/// When both webhook configurations were seen to hold the CA, in Unix time.
const CA_PUBLISHED: &str = "ca-announced";
/// The CA before, while it is still trusted.
const CA_OLD: &str = "ca-old.crt";
/// Its key, for as long as it signs what is served.
const CA_OLD_KEY: &str = "ca-old.key";
/// There where the CA before is to go as soon as nothing is served by it: somebody took its Secret away.
const CA_OLD_LOST: &str = "ca-old-lost";
/// Until when it is trusted, in Unix time, where that is before its end.
const CA_OLD_UNTIL: &str = "ca-old-until";
const SERVING: &str = "tls.crt";
const SERVING_KEY: &str = "tls.key";
/// When the serving certificate was made, in Unix time.
const SERVING_SINCE: &str = "tls-since";
/// The names in the serving certificate, one a line.
const NAMES: &str = "tls-names";

impl SecretData {
    fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.0.get(key)?).ok()
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.text(key)?.parse().ok()
    }

    fn set(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// When the certificate under a key ends, in Unix time; `None` where there is none, or where it
    /// is not valid yet: somebody's clock is far ahead.
    fn expiry(&self, key: &str, now: i64) -> Option<i64> {
        let (starts, ends) = self.validity(key)?;
        (starts <= now).then_some(ends)
    }

    fn validity(&self, key: &str) -> Option<(i64, i64)> {
        validity(&CertificateDer::from_pem_slice(self.0.get(key)?).ok()?).ok()
    }

    /// The CA, as PEM.
    pub(crate) fn ca(&self) -> Option<Vec<u8>> {
        self.0.get(CA).cloned()
    }

    /// When the CA ends.
    pub(crate) fn ca_expiry(&self) -> Option<i64> {
        self.validity(CA).map(|(_, ends)| ends)
    }

    /// What is served.
    pub(crate) fn pair(&self, clients: Option<Vec<u8>>) -> Option<Pair> {
        Some(Pair {
            certificate: self.0.get(SERVING)?.clone(),
            key: self.0.get(SERVING_KEY)?.clone(),
            clients,
        })
    }

    /// What API servers have to trust: the CA, and the one before it while it is valid.
    pub(crate) fn bundle(&self) -> Vec<u8> {
        let mut out = self.0.get(CA).cloned().unwrap_or_default();
        out.extend_from_slice(self.0.get(CA_OLD).map_or(&[], Vec::as_slice));
        out
    }

    /// Whether a certificate and its key go together.
    fn is_pair(&self, certificate: &str, key: &str) -> bool {
        let texts = self.text(certificate).zip(self.text(key));
        texts.is_some_and(|(certificate, key)| make::is_pair(certificate, key))
    }

    /// What is left where the Secret is gone: what is served, and its CA as the one before.
    pub(crate) fn after_deletion(&self) -> SecretData {
        let mut keys = self.clone();
        keys.drop_ca();
        if keys.0.contains_key(CA_OLD) {
            keys.set(CA_OLD_LOST, "true");
        }
        keys
    }

    /// The CA is of no use any more: it is the one before where it signed what is served, and
    /// forgotten where it did not come to that.
    fn drop_ca(&mut self) {
        if self.is_issued_by(CA) {
            self.demote_ca();
        }
        for key in [CA, CA_KEY, CA_PUBLISHED] {
            self.0.remove(key);
        }
    }

    /// Makes the CA the one before.
    fn demote_ca(&mut self) {
        for key in [CA_OLD, CA_OLD_KEY, CA_OLD_LOST, CA_OLD_UNTIL, CA_PUBLISHED] {
            self.0.remove(key);
        }
        for (key, old) in [(CA, CA_OLD), (CA_KEY, CA_OLD_KEY)] {
            if let Some(value) = self.0.remove(key) {
                self.set(old, value);
            }
        }
    }

    /// Whether the CA before is not to be trusted any more.
    fn old_ca_is_over(&self, now: i64) -> bool {
        let ends = self.validity(CA_OLD).map(|(_, ends)| ends);
        let until = self.number(CA_OLD_UNTIL).or(ends);
        self.0.contains_key(CA_OLD) && until.is_none_or(|until| until <= now)
    }

    /// Whether the CA before can still sign.
    fn old_ca_can_sign(&self, now: i64) -> bool {
        self.expiry(CA_OLD, now).is_some_and(|ends| ends > now) && self.is_pair(CA_OLD, CA_OLD_KEY)
    }

    /// Whether the CA under a key signed what is served.
    fn is_issued_by(&self, ca: &str) -> bool {
        let texts = self.text(SERVING).zip(self.text(ca));
        texts.is_some_and(|(serving, ca)| make::is_issued_by(serving, ca))
    }

    /// The names that the serving certificate has and those that are wanted, each once.
    fn all_names(&self, wanted: &CertificateSpec) -> Vec<String> {
        let held = self.text(NAMES).unwrap_or_default().lines();
        let mut names: Vec<String> = held.map(str::to_owned).collect();
        let new = wanted.names.iter().filter(|name| !names.contains(name));
        let new: Vec<String> = new.cloned().collect();
        names.extend(new);
        names
    }

    fn has_names(&self, wanted: &CertificateSpec) -> bool {
        let held: Vec<&str> = self.text(NAMES).unwrap_or_default().lines().collect();
        wanted.names.iter().all(|name| held.contains(&name.as_str()))
    }

    /// A serving certificate by the CA of now.
    fn new_serving(&mut self, names: &[String], wanted: &CertificateSpec, now: i64) -> Result<(), MakeError> {
        self.sign(CA, CA_KEY, names, wanted, now)
    }

    fn sign(
        &mut self,
        ca: &str,
        ca_key: &str,
        names: &[String],
        wanted: &CertificateSpec,
        now: i64,
    ) -> Result<(), MakeError> {
        let ca_ends = self.validity(ca).map_or(now, |(_, ends)| ends);
        let until = (now + seconds(wanted.lifetimes.serving)).min(ca_ends);
        let text = |key: &str| self.text(key).unwrap_or_default();
        let made = make::serving(text(ca), text(ca_key), names, now, until)?;
        self.set(SERVING, made.certificate);
        self.set(SERVING_KEY, made.key);
        self.set(SERVING_SINCE, now.to_string());
        self.set(NAMES, names.join("\n"));
        Ok(())
    }

    /// Another CA takes the place of the one that is there, if any.
    fn new_ca(&mut self, wanted: &CertificateSpec, now: i64) -> Result<(), MakeError> {
        // A number that no CA had before, however fast they follow each other.
        let since = now.max(self.number(CA_SINCE).map_or(now, |before| before.saturating_add(1)));
        let made = make::ca(since, now, now + seconds(wanted.lifetimes.ca))?;
        if self.0.contains_key(CA) {
            self.demote_ca();
        }
        self.set(CA, made.certificate);
        self.set(CA_KEY, made.key);
        self.set(CA_SINCE, since.to_string());
        Ok(())
    }

    /// Serves what the CA of now signs, from the one before on.
    fn switch_to_new_ca(&mut self, wanted: &CertificateSpec, now: i64) -> Result<(), MakeError> {
        self.new_serving(&wanted.names, wanted, now)?;
        self.0.remove(CA_OLD_KEY);
        if self.0.remove(CA_OLD_LOST).is_some() {
            let until = now + seconds(wanted.lifetimes.propagation_delay);
            self.set(CA_OLD_UNTIL, until.to_string());
        }
        Ok(())
    }
}

/// What the Secret should hold now; `None` where it holds that already.
pub(crate) fn plan(
    held: &SecretData,
    wanted: &CertificateSpec,
    now: i64,
) -> Result<Option<SecretData>, MakeError> {
    let mut keys = held.clone();
    if held.old_ca_is_over(now) {
        for key in [CA_OLD, CA_OLD_KEY, CA_OLD_LOST, CA_OLD_UNTIL] {
            keys.0.remove(key);
        }
    }
    let ca_since = held.number(CA_SINCE);
    let ca = held.expiry(CA, now).zip(ca_since).filter(|(ends, _)| *ends > now && held.is_pair(CA, CA_KEY));
    let serving_ends = held.expiry(SERVING, now).unwrap_or(now);
    let broken = !held.is_pair(SERVING, SERVING_KEY) || serving_ends <= now;
    let Some((ca_ends, ca_since)) = ca else {
        // A first start, or somebody took away or broke what was there. What is served stays until
        // the new CA is trusted, where the CA that signed it is known.
        keys.drop_ca();
        keys.new_ca(wanted, now)?;
        if broken || !keys.is_issued_by(CA_OLD) {
            keys.new_serving(&wanted.names, wanted, now)?;
        }
        return Ok(Some(keys));
    };
    if !held.0.contains_key(CA_PUBLISHED) && wanted.published.as_ref() == held.0.get(CA) {
        keys.set(CA_PUBLISHED, now.to_string());
    }
    let announced = held.number(CA_PUBLISHED);
    let trust = seconds(wanted.lifetimes.propagation_delay);
    let trusted = announced.is_some_and(|at| now >= at.saturating_add(trust));
    let signed_by_current = held.is_issued_by(CA);
    let due = broken || is_due(held.number(SERVING_SINCE), serving_ends, now);
    if signed_by_current {
        if due {
            keys.new_serving(&wanted.names, wanted, now)?;
        } else if !held.has_names(wanted) {
            // Replicas of two versions may want different names. Each adds its own, so that they
            // do not take turns in replacing what the other one made.
            keys.new_serving(&held.all_names(wanted), wanted, now)?;
        }
        // After that: by now only the CA that there is is trusted.
        if is_due(Some(ca_since), ca_ends, now) {
            keys.new_ca(wanted, now)?;
        }
    } else if trusted || (broken && !held.old_ca_can_sign(now)) {
        keys.switch_to_new_ca(wanted, now)?;
    } else if held.old_ca_can_sign(now) && (due || !held.has_names(wanted)) {
        // The new CA is not trusted yet, and what is served must not end meanwhile.
        let names = if due { wanted.names.clone() } else { held.all_names(wanted) };
        keys.sign(CA_OLD, CA_OLD_KEY, &names, wanted, now)?;
    }
    Ok((keys != *held).then_some(keys))
}

/// Whether less than a third of the time is left.
fn is_due(since: Option<i64>, ends: i64, now: i64) -> bool {
    let whole = since.map_or(0, |since| ends - since);
    ends - now <= whole / 3
}

fn seconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certificates::Lifetimes;
    use crate::tls::{Tls, TlsFloor};

    const START: i64 = 1_800_000_000;

    fn wanted() -> CertificateSpec {
        CertificateSpec {
            names: vec!["gpulint.gpulint.svc".to_owned(), "127.0.0.1".to_owned()],
            lifetimes: Lifetimes {
                ca: Duration::from_secs(9000),
                serving: Duration::from_secs(900),
                propagation_delay: Duration::from_secs(60),
            },
            published: None,
        }
    }

    /// What a replica makes of it that has announced what is held.
    fn next(held: &SecretData, now: i64) -> SecretData {
        let announced = held.ca();
        next_for(held, &CertificateSpec { published: announced, ..wanted() }, now)
    }

    fn next_for(held: &SecretData, wanted: &CertificateSpec, now: i64) -> SecretData {
        plan(held, wanted, now).unwrap().unwrap_or_else(|| held.clone())
    }

    /// Whether the serving certificate is signed by a CA of the bundle, as webpki sees it.
    fn is_trusted(keys: &SecretData, bundle: &[u8], now: i64) -> bool {
        use rustls::client::WebPkiServerVerifier;
        use rustls::client::danger::ServerCertVerifier;
        use rustls::pki_types::{ServerName, UnixTime};
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(std::sync::Arc::new(roots), provider)
            .build()
            .unwrap();
        let leaf = CertificateDer::from_pem_slice(&keys.0[SERVING]).unwrap();
        let name = ServerName::try_from("gpulint.gpulint.svc").unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap()));
        verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn a_first_start_makes_everything_and_a_second_one_nothing() {
        let keys = next(&SecretData::default(), START);
        assert!(is_trusted(&keys, &keys.bundle(), START));
        Tls::new(TlsFloor::Tls12).install(&keys.pair(None).unwrap()).unwrap();
        assert!(plan(&keys, &wanted(), START + 1).unwrap().is_none());
    }

    #[test]
    fn at_every_moment_the_bundle_of_before_trusts_what_is_served() {
        let mut keys = next(&SecretData::default(), START);
        let (mut renewals, mut cas) = (0, 0);
        for now in (START..START + 40_000).step_by(10) {
            let before = keys.clone();
            keys = next(&keys, now);
            // A replica that has not looked yet patched the bundle of before, and an API server
            // reads it a little later than that.
            assert!(is_trusted(&keys, &before.bundle(), now), "at {}", now - START);
            assert!(is_trusted(&before, &keys.bundle(), now), "at {}", now - START);
            renewals += usize::from(before.0[SERVING] != keys.0[SERVING]);
            cas += usize::from(before.0[CA] != keys.0[CA]);
            assert!(keys.expiry(SERVING, now).unwrap() - now > 200, "at {}", now - START);
            assert!(CertificateDer::pem_slice_iter(&keys.bundle()).count() <= 2);
        }
        assert!(cas >= 5, "{cas}");
        assert!(renewals > 50, "{renewals}");
    }

    #[test]
    fn other_names_and_broken_secrets_are_repaired() {
        let keys = next(&SecretData::default(), START);
        let mut other = wanted();
        other.names.push("gpulint.other.svc".to_owned());
        let renamed = plan(&keys, &other, START + 1).unwrap().unwrap();
        assert_eq!(renamed.0[CA], keys.0[CA]);
        assert_ne!(renamed.0[SERVING], keys.0[SERVING]);
        for key in [CA, CA_KEY, SERVING, SERVING_KEY, CA_SINCE] {
            for value in [None, Some(&b"nonsense"[..])] {
                let mut broken = keys.clone();
                match value {
                    None => drop(broken.0.remove(key)),
                    Some(value) => broken.set(key, value),
                }
                let repaired = next(&broken, START + 1);
                assert!(is_trusted(&repaired, &repaired.bundle(), START + 1), "{key}");
            }
        }
    }

    #[test]
    fn replicas_that_want_different_names_come_to_rest() {
        let mut other = wanted();
        other.names = vec!["gpulint.new.svc".to_owned(), "127.0.0.1".to_owned()];
        let mut keys = next(&SecretData::default(), START);
        let mut writes = 0;
        for now in START + 1..START + 500 {
            for wanted in [&wanted(), &other] {
                if let Some(new) = plan(&keys, wanted, now).unwrap() {
                    assert!(is_trusted(&new, &keys.bundle(), now));
                    keys = new;
                    writes += 1;
                }
            }
        }
        assert_eq!(writes, 1);
        // The next regular renewal forgets a name that nobody wants any more.
        let renewed = next(&keys, START + 700);
        assert_eq!(renewed.text(NAMES), Some(wanted().names.join("\n").as_str()));
    }

    #[test]
    fn what_a_clock_ahead_of_its_time_made_is_made_again_once() {
        let ahead = START + 3600;
        let keys = next(&SecretData::default(), ahead);
        assert!(!is_trusted(&keys, &keys.bundle(), START));
        let repaired = next(&keys, START);
        assert!(is_trusted(&repaired, &repaired.bundle(), START));
        // Who is a little ahead takes it as it is.
        assert!(plan(&repaired, &wanted(), START + 60).unwrap().is_none());
        let little = next(&SecretData::default(), START + 200);
        assert!(plan(&little, &wanted(), START).unwrap().is_none());
        assert!(is_trusted(&little, &little.bundle(), START));
    }

    #[test]
    fn what_is_served_is_renewed_while_a_ca_is_announced_for_long() {
        // Both are due at the same time, and the CA is announced for longer than what is served lasts.
        let long = CertificateSpec {
            lifetimes: Lifetimes {
                ca: Duration::from_secs(900),
                serving: Duration::from_secs(90),
                propagation_delay: Duration::from_secs(150),
            },
            ..wanted()
        };
        let mut keys = next_for(&SecretData::default(), &long, START);
        let mut trusted = keys.bundle();
        let mut cas = 0;
        for now in (START..START + 6000).step_by(5) {
            let before = keys.clone();
            let announced = keys.ca();
            keys = next_for(&keys, &CertificateSpec { published: announced, ..long.clone() }, now);
            let left = keys.expiry(SERVING, now).unwrap() - now;
            assert!(left >= 25, "{left} at {}", now - START);
            // An API server that reads a bundle only after a minute.
            if now % 60 == 0 {
                trusted = before.bundle();
            }
            assert!(is_trusted(&keys, &trusted, now), "at {}", now - START);
            let changed = before.0[CA] != keys.0[CA];
            assert!(!changed || keys.0.contains_key(CA_OLD_KEY));
            cas += usize::from(changed);
        }
        assert!(cas >= 8, "{cas}");
    }

    #[test]
    fn a_ca_that_nobody_announced_signs_nothing() {
        let first = next(&SecretData::default(), START);
        let mut keys = first.clone();
        // Nobody may write the webhook configurations from the day on when the CA is due.
        for now in (START..START + 8900).step_by(10) {
            let announced = (now < START + 6000).then(|| first.ca()).flatten();
            keys = next_for(&keys, &CertificateSpec { published: announced, ..wanted() }, now);
            assert!(is_trusted(&keys, &first.bundle(), now), "at {}", now - START);
        }
        assert_ne!(keys.0[CA], first.0[CA]);
        // The CA ends, and what the new one signs is better than nothing.
        let late = next_for(&keys, &wanted(), START + 9001);
        assert!(is_trusted(&late, &late.bundle(), START + 9001));
    }

    #[test]
    fn a_secret_that_is_gone_is_made_anew_and_what_is_served_stays_until_that_is_trusted() {
        let first = next(&SecretData::default(), START);
        for taken in [START + 10, START + 6010] {
            // The second time in the middle of a change-over.
            let mut held = first.clone();
            for now in (START..taken).step_by(10) {
                held = next(&held, now);
            }
            let mut keys = next_for(&held.after_deletion(), &wanted(), taken);
            assert_ne!(keys.0[CA], held.0[CA]);
            assert_eq!(keys.0[SERVING], held.0[SERVING]);
            let mut changed = None;
            for now in (taken..taken + 300).step_by(10) {
                keys = next(&keys, now);
                assert!(is_trusted(&keys, &keys.bundle(), now));
                if now < taken + 60 {
                    assert!(is_trusted(&keys, &held.bundle(), now));
                }
                // The CA that somebody took away is trusted until all replicas serve the other.
                if is_trusted(&held, &keys.bundle(), now) {
                    continue;
                }
                changed = changed.or(Some(now - taken));
            }
            assert!(changed.is_some_and(|at| (120..=200).contains(&at)), "{changed:?}");
            assert!(!keys.0.contains_key(CA_OLD) && !keys.0.contains_key(CA_OLD_KEY));
        }
    }

    #[test]
    fn keys_do_not_show_in_debug() {
        let keys = next(&SecretData::default(), START);
        assert!(!format!("{keys:?}").contains("PRIVATE"));
        assert!(!format!("{:?}", keys.pair(None)).contains("PRIVATE"));
    }
}
