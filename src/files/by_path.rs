//! Maps and sets of absolute paths, none of which has parts that mean nothing: they are compared and hashed as bytes.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Values by path.
#[derive(Clone, Debug)]
pub(crate) struct PathMap<V> {
    values: HashMap<OsString, V, RandomState>,
}

impl<V> Default for PathMap<V> {
    fn default() -> PathMap<V> {
        PathMap { values: HashMap::default() }
    }
}

impl<V> PathMap<V> {
    pub(crate) fn get(&self, path: &Path) -> Option<&V> {
        self.values.get(path.as_os_str())
    }

    pub(crate) fn insert(&mut self, path: PathBuf, value: V) -> Option<V> {
        self.values.insert(path.into_os_string(), value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn extend(&mut self, others: PathMap<V>) {
        match self.is_empty() {
            true => self.values = others.values,
            false => self.values.extend(others.values),
        }
    }
}

impl<V: Default> PathMap<V> {
    /// The value of a path, a default one if it has none.
    pub(crate) fn get_or_default(&mut self, path: PathBuf) -> &mut V {
        match self.values.entry(path.into_os_string()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(V::default()),
        }
    }
}

impl<T> PathMap<Vec<T>> {
    /// The same, each list to be shared.
    pub(crate) fn into_shared(self) -> PathMap<Arc<[T]>> {
        let values = self.values.into_iter().map(|(path, list)| (path, Arc::from(list)));
        PathMap { values: values.collect() }
    }
}

impl<T> PathMap<Arc<[T]>> {
    /// The list of a path; an empty one if it has none.
    pub(crate) fn list(&self, path: &Path) -> Arc<[T]> {
        self.get(path).cloned().unwrap_or_default()
    }
}

/// Paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSet {
    paths: HashSet<OsString, RandomState>,
}

impl PathSet {
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.paths.contains(path.as_os_str())
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        self.paths.remove(path.as_os_str());
    }

    /// The paths in their order.
    pub(crate) fn sorted(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self.paths.iter().map(Path::new).collect();
        paths.sort_unstable_by(|a, b| in_order(a, b));
        paths
    }
}

impl Extend<PathBuf> for PathSet {
    fn extend<I: IntoIterator<Item = PathBuf>>(&mut self, paths: I) {
        self.paths.extend(paths.into_iter().map(PathBuf::into_os_string));
    }
}

impl FromIterator<PathBuf> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathBuf>>(paths: I) -> PathSet {
        let mut set = PathSet::default();
        set.extend(paths);
        set
    }
}

/// Paths that others own.
pub(crate) type BorrowedPaths<'a> = HashSet<&'a OsStr, RandomState>;

/// The order of two paths by their parts, which is that of [`Path`].
pub(crate) fn in_order(a: &Path, b: &Path) -> Ordering {
    let (a, b) = (a.as_os_str().as_encoded_bytes(), b.as_os_str().as_encoded_bytes());
    let differ = a.iter().zip(b).find(|(a, b)| a != b);
    // A folder is before all whose names begin as its own does.
    let rank = |byte: u8| if byte == MAIN_SEPARATOR as u8 { 0 } else { u16::from(byte) + 1 };
    differ.map_or_else(|| a.len().cmp(&b.len()), |(a, b)| rank(*a).cmp(&rank(*b)))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use gpulint_testing::Dice;

    use super::in_order;

    #[test]
    fn the_order_is_that_of_paths() {
        const PARTS: [&str; 7] = ["a", "a-b", "a.b", "ab", "b", "a/b", "é"];
        let mut dice = Dice(7);
        let mut path = || -> PathBuf {
            let parts = (0..dice.below(4)).map(|_| *dice.one(&PARTS));
            std::iter::once("/").chain(parts.collect::<Vec<_>>()).collect()
        };
        for _ in 0..10_000 {
            let (a, b) = (path(), path());
            assert_eq!(in_order(&a, &b), a.cmp(&b), "{} {}", a.display(), b.display());
        }
        assert!(in_order(Path::new("/a/b"), Path::new("/a-b")).is_lt());
    }
}
