//! The table of trigger types: the keys of each, their sources, types, and the constraints between them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::constraints::KeyConstraint;
use super::value::KeyType;
use crate::platform::{Product, Version, VersionRange};

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
                Some(version) => KeyStatus::Rejected(version, key.instead),
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
    /// The version that rejects the key in the metadata.
    pub rejected_since: Option<Version>,
    /// What to write instead of a key that a version rejects.
    pub instead: &'static str,
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

/// The keys of all versions, generated from KEDA's source.
const KEYS: &str = include_str!("scalers.txt");
/// Corrections of the keys, and the constraints.
const CONSTRAINTS: &str = include_str!("constraints.txt");

/// The trigger types of one version, by name.
type Scalers = BTreeMap<&'static str, Scaler>;

/// One table for each supported minor version, filled on first use.
static SCALERS: [OnceLock<Scalers>; VERSIONS] = [const { OnceLock::new() }; VERSIONS];
const VERSIONS: usize = (Product::Keda.newest().minor - Product::Keda.oldest().minor) as usize + 1;

/// The trigger types of a version. A version that is not supported has those of the nearest one.
fn scalers(keda: Version) -> &'static Scalers {
    let keda = keda.clamp(Product::Keda.oldest(), Product::Keda.newest());
    let at = (keda.minor - Product::Keda.oldest().minor) as usize;
    SCALERS[at]
        .get_or_init(|| Reader::read(KEYS, CONSTRAINTS, keda).expect("a test reads the tables").scalers)
}

/// The definition of a trigger type in a version of KEDA.
pub fn scaler(name: &str, keda: Version) -> Option<&'static Scaler> {
    scalers(keda).get(name)
}

/// The names of the trigger types of a version.
pub fn names(keda: Version) -> impl Iterator<Item = &'static str> {
    scalers(keda).keys().copied()
}

/// The first version after `keda` that has a trigger type.
pub(crate) fn type_added_after(name: &str, keda: Version) -> Option<Version> {
    Product::Keda.supported().find(|version| *version > keda && scaler(name, *version).is_some())
}

/// The first version after `keda` whose scaler reads a key from the metadata.
pub(crate) fn key_added_after(name: &str, key: &str, keda: Version) -> Option<Version> {
    Product::Keda.supported().find(|version| *version > keda && reads(name, key, *version))
}

/// The last version before `keda` whose scaler reads a key from the metadata.
pub(crate) fn key_read_before(name: &str, key: &str, keda: Version) -> Option<Version> {
    Product::Keda.supported().filter(|version| *version < keda && reads(name, key, *version)).last()
}

fn reads(name: &str, key: &str, keda: Version) -> bool {
    scaler(name, keda).is_some_and(|scaler| matches!(scaler.key_status(key), KeyStatus::Read))
}

/// Reads the tables for one version.
struct Reader {
    keda: Version,
    scalers: Scalers,
    /// The lines of constraints that name a key which the version does not have, with the reason.
    without_keys: Vec<(&'static str, String)>,
}

impl Reader {
    /// An error names the line that is not valid.
    fn read(keys: &'static str, constraints: &'static str, keda: Version) -> Result<Reader, String> {
        let mut reader = Reader { keda, scalers: BTreeMap::new(), without_keys: Vec::new() };
        reader.sections(keys, Reader::key_line)?;
        reader.sections(constraints, Reader::constraint_line)?;
        Ok(reader)
    }

    /// Reads the sections of a table. The first table has the versions of each type.
    fn sections(
        &mut self,
        table: &'static str,
        line_of: fn(&mut Reader, &'static str, &'static str, bool) -> Result<(), String>,
    ) -> Result<(), String> {
        let first = self.scalers.is_empty();
        let (mut name, mut is_there) = ("", false);
        for (at, line) in table.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = cut_range(line).and_then(|(line, range)| {
                let holds = range.contains(self.keda);
                match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                    Some(header) => {
                        name = header;
                        is_there = if first { holds } else { self.scalers.contains_key(name) };
                        if first && is_there { self.add(name) } else { Ok(()) }
                    }
                    None if name.is_empty() => Err("the line is outside of a type".to_owned()),
                    None if is_there => line_of(self, name, line, holds),
                    None => Ok(()),
                }
            });
            parsed.map_err(|why| format!("line {}: {why}: {line}", at + 1))?;
        }
        Ok(())
    }

    fn add(&mut self, name: &'static str) -> Result<(), String> {
        match self
            .scalers
            .insert(name, Scaler { name, keys: Vec::new(), constraints: Vec::new(), open: false })
        {
            Some(_) => Err("the type is there already".to_owned()),
            None => Ok(()),
        }
    }

    fn key_line(&mut self, name: &'static str, line: &'static str, holds: bool) -> Result<(), String> {
        let key = parse_key(line).ok_or("a key is `KEY NEED TYPE FROM OPTION...`")?;
        let Some(scaler) = self.scalers.get_mut(name) else { return Ok(()) };
        if holds {
            scaler.keys.push(key);
        } else if let (Some(since), Some(known)) = (key.rejected_since, scaler.keys.last_mut())
            && known.name == key.name
        {
            // The line of a later version, which follows, says that it rejects the key.
            known.rejected_since = Some(since);
        }
        Ok(())
    }

    fn constraint_line(&mut self, name: &'static str, line: &'static str, holds: bool) -> Result<(), String> {
        let Some(scaler) = self.scalers.get_mut(name).filter(|_| holds) else { return Ok(()) };
        if let Some(constraint) = line.strip_prefix("? ") {
            match KeyConstraint::parse(constraint, scaler) {
                _ if constraint == "open()" => scaler.open = true,
                Ok(constraint) => scaler.constraints.push(constraint),
                Err(why) => self.without_keys.push((line, why)),
            }
            return Ok(());
        }
        if let Some((key, instead)) = line.strip_prefix("gone ").and_then(|line| line.split_once(' ')) {
            for known in scaler.keys.iter_mut().filter(|known| known.name == key) {
                known.instead = instead;
            }
            return Ok(());
        }
        let key = line.strip_prefix("= ").and_then(parse_key).ok_or("neither `?`, `=` nor `gone`")?;
        let known = scaler.keys.iter_mut().find(|known| known.name == key.name);
        let known = known.ok_or_else(|| format!("no key `{}`", key.name))?;
        *known = key;
        Ok(())
    }
}

/// Cuts `since=` and `until=` off the end of a line: the versions for which it holds.
fn cut_range(mut line: &'static str) -> Result<(&'static str, VersionRange), String> {
    let mut range = VersionRange::default();
    while let Some((rest, word)) = line.rsplit_once(' ') {
        let (end, version) = match word.split_once('=') {
            Some(("since", version)) => (&mut range.since, version),
            Some(("until", version)) => (&mut range.until, version),
            _ => break,
        };
        *end = Some(Version::parse(version).ok_or_else(|| format!("`{version}` is no version"))?);
        line = rest;
    }
    Ok((line, range))
}

fn parse_key(text: &'static str) -> Option<ScalerKey> {
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
        rejected_since: None,
        instead: "",
    };
    for word in words {
        match word.split_once('=') {
            Some(("aka", other)) => key.alias = Some(other),
            Some(("default", value)) => key.default = Some(value),
            Some(("values", list)) => key.values = list.split('|').collect(),
            Some(("one", list)) => key.exclusive_values = list.split('|').collect(),
            Some(("gone", version)) => key.rejected_since = Some(Version::parse(version)?),
            Some(("sep", separator)) => key.separator = separator.chars().next()?,
            None if word == "ranges" => key.ranges = true,
            _ => return None,
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::{
        CONSTRAINTS, KEYS, KeySource, Reader, key_added_after, key_read_before, scaler, type_added_after,
    };
    use crate::platform::{Product, Version};

    fn keda(minor: u32) -> Version {
        Version::new(2, minor)
    }

    #[test]
    fn every_line_of_the_tables_is_read() {
        let newest = Reader::read(KEYS, CONSTRAINTS, Product::Keda.newest()).unwrap();
        assert!(newest.scalers.len() >= 80, "{}", newest.scalers.len());
        let keys: usize = newest.scalers.values().map(|s| s.keys.len()).sum();
        assert!(keys > 1100, "{keys}");
        let constraints: usize = newest.scalers.values().map(|s| s.constraints.len()).sum();
        assert!(constraints > 270, "{constraints}");
        // A constraint that the last of its versions cannot read is misspelt.
        for version in Product::Keda.supported() {
            let until = format!(" until={version}");
            for (line, why) in Reader::read(KEYS, CONSTRAINTS, version).unwrap().without_keys {
                let ends = |raw: &str| raw.strip_suffix(&until).is_some_and(|raw| raw.starts_with(line));
                assert!(
                    version < Product::Keda.newest() && !CONSTRAINTS.lines().any(ends),
                    "{version}: {line}: {why}"
                );
            }
        }
        for key in newest.scalers.values().flat_map(|s| &s.keys) {
            assert_eq!(key.rejected_since.is_some(), !key.instead.is_empty(), "{}", key.name);
        }
    }

    #[test]
    fn what_is_not_valid_is_refused_with_its_line() {
        let keys = "# head\n[x]\na - int m\nb - list m\n";
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
        ] {
            let table: &'static str = format!("[x]\n{line} since=2.18\n").leak();
            let found = Reader::read(keys, table, keda(18)).unwrap().without_keys;
            assert_eq!(found, [(line, why.to_owned())]);
            assert!(Reader::read(keys, table, keda(17)).unwrap().without_keys.is_empty());
        }
        for (table, line, why) in [
            (keys, "= c - int m", "no key `c`"),
            (keys, "a - int m", "neither `?`, `=` nor `gone`"),
            (keys, "? need(a) since=new", "`new` is no version"),
        ] {
            let constraints: &'static str = format!("[x]\n{line}\n").leak();
            let error = Reader::read(table, constraints, keda(20)).map(drop);
            assert_eq!(error, Err(format!("line 2: {why}: {line}")));
        }
        for line in ["c ? string m", "c - text m", "[x]"] {
            let table: &'static str = format!("{keys}{line}\n").leak();
            assert!(Reader::read(table, "", keda(20)).is_err(), "{line}");
        }
        assert!(Reader::read("a - int m\n", "", keda(20)).is_err());
    }

    #[test]
    fn keys_say_where_they_are_read() {
        let prometheus = scaler("prometheus", keda(21)).unwrap();
        let threshold = prometheus.key("threshold").unwrap();
        assert!(threshold.required && threshold.reads(KeySource::Metadata));
        assert!(!threshold.reads(KeySource::Env) && !threshold.reads(KeySource::Authentication));
    }

    #[test]
    fn each_version_has_its_own_keys() {
        assert_eq!(type_added_after("clickhouse", keda(20)), Some(keda(21)));
        assert_eq!(type_added_after("clickhouse", keda(21)), None);
        assert!(scaler("stan", keda(18)).is_some() && scaler("stan", keda(19)).is_none());
        assert_eq!(key_added_after("kafka", "fullMetadata", keda(18)), Some(keda(21)));
        assert_eq!(key_read_before("graphite", "nothing", keda(21)), None);
        let endpoint =
            |minor| scaler("activemq", keda(minor)).unwrap().key("managementEndpoint").unwrap().sources.len();
        assert_eq!((endpoint(20), endpoint(21)), (1, 3));
        // A version that is not supported has the keys of the nearest one.
        assert!(scaler("clickhouse", keda(40)).is_some() && scaler("cron", keda(2)).is_some());
        let since = |minor| scaler("temporal", keda(minor)).unwrap().key("buildId").unwrap().rejected_since;
        assert_eq!((since(20), since(21)), (Some(keda(21)), Some(keda(21))));
    }
}
