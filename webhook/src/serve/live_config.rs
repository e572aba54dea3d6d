//! The current configuration. It is reloaded when one of its files or the date changes. If the new one is invalid,
//! this is logged and counted, and the old one stays in use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use gpulint_rules::lint::settings::Globs;
use gpulint_rules::{Engine, Kind, Settings};

use crate::evaluation_cache::Versioned;
use crate::kinds;
use crate::metrics::Metrics;

/// Reads the configuration, including command line flags and today's date. The error is a message for users.
pub type ReadSettings = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// The engine for the current configuration.
pub(crate) struct LiveConfig {
    engine: ArcSwap<Versioned<Engine>>,
    read: ReadSettings,
    paths: Vec<PathBuf>,
    /// Namespaces that are exempt in every configuration.
    exempt: Vec<String>,
}

impl std::fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveConfig").field("paths", &self.paths).finish_non_exhaustive()
    }
}

/// The state on which the configuration depends; a change causes a reload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    texts: Vec<Option<Vec<u8>>>,
    day: u64,
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
        })
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
        }
    }

    /// Reloads the configuration if the fingerprint differs from `seen`. Not called concurrently.
    pub(crate) fn refresh(&self, seen: &mut Fingerprint, unix_seconds: u64, metrics: &Metrics) {
        let now = self.fingerprint(unix_seconds);
        if now == *seen {
            return;
        }
        let only_the_day = now.texts == seen.texts;
        *seen = now;
        match (self.read)() {
            Ok(settings) => {
                let settings = with_exempt(settings, &self.exempt);
                if !only_the_day {
                    log_notes(&settings);
                }
                let number = self.engine.load().version + 1;
                self.engine.store(Arc::new(Versioned { version: number, value: Engine::new(settings) }));
                if !only_the_day {
                    tracing::info!("the configuration was read again");
                    metrics.reloaded("configuration", true);
                }
            }
            Err(error) => {
                tracing::error!(%error, "the configuration is refused, the old one stays");
                metrics.reloaded("configuration", false);
            }
        }
    }
}

fn log_notes(settings: &Settings) {
    for note in &settings.notes {
        tracing::warn!(%note, "the configuration may not mean what it says");
    }
}

fn with_exempt(mut settings: Settings, exempt: &[String]) -> Settings {
    let patterns = settings.webhook.exempt_namespaces.patterns().iter().chain(exempt).cloned();
    // The configured patterns are valid globs, as are names of namespaces.
    if let Ok(globs) = Globs::new(&patterns.collect::<Vec<_>>()) {
        settings.webhook.exempt_namespaces = globs;
    }
    settings
}
