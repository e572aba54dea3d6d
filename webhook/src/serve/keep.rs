//! The tasks that look at files and at the cluster again and again, and take over what changed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kube::Client;
use tokio::task::JoinSet;

use super::alive::survive;
use super::{Certificates, Options, ServeError, Shared};
use crate::certificates::{Keys, Store, Wanted};
use crate::register::Registrar;
use crate::tls::{Files, Pair, TlsError, read};

/// Unix time.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Reads the configuration again when it changes.
pub(super) fn configuration(tasks: &mut JoinSet<()>, shared: &Arc<Shared>, every: Duration) {
    let shared = Arc::clone(shared);
    tasks.spawn(async move {
        let mut seen = shared.policy.look(now());
        loop {
            tokio::time::sleep(every).await;
            let again = async { shared.policy.refresh(&mut seen, now(), &shared.metrics) };
            survive("configuration", &shared.metrics, again).await;
        }
    });
}

/// Serves a certificate, and from then on what replaces it. Files have to be right at the start;
/// certificates of our own come as soon as the API server answers.
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
            tasks.spawn(async move {
                let mut said = Said::default();
                loop {
                    tokio::time::sleep(every).await;
                    let again = async {
                        match files.refresh(&shared.tls, &shared.metrics) {
                            Ok(true) => tracing::info!("the certificate was read again"),
                            Ok(false) => {}
                            Err(error) => said.once("the old certificate stays", &error),
                        }
                    };
                    survive("certificates", &shared.metrics, again).await;
                }
            });
        }
        (Certificates::Own { namespace, secret, names, lifetimes }, Some(client)) => {
            let own = Own {
                shared: Arc::clone(shared),
                store: Store::new(client.clone(), namespace, secret),
                registrar,
                wanted: Wanted { names: names.clone(), lifetimes: *lifetimes, announced: None },
                clients: options.client_ca.clone(),
                held: None,
                served: None,
            };
            tasks.spawn(own.keep(options.refresh));
        }
        (Certificates::Own { .. }, None) => {}
    }
    Ok(())
}

/// Certificates of our own.
struct Own {
    shared: Arc<Shared>,
    store: Store,
    registrar: Option<Registrar>,
    wanted: Wanted,
    clients: Option<PathBuf>,
    /// What the Secret held last.
    held: Option<Keys>,
    served: Option<Pair>,
}

impl Own {
    async fn keep(mut self, every: Duration) {
        let mut said = Said::default();
        loop {
            let metrics = Arc::clone(&self.shared.metrics);
            survive("certificates", &metrics, self.round(&mut said)).await;
            // Until there is something to serve, nobody can use us: hurry.
            let pause = match self.served {
                Some(_) => every,
                None => every.min(Duration::from_secs(1)),
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn round(&mut self, said: &mut Said) {
        // Asked again at each attempt: one may take its time.
        let time = || i64::try_from(now()).unwrap_or(i64::MAX / 2);
        let agreed = self.store.agree(&self.wanted, self.held.as_ref(), time);
        let keys = match agreed.await {
            Ok(keys) => keys,
            Err(error) => return said.once("certificates stay as they are", &error),
        };
        self.held = Some(keys.clone());
        // The bundle first: what a new CA signs is served only after it was seen to be announced.
        let announced = match &self.registrar {
            Some(registrar) => registrar.announce(&keys.bundle()).await,
            // Somebody else does, and takes the CA from the Secret.
            None => Ok(true),
        };
        match announced {
            Ok(true) => self.wanted.announced = keys.ca(),
            Ok(false) => {}
            Err(error) => said.once("the caBundle is not up to date", &error),
        }
        if let Some(ends) = keys.ca_ends() {
            self.shared.metrics.expires("ca", ends);
        }
        let clients = match self.clients.as_deref().map(read).transpose() {
            Ok(clients) => clients,
            Err(error) => return said.once("the old certificate stays", &error),
        };
        let pair = keys.pair(clients);
        if pair == self.served {
            return;
        }
        let installed = match &pair {
            Some(pair) => self.shared.tls.install(pair),
            None => Err(TlsError::X509),
        };
        self.served = pair;
        self.shared.metrics.reloaded("certificate", installed.is_ok());
        match installed {
            Ok(ends) => {
                self.shared.metrics.expires("serving", ends);
                tracing::info!("a new certificate is served");
            }
            Err(error) => said.once("the old certificate stays", &error),
        }
    }
}

/// What was logged already: an error that stays is said once, not every few seconds.
#[derive(Default)]
struct Said(BTreeSet<String>);

impl Said {
    fn once(&mut self, consequence: &'static str, error: &dyn std::error::Error) {
        let text = error.to_string();
        if self.0.len() > 100 {
            self.0.clear();
        }
        if self.0.insert(text.clone()) {
            tracing::error!(error = %text, "{consequence}");
        }
    }
}
