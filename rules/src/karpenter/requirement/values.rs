//! The values of a requirement.

use std::ops::Deref;

/// A set of values, sorted. Most have one to four, which take 24 bytes each; a `BTreeSet` allocates a node for eleven,
/// 280 bytes, and every NodePool keeps several sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values(Box<[String]>);

impl Values {
    /// Whether the value is in the set.
    pub fn contains(&self, value: &str) -> bool {
        self.0.binary_search_by(|own| own.as_str().cmp(value)).is_ok()
    }
}

impl Deref for Values {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl FromIterator<String> for Values {
    fn from_iter<I: IntoIterator<Item = String>>(values: I) -> Values {
        let mut values: Vec<String> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Values(values.into_boxed_slice())
    }
}

impl<'a> IntoIterator for &'a Values {
    type Item = &'a String;
    type IntoIter = std::slice::Iter<'a, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
