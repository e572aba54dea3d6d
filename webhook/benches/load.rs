//! Measures the server and an echo server on the same stack: HTTP/1.1 keep-alive over TLS, client and servers
//! on the same cores.
//!
//! `cargo bench -p gpulint-webhook --bench load`. The ratio of the two matters, because both share the
//! machine with the client. The server has a cache of evaluations, so it is measured with one object that is
//! always cached, and with a new object in each request.
//! `-- again`, `-- new`, `-- different` and `-- large` measure one part; a number sets the number of connections: `-- new
//! 64`. The objects of `different` differ in their specs as well; this part is measured beside the echo server in Go if
//! `GPULINT_ECHO` names its binary, as `benches/echo/run` does. `-- new 64 profile` sends a hundred thousand requests to gpulint only, for use with a profiler.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod objects;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use gpulint_rules::Settings;
use gpulint_webhook::manifests::Install;
use gpulint_webhook::serve::{Certificates, Options, Server, Stop};
use gpulint_webhook::{Limits, TlsFiles, TlsFloor};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const SECONDS: u64 = 3;
const ROUNDS: usize = 3;

fn main() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let key = key.serialize_pem();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    };
    let (servers, clients) = (runtime(), runtime());
    let echo = servers.block_on(echo(&certificate, &key));
    let (gpulint, _stop) = servers.block_on(gpulint(&certificate, &key));
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_asked = |part: &str| {
        let known = ["again", "new", "different", "large"];
        args.iter().any(|arg| arg == part) || !args.iter().any(|arg| known.contains(&arg.as_str()))
    };
    let only: Vec<usize> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    let profiled = args.iter().any(|arg| arg == "profile");
    let go = std::env::var_os("GPULINT_ECHO").map(|binary| GoEcho::start(&binary, &certificate, &key));
    let parts = [("again", Asked::Again), ("new", Asked::New)].into_iter();
    for (part, asked) in parts.chain(Different::ALL.map(|kind| ("different", Asked::Different(kind)))) {
        if !is_asked(part) {
            continue;
        }
        let echo = go.as_ref().filter(|_| part == "different").map_or(echo, |go| go.address);
        let bytes = asked.body().len();
        println!("{asked:?}: a review of {bytes} bytes, {SECONDS} s a round, the best of {ROUNDS}");
        for connections in [1, 16, 64].into_iter().filter(|number| only.is_empty() || only.contains(number)) {
            if profiled {
                clients.block_on(load(&certificate, gpulint, asked, connections, 100_000 / connections));
                continue;
            }
            let mut best = [(0.0_f64, f64::MAX, f64::MAX); 2];
            for _ in 0..ROUNDS {
                for (at, address) in [echo, gpulint].into_iter().enumerate() {
                    let (rate, p50, p99) =
                        clients.block_on(load(&certificate, address, asked, connections, usize::MAX));
                    best[at].0 = best[at].0.max(rate);
                    best[at].1 = best[at].1.min(p50);
                    best[at].2 = best[at].2.min(p99);
                }
            }
            let [(echo_rate, echo_p50, echo_p99), (rate, p50, p99)] = best;
            println!(
                "{connections:>3} connections: echo {echo_rate:>7.0}/s p50 {echo_p50:>6.2} p99 {echo_p99:>6.2} ms   gpulint {rate:>7.0}/s p50 {p50:>6.2} p99 {p99:>6.2} ms   {:.0} % of its rate, {:.2} times its p99",
                100.0 * rate / echo_rate,
                p99 / echo_p99
            );
        }
    }
    if is_asked("large") {
        beside_large(&clients, &certificate, gpulint);
    }
}

/// Measures small requests beside large ones, which must not delay them.
fn beside_large(clients: &Runtime, certificate: &str, address: SocketAddr) {
    let large = async {
        tokio::join!(
            load(certificate, address, Asked::Large, 16, usize::MAX),
            load(certificate, address, Asked::Again, 16, usize::MAX)
        )
    };
    let ((large_rate, _, large_p99), (rate, p50, p99)) = clients.block_on(large);
    println!(
        "Again beside 16 connections with reviews of {} KB ({large_rate:.0}/s, p99 {large_p99:.0} ms): {rate:.0}/s p50 {p50:.2} p99 {p99:.2} ms",
        Asked::Large.body().len() / 1000
    );
}

/// The objects in the requests.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// An object that is equal in every request.
    Again,
    /// A new object in every request.
    New,
    /// An object with another spec in each request.
    Different(Different),
    /// A new object in each request, with many annotations.
    Large,
}

#[derive(Clone, Copy, Debug)]
enum Different {
    NodePool,
    Deployment,
    Job,
    ScaledObject,
}

impl Different {
    const ALL: [Different; 4] =
        [Different::NodePool, Different::Deployment, Different::Job, Different::ScaledObject];

    /// A review, split where a number is inserted, in its spec as well.
    fn parts(self) -> &'static [String] {
        const NUMBER: usize = 7_777_777_777;
        static PARTS: LazyLock<[Vec<String>; 4]> = LazyLock::new(|| {
            let mut pool = objects::pool(&format!("gpu-{NUMBER}"));
            pool["spec"]["template"]["metadata"]["labels"]["workload"] = format!("inference-{NUMBER}").into();
            pool["spec"]["limits"]["memory"] = format!("{NUMBER}Mi").into();
            let mut job = objects::job();
            job["metadata"]["name"] = format!("pretrain-{NUMBER}").into();
            job["spec"]["template"]["spec"]["containers"] = objects::containers(NUMBER);
            let objects = [
                ("karpenter.sh", pool),
                ("apps", objects::deployment(NUMBER)),
                ("batch", job),
                ("keda.sh", objects::scaled(NUMBER)),
            ];
            objects.map(|(group, object)| split(group, &object, &NUMBER.to_string()))
        });
        &PARTS[self as usize]
    }
}

impl Asked {
    fn body(self) -> Bytes {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static SMALL: LazyLock<Vec<String>> = LazyLock::new(|| review(0));
        static LARGE: LazyLock<Vec<String>> = LazyLock::new(|| review(3_000));
        let parts = match self {
            Asked::Again | Asked::New => &*SMALL,
            Asked::Different(kind) => kind.parts(),
            Asked::Large => &*LARGE,
        };
        let number = match self {
            Asked::Again => 0,
            Asked::New | Asked::Different(_) | Asked::Large => NEXT.fetch_add(1, Ordering::Relaxed) + 1,
        };
        Bytes::from(parts.join(&format!("{number:010}")))
    }
}

/// A review of a GPU pool with the given number of annotations, split at the end of its name, where a number
/// is inserted.
fn review(annotations: usize) -> Vec<String> {
    let mut pool = objects::pool("gpu-NUMBER");
    for number in 0..annotations {
        pool["metadata"]["annotations"][format!("example.com/note-{number}")] =
            "what somebody wanted to remember".into();
    }
    split("karpenter.sh", &pool, "NUMBER")
}

/// A review of a new object, split where `number` is in its text.
fn split(group: &str, object: &Value, number: &str) -> Vec<String> {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "name": "gpu",
        "namespace": object["metadata"]["namespace"],
        "kind": {"group": group, "version": "v1", "kind": object["kind"]},
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": object}})
    .to_string();
    review.split(number).map(str::to_owned).collect()
}

/// The echo server in Go (`benches/echo`), until it is dropped.
struct GoEcho {
    process: Child,
    address: SocketAddr,
}

impl GoEcho {
    fn start(binary: &OsStr, certificate: &str, key: &str) -> GoEcho {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let files = [("echo.crt", certificate), ("echo.key", key)].map(|(name, text)| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let mut process = Command::new(binary).args(files).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        GoEcho { process, address: line.trim().parse().unwrap() }
    }
}

impl Drop for GoEcho {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn gpulint(certificate: &str, key: &str) -> (SocketAddr, tokio::sync::oneshot::Sender<()>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = TlsFiles { certificate: folder.join("load.crt"), key: folder.join("load.key") };
    std::fs::write(&files.certificate, certificate).unwrap();
    std::fs::write(&files.key, key).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(Options {
        listen: any,
        operations: any,
        limits: Limits::default(),
        tls_floor: TlsFloor::Tls12,
        client_ca: None,
        certificates: Certificates::Files(files),
        registration: None,
        install: Install::default(),
        read: Arc::new(|| Ok(Settings::default())),
        config: Vec::new(),
        log_denies: false,
        events: false,
        context: None,
        cluster: false,
        refresh: Duration::from_secs(10),
    })
    .await
    .unwrap();
    let address = server.addresses().0.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(server.run(async {
        let _ = stopped.await;
        Stop::Now
    }));
    (address, stop)
}

async fn echo(certificate: &str, key: &str) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let router: Router = Router::new().route("/validate", post(|body: Bytes| async { body }));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
                let service = TowerToHyperService::new(router);
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(stream, service).await;
            });
        }
    });
    address
}

/// Requests per second, and the median and the 99th percentile of the latency in milliseconds. It ends after
/// some seconds, or after `most` requests of each connection.
async fn load(
    certificate: &str,
    address: SocketAddr,
    asked: Asked,
    connections: usize,
    most: usize,
) -> (f64, f64, f64) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let began = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let connector = connector.clone();
            tokio::spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let name = ServerName::IpAddress(address.ip().into());
                let stream = connector.connect(name, stream).await.unwrap();
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                let mut took = Vec::new();
                let is_over = |asked| {
                    asked == most || (most == usize::MAX && began.elapsed() >= Duration::from_secs(SECONDS))
                };
                while !is_over(took.len()) {
                    let request = Request::post("/validate?timeout=3s").header("host", "localhost");
                    let request = request.body(Full::new(asked.body())).unwrap();
                    let sent = Instant::now();
                    sender.ready().await.unwrap();
                    let answer = sender.send_request(request).await.unwrap();
                    assert_eq!(answer.status(), 200);
                    answer.into_body().collect().await.unwrap();
                    took.push(sent.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap());
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |percent: usize| took[took.len() * percent / 100].as_secs_f64() * 1000.0;
    (rate, at(50), at(99))
}
