//! The tasks that poll files, the Secret and the webhook configurations, and apply changes.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpulint_rules::{Cluster, Kind, Version};
use kube::Client;
use tokio::task::JoinSet;

use super::live_config::LiveConfig;
use super::{Certificates, Options, ServeError, Shared};
use crate::cache::OpenApi;
use crate::cause::Cause;
use crate::certificates::{CertificateSpec, SecretData, Store};
use crate::exemption::missing_namespaces;
use crate::kinds;
use crate::registration::Registrar;
use crate::supervise::catch_panic;
use crate::tls::{Files, Pair, TlsError, read};
use crate::warm::warm_up;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Maximum time until an API server that does not respond is asked again what it serves.
const SERVED_TIME: Duration = Duration::from_secs(5);

/// Spawns the task that reloads the configuration and what the API server serves, and that makes the first review as fast
/// as later ones.
pub(super) fn configuration(
    tasks: &mut JoinSet<()>,
    shared: &Arc<Shared>,
    every: Duration,
    client: Option<Client>,
) {
    let shared = Arc::clone(shared);
    tasks.spawn(async move {
        let mut api = client.map(ServedApi::new);
        let mut seen = shared.live_config.fingerprint(now());
        let mut names_checked = false;
        loop {
            let again = async {
                if let Some(api) = &mut api {
                    shared.api_server.record(api.read(&shared.live_config).await);
                }
                names_checked = names_checked || log_missing_namespaces(&shared);
                // On a thread that may block, because schemas are compiled.
                let (shared, mut last) = (Arc::clone(&shared), seen.clone());
                let refreshed = tokio::task::spawn_blocking(move || {
                    let is_warm = shared.live_config.refresh(&mut last, now(), &shared.metrics);
                    if !is_warm && !shared.warm.load(Ordering::Relaxed) {
                        warm_up(&shared.live_config.engine().value, &Cluster::new(false));
                    }
                    shared.warm.store(true, Ordering::Relaxed);
                    last
                });
                match refreshed.await {
                    Ok(last) => seen = last,
                    Err(error) => resume_unwind(error.into_panic()),
                }
            };
            catch_panic("configuration", &shared.metrics, again).await;
            tokio::time::sleep(every).await;
        }
    });
}

/// Warns of namespaces that the configuration names and that do not exist. Returns whether they are known.
fn log_missing_namespaces(shared: &Shared) -> bool {
    let (engine, snapshot) = (shared.live_config.engine(), shared.cache.snapshot());
    let missing = missing_namespaces(&engine.value, &snapshot.value.cluster);
    if let Some(missing) = missing.as_ref().filter(|missing| !missing.is_empty()) {
        tracing::warn!(
            namespaces = %missing.join(","),
            "exempt-namespaces, exempt-accounts and operators name namespaces that do not exist: whoever can create them \
             is believed there; name only what is installed"
        );
    }
    missing.is_some()
}

/// The schemas and the version of the API server, which are read again at every poll.
struct ServedApi {
    client: Client,
    open_api: OpenApi,
    kinds: Vec<Kind>,
    log: LogOnce,
}

impl ServedApi {
    fn new(client: Client) -> ServedApi {
        ServedApi {
            client,
            open_api: OpenApi::default(),
            kinds: kinds::custom_resources(),
            log: LogOnce::default(),
        }
    }

    /// Returns whether the API server answered.
    async fn read(&mut self, live_config: &LiveConfig) -> bool {
        const KEPT: &str = "objects are checked against the schemas that are known";
        let asked = tokio::time::timeout(SERVED_TIME, async {
            let info = self.client.apiserver_version().await?;
            Ok::<_, kube::Error>((info, self.open_api.read(&self.client, &self.kinds).await?))
        });
        let (info, definitions) = match asked.await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                // The watches log a connection that failed, once for all that is read.
                let Cause::Answer(_) = Cause::of(&error) else { return false };
                self.log.warn(KEPT, &error);
                return true;
            }
            Err(error) => {
                self.log.warn(KEPT, &error);
                return false;
            }
        };
        self.log.ok();
        // EKS writes `34+` as the minor version.
        let version = Version::parse(&format!("{}.{}", info.major, info.minor.trim_end_matches('+')));
        let kinds = definitions.as_ref().map(|definitions| definitions.served().count());
        if live_config.serve(version, definitions) {
            let kubernetes = version.map(|version| version.to_string());
            tracing::info!(
                kubernetes,
                kinds,
                "objects are checked against the schemas that the API server serves"
            );
        }
        true
    }
}

/// Spawns the task that installs the serving certificate and its renewals. Certificate files must be valid at start;
/// self-signed certificates are created when the API server responds.
pub(super) fn certificates(
    tasks: &mut JoinSet<()>,
    shared: &Arc<Shared>,
    options: &Options,
    client: Option<&Client>,
) -> Result<(), ServeError> {
    let registrar = options.registration.as_ref().zip(client).map(|(r, c)| {
        let mut install = options.install.clone();
        install.name.clone_from(&r.name);
        install.url.clone_from(&r.url);
        Registrar::new(c.clone(), r.clone(), install)
    });
    match (&options.certificates, client) {
        (Certificates::Files(files), _) => {
            let mut files = Files::new(files.clone(), options.client_ca.clone());
            files.refresh(&shared.tls, &shared.metrics)?;
            let (shared, every) = (Arc::clone(shared), options.refresh);
            if let Some(registrar) = registrar {
                tasks.spawn(look_at_registration(registrar, Arc::clone(&shared), every));
            }
            tasks.spawn(async move {
                let mut log = LogOnce::default();
                loop {
                    tokio::time::sleep(every).await;
                    let again = async {
                        match files.refresh(&shared.tls, &shared.metrics) {
                            Ok(true) => {
                                log.ok();
                                tracing::info!("the certificate was read again");
                            }
                            Ok(false) => {}
                            Err(error) => log.error("the old certificate stays", &error),
                        }
                    };
                    catch_panic("certificates", &shared.metrics, again).await;
                }
            });
        }
        (Certificates::SelfSigned { namespace, secret, names, lifetimes }, Some(client)) => {
            let reconciler = SelfSigned {
                shared: Arc::clone(shared),
                store: Store::new(client.clone(), namespace, secret),
                registrar,
                wanted: CertificateSpec { names: names.clone(), lifetimes: *lifetimes, published: None },
                client_ca: options.client_ca.clone(),
                last_secret: None,
                served_pair: None,
            };
            tasks.spawn(reconciler.run(options.refresh));
        }
        (Certificates::SelfSigned { .. }, None) => {}
    }
    Ok(())
}

/// Checks webhook configurations whose caBundle is maintained by others.
async fn look_at_registration(registrar: Registrar, shared: Arc<Shared>, every: Duration) {
    loop {
        let look = registrar.keep(None, &shared.registration, &shared.metrics);
        catch_panic("registration", &shared.metrics, look).await;
        tokio::time::sleep(every).await;
    }
}

struct SelfSigned {
    shared: Arc<Shared>,
    store: Store,
    registrar: Option<Registrar>,
    wanted: CertificateSpec,
    client_ca: Option<PathBuf>,
    /// The data of the Secret when it was last read.
    last_secret: Option<SecretData>,
    served_pair: Option<Pair>,
}

impl SelfSigned {
    async fn run(mut self, every: Duration) {
        let mut log = LogOnce::default();
        loop {
            let metrics = Arc::clone(&self.shared.metrics);
            catch_panic("certificates", &metrics, self.reconcile(&mut log)).await;
            // The server is not ready before it has a certificate, so it retries sooner until then.
            let pause = match self.served_pair {
                Some(_) => every,
                None => every.min(Duration::from_secs(1)),
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn reconcile(&mut self, log: &mut LogOnce) {
        // Read for each attempt, because an attempt may take long.
        let time = || i64::try_from(now()).unwrap_or(i64::MAX / 2);
        let agreed = self.store.reconcile(&self.wanted, self.last_secret.as_ref(), time);
        let keys = match agreed.await {
            Ok(keys) => {
                log.ok();
                keys
            }
            Err(error) => return log.error("certificates stay as they are", &error),
        };
        self.last_secret = Some(keys.clone());
        // Before the certificate is installed: a certificate of a new CA is served only after that CA was published.
        let published = match &self.registrar {
            Some(registrar) => {
                let Shared { registration, metrics, .. } = &*self.shared;
                registrar.keep(Some(&keys.bundle()), registration, metrics).await
            }
            // Others publish the CA, which they read from the Secret.
            None => true,
        };
        if published {
            self.wanted.published = keys.ca();
        }
        if let Some(ends) = keys.ca_expiry() {
            self.shared.metrics.expires("ca", ends);
        }
        let clients = match self.client_ca.as_deref().map(read).transpose() {
            Ok(clients) => clients,
            Err(error) => return log.error("the old certificate stays", &error),
        };
        let pair = keys.pair(clients);
        if pair == self.served_pair {
            return;
        }
        let installed = match &pair {
            Some(pair) => self.shared.tls.install(pair),
            None => Err(TlsError::X509),
        };
        self.served_pair = pair;
        self.shared.metrics.reloaded("certificate", installed.is_ok());
        match installed {
            Ok(ends) => {
                self.shared.metrics.expires("serving", ends);
                tracing::info!("a new certificate is served");
            }
            Err(error) => log.error("the old certificate stays", &error),
        }
    }
}

/// Logs an error when it begins, not at every poll.
#[derive(Default)]
struct LogOnce(Option<String>);

impl LogOnce {
    fn error(&mut self, consequence: &'static str, error: &dyn std::error::Error) {
        if let Some(text) = self.begin(error) {
            tracing::error!(error = %text, "{consequence}");
        }
    }

    fn warn(&mut self, consequence: &'static str, error: &dyn std::error::Error) {
        if let Some(text) = self.begin(error) {
            tracing::warn!(error = %text, "{consequence}");
        }
    }

    /// The text of an error, if it is not the one that was logged last.
    fn begin(&mut self, error: &dyn std::error::Error) -> Option<String> {
        let text = error.to_string();
        let is_new = self.0.as_ref() != Some(&text);
        self.0 = Some(text.clone());
        is_new.then_some(text)
    }

    /// Resets the state after a success.
    fn ok(&mut self) {
        self.0 = None;
    }
}
