//! Errors of the API server and of connections as searchable messages.

use std::error::Error;
use std::io;

use crate::logs::escaped;

/// Maximum length of a message of the API server that is repeated, in bytes.
const MAX_STATUS_BYTES: usize = 300;

/// The cause of an error as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The API server could not be reached, or the connection broke. It affects all requests.
    Connection(String),
    /// The API server responded with an error, or the request could not be created.
    Answer(String),
}

impl Cause {
    /// The cause of an error, from the first of its sources with a known message.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Cause {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
                // Other servers that respond in place of the API server send no message.
                return Cause::Answer(match status.message.as_str() {
                    "" => format!("HTTP status {}", status.code),
                    message => escaped(message, MAX_STATUS_BYTES),
                });
            }
            if let Some(words) = connection(error) {
                return Cause::Connection(words);
            }
            next = error.source();
        }
        Cause::Answer(escaped(&error.to_string(), MAX_STATUS_BYTES))
    }

    pub(crate) fn words(&self) -> &str {
        match self {
            Cause::Connection(words) | Cause::Answer(words) => words,
        }
    }
}

/// The message for an error of TLS or of the operating system.
fn connection(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(tls(error));
    }
    let error = error.downcast_ref::<io::Error>()?;
    // TLS errors are wrapped in those of the operating system; `source` skips them.
    if let Some(inner) = error.get_ref() {
        let inner: &(dyn Error + 'static) = inner;
        if let Some(words) = connection(inner) {
            return Some(words);
        }
    }
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "connection reset",
        io::ErrorKind::ConnectionAborted => "connection aborted",
        io::ErrorKind::UnexpectedEof => "connection closed",
        io::ErrorKind::TimedOut => "no answer in time",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::NetworkUnreachable => "network is unreachable",
        _ => return Some(escaped(&error.to_string(), MAX_STATUS_BYTES)),
    };
    Some(words.to_owned())
}

fn tls(error: &rustls::Error) -> String {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Revoked, UnknownIssuer,
    };
    let words = match error {
        rustls::Error::InvalidCertificate(error) => match error {
            UnknownIssuer | BadSignature => "certificate signed by unknown authority",
            Expired | ExpiredContext { .. } => "certificate has expired",
            NotValidYet | NotValidYetContext { .. } => "certificate is not valid yet",
            NotValidForName | NotValidForNameContext { .. } => "certificate is valid for another name",
            Revoked => "certificate is revoked",
            _ => "certificate is not valid",
        },
        rustls::Error::AlertReceived(_) => "the API server rejects the TLS connection",
        rustls::Error::InvalidMessage(_) => "no TLS on that port",
        other => return escaped(&other.to_string(), MAX_STATUS_BYTES),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_errors_have_the_usual_words() {
        let os = |kind: io::ErrorKind| kube::Error::Service(Box::new(io::Error::from(kind)));
        let inside = |error: rustls::Error| kube::Error::Service(Box::new(io::Error::other(error)));
        let cases = [
            (os(io::ErrorKind::ConnectionRefused), "connection refused"),
            (os(io::ErrorKind::TimedOut), "no answer in time"),
            (
                inside(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)),
                "certificate signed by unknown authority",
            ),
            (
                inside(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired)),
                "certificate has expired",
            ),
        ];
        for (error, words) in cases {
            assert_eq!(Cause::of(&error), Cause::Connection(words.to_owned()));
        }
    }

    #[test]
    fn an_answer_is_repeated_but_bounded() {
        let status = kube::core::Status {
            message: format!("pods is forbidden\n{}", "x".repeat(10_000)),
            code: 403,
            ..kube::core::Status::default()
        };
        let Cause::Answer(words) = Cause::of(&kube::Error::Api(Box::new(status))) else { panic!() };
        assert!(words.starts_with("pods is forbidden\\nxxx") && words.len() < 400, "{words}");
    }
}
