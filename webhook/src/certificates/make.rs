//! Creates keys and X.509 certificates.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use super::MakeError;

/// Number of seconds by which certificates are backdated: a day, because the clock of the node that issues one may be
/// ahead by hours, or set to local time. API servers would reject it until then, and admit objects unchecked.
const SKEW: i64 = 86_400;

/// A certificate and its key, as PEM.
pub(super) struct IssuedCertificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Creates a CA that is valid until `until`, in Unix time. `number` is part of its subject, so that no two
/// CAs of a Secret have the same subject.
pub(super) fn ca(number: i64, now: i64, until: i64) -> Result<IssuedCertificate, MakeError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(&format!("gpulint webhook CA {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = (timestamp(now - SKEW), timestamp(until));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(IssuedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Issues a serving certificate for `names`.
pub(super) fn serving(
    ca: &str,
    ca_key: &str,
    names: &[String],
    now: i64,
    until: i64,
) -> Result<IssuedCertificate, MakeError> {
    let issuer = Issuer::from_ca_cert_pem(ca, KeyPair::from_pem(ca_key)?)?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = name("gpulint webhook");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = (timestamp(now - SKEW), timestamp(until));
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(IssuedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Whether a certificate, as PEM, has this key.
pub(super) fn is_pair(certificate: &str, key: &str) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(certificate.as_bytes()) else { return false };
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(&der) else { return false };
    KeyPair::from_pem(key).is_ok_and(|key| key.subject_public_key_info() == parsed.public_key().raw)
}

/// Whether the issuer of a certificate is the subject of a CA. Subjects of CAs are unique.
pub(super) fn is_issued_by(certificate: &str, ca: &str) -> bool {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    let Some((certificate, ca)) = der(certificate).zip(der(ca)) else { return false };
    let parsed = x509_parser::parse_x509_certificate;
    parsed(&certificate).is_ok_and(|(_, certificate)| {
        parsed(&ca).is_ok_and(|(_, ca)| certificate.issuer().as_raw() == ca.subject().as_raw())
    })
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn timestamp(unix_seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(unix_seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
