//! The current configuration. It is reloaded when one of its files, the date or what the API server serves changes. If
//! the new one is invalid, this is logged and counted, and the old one stays in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use gpulint_rules::lint::settings::Globs;
use gpulint_rules::{Cluster, CustomResourceDefinitions, Engine, Kind, Product, Settings, Version};

use crate::evaluation_cache::Versioned;
use crate::kinds;
use crate::metrics::Metrics;
use crate::warm::warm_up;

/// Reads the configuration, including command line flags and today's date. The error is a message for users.
pub(crate) type ReadSettings = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// The engine for the current configuration.
pub(crate) struct LiveConfig {
    engine: ArcSwap<Versioned<Engine>>,
    read: ReadSettings,
    paths: Vec<PathBuf>,
    /// Namespaces that are exempt in every configuration.
    exempt: Vec<String>,
    served: Mutex<Served>,
}

/// What the API server serves.
#[derive(Clone, Debug, Default)]
struct Served {
    /// Increases with every change.
    number: u64,
    /// The definitions of custom resources. They replace those of the configuration.
    definitions: CustomResourceDefinitions,
    /// Its version, which is in use unless the configuration states one.
    kubernetes: Option<Version>,
}

impl std::fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveConfig").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The state on which the configuration depends; a change causes a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    texts: Vec<Option<Vec<u8>>>,
    day: u64,
    served: u64,
}

impl LiveConfig {
    /// Reads the configuration, which must be valid at start.
    pub(crate) fn new(
        read: ReadSettings,
        paths: Vec<PathBuf>,
        exempt: Vec<String>,
    ) -> Result<LiveConfig, String> {
        let settings = with_exempt(read()?, &exempt);
        log_notes(&settings);
        Ok(LiveConfig {
            engine: ArcSwap::from_pointee(Versioned { version: 0, value: Engine::new(settings) }),
            read,
            paths,
            exempt,
            served: Mutex::default(),
        })
    }

    /// Uses what the API server serves from the next refresh on: its version, and its definitions if they changed.
    /// Returns whether anything changed.
    pub(crate) fn serve(
        &self,
        kubernetes: Option<Version>,
        definitions: Option<CustomResourceDefinitions>,
    ) -> bool {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = definitions.is_some() || served.kubernetes != kubernetes;
        served.number += u64::from(is_new);
        served.kubernetes = kubernetes;
        if let Some(definitions) = definitions {
            served.definitions = definitions;
        }
        is_new
    }

    fn served(&self) -> Served {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn engine(&self) -> Arc<Versioned<Engine>> {
        self.engine.load_full()
    }

    /// The kinds that the rules in use read.
    pub(crate) fn watched(&self) -> BTreeSet<Kind> {
        kinds::watched_for(kinds::rules_in_use(self.engine().value.settings()))
    }

    /// The content of the files and the date.
    pub(crate) fn fingerprint(&self, unix_seconds: u64) -> Fingerprint {
        Fingerprint {
            texts: self.paths.iter().map(|path| std::fs::read(path).ok()).collect(),
            day: unix_seconds / 86_400,
            served: self.served().number,
        }
    }

    /// Reloads the configuration if the fingerprint differs from `seen`. Not called concurrently. If what is served
    /// changed, the engine is warmed up before it is in use, so that no review waits for its schemas to be compiled.
    /// Returns whether it was.
    pub(crate) fn refresh(&self, seen: &mut Fingerprint, unix_seconds: u64, metrics: &Metrics) -> bool {
        let now = self.fingerprint(unix_seconds);
        if now == *seen {
            return false;
        }
        let is_edited = now.texts != seen.texts;
        let is_served_anew = now.served != seen.served;
        *seen = now;
        match (self.read)() {
            Ok(settings) => {
                let settings = with_exempt(settings, &self.exempt);
                if is_edited {
                    log_notes(&settings);
                }
                let number = self.engine.load().version + 1;
                let engine = Engine::new(with_served(settings, self.served()));
                if is_served_anew {
                    warm_up(&engine, &Cluster::new(false));
                }
                self.engine.store(Arc::new(Versioned { version: number, value: engine }));
                if is_edited {
                    tracing::info!("the configuration was read again");
                    metrics.reloaded("configuration", true);
                }
                is_served_anew
            }
            Err(error) => {
                tracing::error!(%error, "the configuration is refused, the old one stays");
                metrics.reloaded("configuration", false);
                false
            }
        }
    }
}

fn log_notes(settings: &Settings) {
    for note in &settings.notes {
        tracing::warn!(%note, "the configuration may not mean what it says");
    }
}

/// The settings with the definitions of the cluster, which is where the objects of reviews are, and with its version.
fn with_served(mut settings: Settings, served: Served) -> Settings {
    if !served.definitions.is_empty() {
        settings.definitions = served.definitions;
    }
    if let Some(version) = served.kubernetes.filter(|_| !settings.platform.is_stated(Product::Kubernetes)) {
        settings.platform.state(Product::Kubernetes, version);
    }
    settings
}

fn with_exempt(mut settings: Settings, exempt: &[String]) -> Settings {
    let patterns = settings.webhook.exempt_namespaces.patterns().iter().chain(exempt).cloned();
    // The configured patterns are valid globs, as are names of namespaces.
    if let Ok(globs) = Globs::new(&patterns.collect::<Vec<_>>()) {
        settings.webhook.exempt_namespaces = globs;
    }
    settings
}
