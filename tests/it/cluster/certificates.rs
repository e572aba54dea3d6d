//! A certificate authority for one run: the API server and the webhooks get their certificates from it.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// An authority that every client of the run trusts.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: Vec<u8>,
}

/// A certificate with its key, both PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "gpulint tests");
        let certificate = params.self_signed(&key).expect("a certificate");
        Authority {
            pem: certificate.pem(),
            der: certificate.der().to_vec(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The certificate in the form of a `caBundle` or a `--tls-ca` file.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate in DER.
    pub(crate) fn der(&self) -> Vec<u8> {
        self.der.clone()
    }

    /// A server's certificate for these names and addresses.
    pub(crate) fn issue(&self, names: &[&str]) -> Pair {
        self.issue_for(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate for a purpose.
    pub(crate) fn issue_for(&self, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names of a certificate");
        params.extended_key_usages = vec![purpose];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}
