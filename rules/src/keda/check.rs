//! Whether a scaler could be built from a trigger: what is missing, what it cannot read, what
//! does not go together. Whatever comes from an environment variable, a TriggerAuthentication or
//! a placeholder is unknown, and nothing is said about it.

use super::scalers::{From, Key, Rule, Scaler};
use super::value::{Type, boolean, number, plain_number};
use super::{Trigger, brief, with_article};
use crate::facts::cron;
use crate::tree::node::Node;

/// Something that a scaler does not take.
#[derive(Debug)]
pub struct Problem<'a> {
    /// Where.
    pub node: Node<'a>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// What is known of a key.
enum Given<'a> {
    Absent,
    Unknown,
    Text(Node<'a>, &'a str),
}

struct Asked<'a> {
    metadata: Node<'a>,
    /// Whether it names a TriggerAuthentication, or may.
    authenticated: bool,
    /// Whether any key takes its value from an environment variable.
    from_env: bool,
    scaler: &'static Scaler,
    /// Whether a formula replaces the metrics; `None` where it is not known.
    modifiers: Option<bool>,
}

/// Everything that the scaler would refuse of a trigger's metadata. `modifiers` says whether the
/// ScaledObject replaces its metrics by a formula.
#[must_use]
pub fn problems<'a>(
    trigger: Trigger<'a>,
    scaler: &'static Scaler,
    modifiers: Option<bool>,
) -> Vec<Problem<'a>> {
    let metadata = trigger.metadata();
    if metadata.is_unknown() || (metadata.exists() && !metadata.is_mapping()) {
        return Vec::new();
    }
    let from_env = (metadata.entries().iter()).any(|(key, _)| key.ends_with("FromEnv"));
    let asked = Asked { authenticated: trigger.has_authentication(), metadata, from_env, scaler, modifiers };
    let mut out = Vec::new();
    for key in &scaler.keys {
        asked.key(key, &mut out);
    }
    for rule in &scaler.rules {
        asked.rule(rule, &mut out);
    }
    out
}

impl<'a> Asked<'a> {
    fn given(&self, key: &Key) -> Given<'a> {
        let metadata = &self.metadata;
        for from in &key.from {
            match from {
                From::Authentication if self.authenticated => return Given::Unknown,
                From::Authentication => {}
                From::Env => {
                    let exists = |name: &str| metadata.get(&format!("{name}FromEnv")).exists();
                    if self.from_env && key.names().any(exists) {
                        return Given::Unknown;
                    }
                }
                From::Metadata => {
                    for name in key.names() {
                        let node = metadata.get(name);
                        if !node.exists() && !node.is_unknown() {
                            continue;
                        }
                        match node.text() {
                            Some(text) if text.trim().is_empty() => {}
                            Some(text) => return Given::Text(node, text.trim()),
                            // No text: said elsewhere, and nothing follows from it here.
                            None => return Given::Unknown,
                        }
                    }
                }
            }
        }
        Given::Absent
    }

    fn named(&self, name: &str) -> Option<&'static Key> {
        self.scaler.keys.iter().find(|key| key.names().any(|n| n == name))
    }

    fn look(&self, name: &str) -> Given<'a> {
        self.named(name).map_or(Given::Unknown, |key| self.given(key))
    }

    /// The value, the default where nothing is written; `None` where it is not known or absent.
    fn effective(&self, name: &str) -> Option<&'a str> {
        match self.look(name) {
            Given::Text(_, text) => Some(text),
            Given::Absent => self.named(name)?.default,
            Given::Unknown => None,
        }
    }

    fn key(&self, key: &Key, out: &mut Vec<Problem<'a>>) {
        match self.given(key) {
            Given::Unknown => {}
            Given::Absent => {
                if key.required && key.default.is_none() {
                    self.missing(key.name, out);
                }
            }
            // A key that a version refuses is said to be so, whatever its value.
            Given::Text(..) if key.gone.is_some() => {}
            Given::Text(node, text) => {
                if let Some(wanted) = key.kind.refuses(text, key.separator, key.ranges) {
                    let help = match key.kind {
                        Type::Int | Type::Uint | Type::Float => {
                            plain_number(text).filter(|plain| key.kind.refuses(plain, ',', false).is_none())
                        }
                        _ => None,
                    };
                    out.push(Problem {
                        node,
                        message: format!("`{}` is `{}`, not {wanted}", key.name, brief(text)),
                        help: match help {
                            Some(plain) => format!("write \"{plain}\""),
                            None => format!("write {wanted}"),
                        },
                    });
                    return;
                }
                if key.values.is_empty() && key.one.is_empty() {
                    return;
                }
                let items: Vec<&str> = match key.kind {
                    Type::List => text.split(key.separator).map(str::trim).collect(),
                    _ => vec![text],
                };
                let odd = items.iter().find(|i| !key.values.is_empty() && !key.values.contains(i));
                if let Some(odd) = odd {
                    out.push(self.no_such(node.clone(), key.name, odd, &key.values));
                }
                let exclusive: Vec<&str> = items.into_iter().filter(|i| key.one.contains(i)).collect();
                if let [first, second, ..] = exclusive.as_slice() {
                    out.push(Problem {
                        node,
                        message: format!("`{}` holds both `{first}` and `{second}`", key.name),
                        help: format!("keep one of `{}`", key.one.join("`, `")),
                    });
                }
            }
        }
    }

    fn no_such(&self, node: Node<'a>, key: &str, text: &str, values: &[&str]) -> Problem<'a> {
        let near = crate::facts::suggest::nearest(text, values.iter().copied());
        Problem {
            node,
            message: format!("`{key}` has no value `{}`", brief(text)),
            help: match near {
                Some(near) => format!("write `{near}`"),
                None if values.iter().map(|v| v.len() + 4).sum::<usize>() < 100 => {
                    format!("write one of `{}`", values.join("`, `"))
                }
                None => format!("write `{}` or another that KEDA knows", values[0]),
            },
        }
    }

    fn missing(&self, name: &str, out: &mut Vec<Problem<'a>>) {
        let Some(key) = self.named(name) else {
            return;
        };
        let metadata = &self.metadata;
        let written = key.names().map(|n| metadata.get(n)).find(Node::exists);
        let in_metadata = key.reads(From::Metadata);
        let message = match &written {
            Some(_) if in_metadata => format!("`{}` is blank, which counts as absent", key.name),
            _ => format!("{} trigger needs `{}`", with_article(self.scaler.name), key.name),
        };
        let help = if in_metadata {
            "without it KEDA cannot build the scaler, and nothing scales".to_owned()
        } else if key.reads(From::Env) {
            format!("give it as `{}FromEnv` or in a TriggerAuthentication", key.name)
        } else {
            "give it in a TriggerAuthentication that `authenticationRef` names".to_owned()
        };
        let place = match written {
            Some(node) if in_metadata => node,
            _ => metadata.get(key.name),
        };
        out.push(Problem { node: place, message, help });
    }

    /// Whether a condition holds; `None` where it is not known.
    fn holds(&self, atom: &str) -> Option<bool> {
        if let Some(inner) = atom.strip_prefix('!') {
            return self.holds(inner).map(|b| !b);
        }
        if atom == "modifiers" {
            return self.modifiers;
        }
        if let Some(provider) = atom.strip_prefix("identity=") {
            // Without an authentication there is no identity; with one it stands there.
            return (!self.authenticated).then_some(provider == "none");
        }
        if let Some((key, values)) = atom.split_once('=') {
            return match self.look(key) {
                Given::Unknown => None,
                _ => Some(self.effective(key).is_some_and(|text| {
                    values.split('|').any(|v| match boolean(v) {
                        Some(flag) => boolean(text) == Some(flag),
                        None => v == text,
                    })
                })),
            };
        }
        if let Some((key, item)) = atom.split_once('~') {
            let separator = self.named(key)?.separator;
            return match self.look(key) {
                Given::Unknown => None,
                Given::Absent => Some(false),
                Given::Text(_, text) => Some(text.split(separator).any(|i| i.trim() == item)),
            };
        }
        self.present(atom)
    }

    fn present(&self, key: &str) -> Option<bool> {
        if let Some((_, _)) = key.split_once('=') {
            return self.holds(key);
        }
        if key.contains('+') {
            let all: Option<Vec<bool>> = key.split('+').map(|k| self.present(k)).collect();
            return match all {
                Some(all) => Some(all.iter().all(|b| *b)),
                None if key.split('+').any(|k| self.present(k) == Some(false)) => Some(false),
                None => None,
            };
        }
        match self.look(key) {
            Given::Unknown => None,
            Given::Absent => Some(false),
            Given::Text(..) => Some(true),
        }
    }

    fn rule(&self, rule: &Rule, out: &mut Vec<Problem<'a>>) {
        if !rule.when.iter().all(|atom| self.holds(atom) == Some(true)) {
            return;
        }
        let written = |key: &str| match self.look(key.split('=').next().unwrap_or(key)) {
            Given::Text(node, text) => Some((node, text)),
            _ => None,
        };
        let metadata = &self.metadata;
        let args = rule.args.as_slice();
        let mut say = |node: Node<'a>, message: String, help: String| {
            out.push(Problem { node, message, help });
        };
        match (rule.name, args) {
            ("need", keys) => {
                for key in keys {
                    if key.contains('=') {
                        if self.holds(key) == Some(false) {
                            let (name, value) = key.split_once('=').unwrap_or((key, ""));
                            let because = rule.when.join(", ");
                            say(
                                metadata.get(name),
                                format!("`{name}` must be `{value}` with `{because}`"),
                                format!("write `{name}: {value}`"),
                            );
                        }
                    } else if self.present(key) == Some(false)
                        && self.named(key).is_some_and(|k| k.default.is_none())
                    {
                        let mut found = Vec::new();
                        self.missing(key, &mut found);
                        for problem in found {
                            say(problem.node, problem.message, problem.help);
                        }
                    }
                }
            }
            ("any_of" | "one_of", keys) => {
                if keys.iter().all(|k| self.present(k) == Some(false)) {
                    let names = keys.join("`, `").replace('+', "` with `");
                    say(
                        metadata.clone(),
                        format!("{} trigger needs one of `{names}`", with_article(self.scaler.name)),
                        "without it KEDA cannot build the scaler, and nothing scales".to_owned(),
                    );
                }
                let both: Vec<_> = keys.iter().filter_map(|k| Some((k, written(k)?))).collect();
                if rule.name == "one_of"
                    && let [(first, _), (second, (node, _)), ..] = both.as_slice()
                {
                    say(
                        node.clone(),
                        format!("`{second}` excludes `{first}`"),
                        "keep one of the two".to_owned(),
                    );
                }
            }
            ("not_both", [first, second]) => {
                if self.present(first) == Some(true)
                    && self.present(second) == Some(true)
                    && let Some((node, _)) = written(second)
                {
                    say(node, format!("`{second}` excludes `{first}`"), "keep one of the two".to_owned());
                }
            }
            ("together", keys) => {
                let some = keys.iter().find_map(|k| Some((k, written(k)?.0)));
                let lacking = keys.iter().find(|k| self.present(k) == Some(false));
                if let (Some((key, node)), Some(lacking)) = (some, lacking) {
                    say(
                        node,
                        format!("`{key}` needs `{lacking}` beside it"),
                        "write both, or neither".to_owned(),
                    );
                }
            }
            ("forbid", [key]) => {
                if let Some((node, _)) = written(key) {
                    let because = rule.when.join(", ");
                    say(
                        node,
                        format!("`{key}` is refused with `{because}`"),
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
                        say(node, format!("`{key}` is {}", brief(text)), format!("write {wanted}"));
                    }
                }
            }
            ("range", [key, from, to]) => {
                if let Some((node, text)) = written(key)
                    && let (Some(n), Some(from), Some(to)) = (number(text), number(from), number(to))
                    && !(from..=to).contains(&n)
                {
                    say(
                        node,
                        format!("`{key}` is {}, outside {from} to {to}", brief(text)),
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
                        let problem = self.no_such(node, key, text, values);
                        say(problem.node, problem.message, problem.help);
                    }
                }
            }
            ("differ", [first, second]) => {
                if let (Some((_, a)), Some((node, b))) = (written(first), written(second))
                    && a == b
                {
                    say(
                        node,
                        format!("`{second}` is the same as `{first}`"),
                        "write two different times".to_owned(),
                    );
                }
            }
            ("same_length", [first, second]) => {
                if let (Some((_, a)), Some((node, b))) = (written(first), written(second)) {
                    let separator = self.named(first).map_or(',', |k| k.separator);
                    let (a, b) = (a.split(separator).count(), b.split(separator).count());
                    if a != b {
                        say(
                            node,
                            format!("`{second}` has {b} items, `{first}` has {a}"),
                            "write as many items in both".to_owned(),
                        );
                    }
                }
            }
            ("cron", [key]) => {
                if let Some((node, text)) = written(key) {
                    // A zone of its own before the fields is legal here.
                    let zoned = text.starts_with("TZ=") || text.starts_with("CRON_TZ=");
                    let fields = text.split_whitespace().count();
                    let bad = fields != 5 || cron::Schedule::parse(text).is_err();
                    if bad && !zoned {
                        say(
                            node,
                            format!("`{key}` is no cron schedule of five fields"),
                            "write minute, hour, day of month, month and weekday".to_owned(),
                        );
                    }
                }
            }
            ("aws_credentials", _) => {
                // The owner is the pod unless another word is written.
                let owner = match self.look("identityOwner") {
                    Given::Unknown => return,
                    Given::Absent => true,
                    Given::Text(_, text) => text == "pod",
                };
                let keys =
                    ["awsAccessKeyID", "awsSecretAccessKey"].iter().all(|k| self.present(k) != Some(false));
                if owner && !keys && !self.authenticated {
                    say(
                        metadata.clone(),
                        format!("{} trigger has no AWS credentials", with_article(self.scaler.name)),
                        "write `identityOwner: operator`, or name a TriggerAuthentication".to_owned(),
                    );
                }
            }
            ("gcp_credentials", _) => {
                let given = ["credentialsFromEnv", "credentialsFromEnvFile"]
                    .iter()
                    .any(|k| self.present(k) != Some(false));
                if !given && !self.authenticated {
                    say(
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
