//! The files of the user that rendered text comes from. Each is read once, under the path that is reported.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gpulint_rules::source::Source;

use crate::batch::ScopedInput;
use crate::files::{display_path, short_path};

#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The reported path of each folder, by absolute path.
    folders: HashMap<PathBuf, String>,
    inputs: HashMap<PathBuf, String>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_path: HashMap<PathBuf, Option<Arc<Source>>>,
    absolute: HashMap<String, PathBuf>,
    /// Folders whose `Chart.yaml` or kustomization is part of the input: all files that they reach are part
    /// of it as well.
    whole: BTreeSet<PathBuf>,
    /// Files that are part of the input because a chart or kustomization in the input reaches them.
    included: BTreeSet<PathBuf>,
    /// Files below those folders that the configuration excludes.
    excluded: BTreeSet<PathBuf>,
}

impl Sources {
    pub(crate) fn new(inputs: &[ScopedInput]) -> Sources {
        let mut sources = Sources::default();
        for one in inputs.iter().filter(|one| one.input.stream.is_none()) {
            let input = &one.input;
            sources.inputs.insert(input.absolute.clone(), input.display_path.clone());
            let mut folder = input.absolute.parent();
            let mut shown = input.display_path.as_str();
            while let Some(path) = folder {
                shown = shown.rsplit_once('/').map_or("", |(above, _)| above);
                if shown.is_empty() && input.display_path.starts_with('/') {
                    break;
                }
                let known = sources.folders.insert(path.to_owned(), shown.to_owned()).is_some();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if known || shown.is_empty() || shown.rsplit('/').next() != Some(&*name) {
                    break;
                }
                folder = path.parent();
            }
        }
        sources
    }

    /// The reported path of a file or folder; empty for the current folder.
    pub(crate) fn shown(&self, path: &Path) -> String {
        if let Some(shown) = self.inputs.get(path) {
            return shown.clone();
        }
        for folder in path.ancestors() {
            if let Some(shown) = self.folders.get(folder) {
                let below = display_path(path.strip_prefix(folder).unwrap_or(Path::new("")));
                return match (shown.is_empty(), below.is_empty()) {
                    (true, _) => below,
                    (false, true) => shown.clone(),
                    (false, false) => format!("{shown}/{below}"),
                };
            }
        }
        short_path(path)
    }

    /// The reported path of a folder, which may be the current one.
    pub(crate) fn shown_folder(&self, path: &Path) -> String {
        let shown = self.shown(path);
        if shown.is_empty() { ".".to_owned() } else { shown }
    }

    /// The text of a file.
    pub(crate) fn get(&self, path: &Path) -> Option<Arc<Source>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = known.by_path.get(path) {
            return source.clone();
        }
        let shown = self.shown(path);
        let source = fs::read(path).ok().map(|bytes| Arc::new(Source::new(&shown, bytes)));
        known.by_path.insert(path.to_owned(), source.clone());
        known.absolute.insert(shown, path.to_owned());
        source
    }

    /// The file that is reported under a path, if it was read.
    pub(crate) fn absolute(&self, shown: &str) -> Option<PathBuf> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.absolute.get(shown).cloned()
    }

    /// Records that all files of a folder are part of the input.
    pub(crate) fn add_whole(&self, folder: &Path) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.whole.insert(folder.to_owned());
    }

    /// Records that a file is part of the input.
    pub(crate) fn include(&self, file: &Path) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.included.insert(file.to_owned());
    }

    /// Records that the configuration excludes a file.
    pub(crate) fn exclude(&self, file: &Path) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.excluded.insert(file.to_owned());
    }

    /// Whether a file is part of the input because a chart or kustomization in the input reaches it.
    pub(crate) fn is_part(&self, file: &Path) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let below_whole = || file.ancestors().skip(1).any(|folder| known.whole.contains(folder));
        !known.excluded.contains(file) && (known.included.contains(file) || below_whole())
    }
}
