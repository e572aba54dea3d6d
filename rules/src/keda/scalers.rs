//! The table of trigger types: the keys of each, their sources, types, and the constraints between them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::value::KeyType;
use crate::platform::{Product, Version};

/// The version of KEDA that the table describes.
pub const TABLE_VERSION: Version = Product::Keda.newest();

/// Trigger types that a later version of KEDA adds, with that version.
pub const LATER_TYPES: &[(&str, Version)] =
    &[("clickhouse", Version::new(2, 21)), ("gcp-spanner", Version::new(2, 21))];

/// A trigger type.
#[derive(Debug)]
pub struct Scaler {
    /// The value of `type`.
    pub name: &'static str,
    /// The keys that it reads.
    pub keys: Vec<ScalerKey>,
    /// Constraints over several keys.
    pub constraints: Vec<KeyConstraint>,
    /// Whether any other key is valid as well.
    pub open: bool,
}

impl Scaler {
    /// How the scaler treats a key of the metadata.
    #[must_use]
    pub fn key_status(&self, written: &str) -> KeyStatus<'_> {
        let named = |name: &str| self.keys.iter().find(|k| k.names().any(|n| n == name));
        if let Some(key) = named(written) {
            return match key.rejected_since {
                Some((version, instead)) => KeyStatus::Rejected(version, instead),
                None if key.reads(KeySource::Metadata) => KeyStatus::Read,
                None => KeyStatus::NotInMetadata(key),
            };
        }
        if let Some(key) = written.strip_suffix("FromEnv").and_then(named) {
            return if key.reads(KeySource::Env) {
                KeyStatus::Read
            } else {
                KeyStatus::NotInEnvironment(key)
            };
        }
        let listed = |key: &ScalerKey| {
            let prefix = key.name.strip_suffix('*');
            prefix.is_some_and(|p| written.starts_with(p))
        };
        if self.open || self.keys.iter().any(listed) {
            return KeyStatus::Read;
        }
        KeyStatus::Unknown
    }
}

/// How the scaler treats a key that is present in the metadata of a trigger.
#[derive(Debug)]
pub enum KeyStatus<'a> {
    /// It is read.
    Read,
    /// It is read, but not from the metadata.
    NotInMetadata(&'a ScalerKey),
    /// It is `<key>FromEnv` of a key that is not read from the environment.
    NotInEnvironment(&'a ScalerKey),
    /// A version rejects it.
    Rejected(Version, &'static str),
    /// It is not read.
    Unknown,
}

/// A key of the metadata.
#[derive(Debug)]
pub struct ScalerKey {
    /// Its name.
    pub name: &'static str,
    /// Whether it is always required.
    pub required: bool,
    /// Type of the value.
    pub kind: KeyType,
    /// The sources in which the scaler looks for it, in order.
    pub sources: Vec<KeySource>,
    /// An alternative name.
    pub alias: Option<&'static str>,
    /// The default of an absent key.
    pub default: Option<&'static str>,
    /// The only valid values; for a list, those of its items.
    pub values: Vec<&'static str>,
    /// Values of a list that exclude each other.
    pub exclusive_values: Vec<&'static str>,
    /// The separator between items.
    pub separator: char,
    /// Whether an item may be a range.
    pub ranges: bool,
    /// The version that rejects the key in the metadata, and the replacement.
    pub rejected_since: Option<(Version, &'static str)>,
}

impl ScalerKey {
    /// Whether the scaler looks for the key in this source.
    #[must_use]
    pub fn reads(&self, from: KeySource) -> bool {
        self.sources.contains(&from)
    }

    /// The name, then the alternative name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }
}

/// A source of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The metadata itself.
    Metadata,
    /// An environment variable of the target that `<key>FromEnv` names.
    Env,
    /// A TriggerAuthentication.
    Authentication,
}

/// A constraint over several keys.
#[derive(Debug)]
pub struct KeyConstraint {
    /// Its kind.
    pub name: &'static str,
    /// Its arguments.
    pub args: Vec<&'static str>,
    /// Its conditions, all of which must be true.
    pub when: Vec<&'static str>,
}

static SCALERS: LazyLock<BTreeMap<&'static str, Scaler>> =
    LazyLock::new(|| parse_table(include_str!("scalers.txt")).0);

/// A trigger type by its name.
#[must_use]
pub fn scaler(name: &str) -> Option<&'static Scaler> {
    SCALERS.get(name)
}

/// The names of all trigger types.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCALERS.keys().copied()
}

/// The table, and the number of its lines that are not valid.
fn parse_table(text: &'static str) -> (BTreeMap<&'static str, Scaler>, usize) {
    let mut scalers: BTreeMap<&'static str, Scaler> = BTreeMap::new();
    let mut name = "";
    let mut bad = 0;
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            name = header;
            let empty = Scaler { name, keys: Vec::new(), constraints: Vec::new(), open: false };
            bad += usize::from(scalers.insert(name, empty).is_some());
            continue;
        }
        let Some(scaler) = scalers.get_mut(name) else {
            bad += 1;
            continue;
        };
        if let Some(rule) = line.strip_prefix("? ") {
            match parse_constraint(rule) {
                Some(rule) if rule.name == "open" => scaler.open = true,
                Some(rule) => scaler.constraints.push(rule),
                None => bad += 1,
            }
        } else if let Some(key) = parse_key(line) {
            scaler.keys.push(key);
        } else {
            bad += 1;
        }
    }
    (scalers, bad)
}

fn parse_constraint(text: &'static str) -> Option<KeyConstraint> {
    let (head, when) = match text.split_once(" if ") {
        Some((head, when)) => (head, when.split(" & ").collect()),
        None => (text, Vec::new()),
    };
    let (name, args) = head.strip_suffix(')')?.split_once('(')?;
    let args = args.split(',').filter(|a| !a.is_empty()).collect();
    Some(KeyConstraint { name, args, when })
}

fn parse_key(text: &'static str) -> Option<ScalerKey> {
    let (text, gone) = match text.split_once(" gone=") {
        Some((text, gone)) => {
            let (version, instead) = gone.split_once(':')?;
            (text, Some((Version::parse(version)?, instead)))
        }
        None => (text, None),
    };
    let mut words = text.split(' ');
    let mut key = ScalerKey {
        name: words.next()?,
        required: match words.next()? {
            "!" => true,
            "-" => false,
            _ => return None,
        },
        kind: KeyType::named(words.next()?)?,
        sources: words
            .next()?
            .chars()
            .map(|c| match c {
                'm' => Some(KeySource::Metadata),
                'e' => Some(KeySource::Env),
                'a' => Some(KeySource::Authentication),
                _ => None,
            })
            .collect::<Option<Vec<KeySource>>>()?,
        alias: None,
        default: None,
        values: Vec::new(),
        exclusive_values: Vec::new(),
        separator: ',',
        ranges: false,
        rejected_since: gone,
    };
    for word in words {
        match word.split_once('=') {
            Some(("aka", other)) => key.alias = Some(other),
            Some(("default", value)) => key.default = Some(value),
            Some(("values", list)) => key.values = list.split('|').collect(),
            Some(("one", list)) => key.exclusive_values = list.split('|').collect(),
            Some(("sep", separator)) => key.separator = separator.chars().next()?,
            None if word == "ranges" => key.ranges = true,
            _ => return None,
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::{KeySource, parse_table, scaler};

    #[test]
    fn every_line_of_the_table_is_read() {
        let (scalers, bad) = parse_table(include_str!("scalers.txt"));
        assert_eq!(bad, 0);
        assert_eq!(scalers.len(), 77);
        let keys: usize = scalers.values().map(|s| s.keys.len()).sum();
        assert!(keys > 1000, "{keys}");
    }

    #[test]
    fn rules_speak_of_keys_that_are_there() {
        let (scalers, _) = parse_table(include_str!("scalers.txt"));
        for scaler in scalers.values() {
            let known = |k: &str| scaler.keys.iter().any(|key| key.names().any(|n| n == k));
            for rule in &scaler.constraints {
                let args: &[&str] = match rule.name {
                    "enum" | "enum_any_case" | "enum_at_poll" | "range" | "min" | "differs_from" => {
                        &rule.args[..1]
                    }
                    "format" => &rule.args[1..],
                    "identities" => &[],
                    _ => &rule.args,
                };
                for arg in args.iter().flat_map(|a| a.split(['+', '|'])) {
                    let key = arg.split('=').next().unwrap();
                    let text = rule.name == "contains_or_need" && arg == "EntityPath";
                    assert!(text || known(key), "{}: {rule:?}", scaler.name);
                }
                for atom in &rule.when {
                    let key = atom.trim_start_matches('!').split(['=', '~']).next().unwrap();
                    let word = matches!(key, "modifiers" | "identity");
                    assert!(word || known(key), "{}: {rule:?}", scaler.name);
                }
            }
        }
    }

    #[test]
    fn keys_say_where_they_are_read() {
        let prometheus = scaler("prometheus").unwrap();
        let threshold = prometheus.keys.iter().find(|k| k.name == "threshold");
        let threshold = threshold.unwrap();
        assert!(threshold.required && threshold.reads(KeySource::Metadata));
        assert!(!threshold.reads(KeySource::Env) && !threshold.reads(KeySource::Authentication));
    }
}
