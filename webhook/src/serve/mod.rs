//! The admission server: a listener for admission, one for health and metrics, and the tasks that update
//! certificates, configuration and cache.

mod accept;
mod activity;
mod body;
mod cluster;
mod denials;
mod live_config;
mod peers;
mod reload;
mod router;
mod turns;
mod utf8;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use crate::cache::{Availability, Cache, run_watches};
use crate::certificates::Lifetimes;
use crate::confirm::Reader;
use crate::evaluate::Evaluations;

use crate::limits::Limits;
use crate::logs::RateLimit;
use crate::manifests::Install;
use crate::metrics::Metrics;
use crate::registration::{Registered, Registration, RegistrationState};
use crate::tls::{Tls, TlsError, TlsFiles, TlsFloor};

pub(crate) use live_config::ReadSettings;

use accept::{Service, Stage};
use denials::Denials;
use live_config::LiveConfig;
use peers::Peers;
use turns::Turns;

#[derive(Clone)]
pub struct Options {
    /// Address of `/validate` and `/mutate`, over TLS.
    pub listen: SocketAddr,
    /// Address of `/healthz`, `/readyz` and `/metrics`, over plain HTTP.
    pub operations: SocketAddr,
    pub limits: Limits,
    pub tls_floor: TlsFloor,
    /// The CA that has to have issued client certificates; `None` if they are not required.
    pub client_ca: Option<PathBuf>,
    /// The source of the serving certificate.
    pub certificates: Certificates,
    /// The webhook configurations to check, and to update if the certificates are self-signed.
    pub registration: Option<Registration>,
    /// The parameters of the webhook configurations that are created.
    pub install: Install,
    pub read: ReadSettings,
    /// The files of the configuration, which are polled.
    pub config: Vec<PathBuf>,
    pub log_denies: bool,
    /// Whether denials are written as Events.
    pub events: bool,
    /// The context of the kubeconfig file, if it is not the current one.
    pub context: Option<String>,
    /// Whether to watch a cluster. Otherwise, rules that depend on other objects report nothing.
    pub cluster: bool,
    /// Interval at which files, Secret and webhook configurations are polled.
    pub refresh: Duration,
}

/// The source of the serving certificate.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Files that are renewed by others.
    Files(TlsFiles),
    /// Created by the replicas, in a shared Secret.
    SelfSigned {
        namespace: String,
        secret: String,
        /// DNS names and IP addresses of the server.
        names: Vec<String>,
        lifetimes: Lifetimes,
    },
}

/// The reasons why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Runtime or signal handlers cannot be created.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("{0}")]
    Config(String),
    /// The certificate files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client of the cluster cannot be configured.
    #[error("no cluster: {0}")]
    Cluster(String),
    #[error("{0}")]
    Options(&'static str),
}

/// The state that requests and tasks share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) live_config: LiveConfig,
    pub(crate) cache: Arc<Cache>,
    pub(crate) evaluation_cache: Evaluations,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: Limits,
    /// The clients of the admission port.
    pub(crate) peers: Arc<Peers>,
    /// Budget of [`Limits::large`] bytes.
    pub(crate) large_body_budget: Arc<Semaphore>,
    /// Turns for very large bodies: fewer than threads, so that other bodies need not wait for them.
    pub(crate) large_turns: Arc<Turns>,
    /// Turns for blocking threads that evaluate larger bodies: at most as many as cores, so that the async workers,
    /// which evaluate small bodies, get their share of the CPU.
    pub(crate) threads: Arc<Turns>,
    pub(crate) tls: Arc<Tls>,
    /// Reads the objects on which denials depend; `None` without a cluster.
    pub(crate) reader: Option<Reader>,
    pub(crate) registration: RegistrationState,
    pub(crate) api_server: Silence,
    pub(crate) denials: Denials,
    /// Whether the lazily built data of rules exists.
    warm: AtomicBool,
    draining: AtomicBool,
}

impl Shared {
    /// Why the server is not ready; empty if it is.
    pub(crate) fn not_ready_reasons(&self) -> Vec<String> {
        self.checks().into_iter().filter(|check| check.counts).filter_map(|check| check.fails).collect()
    }

    /// The checks for readiness, and the registration, on which readiness does not depend: a Service without endpoints
    /// would not restore a webhook configuration.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let draining = self.draining.load(Ordering::Relaxed).then(|| "draining".to_owned());
        let certificate = self.tls.current().is_none().then(|| "no certificate yet".to_owned());
        let warm = self.warm.load(Ordering::Relaxed);
        let rules = (!warm).then(|| "rules not warmed up yet".to_owned());
        let kinds = self.cache.required_for_readiness();
        let waiting: Vec<String> = kinds.iter().map(|kind| format!("{kind} not listed yet")).collect();
        let cluster = (!waiting.is_empty()).then(|| waiting.join(", "));
        let check = |name: &str, fails| Check { name: name.to_owned(), fails, counts: true, note: None };
        let mut checks =
            vec![check("serving", draining), check("rules", rules), check("certificate", certificate)];
        checks.extend(self.cluster_checks(cluster));
        // All replicas ask the same API server: if readiness depended on it, all would leave the Service at once. What
        // they know, however old, still serves; without endpoints the failure policy Fail would forbid every write.
        checks.extend(self.api_server.lasting().map(|silent| Check {
            name: "api-server".to_owned(),
            fails: Some(format!("no answer for {} s; what is known of the cluster stays", silent.as_secs())),
            counts: false,
            note: None,
        }));
        for (kind, found) in self.registration.found() {
            let fails = (found != Registered::Yes).then(|| format!("{kind}: {found}"));
            checks.push(Check { name: format!("registration/{kind}"), fails, counts: false, note: None });
        }
        checks
    }

    /// The check for the watched kinds, and one for each kind that the API server refuses to list. Readiness does not
    /// depend on the latter: rules that do not read the kind are still checked.
    fn cluster_checks(&self, waiting: Option<String>) -> Vec<Check> {
        let kinds = self.cache.availability();
        let count = |of: Availability| kinds.iter().filter(|(_, found)| *found == of).count();
        let (listed, absent) = (count(Availability::Listed), count(Availability::NotServed));
        let note = format!("{listed} of {} kinds listed, {absent} not served by the API server", kinds.len());
        let note = self.cache.has_cluster().then_some(note);
        let mut checks = vec![Check { name: "cluster".to_owned(), fails: waiting, counts: true, note }];
        checks.extend(kinds.into_iter().filter_map(|(kind, found)| match found {
            Availability::Refused(cause) => Some(Check {
                name: format!("cluster/{kind}"),
                fails: Some(format!("rules that read it are silent: {cause}")),
                counts: false,
                note: None,
            }),
            _ => None,
        }));
        checks.extend(self.cache.unreadable().into_iter().map(|(kind, count)| Check {
            name: format!("cluster/{kind}/objects"),
            fails: Some(format!("{count} cannot be read; rules do not see them")),
            counts: false,
            note: None,
        }));
        checks
    }
}

/// Since when the API server does not answer the polls, if it does not.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Option<Instant>>);

impl Silence {
    /// Records whether it answered.
    fn record(&self, answered: bool) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if answered { None } else { Some(since.unwrap_or_else(Instant::now)) };
    }

    fn lasting(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }
}

#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// The reason if the check fails.
    pub(crate) fails: Option<String>,
    /// Whether readiness depends on it.
    pub(crate) counts: bool,
    /// What is said beside `ok`.
    pub(crate) note: Option<String>,
}

/// A server whose listeners are bound.
#[derive(Debug)]
pub struct Server {
    admission: TcpListener,
    operations: TcpListener,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After [`Limits::drain_delay`], in which Services remove the endpoint (SIGTERM).
    Drain,
    /// At once (SIGINT, from a terminal).
    Now,
}

impl Server {
    /// Reads configuration and certificates, starts the tasks, and binds the listeners.
    ///
    /// # Errors
    /// Errors that a retry cannot resolve. If the API server does not respond, the server starts and is not ready.
    pub async fn start(options: Options) -> Result<Server, ServeError> {
        let needs_cluster = matches!(options.certificates, Certificates::SelfSigned { .. });
        if needs_cluster && !options.cluster {
            let message = "without a cluster the certificate has to come from files";
            return Err(ServeError::Options(message));
        }
        let exempt = vec![options.install.namespace.clone()];
        let live_config = LiveConfig::new(Arc::clone(&options.read), options.config.clone(), exempt)
            .map_err(ServeError::Config)?;
        let metrics = Arc::new(Metrics::new());
        let client = if options.cluster {
            Some(cluster::connect(&options).await.map_err(ServeError::Cluster)?)
        } else {
            None
        };
        let mut tasks = JoinSet::new();
        let mut denials = Denials::new(options.log_denies);
        if let Some(client) = client.as_ref().filter(|_| options.events) {
            tasks.spawn(denials.writing_events(client.clone(), Arc::clone(&metrics)));
        }
        let shared = Arc::new(Shared {
            cache: Arc::new(Cache::new(options.cluster, live_config.watched(), Arc::clone(&metrics))),
            live_config,
            evaluation_cache: Evaluations::new(Arc::clone(&metrics)),
            limits: options.limits.clone(),
            peers: Peers::new(options.limits.clone()),
            large_body_budget: Arc::new(Semaphore::new(options.limits.large)),
            large_turns: Turns::new(cores() - 1),
            threads: Turns::new(cores()),
            tls: Arc::new(Tls::new(options.tls_floor)),
            reader: client.clone().map(Reader::new),
            registration: RegistrationState::default(),
            api_server: Silence::default(),
            denials,
            warm: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            metrics,
        });
        reload::certificates(&mut tasks, &shared, &options, client.as_ref())?;
        reload::configuration(&mut tasks, &shared, options.refresh, client.clone());
        if let Some(client) = client {
            let configured = Arc::clone(&shared);
            let wanted = move || configured.live_config.watched();
            tasks.spawn(run_watches(Arc::clone(&shared.cache), client, wanted, options.refresh));
            let configured = Arc::clone(&shared);
            let platform = move || configured.live_config.engine().value.settings().platform.clone();
            tasks.spawn(Arc::clone(&shared.cache).run_snapshots(platform));
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

    pub fn addresses(&self) -> (std::io::Result<SocketAddr>, std::io::Result<SocketAddr>) {
        (self.admission.local_addr(), self.operations.local_addr())
    }

    /// Serves until `stop` completes, and then shuts down without losing a request: readiness fails first,
    /// requests are still served while Services remove the endpoint, and requests in flight are finished.
    pub async fn run(mut self, stop: impl Future<Output = Stop>) {
        let (stage, admission_stage) = watch::channel(Stage::Serving);
        let (operations_stage, of_operations) = watch::channel(Stage::Serving);
        let service = |router, tls, peers| Service {
            router,
            tls,
            limits: self.shared.limits.clone(),
            peers,
            metrics: Arc::clone(&self.shared.metrics),
        };
        let tls = Some(Arc::clone(&self.shared.tls));
        let peers = Arc::clone(&self.shared.peers);
        let admission = service(router::admission(Arc::clone(&self.shared)), tls, peers);
        let peers = Peers::new(self.shared.limits.clone());
        let operations = service(router::operations(Arc::clone(&self.shared)), None, peers);
        let admission = tokio::spawn(accept::serve(self.admission, admission, admission_stage));
        let operations = operations_thread(self.operations, operations, of_operations);
        let stop = stop.await;
        tracing::info!("draining");
        self.shared.draining.store(true, Ordering::Relaxed);
        if stop == Stop::Drain {
            // After half of the delay Services route new connections to other replicas, so that clients
            // which are asked to reconnect reach one.
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

/// Serves health and metrics on a thread of their own, so that probes are answered regardless of the reviews.
/// Completes when that thread ends.
fn operations_thread(
    listener: TcpListener,
    service: Service,
    stage: watch::Receiver<Stage>,
) -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    let run = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = listener.into_std()?;
        runtime.block_on(async {
            accept::serve(TcpListener::from_std(listener)?, service, stage).await;
            Ok(())
        })
    };
    let started = std::thread::Builder::new().name("operations".to_owned()).spawn(move || {
        if let Err(error) = run() {
            tracing::error!(%error, "health and metrics cannot be served");
        }
        let _ = ended.send(());
    });
    if let Err(error) = started {
        tracing::error!(%error, "health and metrics cannot be served");
    }
    end
}

/// Threads that can run at once; at least two, so that a slow review does not block all others.
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
/// As [`Server::start`].
pub fn serve(options: Options) -> Result<(), ServeError> {
    // Panic messages are not logged: they may quote an object.
    std::panic::set_hook(Box::new(|panic| {
        static PANICS: RateLimit = RateLimit::new(5, Duration::from_secs(10));
        if let Some(left_out) = PANICS.admit() {
            let place = panic.location().map(ToString::to_string);
            tracing::error!(place = place.as_deref().unwrap_or("unknown"), left_out, "panic");
        }
    }));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Start)?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        // Installed before the server starts, so that no signal is missed.
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
