//! `gpulint config`: prints the settings for a file, and the origin of each value.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gpulint_rules::lint::settings::{Globs, ParamValue, RuleSettings};
use gpulint_rules::source::{Document, Source, read};
use gpulint_rules::{Node, Product, RULES, Rule, Severity};
use serde_json::Value;

use crate::args::ConfigArgs;
use crate::config::{Scope, Scopes};
use crate::error::CliError;
use crate::files::{Directories, absolute, relative, short_path};
use crate::output;
use crate::terminal::count;

/// Lists to which a configuration adds entries when it extends another one.
const LISTS: [&str; 4] = ["ignore", "clusters", "crds", "overrides"];

struct Written {
    folder: PathBuf,
    source: Source,
    documents: Vec<Document>,
}

impl Written {
    fn read(path: &Path) -> Result<Written, CliError> {
        let name = short_path(path);
        let text = std::fs::read_to_string(path).map_err(|e| CliError::Usage(format!("{name}: {e}")))?;
        let source = Source::from_text(&name, &text);
        let documents = read(&source);
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Written { folder, source, documents })
    }

    fn node(&self, keys: &[&str]) -> Option<Node<'_>> {
        let mut node = self.documents.first()?.root()?;
        for key in keys {
            node = node.get(key);
        }
        node.is_set().then_some(node)
    }

    /// The location of a node: `gpulint.yaml:3`.
    fn place(&self, node: &Node<'_>) -> String {
        let at = node.key_span().or_else(|| node.span()).map_or(0, |span| span.start);
        let line = self.source.lines().position(self.source.text(), at).line;
        format!("{}:{line}", self.source.path())
    }

    /// Whether an override of this file may apply to a path: it has no paths, or one that matches.
    fn may_override(&self, one: &Node<'_>, file: &Path) -> bool {
        let paths: Vec<String> =
            one.get("paths").items().filter_map(|p| p.text().map(str::to_owned)).collect();
        let globs = Globs::of_paths(&paths).unwrap_or_default();
        globs.is_empty() || globs.matches(&relative(&self.folder, file))
    }
}

/// Prints the settings for a file or a folder.
pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode, CliError> {
    let mut scopes = Scopes::for_rules(&args.rules)?;
    let file = absolute(&args.path);
    // For a folder, the configuration of the files in it is shown.
    let within = if args.path.is_dir() { file.join("*") } else { file.clone() };
    let scope = scopes.scope_of(&within, &Directories::default());
    scopes.finish()?;
    let scope = scopes.get(scope);
    let files: Vec<Written> = scope.files.iter().map(|path| Written::read(path)).collect::<Result<_, _>>()?;
    let shown = Shown { scope, files: &files, file: &within, args };
    let text = shown.text();
    output::to_stdout(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(ExitCode::SUCCESS)
}

struct Shown<'a> {
    scope: &'a Scope,
    /// The configuration files, nearest first.
    files: &'a [Written],
    file: &'a Path,
    args: &'a ConfigArgs,
}

impl Shown<'_> {
    fn text(&self) -> String {
        let mut out = String::new();
        let names: Vec<&str> = self.files.iter().map(|file| file.source.path()).collect();
        let path = self.args.path.display();
        match names.as_slice() {
            [] => {
                let _ = writeln!(out, "# There is no configuration file for {path}");
            }
            [one] => {
                let _ = writeln!(out, "# {one} holds for {path}");
            }
            [one, others @ ..] => {
                let _ =
                    writeln!(out, "# {one} holds for {path}; it extends {}", others.join(", which extends "));
            }
        }
        if self.args.path.is_file() && self.scope.ignores(&self.path()) == Some(true) {
            let _ = writeln!(out, "# The file is not checked: `ignore` names it.");
        }
        let settings = &self.scope.settings;
        line(
            &mut out,
            0,
            "fail-on",
            settings.fail_on.map_or("never", Severity::name),
            &self.origin(&["fail-on"]),
        );
        line(&mut out, 0, "min-severity", settings.min_severity.name(), &self.origin(&["min-severity"]));
        out.push_str("platform:\n");
        let flags = [self.args.rules.karpenter, self.args.rules.keda, self.args.rules.kubernetes];
        for (product, flag) in Product::ALL.into_iter().zip(flags) {
            let key = product.setting().rsplit('.').next().unwrap_or_default();
            let origin = match flag {
                Some(_) => format!("--{key}"),
                None => self.origin(&["platform", key]),
            };
            line(&mut out, 2, key, &format!("\"{}\"", settings.platform.version(product)), &origin);
        }
        let eks = settings.platform.eks.to_string();
        line(&mut out, 2, "eks", &eks, &self.origin(&["platform", "eks"]));
        for (key, value) in [("region", &settings.platform.region), ("timezone", &settings.platform.timezone)]
        {
            if let Some(value) = value {
                line(
                    &mut out,
                    2,
                    key,
                    &scalar(&Value::from(value.as_str())),
                    &self.origin(&["platform", key]),
                );
            }
        }
        self.karpenter_settings(&mut out);
        self.lists(&mut out);
        self.rules(&mut out);
        self.sections(&mut out);
        out
    }

    /// Karpenter's feature gates and policy that are stated.
    fn karpenter_settings(&self, out: &mut String) {
        let (platform, flags) = (&self.scope.settings.platform, &self.args.rules.settings);
        if !platform.feature_gates.is_empty() {
            out.push_str("  featureGates:\n");
        }
        for (name, on) in &platform.feature_gates {
            let by_flag = flags.feature_gates.iter().any(|(flag, _)| flag == name);
            let origin = match by_flag {
                true => "--feature-gates".to_owned(),
                false => self.origin(&["platform", "featureGates", name]),
            };
            line(out, 4, name, &on.to_string(), &origin);
        }
        if let Some(policy) = platform.min_values_policy {
            let origin = match flags.min_values_policy {
                Some(_) => "--min-values-policy".to_owned(),
                None => self.origin(&["platform", "minValuesPolicy"]),
            };
            line(out, 2, "minValuesPolicy", policy.name(), &origin);
        }
    }

    fn path(&self) -> String {
        self.scope.path(self.file, &self.args.path.to_string_lossy())
    }

    /// The origin of a value.
    fn origin(&self, keys: &[&str]) -> String {
        let place = self.files.iter().find_map(|file| Some(file.place(&file.node(keys)?)));
        place.unwrap_or_else(|| "default".to_owned())
    }

    fn lists(&self, out: &mut String) {
        for key in LISTS {
            let mut is_first = true;
            for file in self.files.iter().rev() {
                for item in file.node(&[key]).iter().flat_map(Node::items) {
                    if key == "overrides" && !file.may_override(&item, self.file) {
                        continue;
                    }
                    if std::mem::take(&mut is_first) {
                        let _ = writeln!(out, "{key}:");
                    }
                    let _ = writeln!(out, "- {}  # {}", scalar(&item.to_json()), file.place(&item));
                }
            }
        }
    }

    /// Writes the rules that differ from their defaults, as far as this depends on the path only.
    fn rules(&self, out: &mut String) {
        let settings = &self.scope.settings;
        let (mut text, mut changed) = (String::new(), 0);
        for rule in RULES {
            let own = settings.rule(rule, Some(&self.path()), None);
            if own.enabled.is_none() && own.severity.is_none() && own.params.is_empty() {
                continue;
            }
            changed += 1;
            line(&mut text, 2, rule.id, &level(&own), &self.rule_origin(rule));
        }
        if changed == 0 {
            let _ = writeln!(out, "rules: {{}}  # {}, all as they come", count(RULES.len(), "rule"));
        } else {
            let _ =
                writeln!(out, "rules:  # {changed} of {} are not as they come", count(RULES.len(), "rule"));
            out.push_str(&text);
        }
    }

    /// The places that decide a rule, in descending order of precedence.
    fn rule_origin(&self, rule: &Rule) -> String {
        let flags = &self.args.rules;
        let names = [rule.id, rule.group.name(), "all"];
        let is_named = |list: &[String]| list.iter().any(|name| names.contains(&name.as_str()));
        if is_named(&flags.ignore) {
            return "--ignore".to_owned();
        }
        if !flags.select.is_empty() && !is_named(&flags.select) {
            return "--select".to_owned();
        }
        let mut places = Vec::new();
        for file in self.files {
            let overrides: Vec<Node<'_>> = file.node(&["overrides"]).iter().flat_map(Node::items).collect();
            for one in overrides.iter().rev().filter(|one| file.may_override(one, self.file)) {
                let has_others = ["namespaces", "kinds", "names"].iter().any(|key| one.get(key).is_set());
                let named = names.iter().map(|name| one.get("rules").get(name)).find(Node::is_set);
                if let Some(named) = named.filter(|_| !has_others) {
                    places.push(file.place(&named));
                }
            }
        }
        for name in names {
            for file in self.files {
                if let Some(node) = file.node(&["rules", name]) {
                    places.push(file.place(&node));
                }
            }
        }
        match places.as_slice() {
            [] => "default".to_owned(),
            [one] => one.clone(),
            [first, others @ ..] => format!("{first}, over {}", others.join(", ")),
        }
    }

    fn sections(&self, out: &mut String) {
        if let Some(given) = &self.scope.baseline {
            let path = Value::from(short_path(given));
            line(out, 0, "baseline", &scalar(&path), &self.origin(&["baseline"]));
        }
        for section in ["render", "webhook"] {
            let mut keys: Vec<&str> = Vec::new();
            for file in self.files {
                for (key, value) in file.node(&[section]).iter().flat_map(Node::entries) {
                    if value.is_set() && !keys.contains(&key) {
                        keys.push(key);
                    }
                }
            }
            if !keys.is_empty() {
                let _ = writeln!(out, "{section}:");
            }
            for key in keys {
                let nodes = self.files.iter().filter_map(|file| Some((file, file.node(&[section, key])?)));
                for (at, (file, node)) in nodes.enumerate() {
                    // The values for charts are merged from all configurations.
                    if at == 0 || key == "helm" {
                        line(out, 2, key, &scalar(&node.to_json()), &file.place(&node));
                    }
                }
            }
        }
    }
}

fn line(out: &mut String, indent: usize, key: &str, value: &str, origin: &str) {
    let _ = writeln!(out, "{:indent$}{key}: {value}  # {origin}", "");
}

/// A value on one line of YAML.
fn scalar(value: &Value) -> String {
    let is_plain = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '.')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
            && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
                .contains(&text.to_ascii_lowercase().as_str())
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let parts = map
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(&Value::from(key.as_str())), scalar(value)));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The settings of a rule, in the syntax of a configuration.
fn level(settings: &RuleSettings) -> String {
    if settings.enabled == Some(false) {
        return "off".to_owned();
    }
    let severity = settings.severity.map(Severity::name);
    if settings.params.is_empty() {
        return severity.unwrap_or("on").to_owned();
    }
    let params = settings.params.iter().map(|(name, value)| {
        let value = match value {
            ParamValue::Int(number) => number.to_string(),
            ParamValue::Strings(list) => scalar(&Value::from(list.clone())),
        };
        format!("{name}: {value}")
    });
    let severity = severity.map(|severity| format!("severity: {severity}"));
    format!("{{{}}}", severity.into_iter().chain(params).collect::<Vec<_>>().join(", "))
}
