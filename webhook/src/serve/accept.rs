//! The accept loop: connections up to a number, handshakes and silence up to a time, and a
//! graceful end.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use futures::FutureExt;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
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
const STREAMS: u32 = 512;

/// Serves until `stop` turns true, then lets open requests finish.
pub(crate) async fn serve(
    listener: TcpListener,
    service: Service,
    mut stop: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    let places = Arc::new(Semaphore::new(service.limits.connections));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = ended(&mut stop) => break,
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
            () = ended(&mut stop) => break,
        };
        while open.try_join_next().is_some() {}
        let (service, stop) = (service.clone(), stop.clone());
        open.spawn(async move {
            connection(stream, &service, stop).await;
            drop(place);
        });
    }
    // Connections that the kernel took already are still answered.
    while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
        let (service, stop) = (service.clone(), stop.clone());
        open.spawn(async move { connection(stream, &service, stop).await });
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(service.limits.drain, all)
        .await
        .is_err()
    {
        tracing::warn!("some requests did not finish in time");
    }
}

async fn ended(stop: &mut watch::Receiver<bool>) {
    // An error says that nobody is left who could say it: the end as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(stream: TcpStream, service: &Service, stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &service.tls else {
        return http(stream, service, stop).await;
    };
    let _held = service.metrics.connection();
    let Some(config) = tls.current() else {
        return;
    };
    let accept = TlsAcceptor::from(config).accept(stream);
    match tokio::time::timeout(service.limits.handshake, accept).await {
        Ok(Ok(stream)) => http(stream, service, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "handshake failed"),
        Err(_) => tracing::debug!("handshake took too long"),
    }
}

async fn http<S>(stream: S, service: &Service, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &service.limits;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let activity = Activity::new();
    let router = TowerToHyperService::new(service.router.clone());
    let answering = {
        let activity = Arc::clone(&activity);
        service_fn(move |request: hyper::Request<Incoming>| {
            let (busy, answer) = (activity.begin(), router.call(request));
            async move {
                let answer = answer.await;
                drop(busy);
                answer
            }
        })
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answering));
    let done = tokio::select! {
        done = connection.as_mut() => Some(done),
        () = ended(&mut stop) => None,
        () = activity.is_silent(limits.head, limits.idle) => None,
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

/// What happens on a connection: one on which nothing does must not take the place of others.
#[derive(Debug)]
struct Activity(Mutex<Happening>);

#[derive(Debug)]
struct Happening {
    /// Requests that are being answered.
    open: usize,
    /// Whether there ever was one.
    any: bool,
    /// When the connection, the last request or the last answer came.
    since: Instant,
}

impl Activity {
    fn new() -> Arc<Activity> {
        Arc::new(Activity(Mutex::new(Happening {
            open: 0,
            any: false,
            since: Instant::now(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Happening> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request came; it is being answered until the value is dropped.
    fn begin(self: &Arc<Activity>) -> Busy {
        let mut now = self.lock();
        now.open += 1;
        now.any = true;
        drop(now);
        Busy(Arc::clone(self))
    }

    /// Waits until no request came for `first`, or none for `later` after another one.
    async fn is_silent(&self, first: Duration, later: Duration) {
        loop {
            let left = {
                let now = self.lock();
                let limit = if now.any { later } else { first };
                match now.open {
                    0 => limit.saturating_sub(now.since.elapsed()),
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
struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut now = self.0.lock();
        now.open = now.open.saturating_sub(1);
        now.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REQUEST: &[u8] =
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    async fn start(limits: Limits) -> (std::net::SocketAddr, watch::Sender<bool>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
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
        let read = tokio::time::timeout(Duration::from_secs(10), whole).await;
        read.expect("the connection stays open").unwrap();
        text
    }

    #[tokio::test]
    async fn a_head_that_does_not_end_closes_the_connection() {
        let (address, _stop) = start(Limits {
            head: Duration::from_millis(200),
            ..Limits::default()
        })
        .await;
        for begun in [&b""[..], b"POST / HT", b"POST / HTTP/1.1\r\nhost: a\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun).await.unwrap();
            assert!(!said(&mut stream).await.contains("200 OK"));
        }
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        assert!(said(&mut stream).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn a_connection_on_which_nothing_happens_any_more_is_closed() {
        let (address, _stop) = start(Limits {
            idle: Duration::from_millis(300),
            ..Limits::default()
        })
        .await;
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        let connection = tokio::spawn(connection);
        for _ in 0..4 {
            // Less than the limit between two of them.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let request = hyper::Request::post("http://a/").body(axum::body::Body::empty());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(answer.status(), 200);
        }
        let closed = tokio::time::timeout(Duration::from_secs(10), connection).await;
        closed.expect("it stays open").unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_connection_too_many_waits_for_a_place() {
        let (address, _stop) = start(Limits {
            connections: 1,
            ..Limits::default()
        })
        .await;
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
}
