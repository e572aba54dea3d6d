//! An HTTP/1.1 or HTTP/2 client over TLS, with explicit connections.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Body = BoxBody<Bytes, Infallible>;

/// CA certificates, client certificate and protocol of a client.
#[derive(Clone)]
pub(crate) struct Client {
    roots: Vec<CertificateDer<'static>>,
    identity: Option<(String, String)>,
    http2: bool,
    tls12_alone: bool,
    from: Option<IpAddr>,
}

impl Client {
    /// Trusts the certificates in a PEM text.
    pub(crate) fn new(roots: &str) -> Client {
        let roots = CertificateDer::pem_slice_iter(roots.as_bytes());
        Client {
            roots: roots.map(Result::unwrap).collect(),
            identity: None,
            http2: true,
            tls12_alone: false,
            from: None,
        }
    }

    pub(crate) fn http1(mut self) -> Client {
        self.http2 = false;
        self
    }

    pub(crate) fn tls12_alone(mut self) -> Client {
        self.tls12_alone = true;
        self
    }

    /// Connects from an address of this machine, if it has that address.
    pub(crate) fn from(mut self, address: IpAddr) -> Client {
        self.from = Some(address);
        self
    }

    /// Uses a client certificate.
    pub(crate) fn shows(mut self, certificate: &str, key: &str) -> Client {
        self.identity = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    fn config(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in &self.roots {
            roots.add(root.clone()).unwrap();
        }
        let versions = if self.tls12_alone { &[&rustls::version::TLS12][..] } else { rustls::ALL_VERSIONS };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
            }
        };
        let protocol: &[u8] = if self.http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> Result<Connection, Failed> {
        let socket = TcpSocket::new_v4()?;
        if let Some(from) = self.from {
            // Systems other than Linux do not have the address by default.
            let _ = socket.bind(SocketAddr::new(from, 0));
        }
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        let connector = TlsConnector::from(Arc::new(self.config()));
        let stream = connector.connect(name, stream).await?;
        let certificate =
            stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(|leaf| leaf.to_vec());
        let io = TokioIo::new(stream);
        let sender = if self.http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Sender::Two(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection);
            Sender::One(sender)
        };
        Ok(Connection { sender, certificate: certificate.unwrap_or_default() })
    }
}

enum Sender {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

/// An open connection.
pub(crate) struct Connection {
    sender: Sender,
    /// The certificate of the server, as DER.
    pub(crate) certificate: Vec<u8>,
}

/// Status code and body of a response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
    /// Whether the server closes the connection after this response.
    pub(crate) last: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {} {:?}", self.code, self.body))
    }
}

impl Connection {
    /// Shares the connection. Panics with HTTP/1.1, which supports one request at a time.
    pub(crate) fn clone_http2(&self) -> Connection {
        let Sender::Two(sender) = &self.sender else { panic!("this is HTTP/1.1") };
        Connection { sender: Sender::Two(sender.clone()), certificate: self.certificate.clone() }
    }

    /// Announces a body that never comes.
    pub(crate) async fn announce(&mut self, path: &str, length: usize) -> Result<u16, Failed> {
        let body = BodyExt::boxed(StreamBody::new(futures::stream::pending()));
        let mut request = self.request("POST", path, body)?;
        request.headers_mut().insert("content-length", length.into());
        Ok(self.exchange(request).await?.status().as_u16())
    }

    /// Sends a request, and returns the response without taking its body.
    pub(crate) async fn untaken(&mut self, path: &str, body: Body) -> Result<Response<Incoming>, Failed> {
        let request = self.request("POST", path, body)?;
        self.exchange(request).await
    }

    /// Waits until a request can be sent. Fails if the server has closed the connection for new ones.
    pub(crate) async fn usable(&mut self) -> Result<(), Failed> {
        match &mut self.sender {
            Sender::One(sender) => sender.ready().await?,
            Sender::Two(sender) => sender.ready().await?,
        }
        Ok(())
    }

    /// Posts with a timeout of 30 s unless the path contains one: a busy machine may stall for seconds.
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Result<Answer, Failed> {
        let path = match path.contains('?') {
            true => path.to_owned(),
            false => format!("{path}?timeout=30s"),
        };
        self.send("POST", &path, Full::new(body.into()).boxed(), true).await
    }

    /// Sends a request; `announced` means with a `Content-Length`.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Body,
        announced: bool,
    ) -> Result<Answer, Failed> {
        let mut request = self.request(method, path, body)?;
        if announced && let Some(length) = hyper::body::Body::size_hint(request.body()).exact() {
            request.headers_mut().insert("content-length", length.into());
        }
        let response = self.exchange(request).await?;
        Ok(Answer {
            code: response.status().as_u16(),
            last: response.headers().get("connection").is_some_and(|v| v == "close"),
            body: response.into_body().collect().await?.to_bytes(),
        })
    }

    fn request(&self, method: &str, path: &str, body: Body) -> Result<Request<Body>, Failed> {
        let request = Request::builder().method(method).uri(match self.sender {
            Sender::One(_) => path.to_owned(),
            Sender::Two(_) => format!("https://localhost{path}"),
        });
        Ok(request.header("host", "localhost").header("content-type", "application/json").body(body)?)
    }

    async fn exchange(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Failed> {
        Ok(match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }
}

/// Sends a GET request to the operations port.
pub(crate) async fn plain(address: SocketAddr, path: &str) -> Result<(u16, String), Failed> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost").body(Full::new(Bytes::new()))?;
    let response = sender.send_request(request).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}

/// The value of a line of the metrics; 0 if there is none.
pub(crate) fn metric(text: &str, line: &str) -> f64 {
    let value = text.lines().find_map(|l| l.strip_prefix(line));
    value.map_or(0.0, |v| v.trim().parse().unwrap())
}
