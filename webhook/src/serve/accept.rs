//! The accept loop: connections up to a number, handshakes up to a time, and a graceful end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
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
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(service.limits.connections));
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&connections).acquire_owned() => permit,
            () = ended(&mut stop) => break,
        };
        let Ok(permit) = permit else { break };
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
        let watcher = graceful.watcher();
        let service = service.clone();
        tokio::spawn(async move {
            connection(stream, service, watcher).await;
            drop(permit);
        });
    }
    // Connections that the kernel took already are still answered.
    while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
        let (service, watcher) = (service.clone(), graceful.watcher());
        tokio::spawn(connection(stream, service, watcher));
    }
    drop(listener);
    if tokio::time::timeout(service.limits.drain, graceful.shutdown())
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

type Watcher = hyper_util::server::graceful::Watcher;

async fn connection(stream: TcpStream, service: Service, watcher: Watcher) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &service.tls else {
        return http(stream, &service, watcher).await;
    };
    let _held = service.metrics.connection();
    let Some(config) = tls.current() else {
        return;
    };
    let accept = TlsAcceptor::from(config).accept(stream);
    match tokio::time::timeout(service.limits.handshake, accept).await {
        Ok(Ok(stream)) => http(stream, &service, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "handshake failed"),
        Err(_) => tracing::debug!("handshake took too long"),
    }
}

async fn http<S>(stream: S, service: &Service, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(service.limits.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let router = TowerToHyperService::new(service.router.clone());
    let connection = builder.serve_connection(TokioIo::new(stream), router);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended");
    }
}
