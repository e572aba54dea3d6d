//! The accept loop: connections up to a number, handshakes and silence up to a time, and a
//! graceful end.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
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
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::tls::Tls;

/// What a listener serves.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) router: Router,
    /// Plain HTTP where absent.
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
}

/// Requests of one HTTP/2 connection at once. The API server multiplexes over few connections, so
/// this is well above what is reviewed at once: what is too much is answered, not queued.
const MAX_CONCURRENT_STREAMS: u32 = 512;

/// How far a server is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It serves.
    Serving,
    /// It serves, and asks those who keep connections open to go elsewhere with their next request.
    Draining,
    /// It takes no new connections, and finishes what is open.
    Closing,
}

/// How long a connection that was taken last may need to send its first request.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);

/// Serves until the end, then lets open requests finish.
pub(crate) async fn serve(listener: TcpListener, service: Service, mut stage: watch::Receiver<Stage>) {
    let mut open = JoinSet::new();
    let connection_slots = Arc::new(Semaphore::new(service.limits.connections));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&connection_slots).acquire_owned() => place,
            () = stage_reached(&mut stage, Stage::Closing) => break,
        };
        let Ok(place) = place else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // No file descriptors left, or the peer is gone: wait a little, go on.
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
            () = stage_reached(&mut stage, Stage::Closing) => break,
        };
        while open.try_join_next().is_some() {}
        let (service, stage) = (service.clone(), stage.clone());
        open.spawn(async move {
            connection(stream, &service, stage).await;
            drop(place);
        });
    }
    // Connections that the kernel took already are still answered.
    while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
        let (service, stage) = (service.clone(), stage.clone());
        open.spawn(async move { connection(stream, &service, stage).await });
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(service.limits.drain, all).await.is_err() {
        tracing::warn!("some requests did not finish in time");
    }
}

async fn stage_reached(stage: &mut watch::Receiver<Stage>, at: Stage) {
    // An error says that nobody is left who could say it: the end as well.
    let _ = stage.wait_for(|stage| *stage >= at).await;
}

async fn connection(stream: TcpStream, service: &Service, stage: watch::Receiver<Stage>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &service.tls else {
        return http(stream, service, stage).await;
    };
    let _held = service.metrics.connection();
    let Some(config) = tls.current() else {
        return;
    };
    let accept = TlsAcceptor::from(config).accept(stream);
    match tokio::time::timeout(service.limits.handshake, accept).await {
        Ok(Ok(stream)) => http(stream, service, stage).await,
        Ok(Err(error)) => tracing::debug!(%error, "handshake failed"),
        Err(_) => tracing::debug!("handshake took too long"),
    }
}

async fn http<S>(stream: S, service: &Service, stage: watch::Receiver<Stage>)
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
    let router = TowerToHyperService::new(service.router.clone());
    let answering = {
        let (activity, stage) = (Arc::clone(&activity), stage.clone());
        service_fn(move |request: hyper::Request<Incoming>| {
            let two = request.version() == Version::HTTP_2;
            let (busy, answer) = (activity.request_started(two), router.call(request));
            let stage = stage.clone();
            async move {
                let mut answer = answer.await;
                if !two
                    && *stage.borrow() >= Stage::Draining
                    && let Ok(answer) = &mut answer
                {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(CONNECTION, close);
                }
                drop(busy);
                answer
            }
        })
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answering));
    let done = tokio::select! {
        // What has arrived already is read before anything is closed.
        biased;
        done = connection.as_mut() => Some(done),
        () = shutdown_requested(stage, &activity) => None,
        () = activity.idle_timeout(limits.head, limits.idle) => None,
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

/// Waits until a connection has to be closed because the server ends.
///
/// A client of HTTP/1.1 cannot tell whether a request was read by a server that closes the
/// connection, and does not send it again. So such a connection is told with an answer that it was
/// the last one, and one without requests is closed at the end alone. HTTP/2 has a message for it
/// that loses nothing. One that was opened late is somebody's who has not noticed yet: it is used
/// until the end, and a first request that is on its way there is waited for.
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

/// What happens on a connection: one on which nothing does must not take the place of others.
#[derive(Debug)]
struct ConnectionActivity {
    state: Mutex<ActivityState>,
    /// Told of the first request.
    first_request: Notify,
}

#[derive(Debug)]
struct ActivityState {
    /// Requests that are being answered.
    in_flight: usize,
    /// Whether there ever was one.
    had_request: bool,
    http2: bool,
    /// When the connection, the last request or the last answer came.
    last_activity: Instant,
}

impl ConnectionActivity {
    fn new() -> Arc<ConnectionActivity> {
        Arc::new(ConnectionActivity {
            state: Mutex::new(ActivityState {
                in_flight: 0,
                had_request: false,
                http2: false,
                last_activity: Instant::now(),
            }),
            first_request: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request came; it is being answered until the value is dropped.
    fn request_started(self: &Arc<ConnectionActivity>, http2: bool) -> RequestGuard {
        let mut now = self.lock();
        now.in_flight += 1;
        now.http2 = http2;
        let first = !std::mem::replace(&mut now.had_request, true);
        drop(now);
        if first {
            self.first_request.notify_waiters();
        }
        RequestGuard(Arc::clone(self))
    }

    /// Whether requests come over HTTP/2; not known before the first one.
    fn is_http2(&self) -> bool {
        self.lock().http2
    }

    /// Waits for the first request.
    async fn wait_for_first_request(&self) {
        let told = self.first_request.notified();
        if !self.lock().had_request {
            told.await;
        }
    }

    /// Waits until no request came for `first`, or none for `later` after another one.
    async fn idle_timeout(&self, first: Duration, later: Duration) {
        loop {
            let left = {
                let now = self.lock();
                let limit = if now.had_request { later } else { first };
                match now.in_flight {
                    0 => limit.saturating_sub(now.last_activity.elapsed()),
                    _ => limit,
                }
            };
            if left.is_zero() {
                return;
            }
            // The other limit may be the one that counts by then.
            tokio::time::sleep(left.min(later)).await;
        }
    }
}

/// A request that is being answered.
struct RequestGuard(Arc<ConnectionActivity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut now = self.0.lock();
        now.in_flight = now.in_flight.saturating_sub(1);
        now.last_activity = Instant::now();
    }
}

#[cfg(test)]
mod tests {
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
            limits,
            metrics: Arc::new(Metrics::new()),
        };
        tokio::spawn(serve(listener, service, stopped));
        (address, stop)
    }

    /// What comes back until the server closes the connection.
    async fn said(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let whole = stream.read_to_string(&mut text);
        let read = tokio::time::timeout(Duration::from_secs(60), whole).await;
        read.expect("the connection stays open").unwrap();
        text
    }

    #[tokio::test]
    async fn a_head_that_does_not_end_closes_the_connection() {
        let (address, _stop) = start(Limits { head: Duration::from_millis(200), ..Limits::default() }).await;
        for begun in [&b""[..], b"POST / HT", b"POST / HTTP/1.1\r\nhost: a\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun).await.unwrap();
            assert!(!said(&mut stream).await.contains("200 OK"));
        }
        let (address, _stop) = start(Limits::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        assert!(said(&mut stream).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn a_connection_on_which_nothing_happens_any_more_is_closed() {
        const IDLE: Duration = Duration::from_millis(600);
        let (address, _stop) = start(Limits { idle: IDLE, ..Limits::default() }).await;
        // A machine that stands still for longer than that closes it as well: then it begins again.
        loop {
            let stream = TcpStream::connect(address).await.unwrap();
            let io = TokioIo::new(stream);
            let opened = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
            let (mut sender, connection) = opened.await.unwrap();
            let connection = tokio::spawn(connection);
            let (began, mut asked) = (Instant::now(), Instant::now());
            while began.elapsed() < 2 * IDLE {
                let request = hyper::Request::post("http://a/").body(axum::body::Body::empty());
                match sender.send_request(request.unwrap()).await {
                    Ok(answer) => assert_eq!(answer.status(), 200),
                    Err(error) => {
                        assert!(asked.elapsed() >= IDLE, "{error}");
                        break;
                    }
                }
                asked = Instant::now();
                tokio::time::sleep(IDLE / 4).await;
            }
            let stood_still = asked.elapsed() >= IDLE;
            let closed = tokio::time::timeout(Duration::from_secs(60), connection).await;
            let closed = closed.expect("it stays open").unwrap();
            if !stood_still {
                return closed.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_connection_too_many_waits_for_a_place() {
        let (address, _stop) = start(Limits { connections: 1, ..Limits::default() }).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        let keep = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
        first.write_all(keep).await.unwrap();
        first.read_exact(&mut [0; 15]).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let early = second.readable();
        let early = tokio::time::timeout(Duration::from_millis(200), early).await;
        assert!(early.is_err(), "the second connection was served");
        drop(first);
        assert!(said(&mut second).await.contains("200 OK"));
    }

    const KEEP: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";

    /// The head of one answer, of a connection that stays open.
    async fn head(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\nok") {
            let byte = stream.read_u8();
            let byte = tokio::time::timeout(Duration::from_secs(60), byte).await;
            text.push(char::from(byte.expect("no answer").unwrap()));
        }
        text
    }

    #[tokio::test]
    async fn who_leaves_says_so_with_the_last_answer() {
        let (address, stage) = start(Limits::default()).await;
        let mut used = TcpStream::connect(address).await.unwrap();
        used.write_all(KEEP).await.unwrap();
        assert!(!head(&mut used).await.contains("connection: close"));
        let mut unused = TcpStream::connect(address).await.unwrap();
        stage.send(Stage::Draining).unwrap();
        // Nothing is closed under those who may be sending, new ones are taken as before.
        let mut late = TcpStream::connect(address).await.unwrap();
        for stream in [&mut used, &mut unused, &mut late] {
            stream.write_all(KEEP).await.unwrap();
            assert!(said(stream).await.contains("connection: close"));
        }
    }

    #[tokio::test]
    async fn a_first_request_that_is_on_its_way_at_the_end_is_answered() {
        let (address, stage) = start(Limits::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stage.send(Stage::Closing).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(KEEP).await.unwrap();
        assert!(said(&mut stream).await.contains("200 OK"));
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn connections_of_http_2_are_sent_elsewhere_while_new_ones_are_taken() {
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
