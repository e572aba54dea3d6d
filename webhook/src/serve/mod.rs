//! The admission server: two listeners, and the tasks that keep certificates, configuration and
//! cache up to date.

mod accept;
mod activity;
mod live_config;
mod reload;
mod router;
pub(crate) mod supervise;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::ca_bundle::Registration;
use crate::cache::{Cache, run_watches};
use crate::certificates::Lifetimes;
use crate::evaluate::Evaluation;
use crate::evaluation_cache::EvaluationCache;
use crate::limits::Limits;
use crate::manifests::Install;
use crate::metrics::Metrics;
use crate::tls::{Tls, TlsError, TlsFiles, TlsFloor};

pub use live_config::ReadSettings;

use accept::{Service, Stage};
use live_config::LiveConfig;

/// How the server runs.
#[derive(Clone)]
pub struct Options {
    /// Where `/validate` and `/mutate` listen, over TLS.
    pub listen: SocketAddr,
    /// Where `/healthz`, `/readyz` and `/metrics` listen, plain.
    pub operations: SocketAddr,
    /// Sizes, numbers and times.
    pub limits: Limits,
    /// The oldest TLS.
    pub tls_floor: TlsFloor,
    /// The CA that clients have to show a certificate of.
    pub client_ca: Option<PathBuf>,
    /// Where the certificate comes from.
    pub certificates: Certificates,
    /// The webhook configurations that are kept; none where somebody else keeps them.
    pub registration: Option<Registration>,
    /// What the registration is made of.
    pub install: Install,
    /// Reads the configuration.
    pub read: ReadSettings,
    /// The configuration's file, which is watched.
    pub config: Option<PathBuf>,
    /// Whether there is a cluster: without one nothing is watched, and cross-object rules that
    /// need to know are silent.
    pub cluster: bool,
    /// How often files, Secret and webhook configurations are looked at.
    pub refresh: Duration,
}

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Files that somebody else renews.
    Files(TlsFiles),
    /// Made by the replicas themselves, kept in a Secret.
    SelfSigned {
        /// The Secret's namespace.
        namespace: String,
        /// Its name.
        secret: String,
        /// DNS names and addresses of the server.
        names: Vec<String>,
        /// How long they live.
        lifetimes: Lifetimes,
    },
}

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No runtime, no signal handlers.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The first configuration is wrong.
    #[error("{0}")]
    Config(String),
    /// The certificate files cannot be served.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No cluster can be reached from here.
    #[error("no cluster: {0}")]
    Cluster(String),
    /// Options that exclude each other.
    #[error("{0}")]
    Options(&'static str),
}

/// What requests and tasks share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) live_config: LiveConfig,
    pub(crate) cache: Arc<Cache>,
    pub(crate) evaluation_cache: EvaluationCache<Evaluation>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    pub(crate) reviews: Arc<Semaphore>,
    /// Bytes of large bodies.
    pub(crate) large_body_budget: Arc<Semaphore>,
    /// Threads that judge large bodies: not more than there are cores, so that small ones, which
    /// take no thread, get their share.
    pub(crate) threads: Arc<Semaphore>,
    pub(crate) tls: Arc<Tls>,
    draining: AtomicBool,
}

impl Shared {
    /// What keeps the server from being ready; empty where it is.
    pub(crate) fn not_ready_reasons(&self) -> Vec<String> {
        let mut waiting = Vec::new();
        if self.draining.load(Ordering::Relaxed) {
            waiting.push("draining".to_owned());
        }
        if self.tls.current().is_none() {
            waiting.push("no certificate yet".to_owned());
        }
        let kinds = self.cache.required_for_readiness();
        waiting.extend(kinds.iter().map(|kind| format!("{kind} not listed yet")));
        waiting
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    admission: TcpListener,
    operations: TcpListener,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

/// How a server is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Services have to notice first: SIGTERM.
    Drain,
    /// Nobody else sends requests: a person at a terminal.
    Now,
}

impl Server {
    /// Listens, reads configuration and certificates, and begins to watch.
    ///
    /// # Errors
    /// What keeps the server from starting; what can get better by itself does not.
    pub async fn start(options: Options) -> Result<Server, ServeError> {
        let needs_cluster =
            options.registration.is_some() || matches!(options.certificates, Certificates::SelfSigned { .. });
        if needs_cluster && !options.cluster {
            let message =
                "without a cluster the certificate has to come from files, and nothing can be registered";
            return Err(ServeError::Options(message));
        }
        let exempt = vec![options.install.namespace.clone()];
        let policy = LiveConfig::new(Arc::clone(&options.read), options.config.clone(), exempt)
            .map_err(ServeError::Config)?;
        let metrics = Arc::new(Metrics::new());
        let shared = Arc::new(Shared {
            live_config: policy,
            cache: Arc::new(Cache::new(options.cluster, Arc::clone(&metrics))),
            evaluation_cache: EvaluationCache::new(Arc::clone(&metrics)),
            limits: options.limits.clone(),
            reviews: Arc::new(Semaphore::new(options.limits.reviews)),
            large_body_budget: Arc::new(Semaphore::new(options.limits.large)),
            threads: Arc::new(Semaphore::new(cores())),
            tls: Arc::new(Tls::new(options.tls_floor)),
            draining: AtomicBool::new(false),
            metrics,
        });
        let client = if options.cluster {
            let client = kube::Client::try_default().await;
            Some(client.map_err(|e| ServeError::Cluster(e.to_string()))?)
        } else {
            None
        };
        let mut tasks = JoinSet::new();
        reload::certificates(&mut tasks, &shared, &options, client.as_ref())?;
        reload::configuration(&mut tasks, &shared, options.refresh);
        if let Some(client) = client {
            tasks.spawn(run_watches(Arc::clone(&shared.cache), client));
            tasks.spawn(Arc::clone(&shared.cache).run_snapshots());
        }
        let server = Server {
            admission: listen(options.listen).await?,
            operations: listen(options.operations).await?,
            shared,
            tasks,
        };
        if let (Ok(admission), Ok(operations)) = server.addresses() {
            tracing::info!(%admission, %operations, "listening");
        }
        Ok(server)
    }

    /// Where it listens: the admission side, health and metrics.
    pub fn addresses(&self) -> (std::io::Result<SocketAddr>, std::io::Result<SocketAddr>) {
        (self.admission.local_addr(), self.operations.local_addr())
    }

    /// Serves until `stop` says to end, and ends without losing a request: it says first that it
    /// is not ready, goes on serving while Services notice, and then lets open requests finish.
    pub async fn run(mut self, stop: impl Future<Output = Stop>) {
        let (stage, admission_stage) = watch::channel(Stage::Serving);
        let (operations_stage, of_operations) = watch::channel(Stage::Serving);
        let service = |router, tls| Service {
            router,
            tls,
            limits: self.shared.limits.clone(),
            metrics: Arc::clone(&self.shared.metrics),
        };
        let tls = Some(Arc::clone(&self.shared.tls));
        let admission = service(router::admission(Arc::clone(&self.shared)), tls);
        let operations = service(router::operations(Arc::clone(&self.shared)), None);
        let admission = tokio::spawn(accept::serve(self.admission, admission, admission_stage));
        let operations = tokio::spawn(accept::serve(self.operations, operations, of_operations));
        let how = stop.await;
        tracing::info!("draining");
        self.shared.draining.store(true, Ordering::Relaxed);
        if how == Stop::Drain {
            // By the half of it Services send new connections elsewhere, so that those who are
            // asked to open one find another replica.
            let half = self.shared.limits.drain_delay / 2;
            tokio::time::sleep(half).await;
            let _ = stage.send(Stage::Draining);
            tokio::time::sleep(half).await;
        }
        let _ = stage.send(Stage::Closing);
        let _ = admission.await;
        let _ = operations_stage.send(Stage::Closing);
        let _ = tokio::time::timeout(Duration::from_secs(1), operations).await;
        self.tasks.shutdown().await;
        tracing::info!("ended");
    }
}

/// How many threads can work at once; at least two, so that one that is slow is not all there is.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().max(2))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let error = |source| ServeError::Listen { address, source };
    TcpListener::bind(address).await.map_err(error)
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// What keeps the server from starting.
pub fn serve(options: Options) -> Result<(), ServeError> {
    // The message of a panic may quote what it fell over, such as a text of somebody's object.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        tracing::error!(place = place.as_deref().unwrap_or("unknown"), "panic");
    }));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Start)?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        // Before anything else, so that no signal is missed.
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Start)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Start)?;
        let server = Server::start(options).await?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => Stop::Drain,
                _ = interrupt.recv() => Stop::Now,
            }
        };
        server.run(stop).await;
        Ok(())
    })
}
