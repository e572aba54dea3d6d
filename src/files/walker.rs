//! Walks the folders below a root level by level, on all threads. The walk of the `ignore` crate does not
//! provide the content of folders to later look-ups of files in them; [`Directories`] has the figures.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::directories::{Directories, Directory};
use super::ignores::Ignores;
use super::system::EntryType;
use super::{SkipReason, absolute, display_path, map_on_all_threads, system};

/// Folders that contain no manifests of the user, or copies that a notebook server keeps.
const EXCLUDED_FOLDERS: [&str; 6] =
    [".git", ".hg", ".ipynb_checkpoints", ".svn", ".terraform", "node_modules"];

pub(super) struct Walk<'d> {
    /// Folders that are known and need not be read.
    pub(super) known: &'d Directories,
    /// Whether ignore files apply.
    pub(super) is_filtered: bool,
    /// Maximum number of entries; after these no folder is read.
    pub(super) limit: usize,
}

#[derive(Debug, Default)]
pub(super) struct Walked {
    /// All entries except folders, in the order of the levels; those of a level are sorted by path.
    pub(super) entries: Vec<Entry>,
    /// Paths that could not be read, with the reason.
    pub(super) errors: Vec<String>,
    /// The content of the folders that were read.
    pub(super) directories: Directories,
    /// The absolute paths of files that may hold manifests and are not read, with the reason.
    pub(super) unread: Vec<(SkipReason, PathBuf)>,
}

/// A file, a link, or something else.
#[derive(Debug)]
pub(super) struct Entry {
    /// The path below the root as it was given, without `./` in front.
    pub(super) path: PathBuf,
    pub(super) absolute: PathBuf,
    /// The absolute path with links resolved, except for the entry itself.
    pub(super) real: PathBuf,
    pub(super) entry_type: EntryType,
}

struct Folder {
    path: PathBuf,
    absolute: PathBuf,
    real: PathBuf,
    /// The ignore files of the folders above.
    ignores: Ignores,
}

#[derive(Default)]
struct FolderRead {
    entries: Vec<Entry>,
    folders: Vec<Folder>,
    /// Number of entries, including ignored ones.
    count: usize,
    unread: Vec<(SkipReason, PathBuf)>,
    directory: Option<(PathBuf, Directory)>,
    error: Option<String>,
}

impl Walk<'_> {
    /// Walks the folder `root`. Leaves out entries whose name `is_wanted` rejects. Does not follow links.
    pub(super) fn run(&self, root: &Path, is_wanted: impl Fn(&OsStr) -> bool + Sync) -> Walked {
        let path = if root == Path::new(".") { PathBuf::new() } else { root.to_owned() };
        let absolute = absolute(root);
        let real = system::canonicalize(root).unwrap_or_else(|_| absolute.clone());
        let ignores = if self.is_filtered { Ignores::above(&real) } else { Ignores::default() };
        let mut level = vec![Folder { path, absolute, real, ignores }];
        let mut walked = Walked::default();
        let mut count = 0;
        while !level.is_empty() && count < self.limit {
            let folders = std::mem::take(&mut level);
            for folder in map_on_all_threads(folders, |folder| self.read(folder, &is_wanted)) {
                count += folder.count;
                walked.entries.extend(folder.entries);
                walked.errors.extend(folder.error);
                walked.unread.extend(folder.unread);
                level.extend(folder.folders);
                if let Some((path, directory)) = folder.directory {
                    walked.directories.add(path, directory);
                }
            }
        }
        walked
    }

    fn read(&self, folder: Folder, is_wanted: impl Fn(&OsStr) -> bool) -> FolderRead {
        let Folder { path, absolute, real, ignores } = folder;
        let mut read = FolderRead::default();
        let known = self.known.known(&absolute);
        let own = match known.map_or_else(|| Directory::read(&absolute).map(Some), |_| Ok(None)) {
            Ok(own) => own,
            Err(error) => {
                read.error = Some(format!("{}: {error}", display_path(&path)));
                return read;
            }
        };
        let Some(directory) = own.as_ref().or(known) else { return read };
        let ignores = match self.is_filtered {
            true => ignores.with_folder(&real, |name| directory.entry_type(name).is_some()),
            false => ignores,
        };
        for (name, entry_type) in directory.entries() {
            read.count += 1;
            let is_folder = entry_type == EntryType::Directory;
            let is_left_out = match is_folder {
                true => EXCLUDED_FOLDERS.iter().any(|never| name == *never),
                false => !is_wanted(name),
            };
            let unread = SkipReason::of_name(name).filter(|_| is_left_out && !is_folder);
            if is_left_out && unread.is_none() {
                continue;
            }
            let real = real.join(name);
            if ignores.is_ignored(&real, is_folder) {
                continue;
            }
            if let Some(reason) = unread {
                if reason != SkipReason::Archive || !is_of_dependencies(&absolute) {
                    read.unread.push((reason, absolute.join(name)));
                }
                continue;
            }
            let (path, absolute) = (path.join(name), absolute.join(name));
            match is_folder {
                true => read.folders.push(Folder { path, absolute, real, ignores: ignores.clone() }),
                false => read.entries.push(Entry { path, absolute, real, entry_type }),
            }
        }
        read.directory = own.map(|directory| (absolute, directory));
        read
    }
}

/// Whether a folder has the packed dependencies of a chart, which helm reads where it renders the chart.
fn is_of_dependencies(folder: &Path) -> bool {
    folder.ends_with("charts") && folder.parent().is_some_and(|chart| chart.join("Chart.yaml").is_file())
}
