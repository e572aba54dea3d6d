//! Checks whether KEDA can build a scaler from a trigger: missing keys, values that cannot be parsed, keys
//! that exclude each other. A value from a TriggerAuthentication is not known, only that there is one; an
//! environment variable is read where the container is known. What is not known is never reported.

use std::cell::Cell;

use super::formats;
use super::scalers::{KeyConstraint, KeySource, Scaler, ScalerKey};
use super::sources::{Authentication, Environment, Variable};
use super::value::{KeyType, boolean, number, plain_number};
use super::{Trigger, ellipsize, with_article};
use crate::facts::cron;
use crate::tree::node::Node;

/// A problem that prevents KEDA from building the scaler.
#[derive(Debug)]
pub struct TriggerProblem<'a> {
    /// The location.
    pub node: Node<'a>,
    /// The keys that it is about.
    pub keys: String,
    /// What is wrong.
    pub message: String,
    /// How to repair it.
    pub help: String,
    /// Whether it rests on what the TriggerAuthentication does not give.
    pub reads_authentication: bool,
    /// Whether it rests on the environment of the target.
    pub reads_environment: bool,
}

/// What surrounds a trigger.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// Whether a formula replaces the metrics of the ScaledObject. `None` if this is not known.
    pub modifiers: Option<bool>,
    /// The TriggerAuthentication.
    pub authentication: Authentication<'a>,
    /// The environment of the target.
    pub environment: Environment<'a>,
}

/// The value of a key, as far as it is known.
enum KeyValue<'a> {
    Absent,
    Unknown,
    /// It is present, and its value is not known. Where it is named.
    Hidden(Node<'a>),
    Text(Node<'a>, &'a str),
}

struct TriggerContext<'a> {
    trigger: Trigger<'a>,
    metadata: Node<'a>,
    /// Whether a key of the metadata names an environment variable.
    has_env_key: bool,
    scaler: &'static Scaler,
    around: &'a Surroundings<'a>,
    /// Whether the current check has read the TriggerAuthentication, or the environment.
    used: (Cell<bool>, Cell<bool>),
}

/// All problems that the scaler would report for the metadata of a trigger.
#[must_use]
pub fn problems<'a>(
    trigger: Trigger<'a>,
    scaler: &'static Scaler,
    around: &'a Surroundings<'a>,
) -> Vec<TriggerProblem<'a>> {
    let metadata = trigger.metadata();
    if metadata.is_unknown() || (metadata.is_set() && !metadata.is_mapping()) {
        return Vec::new();
    }
    let has_env_key = metadata.entries().iter().any(|(key, _)| key.ends_with("FromEnv"));
    let asked = TriggerContext { trigger, metadata, has_env_key, scaler, around, used: Default::default() };
    let mut out = Vec::new();
    for key in &scaler.keys {
        asked.noting_reads(&mut out, |out| asked.check_key(key, out));
    }
    for rule in &scaler.constraints {
        asked.noting_reads(&mut out, |out| asked.check_constraint(rule, out));
    }
    out
}

impl<'a> TriggerContext<'a> {
    /// Runs a check, and notes with its problems what it has read.
    fn noting_reads(
        &self,
        out: &mut Vec<TriggerProblem<'a>>,
        check: impl FnOnce(&mut Vec<TriggerProblem<'a>>),
    ) {
        self.used.0.set(false);
        self.used.1.set(false);
        let before = out.len();
        check(out);
        for problem in &mut out[before..] {
            problem.reads_authentication = self.used.0.get();
            problem.reads_environment = self.used.1.get();
        }
    }

    /// Whether the TriggerAuthentication gives a parameter. `None` if this is not known.
    fn has_parameter(&self, name: &str) -> Option<bool> {
        match &self.around.authentication {
            Authentication::None => Some(false),
            Authentication::Unknown => None,
            Authentication::Known(parameters) => {
                self.used.0.set(true);
                Some(parameters.names.contains(&name))
            }
        }
    }

    /// The provider of the pod identity. `None` if this is not known.
    fn identity(&self) -> Option<&'a str> {
        match &self.around.authentication {
            Authentication::None => Some("none"),
            Authentication::Unknown => None,
            Authentication::Known(parameters) => {
                self.used.0.set(true);
                Some(parameters.identity)
            }
        }
    }

    fn resolve(&self, key: &ScalerKey) -> KeyValue<'a> {
        for from in &key.sources {
            match self.resolve_from(key, *from) {
                KeyValue::Absent => {}
                found => return found,
            }
        }
        KeyValue::Absent
    }

    fn resolve_from(&self, key: &ScalerKey, from: KeySource) -> KeyValue<'a> {
        let metadata = &self.metadata;
        match from {
            KeySource::Authentication => {
                for name in key.names() {
                    match self.has_parameter(name) {
                        Some(false) => {}
                        Some(true) => return KeyValue::Hidden(self.trigger.node.get("authenticationRef")),
                        None => return KeyValue::Unknown,
                    }
                }
            }
            KeySource::Env if !self.has_env_key => {}
            KeySource::Env => {
                for name in key.names() {
                    let node = metadata.get(&format!("{name}FromEnv"));
                    if node.is_unknown() {
                        return KeyValue::Unknown;
                    }
                    let Some(variable) = node.text() else { continue };
                    self.used.1.set(true);
                    match self.around.environment.variable(variable) {
                        Variable::Unknown => return KeyValue::Unknown,
                        Variable::Hidden => return KeyValue::Hidden(node),
                        Variable::Text(text) if !text.trim().is_empty() => {
                            return KeyValue::Text(node, text.trim());
                        }
                        Variable::Text(_) | Variable::Absent => {}
                    }
                }
            }
            KeySource::Metadata => {
                for name in key.names() {
                    let node = metadata.get(name);
                    if !node.is_set() && !node.is_unknown() {
                        continue;
                    }
                    match node.text() {
                        Some(text) if text.trim().is_empty() => {}
                        Some(text) => return KeyValue::Text(node, text.trim()),
                        // Not text: reported by another check, and unknown here.
                        None => return KeyValue::Unknown,
                    }
                }
            }
        }
        KeyValue::Absent
    }

    fn find_key(&self, name: &str) -> Option<&'static ScalerKey> {
        self.scaler.keys.iter().find(|key| key.names().any(|n| n == name))
    }

    fn resolve_by_name(&self, name: &str) -> KeyValue<'a> {
        self.find_key(name).map_or(KeyValue::Unknown, |key| self.resolve(key))
    }

    /// The value, or the default if the key is absent. `None` if it is not known, or absent without default.
    fn effective(&self, name: &str) -> Option<&'a str> {
        match self.resolve_by_name(name) {
            KeyValue::Text(_, text) => Some(text),
            KeyValue::Absent => self.find_key(name)?.default,
            KeyValue::Unknown | KeyValue::Hidden(_) => None,
        }
    }

    fn check_key(&self, key: &ScalerKey, out: &mut Vec<TriggerProblem<'a>>) {
        match self.resolve(key) {
            KeyValue::Unknown | KeyValue::Hidden(_) => {}
            KeyValue::Absent => {
                if key.required && key.default.is_none() {
                    self.report_missing(key.name, out);
                }
            }
            // A key that a version rejects is reported as such, whatever its value.
            KeyValue::Text(..) if key.rejected_since.is_some() => {}
            KeyValue::Text(node, text) => {
                if let Some(wanted) = key.kind.rejects(text, key.separator, key.ranges) {
                    let help = match key.kind {
                        KeyType::Int | KeyType::Uint | KeyType::Float => {
                            plain_number(text).filter(|plain| key.kind.rejects(plain, ',', false).is_none())
                        }
                        _ => None,
                    };
                    out.push(TriggerProblem {
                        reads_authentication: false,
                        reads_environment: false,
                        node,
                        keys: key.name.to_owned(),
                        message: format!("`{}` is `{}`, not {wanted}", key.name, ellipsize(text)),
                        help: match help {
                            Some(plain) => format!("write \"{plain}\""),
                            None => format!("write {wanted}"),
                        },
                    });
                    return;
                }
                if key.values.is_empty() && key.exclusive_values.is_empty() {
                    return;
                }
                let items: Vec<&str> = match key.kind {
                    KeyType::List => text.split(key.separator).map(str::trim).collect(),
                    _ => vec![text],
                };
                let odd = items.iter().find(|i| !key.values.is_empty() && !key.values.contains(i));
                if let Some(odd) = odd {
                    out.push(self.unsupported_value(node.clone(), key.name, odd, &key.values));
                }
                let exclusive: Vec<&str> =
                    items.into_iter().filter(|i| key.exclusive_values.contains(i)).collect();
                if let [first, second, ..] = exclusive.as_slice() {
                    out.push(TriggerProblem {
                        reads_authentication: false,
                        reads_environment: false,
                        node,
                        keys: key.name.to_owned(),
                        message: format!("`{}` holds both `{first}` and `{second}`", key.name),
                        help: format!("keep one of `{}`", key.exclusive_values.join("`, `")),
                    });
                }
            }
        }
    }

    fn unsupported_value(
        &self,
        node: Node<'a>,
        key: &str,
        text: &str,
        values: &[&str],
    ) -> TriggerProblem<'a> {
        let near = crate::facts::suggest::nearest(text, values.iter().copied());
        TriggerProblem {
            reads_authentication: false,
            reads_environment: false,
            node,
            keys: key.to_owned(),
            message: format!("`{key}` has no value `{}`", ellipsize(text)),
            help: match near {
                Some(near) => format!("write `{near}`"),
                None if values.iter().map(|v| v.len() + 4).sum::<usize>() < 100 => {
                    format!("write one of `{}`", values.join("`, `"))
                }
                None => format!("write `{}` or another that KEDA knows", values[0]),
            },
        }
    }

    fn report_missing(&self, name: &str, out: &mut Vec<TriggerProblem<'a>>) {
        let Some(key) = self.find_key(name) else {
            return;
        };
        let metadata = &self.metadata;
        let written = key.names().map(|n| metadata.get(n)).find(Node::is_set);
        let variable = key.names().map(|n| metadata.get(&format!("{n}FromEnv"))).find(Node::is_set);
        let in_metadata = key.reads(KeySource::Metadata);
        let from_env = key.reads(KeySource::Env);
        let blank = written.as_ref().and_then(Node::text).is_none_or(|text| text.trim().is_empty());
        let message = match (&written, &variable) {
            (Some(_), _) if in_metadata && blank => {
                format!("`{}` is blank, which counts as absent", key.name)
            }
            (Some(_), _) if in_metadata => format!("`{}` is 0, which counts as absent", key.name),
            (_, Some(variable)) if from_env => {
                let variable = ellipsize(variable.text().unwrap_or_default());
                format!("the container has no variable `{variable}` with a value for `{}`", key.name)
            }
            _ => format!("{} trigger needs `{}`", with_article(self.scaler.name), key.name),
        };
        let help = if variable.is_some() && from_env && written.is_none() {
            "KEDA reads the `env` of the target's container, and not what its image defines".to_owned()
        } else if in_metadata {
            "without it KEDA cannot build the scaler, and nothing scales".to_owned()
        } else if from_env {
            format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name)
        } else {
            "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
        };
        let node = match (written, variable) {
            (Some(node), _) if in_metadata => node,
            (_, Some(node)) if from_env => node,
            _ => metadata.get(key.name),
        };
        let keys = key.name.to_owned();
        out.push(TriggerProblem {
            node,
            keys,
            message,
            help,
            reads_authentication: false,
            reads_environment: false,
        });
    }

    /// Whether a condition is true. `None` if this is not known.
    fn evaluate(&self, atom: &str) -> Option<bool> {
        if let Some(inner) = atom.strip_prefix('!') {
            return self.evaluate(inner).map(|b| !b);
        }
        if atom == "modifiers" {
            return self.around.modifiers;
        }
        if let Some(provider) = atom.strip_prefix("identity=") {
            return self.identity().map(|identity| identity == provider);
        }
        if let Some((key, values)) = atom.split_once('=') {
            return match self.resolve_by_name(key) {
                KeyValue::Unknown | KeyValue::Hidden(_) => None,
                _ => Some(self.effective(key).is_some_and(|text| {
                    values.split('|').any(|v| match boolean(v) {
                        Some(flag) => boolean(text) == Some(flag),
                        None => v == text,
                    })
                })),
            };
        }
        if let Some((key, item)) = atom.split_once('~') {
            let separator = self.find_key(key)?.separator;
            return match self.resolve_by_name(key) {
                KeyValue::Unknown | KeyValue::Hidden(_) => None,
                KeyValue::Absent => Some(false),
                KeyValue::Text(_, text) => Some(text.split(separator).any(|i| i.trim() == item)),
            };
        }
        self.is_present(atom)
    }

    fn is_present(&self, key: &str) -> Option<bool> {
        if let Some((_, _)) = key.split_once('=') {
            return self.evaluate(key);
        }
        if key.contains('|') {
            let each: Vec<Option<bool>> = key.split('|').map(|k| self.is_present(k)).collect();
            return match each.iter().all(|one| *one == Some(false)) {
                true => Some(false),
                false => each.contains(&Some(true)).then_some(true),
            };
        }
        if key.contains('+') {
            let all: Option<Vec<bool>> = key.split('+').map(|k| self.is_present(k)).collect();
            return match all {
                Some(all) => Some(all.iter().all(|b| *b)),
                None if key.split('+').any(|k| self.is_present(k) == Some(false)) => Some(false),
                None => None,
            };
        }
        let counts = self.find_key(key).is_some_and(|key| key.kind.is_number());
        match self.resolve_by_name(key) {
            KeyValue::Unknown => None,
            KeyValue::Absent => Some(false),
            // Scalers tell a number that is absent by its being 0.
            KeyValue::Text(_, text) if counts => Some(number(text) != Some(0.0)),
            KeyValue::Hidden(_) | KeyValue::Text(..) => Some(true),
        }
    }

    fn check_constraint(&self, rule: &KeyConstraint, out: &mut Vec<TriggerProblem<'a>>) {
        if !rule.when.iter().all(|atom| self.evaluate(atom) == Some(true)) {
            return;
        }
        let written = |key: &str| match self.resolve_by_name(key.split('=').next().unwrap_or(key)) {
            KeyValue::Text(node, text) => Some((node, text)),
            _ => None,
        };
        // Where a key is, whatever its value.
        let place = |key: &str| {
            key.split(['|', '+']).find_map(|key| {
                match self.resolve_by_name(key.split('=').next().unwrap_or(key)) {
                    KeyValue::Text(node, _) | KeyValue::Hidden(node) => Some(node),
                    _ => None,
                }
            })
        };
        let metadata = &self.metadata;
        let args = rule.args.as_slice();
        let keys = args.join(" ");
        let mut report = |node: Node<'a>, message: String, help: String| {
            let keys = keys.clone();
            let (reads_authentication, reads_environment) = (false, false);
            out.push(TriggerProblem { node, keys, message, help, reads_authentication, reads_environment });
        };
        let names = |key: &str| key.replace('+', "` with `").replace('|', "` or `");
        match (rule.name, args) {
            ("need", keys) => {
                for key in keys {
                    if key.contains('=') {
                        if self.evaluate(key) == Some(false) {
                            let (name, value) = key.split_once('=').unwrap_or((key, ""));
                            let because = rule.when.join(", ");
                            report(
                                metadata.get(name),
                                format!("`{name}` must be `{value}` with `{because}`"),
                                format!("write `{name}: {value}`"),
                            );
                        }
                    } else if self.is_present(key) == Some(false)
                        && self.find_key(key).is_some_and(|k| k.default.is_none())
                    {
                        let mut found = Vec::new();
                        self.report_missing(key, &mut found);
                        for problem in found {
                            report(problem.node, problem.message, problem.help);
                        }
                    }
                }
            }
            ("any_of" | "one_of", keys) => {
                if keys.iter().all(|k| self.is_present(k) == Some(false)) {
                    let names = names(&keys.join("`, `"));
                    report(
                        metadata.clone(),
                        format!("{} trigger needs one of `{names}`", with_article(self.scaler.name)),
                        "without it KEDA cannot build the scaler, and nothing scales".to_owned(),
                    );
                }
                let present = keys.iter().filter(|key| self.is_present(key) == Some(true));
                let both: Vec<_> = present.filter_map(|key| Some((key, place(key)?))).collect();
                if rule.name == "one_of"
                    && let [(first, _), (second, node), ..] = both.as_slice()
                {
                    report(
                        node.clone(),
                        format!("`{second}` excludes `{first}`"),
                        "keep one of the two".to_owned(),
                    );
                }
            }
            ("not_both", [first, second]) => {
                if self.is_present(first) == Some(true)
                    && self.is_present(second) == Some(true)
                    && let Some(node) = place(second)
                {
                    let message = format!("`{}` excludes `{}`", names(second), names(first));
                    report(node, message, "keep one of the two".to_owned());
                }
            }
            ("together", keys) => {
                let present = |key: &&&str| self.is_present(key) == Some(true);
                let some = keys.iter().find(present).and_then(|key| Some((key, place(key)?)));
                let lacking = keys.iter().find(|k| self.is_present(k) == Some(false));
                if let (Some((key, node)), Some(lacking)) = (some, lacking) {
                    report(
                        node,
                        format!("`{key}` needs `{lacking}` beside it"),
                        "write both, or neither".to_owned(),
                    );
                }
            }
            ("forbid", [key]) => {
                if let Some(node) = place(key) {
                    let because = rule.when.join(", ");
                    report(
                        node,
                        format!("`{key}` is rejected with `{because}`"),
                        "keep one of the two".to_owned(),
                    );
                }
            }
            ("positive" | "nonneg" | "nonzero", [key]) => {
                let value = match self.resolve_by_name(key) {
                    KeyValue::Text(node, text) => number(text).map(|n| (node, n)),
                    // The default of a number is 0.
                    KeyValue::Absent => match self.find_key(key).map(|key| (key.default, key.required)) {
                        Some((None, false)) => Some((metadata.get(key), 0.0)),
                        Some((Some(default), _)) => number(default).map(|n| (metadata.get(key), n)),
                        _ => None,
                    },
                    _ => None,
                };
                let Some((node, n)) = value else { return };
                let (bad, wanted) = match rule.name {
                    "positive" => (n <= 0.0, "a number above 0"),
                    "nonneg" => (n < 0.0, "0 or more"),
                    _ => (n == 0.0, "a number other than 0"),
                };
                if bad && node.is_set() {
                    report(node, format!("`{key}` is {n}"), format!("write {wanted}"));
                } else if bad {
                    let message = format!("{} trigger needs `{key}`", with_article(self.scaler.name));
                    report(node, message, format!("write {wanted}"));
                }
            }
            ("format", [format, key]) => {
                if let Some((node, text)) = written(key)
                    && let Some(wanted) = formats::rejects(format, text)
                {
                    let message = format!("`{key}` is `{}`, not {wanted}", ellipsize(text));
                    report(node, message, format!("write {wanted}"));
                }
            }
            // A value that stands for none.
            ("differs_from", [key, none]) if self.effective(key) == Some(*none) => {
                let node = place(key).unwrap_or_else(|| metadata.get(key));
                let message = format!("{} trigger needs `{key}`", with_article(self.scaler.name));
                report(
                    node,
                    message,
                    "without it KEDA cannot build the scaler, and nothing scales".to_owned(),
                );
            }
            ("min", [key, least]) => {
                if let (Some((node, text)), Some(least)) = (written(key), number(least))
                    && number(text).is_some_and(|n| n != 0.0 && n < least)
                {
                    report(
                        node,
                        format!("`{key}` is {text}, below {least}"),
                        format!("write {least} or more"),
                    );
                }
            }
            ("multiple", [key, of]) => {
                let whole = |key: &str| self.effective(key).and_then(|text| text.parse::<i64>().ok());
                if let (Some(n), Some(unit)) = (whole(key), whole(of))
                    && unit > 0
                    && (n < 0 || n % unit != 0)
                {
                    let node = place(key).or_else(|| place(of)).unwrap_or_else(|| metadata.clone());
                    let message = format!("`{key}` is {n}, not a multiple of `{of}`, {unit}");
                    report(node, message, format!("write a multiple of {unit}"));
                }
            }
            ("one_place", [key]) => {
                if let Some(found) = self.find_key(key)
                    && let KeyValue::Text(node, _) = self.resolve_from(found, KeySource::Metadata)
                    && let KeyValue::Hidden(_) = self.resolve_from(found, KeySource::Authentication)
                {
                    let message = format!("`{key}` is in the metadata and in the TriggerAuthentication");
                    report(node, message, "keep one of the two".to_owned());
                }
            }
            ("identities", known) => {
                if let Some(identity) = self.identity()
                    && !known.contains(&identity)
                {
                    let message = format!(
                        "{} trigger does not support the pod identity `{identity}`",
                        with_article(self.scaler.name)
                    );
                    let help = format!("use a TriggerAuthentication with `{}`", known.join("` or `"));
                    report(self.trigger.node.get("authenticationRef"), message, help);
                }
            }
            ("any_positive", keys) => {
                let value = |key: &str| match self.resolve_by_name(key) {
                    KeyValue::Unknown | KeyValue::Hidden(_) => None,
                    _ => Some(self.effective(key).and_then(number).unwrap_or(0.0)),
                };
                if keys.iter().all(|key| value(key).is_some_and(|n| n < 1.0)) {
                    let message = format!(
                        "{} trigger needs a target such as `{}`",
                        with_article(self.scaler.name),
                        keys[0]
                    );
                    report(metadata.clone(), message, "write a target of 1 or more".to_owned());
                }
            }
            ("port_in", [port, address]) => {
                if let Some((node, text)) = written(address)
                    && self.is_present(port) == Some(false)
                {
                    let parts: Vec<&str> = text.split(':').collect();
                    let inside = matches!(parts.as_slice(), [_, port] if port.parse::<i64>().is_ok());
                    if !inside {
                        let message = format!("`{address}` has no port, and there is no `{port}`");
                        report(node, message, format!("write `{port}`"));
                    }
                }
            }
            ("contains_or_need", [inner, text, key]) => {
                if let Some((_, found)) = written(inner)
                    && !found.contains(text)
                    && self.is_present(key) == Some(false)
                {
                    let mut found = Vec::new();
                    self.report_missing(key, &mut found);
                    for problem in found {
                        report(problem.node, problem.message, problem.help);
                    }
                }
            }
            ("rabbit_protocol", _) => {
                let protocol = match self.effective("protocol") {
                    Some("auto") => match written("host").map(|(_, host)| host) {
                        Some(host) if host.to_ascii_lowercase().starts_with("amqp") => "amqp",
                        _ => return,
                    },
                    Some("amqp") => "amqp",
                    _ => return,
                };
                for (key, on) in [("useRegex", "true"), ("excludeUnacknowledged", "true")] {
                    if let Some((node, text)) = written(key)
                        && boolean(text) == boolean(on)
                    {
                        let message = format!("`{key}` is rejected with the protocol `{protocol}`");
                        report(node, message, "use the management API: `protocol: http`".to_owned());
                    }
                }
                if let Some((node, mode)) = written("mode") {
                    if !matches!(mode, "QueueLength" | "Unknown") && self.is_present("value") == Some(true) {
                        let message =
                            format!("mode `{}` is rejected with the protocol `{protocol}`", ellipsize(mode));
                        report(node, message, "use the management API: `protocol: http`".to_owned());
                    } else if let Some((node, timeout)) = written("timeout")
                        && !matches!(timeout, "0" | "0s")
                    {
                        let message = format!("`timeout` is rejected with the protocol `{protocol}`");
                        report(node, message, "leave it out, or use `protocol: http`".to_owned());
                    }
                }
                for key in ["workloadIdentityResource", "oauthTokenURI"] {
                    if let Some(node) = place(key) {
                        let message = format!("`{key}` is rejected with the protocol `{protocol}`");
                        report(node, message, "use the management API: `protocol: http`".to_owned());
                    }
                }
            }
            ("sumo_rows", _) => {
                let entries = metadata.entries();
                if metadata.has_unknown_key() {
                    return;
                }
                let rows: Vec<_> = entries
                    .iter()
                    .filter_map(|(key, node)| Some((key.strip_prefix("query.")?, node)))
                    .filter(|(_, node)| node.is_set() || node.is_unknown())
                    .collect();
                let query = self.is_present("query");
                match (self.effective("queryType"), rows.first()) {
                    (Some("logs"), Some((_, node))) => {
                        let message = "`query.*` is rejected with `queryType: logs`".to_owned();
                        report((*node).clone(), message, "write `query`".to_owned());
                    }
                    (Some("metrics"), None) if query == Some(false) => {
                        let message = "a `sumologic` trigger needs `query` or `query.ROW`".to_owned();
                        report(metadata.get("query"), message, "write `query`".to_owned());
                    }
                    (Some("metrics"), Some((_, node))) if query == Some(true) => {
                        report(
                            (*node).clone(),
                            "`query.*` excludes `query`".to_owned(),
                            "keep one of the two".to_owned(),
                        );
                    }
                    (Some("metrics"), Some(_)) => match self.resolve_by_name("resultQueryRowID") {
                        KeyValue::Absent => {
                            let message = "`query.*` needs `resultQueryRowID` beside it".to_owned();
                            report(
                                metadata.get("resultQueryRowID"),
                                message,
                                "name the row that counts".to_owned(),
                            );
                        }
                        KeyValue::Text(node, row) if !rows.iter().any(|(name, _)| *name == row) => {
                            let message = format!(
                                "`resultQueryRowID` is `{}`, and no row has this name",
                                ellipsize(row)
                            );
                            report(
                                node,
                                message,
                                format!("write `query.{}`, or the name of a row", ellipsize(row)),
                            );
                        }
                        _ => {}
                    },
                    _ => {}
                }
                for (name, node) in rows {
                    if name.is_empty() || node.text() == Some("") {
                        let message = "a row `query.*` needs a name and a query".to_owned();
                        report(node.clone(), message, "write a query, or remove the row".to_owned());
                    }
                }
            }
            ("need_parameter", [key]) if self.has_parameter(key) == Some(false) => {
                let message =
                    format!("{} trigger needs the parameter `{key}`", with_article(self.scaler.name));
                let help = "give it in a TriggerAuthentication that `authenticationRef` names";
                report(self.trigger.node.get("authenticationRef"), message, help.to_owned());
            }
            ("openstack_login", _) => {
                let has = |name: &str| self.has_parameter(name);
                let lacking = if has("authURL") == Some(false) {
                    "authURL"
                } else if has("userID") == Some(true) && has("password") == Some(false) {
                    "password"
                } else if has("userID") == Some(false) && has("appCredentialSecret") == Some(false) {
                    "userID"
                } else {
                    return;
                };
                let mut found = Vec::new();
                self.report_missing(lacking, &mut found);
                for problem in found {
                    report(problem.node, problem.message, problem.help);
                }
            }
            ("no_metric_type", [key]) => {
                let beside = self.trigger.node.get("metricType");
                if let Some(node) = place(key)
                    && beside.text().is_some_and(|text| !text.is_empty())
                {
                    let message = format!("`{key}` excludes the trigger's `metricType`");
                    report(node, message, format!("remove `{key}`, which is deprecated"));
                }
            }
            ("enum_at_poll", [key, values @ ..]) => {
                if let Some((node, text)) = written(key)
                    && !values.contains(&text)
                {
                    let problem = self.unsupported_value(node, key, text, values);
                    report(problem.node, format!("{}: every poll fails", problem.message), problem.help);
                }
            }
            ("range", [key, from, to]) => {
                if let Some((node, text)) = written(key)
                    && let (Some(n), Some(from), Some(to)) = (number(text), number(from), number(to))
                    && !(from..=to).contains(&n)
                {
                    report(
                        node,
                        format!("`{key}` is {}, outside {from} to {to}", ellipsize(text)),
                        format!("write a number from {from} to {to}"),
                    );
                }
            }
            ("enum" | "enum_any_case", [key, values @ ..]) => {
                if let Some((node, text)) = written(key) {
                    let any_case = rule.name == "enum_any_case";
                    let known =
                        values.iter().any(|v| *v == text || (any_case && v.eq_ignore_ascii_case(text)));
                    if !known {
                        let problem = self.unsupported_value(node, key, text, values);
                        report(problem.node, problem.message, problem.help);
                    }
                }
            }
            ("differ", [first, second]) => {
                if let (Some((_, a)), Some((node, b))) = (written(first), written(second))
                    && a == b
                {
                    report(
                        node,
                        format!("`{second}` is the same as `{first}`"),
                        "write two different times".to_owned(),
                    );
                }
            }
            ("same_length", [first, second]) => {
                if let (Some((_, a)), Some((node, b))) = (written(first), written(second)) {
                    let separator = self.find_key(first).map_or(',', |k| k.separator);
                    let (a, b) = (a.split(separator).count(), b.split(separator).count());
                    if a != b {
                        report(
                            node,
                            format!("`{second}` has {b} items, `{first}` has {a}"),
                            "write as many items in both".to_owned(),
                        );
                    }
                }
            }
            ("cron", [key]) => {
                if let Some((node, text)) = written(key) {
                    // A time zone before the fields is valid here.
                    let zoned = text.starts_with("TZ=") || text.starts_with("CRON_TZ=");
                    let fields = text.split_whitespace().count();
                    let bad = fields != 5 || cron::Schedule::parse(text).is_err();
                    if bad && !zoned {
                        report(
                            node,
                            format!("`{key}` is not a cron schedule of five fields"),
                            "write minute, hour, day of month, month and weekday".to_owned(),
                        );
                    }
                }
            }
            ("aws_credentials", _) => {
                // The pod is the owner unless another value is set.
                let owner = metadata.get("identityOwner");
                let pod = match owner.text() {
                    _ if owner.is_unknown() => return,
                    None | Some("" | "pod") => true,
                    Some(_) => false,
                };
                // With `aws-eks` the role is that of the target's service account.
                if !pod || self.identity().is_none_or(|identity| identity.starts_with("aws")) {
                    return;
                }
                let given = |key: &str| match self.find_key(key) {
                    Some(key) => !matches!(self.resolve(key), KeyValue::Absent),
                    None => false,
                };
                let role = self.has_parameter("awsRoleArn") == Some(true);
                let id = given("awsAccessKeyID") || self.has_parameter("awsAccessKeyId") == Some(true);
                let keys = id && given("awsSecretAccessKey");
                if !role && !keys {
                    report(
                        metadata.clone(),
                        format!("{} trigger has no AWS credentials", with_article(self.scaler.name)),
                        "write `identityOwner: operator`, or name a TriggerAuthentication".to_owned(),
                    );
                }
            }
            ("gcp_credentials", _) => {
                // The variable itself may be missing: only that one is named counts.
                let named = ["credentialsFromEnv", "credentialsFromEnvFile"].iter().any(|key| {
                    let node = metadata.get(key);
                    node.is_unknown() || node.text().is_some_and(|text| !text.is_empty())
                });
                let parameter = self.has_parameter("GoogleApplicationCredentials") != Some(false);
                if !named && !parameter && self.identity().is_some_and(|identity| identity != "gcp") {
                    report(
                        metadata.clone(),
                        format!("{} trigger has no Google credentials", with_article(self.scaler.name)),
                        "write `credentialsFromEnv`, or name a TriggerAuthentication".to_owned(),
                    );
                }
            }
            _ => {}
        }
    }
}
