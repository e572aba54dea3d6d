//! The table of trigger types: which keys each reads, from where, as what, and which go together.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::value::Type;
use crate::platform::Version;

/// The version of KEDA that the table was taken from.
pub const TAKEN_FROM: Version = Version::new(2, 20);

/// Trigger types that a later version of KEDA brings, with that version.
pub const LATER: &[(&str, Version)] =
    &[("clickhouse", Version::new(2, 21)), ("gcp-spanner", Version::new(2, 21))];

/// A trigger type.
#[derive(Debug)]
pub struct Scaler {
    /// What `type` says.
    pub name: &'static str,
    /// The keys that it reads.
    pub keys: Vec<Key>,
    /// What it asks of several keys together.
    pub rules: Vec<Rule>,
    /// Whether any other key is legal too.
    pub open: bool,
}

impl Scaler {
    /// What becomes of a key that stands in the metadata.
    #[must_use]
    pub fn reading(&self, written: &str) -> Reading<'_> {
        let named = |name: &str| self.keys.iter().find(|k| k.names().any(|n| n == name));
        if let Some(key) = named(written) {
            return match key.gone {
                Some((version, instead)) => Reading::Gone(version, instead),
                None if key.reads(From::Metadata) => Reading::Read,
                None => Reading::Elsewhere(key),
            };
        }
        if let Some(key) = written.strip_suffix("FromEnv").and_then(named) {
            return if key.reads(From::Env) { Reading::Read } else { Reading::NoEnv(key) };
        }
        let listed = |key: &Key| {
            let prefix = key.name.strip_suffix('*');
            prefix.is_some_and(|p| written.starts_with(p))
        };
        if self.open || self.keys.iter().any(listed) {
            return Reading::Read;
        }
        Reading::Unknown
    }
}

/// What becomes of a key that is written in the metadata of a trigger.
#[derive(Debug)]
pub enum Reading<'a> {
    /// It is read.
    Read,
    /// It is read, but not from the metadata.
    Elsewhere(&'a Key),
    /// It is `<key>FromEnv` of a key that is not read from the environment.
    NoEnv(&'a Key),
    /// A version refuses it.
    Gone(Version, &'static str),
    /// Nobody reads it.
    Unknown,
}

/// A key of the metadata.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether it is always needed.
    pub required: bool,
    /// What it is read as.
    pub kind: Type,
    /// Where it is looked for, in order.
    pub from: Vec<From>,
    /// Another spelling.
    pub aka: Option<&'static str>,
    /// What an absent key counts as.
    pub default: Option<&'static str>,
    /// The only values there are, for a list those of its items.
    pub values: Vec<&'static str>,
    /// Values of a list of which there may be one.
    pub one: Vec<&'static str>,
    /// What stands between items.
    pub separator: char,
    /// Whether an item may be a range.
    pub ranges: bool,
    /// The version that refuses the key in metadata, and what to write instead.
    pub gone: Option<(Version, &'static str)>,
}

impl Key {
    /// Whether the key is looked for there.
    #[must_use]
    pub fn reads(&self, from: From) -> bool {
        self.from.contains(&from)
    }

    /// The name, then the other spelling.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aka)
    }
}

/// Where a key is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The metadata itself.
    Metadata,
    /// An environment variable of the target that `<key>FromEnv` names.
    Env,
    /// A TriggerAuthentication.
    Authentication,
}

/// A rule over several keys.
#[derive(Debug)]
pub struct Rule {
    /// What it says.
    pub name: &'static str,
    /// About what.
    pub args: Vec<&'static str>,
    /// When; all of them.
    pub when: Vec<&'static str>,
}

static SCALERS: LazyLock<BTreeMap<&'static str, Scaler>> =
    LazyLock::new(|| read(include_str!("scalers.txt")).0);

/// A trigger type by its name.
#[must_use]
pub fn scaler(name: &str) -> Option<&'static Scaler> {
    SCALERS.get(name)
}

/// The names of all trigger types.
pub fn names() -> impl Iterator<Item = &'static str> {
    SCALERS.keys().copied()
}

/// The table, and how many of its lines make no sense.
fn read(text: &'static str) -> (BTreeMap<&'static str, Scaler>, usize) {
    let mut scalers: BTreeMap<&'static str, Scaler> = BTreeMap::new();
    let mut name = "";
    let mut bad = 0;
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            name = header;
            let empty = Scaler { name, keys: Vec::new(), rules: Vec::new(), open: false };
            bad += usize::from(scalers.insert(name, empty).is_some());
            continue;
        }
        let Some(scaler) = scalers.get_mut(name) else {
            bad += 1;
            continue;
        };
        if let Some(rule) = line.strip_prefix("? ") {
            match read_rule(rule) {
                Some(rule) if rule.name == "open" => scaler.open = true,
                Some(rule) => scaler.rules.push(rule),
                None => bad += 1,
            }
        } else if let Some(key) = read_key(line) {
            scaler.keys.push(key);
        } else {
            bad += 1;
        }
    }
    (scalers, bad)
}

fn read_rule(text: &'static str) -> Option<Rule> {
    let (head, when) = match text.split_once(" if ") {
        Some((head, when)) => (head, when.split(" & ").collect()),
        None => (text, Vec::new()),
    };
    let (name, args) = head.strip_suffix(')')?.split_once('(')?;
    let args = args.split(',').filter(|a| !a.is_empty()).collect();
    Some(Rule { name, args, when })
}

fn read_key(text: &'static str) -> Option<Key> {
    let (text, gone) = match text.split_once(" gone=") {
        Some((text, gone)) => {
            let (version, instead) = gone.split_once(':')?;
            (text, Some((Version::parse(version)?, instead)))
        }
        None => (text, None),
    };
    let mut words = text.split(' ');
    let mut key = Key {
        name: words.next()?,
        required: match words.next()? {
            "!" => true,
            "-" => false,
            _ => return None,
        },
        kind: Type::named(words.next()?)?,
        from: words
            .next()?
            .chars()
            .map(|c| match c {
                'm' => Some(From::Metadata),
                'e' => Some(From::Env),
                'a' => Some(From::Authentication),
                _ => None,
            })
            .collect::<Option<Vec<From>>>()?,
        aka: None,
        default: None,
        values: Vec::new(),
        one: Vec::new(),
        separator: ',',
        ranges: false,
        gone,
    };
    for word in words {
        match word.split_once('=') {
            Some(("aka", other)) => key.aka = Some(other),
            Some(("default", value)) => key.default = Some(value),
            Some(("values", list)) => key.values = list.split('|').collect(),
            Some(("one", list)) => key.one = list.split('|').collect(),
            Some(("sep", separator)) => key.separator = separator.chars().next()?,
            None if word == "ranges" => key.ranges = true,
            _ => return None,
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::{From, read, scaler};

    #[test]
    fn every_line_of_the_table_is_read() {
        let (scalers, bad) = read(include_str!("scalers.txt"));
        assert_eq!(bad, 0);
        assert_eq!(scalers.len(), 77);
        let keys: usize = scalers.values().map(|s| s.keys.len()).sum();
        assert!(keys > 1000, "{keys}");
    }

    #[test]
    fn rules_speak_of_keys_that_are_there() {
        let (scalers, _) = read(include_str!("scalers.txt"));
        for scaler in scalers.values() {
            let known = |k: &str| scaler.keys.iter().any(|key| key.names().any(|n| n == k));
            for rule in &scaler.rules {
                let args: &[&str] = match rule.name {
                    "enum" | "enum_any_case" | "range" => &rule.args[..1],
                    _ => &rule.args,
                };
                for arg in args.iter().flat_map(|a| a.split('+')) {
                    let key = arg.split('=').next().unwrap();
                    assert!(known(key), "{}: {rule:?}", scaler.name);
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
        assert!(threshold.required && threshold.reads(From::Metadata));
        assert!(!threshold.reads(From::Env) && !threshold.reads(From::Authentication));
    }
}
