//! The files of an input by path.

use std::collections::HashSet;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::OnceLock;

use gpulint_rules::{Fact, Object};

use crate::files::{Folders, Input, absolute};

#[derive(Clone, Debug)]
pub(crate) struct SetFile<'a> {
    pub(crate) input: &'a Input,
    /// The objects of the file; empty if it is a patch or not a manifest.
    pub(crate) objects: &'a [Object],
    /// What it shows of the cluster beside its objects, each with its line.
    pub(crate) facts: &'a [(Fact, u32)],
    /// The clusters to which its configuration assigns it: the index of the configuration, and the name.
    pub(crate) clusters: Vec<(usize, String)>,
}

/// The files of an input. Files of one folder are adjacent.
pub(super) struct Files<'a> {
    pub(super) list: &'a [SetFile<'a>],
    pub(super) folders: &'a Folders,
    /// The files sorted by the bytes of the path, so that all files below a folder are adjacent.
    sorted: Vec<(&'a Path, usize)>,
    /// The folders that contain files, directly or indirectly, sorted in the same way. They are computed on
    /// first use.
    all_folders: OnceLock<Vec<&'a Path>>,
}

/// Whether an input has a path; standard input without a name has none.
fn has_place(file: &SetFile<'_>) -> bool {
    file.input.stream.is_none() || !file.input.display_path.starts_with('<')
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// The common prefix of the paths of all files below a folder.
fn prefix(folder: &Path) -> Vec<u8> {
    let mut prefix = bytes(folder).to_vec();
    if prefix.last() != Some(&(MAIN_SEPARATOR as u8)) {
        prefix.push(MAIN_SEPARATOR as u8);
    }
    prefix
}

impl<'a> Files<'a> {
    pub(super) fn new(list: &'a [SetFile<'a>], folders: &'a Folders) -> Files<'a> {
        let placed = list.iter().enumerate().filter(|(_, file)| has_place(file));
        let mut sorted: Vec<(&Path, usize)> =
            placed.map(|(number, file)| (file.input.absolute.as_path(), number)).collect();
        sorted.sort_by(|a, b| bytes(a.0).cmp(bytes(b.0)));
        Files { list, folders, sorted, all_folders: OnceLock::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn at(&self, path: &Path) -> Option<usize> {
        let found = self.sorted.binary_search_by(|(known, _)| bytes(known).cmp(bytes(path)));
        found.ok().map(|at| self.sorted[at].1)
    }

    pub(super) fn folder(&self, file: usize) -> Option<&'a Path> {
        let file = &self.list[file];
        if has_place(file) { file.input.absolute.parent() } else { None }
    }

    pub(super) fn below(&self, folder: &Path) -> impl Iterator<Item = (&'a Path, usize)> + '_ {
        let prefix = prefix(folder);
        let start = self.sorted.partition_point(|(path, _)| bytes(path) < prefix.as_slice());
        self.sorted[start..].iter().copied().take_while(move |(path, _)| bytes(path).starts_with(&prefix))
    }

    pub(super) fn has_folder(&self, folder: &Path) -> bool {
        self.folders.kustomizations.contains_key(folder) || self.below(folder).next().is_some()
    }

    /// The folder as stored, if there are files below it.
    pub(super) fn folder_of(&self, folder: &Path) -> Option<&'a Path> {
        let (path, _) = self.below(folder).next()?;
        path.ancestors().find(|above| *above == folder)
    }

    /// All folders below a folder that contain files, directly or indirectly.
    pub(super) fn folders_below(&self, folder: &Path) -> impl Iterator<Item = &'a Path> + '_ {
        let all = self.all_folders.get_or_init(|| {
            let mut found: HashSet<&Path> = HashSet::new();
            for (path, _) in &self.sorted {
                let above = path.ancestors().skip(1);
                // Those above a folder that is known are known.
                for _ in above.take_while(|folder| found.insert(*folder)) {}
            }
            let mut all: Vec<&Path> = found.into_iter().collect();
            all.sort_by(|a, b| bytes(a).cmp(bytes(b)));
            all
        });
        let prefix = prefix(folder);
        let start = all.partition_point(|path| bytes(path) < prefix.as_slice());
        all[start..].iter().copied().take_while(move |path| bytes(path).starts_with(&prefix))
    }

    /// The current folder if it contains all files, otherwise the nearest folder that does.
    pub(super) fn root(&self) -> PathBuf {
        let first = self.sorted.first().and_then(|(path, _)| path.parent());
        let last = self.sorted.last().and_then(|(path, _)| path.parent());
        let (Some(first), Some(last)) = (first, last) else { return PathBuf::new() };
        let shared = first.components().zip(last.components()).take_while(|(a, b)| a == b);
        let common: PathBuf = shared.map(|(part, _)| part).collect();
        let here = absolute(Path::new("."));
        if common.starts_with(&here) { here } else { common }
    }
}
