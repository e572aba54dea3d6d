//! The configuration as written: `gpulint.yaml`, read and checked, every error at once.
//!
//! It is read from our own tree, so that each error has its place. Rules declare their own
//! parameters; nothing here knows one. Where the file is found is the caller's business.

mod merge;
mod reader;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::lint::finding::Severity;
use crate::lint::rule::{Group, RuleSet};
use crate::lint::settings::{
    ClusterPaths, Globs, NamedBy, Override, ParamValue, RuleSettings, Settings, WebhookSettings,
};
use crate::platform::Platform;
use crate::source::{Source, read};
use crate::tree::Span;

pub use schema::schema;

use reader::ConfigReader;

#[derive(Clone, Debug, Default)]
pub struct Config {
    known_rules: RuleSet,
    extends: Option<Extends>,
    fail_on: Option<SeverityThreshold>,
    min_severity: Option<Severity>,
    platform: Platform,
    rules: RuleTable,
    overrides: Vec<OverrideTable>,
    ignore: Globs,
    clusters: Vec<ClusterPaths>,
    crds: Vec<String>,
    webhook: WebhookSettings,
    render: RenderConfig,
    baseline: Option<String>,
    notes: Vec<String>,
    /// The keys of `platform`, `render` and `webhook` that are set, as `platform.eks`.
    written: BTreeSet<String>,
}

/// `extends`: the configuration that another one is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extends {
    pub path: String,
    /// Where it is written, as `FILE:LINE:COLUMN`.
    pub place: String,
    /// This place as a range of bytes.
    pub span: Span,
}

/// Minimum severity for an action; `None` disables the action.
type SeverityThreshold = Option<Severity>;

/// `render`: which charts and kustomizations are checked in rendered form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderConfig {
    /// Whether charts and kustomizations are rendered even without a flag.
    pub enabled: bool,
    /// Charts to render with values other than their defaults.
    pub helm: Vec<HelmConfig>,
}

/// An entry of `render.helm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelmConfig {
    /// The folder of the chart, relative to the configuration.
    pub chart: String,
    /// Values files, each relative to the chart or to the configuration; later ones win.
    pub values: Vec<String>,
    /// The place of the entry, as `FILE:LINE:COLUMN`.
    pub place: String,
    /// The name of the release.
    pub name: Option<String>,
    pub namespace: Option<String>,
}

/// The settings by rule id, by group and for all rules.
#[derive(Clone, Debug, Default)]
struct RuleTable {
    rules: BTreeMap<&'static str, RuleSettings>,
    groups: BTreeMap<Group, RuleSettings>,
    all: Option<RuleSettings>,
}

#[derive(Clone, Debug)]
struct OverrideTable {
    /// `rules` is filled in when the configuration is resolved.
    selector: Override,
    rules: RuleTable,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {message}{}", did_you_mean(.suggestion.as_deref()))]
pub struct ConfigError {
    pub(crate) path: String,
    pub(crate) line: u32,
    /// Column in Unicode scalar values, from 1.
    pub(crate) column: u32,
    /// The bytes; empty if the error is not about a part of the text.
    pub span: Span,
    /// The message: lower case, without a full stop.
    pub message: String,
    /// The valid word that is closest to what is written.
    pub suggestion: Option<String>,
}

/// Errors and notes about a configuration while it is edited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// All errors, in the order of the text.
    pub errors: Vec<ConfigError>,
    /// Notes on settings that are valid, but may be a mistake.
    pub notes: Vec<ConfigError>,
    pub extends: Option<Extends>,
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |s| format!("; did you mean `{s}`?"))
}

impl Config {
    /// Reads a configuration that may name the rules of a table. An empty file is the default configuration.
    ///
    /// # Errors
    /// Everything that is wrong in it, in the order of the text.
    pub(crate) fn parse_for(
        path: &str,
        text: &str,
        known_rules: RuleSet,
    ) -> Result<Config, Vec<ConfigError>> {
        let (mut config, remarks) = Config::read(path, text, known_rules);
        if !remarks.errors.is_empty() {
            return Err(remarks.errors);
        }
        config.notes = remarks.notes.iter().map(ToString::to_string).collect();
        Ok(config)
    }

    /// Errors and notes about a configuration that may name the rules of a table.
    pub fn remarks_for(path: &str, text: &str, known_rules: RuleSet) -> Remarks {
        Config::read(path, text, known_rules).1
    }

    fn read(path: &str, text: &str, known_rules: RuleSet) -> (Config, Remarks) {
        let source = Source::from_text(path, text);
        let documents = read(&source);
        let mut reader = ConfigReader::new(&source, known_rules);
        let config = reader.config(&documents);
        let (mut errors, mut notes) = (reader.errors, reader.notes);
        for remarks in [&mut errors, &mut notes] {
            remarks.sort_by_key(|one| (one.line, one.column));
        }
        let extends = config.extends.clone();
        (config, Remarks { errors, notes, extends })
    }

    /// The files and folders of CustomResourceDefinitions, as written: relative to the folder of the configuration.
    pub fn crds(&self) -> &[String] {
        &self.crds
    }

    /// The configuration that this one is based on.
    pub fn extends(&self) -> Option<&Extends> {
        self.extends.as_ref()
    }

    /// The baseline of findings, as written: relative to the folder of the configuration.
    pub fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    pub fn render(&self) -> &RenderConfig {
        &self.render
    }

    /// Resolves the configuration: settings of groups are applied to their rules.
    pub fn resolve(&self) -> Settings {
        Settings {
            fail_on: self.fail_on.unwrap_or(Settings::default().fail_on),
            min_severity: self.min_severity.unwrap_or(Settings::default().min_severity),
            platform: self.platform.clone(),
            rules: self.rules.resolve(self.known_rules),
            overrides: self
                .overrides
                .iter()
                .map(|o| Override { rules: o.rules.resolve(self.known_rules), ..o.selector.clone() })
                .collect(),
            ignore_paths: self.ignore.clone(),
            clusters: self.clusters.clone(),
            webhook: self.webhook.clone(),
            notes: self.notes.clone(),
            ..Settings::default()
        }
    }
}

impl RuleTable {
    /// The settings of each rule: those for `all`, overridden by those of its group, overridden by its own. An entry
    /// for a rule turns it on even if its group or `all` turns it off.
    fn resolve(&self, known_rules: RuleSet) -> BTreeMap<String, RuleSettings> {
        let mut out = BTreeMap::new();
        for rule in known_rules {
            let entries = [
                (NamedBy::All, self.all.as_ref()),
                (NamedBy::Group, self.groups.get(&rule.group)),
                (NamedBy::Id, self.rules.get(rule.id)),
            ];
            let mut merged: Option<RuleSettings> = None;
            for (named_by, entry) in entries {
                let Some(entry) = entry else { continue };
                let entry = RuleSettings { named_by, ..entry.clone() };
                merged = Some(match merged {
                    None => entry,
                    Some(below) => {
                        let mut settings = entry.merged_over(&below);
                        settings.enabled = entry.enabled.or(below.enabled.map(|_| true));
                        settings
                    }
                });
            }
            let Some(settings) = merged else { continue };
            out.insert(rule.id.to_owned(), settings);
        }
        out
    }
}
