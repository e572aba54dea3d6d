//! What comes of reading a file, and the outcomes that a run keeps.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use gpulint_rules::source::Source;
use gpulint_rules::{Fact, File};

use super::Skipped;

#[derive(Clone, Debug, Default)]
pub(crate) struct ReadOutcome {
    /// The part that is checked; `None` if nothing is.
    pub(crate) file: Option<File>,
    /// Whether it counts as a manifest. A patch is checked but does not count.
    pub(crate) manifest: bool,
    /// The parts that are not checked, or only partially.
    pub(crate) skipped: Vec<Skipped>,
    /// What a file that is no manifest shows of the cluster, each with its line.
    pub(crate) facts: Vec<(Fact, u32)>,
    /// The reason why the file could not be read.
    pub(crate) error: Option<String>,
    /// The content of a stream, which is written to standard output when it is fixed.
    pub(crate) stream: Option<Vec<u8>>,
}

/// A file as it was read, with what decides how it is read beside its source.
#[derive(Debug)]
struct Known {
    source: Arc<Source>,
    is_named: bool,
    is_patch: bool,
    read: ReadOutcome,
}

/// The files that were read in several states, by the path that is reported: what is equal in two of them is read once.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles(RwLock<HashMap<String, Known>>);

impl KnownFiles {
    pub(super) fn find(&self, source: &Source, is_named: bool, is_patch: bool) -> Option<ReadOutcome> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(source.path())?;
        let is_same =
            known.is_named == is_named && known.is_patch == is_patch && known.source.is_same(source);
        is_same.then(|| known.read.clone())
    }

    pub(super) fn keep(&self, source: Arc<Source>, is_named: bool, is_patch: bool, read: &ReadOutcome) {
        let path = source.path().to_owned();
        let known = Known { source, is_named, is_patch, read: read.clone() };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(path, known);
    }
}
