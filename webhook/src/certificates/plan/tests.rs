//! The invariants of the plan: whatever the Secret contains and whenever replicas read it, API servers trust the
//! served certificate.

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::certificates::Lifetimes;
use crate::certificates::data::{CA_OLD, CA_OLD_KEY, NAMES, SERVING, SERVING_KEY, pem_validity};
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

/// The data written by a replica that has published the CA in the Secret.
fn next(held: &SecretData, now: i64) -> SecretData {
    next_for(held, &CertificateSpec { published: held.ca(), ..wanted() }, now)
}

fn next_for(held: &SecretData, wanted: &CertificateSpec, now: i64) -> SecretData {
    plan(held, wanted, now).unwrap().unwrap_or_else(|| held.clone())
}

/// When the serving certificate expires.
fn serving_end(data: &SecretData) -> i64 {
    pem_validity(data.text(SERVING).unwrap()).unwrap().1
}

/// Whether webpki verifies the serving certificate with the CAs of the bundle.
fn is_trusted(keys: &SecretData, bundle: &[u8], now: i64) -> bool {
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::{ServerName, UnixTime};
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(std::sync::Arc::new(roots), provider).build().unwrap();
    let leaf = CertificateDer::from_pem_slice(&keys.0[SERVING]).unwrap();
    let name = ServerName::try_from("gpulint.gpulint.svc").unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap()));
    verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
}

#[test]
fn a_first_start_creates_everything_and_a_second_one_nothing() {
    let keys = next(&SecretData::default(), START);
    assert!(is_trusted(&keys, &keys.bundle(), START));
    Tls::new(TlsFloor::Tls12).install(&keys.pair(None).unwrap()).unwrap();
    assert!(plan(&keys, &wanted(), START + 1).unwrap().is_none());
}

#[test]
fn what_is_served_is_trusted_at_every_moment() {
    let mut keys = next(&SecretData::default(), START);
    let (mut renewals, mut cas) = (0, 0);
    for now in (START..START + 40_000).step_by(10) {
        let before = keys.clone();
        keys = next(&keys, now);
        // API servers may have the bundle before this step or after it, and other replicas serve
        // the certificate before this step until they read the Secret.
        assert!(is_trusted(&keys, &before.bundle(), now), "at {}", now - START);
        assert!(is_trusted(&before, &keys.bundle(), now), "at {}", now - START);
        renewals += usize::from(before.0[SERVING] != keys.0[SERVING]);
        cas += usize::from(before.0[CA] != keys.0[CA]);
        assert!(serving_end(&keys) - now > 200, "at {}", now - START);
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
fn replicas_that_want_different_names_converge() {
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
    // The next regular renewal removes names that no replica uses any more.
    let renewed = next(&keys, START + 700);
    assert_eq!(renewed.text(NAMES), Some(wanted().names.join("\n").as_str()));
}

#[test]
fn certificates_that_are_not_valid_yet_are_replaced_once() {
    let ahead = START + 2 * 86_400;
    let keys = next(&SecretData::default(), ahead);
    assert!(!is_trusted(&keys, &keys.bundle(), START));
    let repaired = next(&keys, START);
    assert!(is_trusted(&repaired, &repaired.bundle(), START));
    // A clock that is ahead by less than the allowed skew, as one in local time, causes no replacement.
    assert!(plan(&repaired, &wanted(), START + 60).unwrap().is_none());
    let little = next(&SecretData::default(), START + 7200);
    assert!(plan(&little, &wanted(), START).unwrap().is_none());
    assert!(is_trusted(&little, &little.bundle(), START));
}

#[test]
fn what_is_served_is_renewed_during_a_long_rollover() {
    // CA and serving certificate are due at the same time, and the propagation delay is longer than a
    // serving certificate lives.
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
        let published = keys.ca();
        keys = next_for(&keys, &CertificateSpec { published, ..long.clone() }, now);
        let left = serving_end(&keys) - now;
        assert!(left >= 25, "{left} at {}", now - START);
        // An API server that reads the bundle once a minute.
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
fn a_ca_that_is_not_published_signs_nothing() {
    let first = next(&SecretData::default(), START);
    let mut keys = first.clone();
    // When the CA is due, permission to write the webhook configurations is missing.
    for now in (START..START + 8900).step_by(10) {
        let published = (now < START + 6000).then(|| first.ca()).flatten();
        keys = next_for(&keys, &CertificateSpec { published, ..wanted() }, now);
        assert!(is_trusted(&keys, &first.bundle(), now), "at {}", now - START);
    }
    assert_ne!(keys.0[CA], first.0[CA]);
    // The CA expires: the new one has to sign, whether or not it is trusted.
    let late = next_for(&keys, &wanted(), START + 9001);
    assert!(is_trusted(&late, &late.bundle(), START + 9001));
}

#[test]
fn after_a_deletion_the_old_certificate_is_served_until_the_new_ca_is_trusted() {
    let first = next(&SecretData::default(), START);
    for taken in [START + 10, START + 6010] {
        // The Secret is deleted again during a rollover.
        let mut held = first.clone();
        for now in (START..taken).step_by(10) {
            held = next(&held, now);
        }
        let mut keys = next_for(&after_deletion(&held), &wanted(), taken);
        assert_ne!(keys.0[CA], held.0[CA]);
        assert_eq!(keys.0[SERVING], held.0[SERVING]);
        let mut changed = None;
        for now in (taken..taken + 300).step_by(10) {
            keys = next(&keys, now);
            assert!(is_trusted(&keys, &keys.bundle(), now));
            if now < taken + 60 {
                assert!(is_trusted(&keys, &held.bundle(), now));
            }
            // The deleted CA is trusted until all replicas serve a certificate of the new one.
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

#[test]
fn a_rollover_goes_through_all_states() {
    let name = |data: &SecretData, now| match State::parse(data, now) {
        State::Empty(_) => "empty",
        State::Steady { .. } => "steady",
        State::Publishing(_) => "publishing",
        State::Trusting(..) => "trusting",
    };
    assert_eq!(name(&SecretData::default(), START), "empty");
    let mut keys = next(&SecretData::default(), START);
    let mut states: Vec<&str> = Vec::new();
    for now in (START..START + 6200).step_by(10) {
        keys = next(&keys, now);
        let state = name(&keys, now);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    assert_eq!(states, ["steady", "publishing", "trusting", "steady"]);
    assert_eq!(name(&keys, START + 20_000), "empty");
    assert_eq!(name(&after_deletion(&keys), START + 6200), "empty");
}

#[test]
fn keys_of_others_are_left_alone() {
    let mut keys = next(&SecretData::default(), START);
    keys.set("note", "a");
    assert!(plan(&keys, &wanted(), START + 1).unwrap().is_none());
    assert_eq!(next(&keys, START + 700).text("note"), Some("a"));
}
