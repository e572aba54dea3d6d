//! The TLS configuration of new connections. It can be replaced without closing open ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::metrics::Metrics;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsFloor {
    #[default]
    Tls12,
    Tls13,
}

/// The files of a serving certificate.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate chain, as PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// No PEM, or no section of the expected type.
    #[error("{what}: {source}")]
    Pem { what: &'static str, source: rustls::pki_types::pem::Error },
    #[error("{0}: there is no certificate in it")]
    Empty(&'static str),
    /// Certificate and key do not belong together, or rustls rejects them.
    #[error("certificate and key: {0}")]
    Pair(#[from] rustls::Error),
    /// The CA of client certificates cannot be used.
    #[error("the CA of clients: {0}")]
    Clients(#[from] rustls::server::VerifierBuilderError),
    #[error("the certificate cannot be read")]
    X509,
}

#[derive(Debug)]
pub(crate) struct Tls {
    current: ArcSwapOption<ServerConfig>,
    floor: TlsFloor,
}

/// A certificate chain and its key, as PEM. Debug prints neither.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// The CA that has to have issued client certificates; `None` if they are not required.
    pub(crate) clients: Option<Vec<u8>>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair")
    }
}

impl Tls {
    pub(crate) fn new(floor: TlsFloor) -> Tls {
        Tls { current: ArcSwapOption::empty(), floor }
    }

    /// The configuration of the next connection; `None` until a certificate is installed.
    pub(crate) fn current(&self) -> Option<Arc<ServerConfig>> {
        self.current.load_full()
    }

    /// Uses a certificate for new connections. Returns when it expires, in Unix time.
    pub(crate) fn install(&self, pair: &Pair) -> Result<i64, TlsError> {
        let chain = certificates(&pair.certificate, "the certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&pair.key)
            .map_err(|source| TlsError::Pem { what: "the private key", source })?;
        let (_, ends) = validity(chain.first().ok_or(TlsError::X509)?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = match self.floor {
            TlsFloor::Tls12 => rustls::ALL_VERSIONS,
            TlsFloor::Tls13 => &[&rustls::version::TLS13],
        };
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let builder = match &pair.clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(pem, "the CA of clients")? {
                    roots.add(certificate)?;
                }
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        self.current.store(Some(Arc::new(config)));
        Ok(ends)
    }
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| TlsError::Pem { what, source })?;
    if chain.is_empty() {
        return Err(TlsError::Empty(what));
    }
    Ok(chain)
}

/// The validity of a certificate, in Unix time.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Result<(i64, i64), TlsError> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| TlsError::X509)?;
    let validity = parsed.validity();
    Ok((validity.not_before.timestamp(), validity.not_after.timestamp()))
}

/// Certificate files that are renewed by others. They are polled: an update of a mounted Secret swaps a symbolic link,
/// which notification APIs report differently on every file system.
#[derive(Debug)]
pub(crate) struct Files {
    files: TlsFiles,
    clients: Option<PathBuf>,
    seen: Option<Pair>,
}

impl Files {
    pub(crate) fn new(files: TlsFiles, clients: Option<PathBuf>) -> Files {
        Files { files, clients, seen: None }
    }

    /// Installs the files if their content has changed. On an error the old certificate stays, and the same content is
    /// not tried again.
    pub(crate) fn refresh(&mut self, tls: &Tls, metrics: &Metrics) -> Result<bool, TlsError> {
        let clients = self.clients.as_deref().map(read).transpose()?;
        let pair = Pair { certificate: read(&self.files.certificate)?, key: read(&self.files.key)?, clients };
        if self.seen.as_ref() == Some(&pair) {
            return Ok(false);
        }
        let installed = tls.install(&pair);
        self.seen = Some(pair);
        metrics.reloaded("certificate", installed.is_ok());
        metrics.expires("serving", installed?);
        Ok(true)
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}
