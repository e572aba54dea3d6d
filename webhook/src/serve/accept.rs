//! The accept loop: timeouts for handshakes and idle connections, and a shutdown in two stages that loses no request.
//! It never stops accepting: [`Peers`] decides which connections make room where there are too many.
//!
//! It is written by hand because neither `axum::serve` nor hyper-util's `GracefulShutdown` can drain in two stages.
//! `GracefulShutdown` owns its connections and closes all of them at the same time. Here a connection is closed at one
//! of three times: HTTP/2 when draining begins, HTTP/1.1 with the next response after that or when the server closes,
//! and any of them when it is idle. The swap of the certificate and the limits on connections belong to the same loop.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::FutureExt;
use hyper::Version;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::activity::ConnectionActivity;
use super::body::Guarded;
use super::peers::{Peer, Peers};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::tls::Tls;

/// The service of a listener, with its limits.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) router: Router,
    /// `None` for plain HTTP.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) limits: Limits,
    pub(crate) peers: Arc<Peers>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Maximum number of concurrent requests of one HTTP/2 connection. The API server multiplexes over few connections, so
/// this is well above [`Limits::reviews`]: excess requests are answered with 429, not queued by the client.
const MAX_CONCURRENT_STREAMS: u32 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Requests and connections are accepted.
    Serving,
    /// Requests and connections are still accepted; clients with open connections are asked to reconnect,
    /// so that they reach another replica.
    Draining,
    /// No connections are accepted; requests in flight are finished.
    Closing,
}

/// How long a connection without any request is kept open in [`Stage::Closing`]: its first request may be on its way.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// Maximum time for a client to receive a response. Work on the response ends before [`Limits::timeout`].
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Serves until [`Stage::Closing`], then finishes requests in flight.
pub(crate) async fn serve(listener: TcpListener, service: Service, mut stage: watch::Receiver<Stage>) {
    let mut open = JoinSet::new();
    let spawn = |open: &mut JoinSet<()>, stream, address: SocketAddr, stage: &watch::Receiver<Stage>| {
        let peer = service.peers.connect(address.ip());
        let (service, stage) = (service.clone(), stage.clone());
        open.spawn(async move { connection(stream, &service, peer, stage).await });
    };
    loop {
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or the peer has reset the connection: retry.
                    tracing::debug!(%error, "accept failed");
                    service.peers.make_room();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
            () = stage_reached(&mut stage, Stage::Closing) => break,
        };
        // Frees the results of connections that have ended.
        while open.try_join_next().is_some() {}
        spawn(&mut open, stream, address, &stage);
    }
    // Connections in the backlog of the listener are established for their clients, so they are served.
    while let Some(Ok((stream, address))) = listener.accept().now_or_never() {
        spawn(&mut open, stream, address, &stage);
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(service.limits.drain, all).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

async fn stage_reached(stage: &mut watch::Receiver<Stage>, at: Stage) {
    // An error means that the sender was dropped, which also ends the server.
    let _ = stage.wait_for(|stage| *stage >= at).await;
}

async fn connection(stream: TcpStream, service: &Service, peer: Arc<Peer>, stage: watch::Receiver<Stage>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &service.tls else {
        if peer.established() {
            http(stream, service, peer, stage).await;
        }
        return;
    };
    let handshake = async {
        // Until the client sends something, the connection costs no TLS session.
        stream.readable().await.ok()?;
        // On the heap, so that a connection that has sent nothing is small.
        match Box::pin(TlsAcceptor::from(tls.current()?).accept(stream)).await {
            Ok(stream) => Some(stream),
            Err(error) => {
                tracing::debug!(%error, "handshake failed");
                None
            }
        }
    };
    let stream = tokio::select! {
        () = peer.displaced() => None,
        stream = tokio::time::timeout(service.limits.handshake, handshake) => stream.ok().flatten(),
    };
    let Some(stream) = stream else { return service.metrics.connection_closed("handshake") };
    if !peer.established() {
        return service.metrics.connection_closed("full");
    }
    let _held = service.metrics.connection();
    Box::pin(http(stream, service, peer, stage)).await;
}

async fn http<S>(stream: S, service: &Service, peer: Arc<Peer>, stage: watch::Receiver<Stage>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &service.limits;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let activity = ConnectionActivity::new();
    let connection_peer = Arc::clone(&peer);
    let router = TowerToHyperService::new(service.router.clone());
    let counted_router = {
        let (activity, stage) = (Arc::clone(&activity), stage.clone());
        service_fn(move |mut request: hyper::Request<Incoming>| {
            let is_http2 = request.version() == Version::HTTP_2;
            request.extensions_mut().insert(Arc::clone(&peer));
            let (in_flight, response) = (activity.request_started(is_http2), router.call(request));
            let stage = stage.clone();
            async move {
                let mut response = response.await;
                if !is_http2
                    && *stage.borrow() >= Stage::Draining
                    && let Ok(response) = &mut response
                {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                // In flight until the client has received it.
                response.map(|response| response.map(|body| Body::new(Guarded::new(body, in_flight))))
            }
        })
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), counted_router));
    let done = tokio::select! {
        // A received request is read before the connection is closed.
        biased;
        done = connection.as_mut() => Some(done),
        () = shutdown_requested(stage, &activity) => None,
        () = activity.idle_timeout(limits.head, limits.idle) => None,
        () = connection_peer.displaced() => return service.metrics.connection_closed("displaced"),
        () = activity.stuck(limits.timeout + ANSWER_TIME) => {
            return tracing::debug!("a client does not take its answers");
        }
    };
    let done = match done {
        Some(done) => done,
        None => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(limits.drain, connection).await {
                Ok(done) => done,
                Err(_) => return tracing::debug!("a connection did not end in time"),
            }
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, "connection ended");
    }
}

/// Waits until the connection has to be closed because the server shuts down.
///
/// - HTTP/2 connections are closed when draining begins: GOAWAY names the last request that is answered,
///   and the client sends later ones elsewhere.
/// - HTTP/1.1 clients cannot tell whether a server has read a request before it closed the connection, and
///   do not retry. Their connections are closed by `Connection: close` with the next response, or in
///   [`Stage::Closing`].
/// - Connections that were accepted while draining are from clients that do not know of it yet. They stay
///   open until [`Stage::Closing`], plus [`FIRST_REQUEST_GRACE`] for a first request in flight.
async fn shutdown_requested(mut stage: watch::Receiver<Stage>, activity: &ConnectionActivity) {
    if *stage.borrow() == Stage::Serving {
        stage_reached(&mut stage, Stage::Draining).await;
        if activity.is_http2() {
            return;
        }
    }
    stage_reached(&mut stage, Stage::Closing).await;
    let _ = tokio::time::timeout(FIRST_REQUEST_GRACE, activity.wait_for_first_request()).await;
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    async fn start(limits: Limits) -> (std::net::SocketAddr, watch::Sender<Stage>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(Stage::Serving);
        let service = Service {
            router: Router::new().route("/", post(|| async { "ok" })),
            tls: None,
            peers: Peers::new(limits.clone()),
            limits,
            metrics: Arc::new(Metrics::new()),
        };
        tokio::spawn(serve(listener, service, stopped));
        (address, stop)
    }

    /// Reads until the server closes the connection.
    async fn read_all(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let whole = stream.read_to_string(&mut text);
        let read = tokio::time::timeout(Duration::from_secs(60), whole).await;
        read.expect("the connection stays open").unwrap();
        text
    }

    #[tokio::test]
    async fn an_incomplete_head_times_out() {
        let (address, _stop) = start(Limits { head: Duration::from_millis(200), ..Limits::default() }).await;
        for begun in [&b""[..], b"POST / HT", b"POST / HTTP/1.1\r\nhost: a\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun).await.unwrap();
            assert!(!read_all(&mut stream).await.contains("200 OK"));
        }
        let (address, _stop) = start(Limits::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        assert!(read_all(&mut stream).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed() {
        const IDLE: Duration = Duration::from_millis(600);
        let (address, _stop) = start(Limits { idle: IDLE, ..Limits::default() }).await;
        // If the machine stalls for longer than the limit, the connection becomes idle: the test is repeated.
        loop {
            let stream = TcpStream::connect(address).await.unwrap();
            let io = TokioIo::new(stream);
            let opened = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
            let (mut sender, connection) = opened.await.unwrap();
            let connection = tokio::spawn(connection);
            let (began, mut last_request) = (Instant::now(), Instant::now());
            while began.elapsed() < 2 * IDLE {
                let request = hyper::Request::post("http://a/").body(axum::body::Body::empty());
                match sender.send_request(request.unwrap()).await {
                    Ok(response) => assert_eq!(response.status(), 200),
                    Err(error) => {
                        assert!(last_request.elapsed() >= IDLE, "{error}");
                        break;
                    }
                }
                last_request = Instant::now();
                tokio::time::sleep(IDLE / 4).await;
            }
            let stalled = last_request.elapsed() >= IDLE;
            let closed = tokio::time::timeout(Duration::from_secs(60), connection).await;
            let closed = closed.expect("it stays open").unwrap();
            if !stalled {
                return closed.unwrap();
            }
        }
    }

    /// Only Linux has all of 127.0.0.0/8.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_above_the_limit_takes_the_place_of_one_of_the_heaviest_address() {
        let (address, _stop) = start(Limits { connections: 4, ..Limits::default() }).await;
        let connect = async |last: u8| {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((std::net::Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
            socket.connect(address).await.unwrap()
        };
        let mut idle = Vec::new();
        for last in [2, 2, 2, 3] {
            let mut stream = connect(last).await;
            stream.write_all(KEEP).await.unwrap();
            assert!(read_response(&mut stream).await.contains("200 OK"));
            idle.push(stream);
        }
        let mut honest = connect(4).await;
        honest.write_all(REQUEST).await.unwrap();
        assert!(read_all(&mut honest).await.contains("200 OK"));
        assert_eq!(read_all(&mut idle[0]).await, "", "the oldest one of the address with three is closed");
        for stream in &mut idle[1..] {
            stream.write_all(KEEP).await.unwrap();
            assert!(read_response(stream).await.contains("200 OK"));
        }
    }

    const KEEP: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";

    /// Reads one response of a connection that stays open.
    async fn read_response(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\nok") {
            let byte = stream.read_u8();
            let byte = tokio::time::timeout(Duration::from_secs(60), byte).await;
            text.push(char::from(byte.expect("no response").unwrap()));
        }
        text
    }

    #[tokio::test]
    async fn draining_closes_http_1_connections_with_a_response() {
        let (address, stage) = start(Limits::default()).await;
        let mut used = TcpStream::connect(address).await.unwrap();
        used.write_all(KEEP).await.unwrap();
        assert!(!read_response(&mut used).await.contains("connection: close"));
        let mut unused = TcpStream::connect(address).await.unwrap();
        stage.send(Stage::Draining).unwrap();
        // No connection is closed while its client may be sending; new ones are accepted.
        let mut late = TcpStream::connect(address).await.unwrap();
        for stream in [&mut used, &mut unused, &mut late] {
            stream.write_all(KEEP).await.unwrap();
            assert!(read_all(stream).await.contains("connection: close"));
        }
    }

    #[tokio::test]
    async fn a_first_request_in_flight_is_answered_while_closing() {
        let (address, stage) = start(Limits::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stage.send(Stage::Closing).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(KEEP).await.unwrap();
        assert!(read_all(&mut stream).await.contains("200 OK"));
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn draining_closes_http_2_connections_and_accepts_new_ones() {
        let (address, stage) = start(Limits::default()).await;
        let open = async || {
            let stream = TcpStream::connect(address).await.unwrap();
            let io = TokioIo::new(stream);
            let opened = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
            let (mut sender, connection) = opened.await.unwrap();
            let connection = tokio::spawn(connection);
            let request = hyper::Request::post("http://a/").body(axum::body::Body::empty());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(answer.status(), 200);
            (sender, connection)
        };
        let (_sender, first) = open().await;
        stage.send(Stage::Draining).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(60), first).await;
        ended.expect("it stays open").unwrap().unwrap();
        let (_sender, late) = open().await;
        assert!(!late.is_finished());
        stage.send(Stage::Closing).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(60), late).await;
        ended.expect("it stays open").unwrap().unwrap();
    }
}
