//! Checks whether KEDA can build a scaler from a trigger: missing keys, values that cannot be parsed, keys
//! that exclude each other. Values from an environment variable, a TriggerAuthentication or a placeholder are
//! unknown and are never reported.

use super::scalers::{KeyConstraint, KeySource, Scaler, ScalerKey};
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
}

/// The value of a key, as far as it is known.
enum KeyValue<'a> {
    Absent,
    Unknown,
    Text(Node<'a>, &'a str),
}

struct TriggerContext<'a> {
    metadata: Node<'a>,
    /// Whether the trigger names a TriggerAuthentication. A placeholder counts as one.
    authenticated: bool,
    /// Whether any key takes its value from an environment variable.
    from_env: bool,
    scaler: &'static Scaler,
    /// Whether a formula replaces the metrics. `None` if this is not known.
    modifiers: Option<bool>,
}

/// All problems that the scaler would report for the metadata of a trigger. `modifiers` is true if the
/// ScaledObject replaces its metrics by a formula.
#[must_use]
pub fn problems<'a>(
    trigger: Trigger<'a>,
    scaler: &'static Scaler,
    modifiers: Option<bool>,
) -> Vec<TriggerProblem<'a>> {
    let metadata = trigger.metadata();
    if metadata.is_unknown() || (metadata.is_set() && !metadata.is_mapping()) {
        return Vec::new();
    }
    let from_env = (metadata.entries().iter()).any(|(key, _)| key.ends_with("FromEnv"));
    let asked =
        TriggerContext { authenticated: trigger.has_authentication(), metadata, from_env, scaler, modifiers };
    let mut out = Vec::new();
    for key in &scaler.keys {
        asked.check_key(key, &mut out);
    }
    for rule in &scaler.constraints {
        asked.check_constraint(rule, &mut out);
    }
    out
}

impl<'a> TriggerContext<'a> {
    fn resolve(&self, key: &ScalerKey) -> KeyValue<'a> {
        let metadata = &self.metadata;
        for from in &key.sources {
            match from {
                KeySource::Authentication if self.authenticated => return KeyValue::Unknown,
                KeySource::Authentication => {}
                KeySource::Env => {
                    let exists = |name: &str| metadata.get(&format!("{name}FromEnv")).is_set();
                    if self.from_env && key.names().any(exists) {
                        return KeyValue::Unknown;
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
            KeyValue::Unknown => None,
        }
    }

    fn check_key(&self, key: &ScalerKey, out: &mut Vec<TriggerProblem<'a>>) {
        match self.resolve(key) {
            KeyValue::Unknown => {}
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
        let in_metadata = key.reads(KeySource::Metadata);
        let message = match &written {
            Some(_) if in_metadata => format!("`{}` is blank, which counts as absent", key.name),
            _ => format!("{} trigger needs `{}`", with_article(self.scaler.name), key.name),
        };
        let help = if in_metadata {
            "without it KEDA cannot build the scaler, and nothing scales".to_owned()
        } else if key.reads(KeySource::Env) {
            format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name)
        } else {
            "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
        };
        let place = match written {
            Some(node) if in_metadata => node,
            _ => metadata.get(key.name),
        };
        out.push(TriggerProblem { node: place, keys: key.name.to_owned(), message, help });
    }

    /// Whether a condition is true. `None` if this is not known.
    fn evaluate(&self, atom: &str) -> Option<bool> {
        if let Some(inner) = atom.strip_prefix('!') {
            return self.evaluate(inner).map(|b| !b);
        }
        if atom == "modifiers" {
            return self.modifiers;
        }
        if let Some(provider) = atom.strip_prefix("identity=") {
            // Without an authentication there is no identity provider; with one, the authentication defines
            // it.
            return (!self.authenticated).then_some(provider == "none");
        }
        if let Some((key, values)) = atom.split_once('=') {
            return match self.resolve_by_name(key) {
                KeyValue::Unknown => None,
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
                KeyValue::Unknown => None,
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
        if key.contains('+') {
            let all: Option<Vec<bool>> = key.split('+').map(|k| self.is_present(k)).collect();
            return match all {
                Some(all) => Some(all.iter().all(|b| *b)),
                None if key.split('+').any(|k| self.is_present(k) == Some(false)) => Some(false),
                None => None,
            };
        }
        match self.resolve_by_name(key) {
            KeyValue::Unknown => None,
            KeyValue::Absent => Some(false),
            KeyValue::Text(..) => Some(true),
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
        let metadata = &self.metadata;
        let args = rule.args.as_slice();
        let keys = args.join(" ");
        let mut report = |node: Node<'a>, message: String, help: String| {
            out.push(TriggerProblem { node, keys: keys.clone(), message, help });
        };
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
                    let names = keys.join("`, `").replace('+', "` with `");
                    report(
                        metadata.clone(),
                        format!("{} trigger needs one of `{names}`", with_article(self.scaler.name)),
                        "without it KEDA cannot build the scaler, and nothing scales".to_owned(),
                    );
                }
                let both: Vec<_> = keys.iter().filter_map(|k| Some((k, written(k)?))).collect();
                if rule.name == "one_of"
                    && let [(first, _), (second, (node, _)), ..] = both.as_slice()
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
                    && let Some((node, _)) = written(second)
                {
                    report(node, format!("`{second}` excludes `{first}`"), "keep one of the two".to_owned());
                }
            }
            ("together", keys) => {
                let some = keys.iter().find_map(|k| Some((k, written(k)?.0)));
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
                if let Some((node, _)) = written(key) {
                    let because = rule.when.join(", ");
                    report(
                        node,
                        format!("`{key}` is rejected with `{because}`"),
                        "keep one of the two".to_owned(),
                    );
                }
            }
            ("positive" | "nonneg" | "nonzero", [key]) => {
                if let Some((node, text)) = written(key)
                    && let Some(n) = number(text)
                {
                    let (bad, wanted) = match rule.name {
                        "positive" => (n <= 0.0, "a number above 0"),
                        "nonneg" => (n < 0.0, "0 or more"),
                        _ => (n == 0.0, "a number other than 0"),
                    };
                    if bad {
                        report(node, format!("`{key}` is {}", ellipsize(text)), format!("write {wanted}"));
                    }
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
                let owner = match self.resolve_by_name("identityOwner") {
                    KeyValue::Unknown => return,
                    KeyValue::Absent => true,
                    KeyValue::Text(_, text) => text == "pod",
                };
                let keys = ["awsAccessKeyID", "awsSecretAccessKey"]
                    .iter()
                    .all(|k| self.is_present(k) != Some(false));
                if owner && !keys && !self.authenticated {
                    report(
                        metadata.clone(),
                        format!("{} trigger has no AWS credentials", with_article(self.scaler.name)),
                        "write `identityOwner: operator`, or name a TriggerAuthentication".to_owned(),
                    );
                }
            }
            ("gcp_credentials", _) => {
                let given = ["credentialsFromEnv", "credentialsFromEnvFile"]
                    .iter()
                    .any(|k| self.is_present(k) != Some(false));
                if !given && !self.authenticated {
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
