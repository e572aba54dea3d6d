//! The table of trigger types: the keys of each, their sources, types, and the constraints between them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::constraints::KeyConstraint;
use super::value::KeyType;
use crate::platform::{Product, Version};

pub const TABLE_VERSION: Version = Product::Keda.newest();

/// Trigger types that a later version of KEDA adds, with that version.
pub const LATER_TYPES: &[(&str, Version)] =
    &[("clickhouse", Version::new(2, 21)), ("gcp-spanner", Version::new(2, 21))];

#[derive(Debug)]
pub struct Scaler {
    /// The value of `type`.
    pub name: &'static str,
    pub keys: Vec<ScalerKey>,
    /// The constraints on the keys, beyond their types.
    pub(super) constraints: Vec<KeyConstraint>,
    /// Whether other keys are valid as well.
    pub open: bool,
}

impl Scaler {
    pub fn key(&self, name: &str) -> Option<&ScalerKey> {
        self.keys.iter().find(|key| key.names().any(|n| n == name))
    }

    /// Checks the name of a key that is an argument of a constraint.
    pub(super) fn checked_key(&self, name: &'static str) -> Result<&'static str, String> {
        self.key(name).map(|_| name).ok_or_else(|| format!("no key `{name}`"))
    }

    /// Checks the name of a key whose value is a number or a duration. KEDA also accepts a number as a
    /// duration.
    pub(super) fn checked_number(&self, name: &'static str) -> Result<&'static str, String> {
        let is_number = |key: &ScalerKey| key.kind.is_number() || key.kind == KeyType::Duration;
        self.key(name).filter(|key| is_number(key)).map(|_| name).ok_or_else(|| format!("no number `{name}`"))
    }

    pub fn key_status(&self, written: &str) -> KeyStatus<'_> {
        if let Some(key) = self.key(written) {
            return match key.rejected_since {
                Some((version, instead)) => KeyStatus::Rejected(version, instead),
                None if key.reads(KeySource::Metadata) => KeyStatus::Read,
                None => KeyStatus::NotInMetadata(key),
            };
        }
        if let Some(key) = written.strip_suffix("FromEnv").and_then(|name| self.key(name)) {
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
    Read,
    /// The scaler reads it, but not from the metadata.
    NotInMetadata(&'a ScalerKey),
    /// The key is `<key>FromEnv` of a key that the scaler does not read from the environment.
    NotInEnvironment(&'a ScalerKey),
    Rejected(Version, &'static str),
    /// The scaler does not read it.
    Unknown,
}

#[derive(Debug)]
pub struct ScalerKey {
    pub name: &'static str,
    pub required: bool,
    pub kind: KeyType,
    pub sources: Vec<KeySource>,
    pub alias: Option<&'static str>,
    pub default: Option<&'static str>,
    /// The only valid values. For a list, the valid items.
    pub values: Vec<&'static str>,
    /// Values of a list that exclude each other.
    pub exclusive_values: Vec<&'static str>,
    pub separator: char,
    /// Whether an item may be a range.
    pub ranges: bool,
    /// The version that rejects the key in the metadata, and the replacement.
    pub rejected_since: Option<(Version, &'static str)>,
}

impl ScalerKey {
    pub fn reads(&self, from: KeySource) -> bool {
        self.sources.contains(&from)
    }

    /// The name, and the alternative name if there is one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    Metadata,
    /// An environment variable of the target that `<key>FromEnv` names.
    Env,
    Authentication,
}

static SCALERS: LazyLock<BTreeMap<&'static str, Scaler>> =
    LazyLock::new(|| parse_table(include_str!("scalers.txt")).expect("a test reads the table"));

pub fn scaler(name: &str) -> Option<&'static Scaler> {
    SCALERS.get(name)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    SCALERS.keys().copied()
}

/// Parses the table. An error names the line that is not valid.
fn parse_table(text: &'static str) -> Result<BTreeMap<&'static str, Scaler>, String> {
    let mut scalers: BTreeMap<&'static str, Scaler> = BTreeMap::new();
    let mut name = "";
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(header) => {
                name = header;
                let empty = Scaler { name, keys: Vec::new(), constraints: Vec::new(), open: false };
                match scalers.insert(name, empty) {
                    Some(_) => Err("the type is there already".to_owned()),
                    None => Ok(()),
                }
            }
            None => match scalers.get_mut(name) {
                Some(scaler) => parse_line(line, scaler),
                None => Err("the line is outside of a type".to_owned()),
            },
        };
        parsed.map_err(|why| format!("line {}: {why}: {line}", at + 1))?;
    }
    Ok(scalers)
}

/// Parses a line of a trigger type: a constraint or a key.
fn parse_line(line: &'static str, scaler: &mut Scaler) -> Result<(), String> {
    match line.strip_prefix("? ") {
        Some("open()") => scaler.open = true,
        Some(constraint) => scaler.constraints.push(KeyConstraint::parse(constraint, scaler)?),
        None => scaler.keys.push(parse_key(line).ok_or("a key is `KEY NEED TYPE FROM OPTION...`")?),
    }
    Ok(())
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
        let scalers = parse_table(include_str!("scalers.txt")).unwrap();
        assert!(scalers.len() > 70, "{}", scalers.len());
        let keys: usize = scalers.values().map(|s| s.keys.len()).sum();
        assert!(keys > 1000, "{keys}");
        let constraints: usize = scalers.values().map(|s| s.constraints.len()).sum();
        assert!(constraints > 250, "{constraints}");
    }

    #[test]
    fn what_is_not_valid_is_refused_with_its_line() {
        for (line, why) in [
            ("? neeed(a)", "no constraint `neeed` takes 1 arguments"),
            ("? not_both(a)", "no constraint `not_both` takes 1 arguments"),
            ("? aws_credentials(a)", "no constraint `aws_credentials` takes 1 arguments"),
            ("? need", "a constraint is `NAME(ARGUMENT,...)`"),
            ("? need(c)", "no key `c`"),
            ("? need(a|b)", "`a|b` is neither KEY nor KEY=VALUE"),
            ("? any_of(a,b+c)", "no key `c`"),
            ("? positive(b)", "no number `b`"),
            ("? min(a,some)", "`some` is not a number"),
            ("? format(some,b)", "no format `some`"),
            ("? need(a) if c=1", "no key `c`"),
            ("? need(a) if b & !c", "no key `c`"),
            ("c ? string m", "a key is `KEY NEED TYPE FROM OPTION...`"),
            ("c - text m", "a key is `KEY NEED TYPE FROM OPTION...`"),
            ("[x]", "the type is there already"),
        ] {
            let table: &'static str = format!("# head\n[x]\na - int m\nb - list m\n{line}\n").leak();
            let error = parse_table(table).map(drop);
            assert_eq!(error, Err(format!("line 5: {why}: {line}")));
        }
        assert!(parse_table("a - int m\n").is_err());
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
