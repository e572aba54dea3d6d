//! A state of the manifests as a folder: the working tree, a folder that the user names, or a revision of git, which stands in
//! the file system for gpulint alone; its files are written into a temporary folder only where programs render them. Work on a
//! state is done with its folder as the current one, so that its files, configurations and paths are those of a run of gpulint
//! there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::error::CliError;
use crate::files;
use crate::files::{Revision, Standing};
use crate::git::{Commit, Entry, EntryKind, Repository};
use crate::interrupt::Temporary;

/// Maximum size of a file that is written of a revision, in bytes; of a larger one there is only the name.
const MAX_BYTES: usize = 32 << 20;
/// Endings of files whose content says nothing about manifests; only their names are written.
const MEDIA: [&str; 24] = [
    "png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "mp4", "mov", "webm", "mp3", "wav", "pdf", "woff",
    "woff2", "ttf", "otf", "jar", "war", "so", "dylib", "dll", "exe", "parquet",
];

/// Endings of files without which manifests are read as something else. What partial clones lack of JSON is data by its size.
const READ: [&str; 6] = ["yaml", "yml", "tpl", "tf", "tofu", "tfvars"];

/// A state of the manifests.
pub(crate) struct Checkout {
    /// The folder that is the current one while the state is worked on.
    folder: PathBuf,
    /// The folder to which the paths of findings are relative.
    root: PathBuf,
    /// How reports call the state.
    pub(crate) name: String,
    held: Held,
}

/// Holds the files of a revision.
enum Held {
    Nothing,
    Files {
        _held: Temporary,
    },
    /// At a path of its own.
    Apart {
        _held: Standing,
    },
    /// In the place of the working tree, while work on it is done.
    Over(Arc<Revision>),
}

/// Where the files of a revision are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a temporary folder, for programs that run there.
    Disk,
    /// At a path of their own, so that the working tree is read beside them.
    Apart,
    /// In the place of the working tree while work on them is done: equal files of both are read once.
    Over,
}

impl Checkout {
    /// The folder as it is, with paths relative to `root`.
    pub(crate) fn of_folder(folder: &Path, root: &Path, name: String) -> Checkout {
        Checkout { folder: files::absolute(folder), root: files::absolute(root), name, held: Held::Nothing }
    }

    /// The files of a commit, on disk as well where its configuration has programs read them. `folder` is the absolute path of
    /// the current folder, in the repository, and `paths` are those that the user asks about. A file that the repository lacks,
    /// as in a partial clone, counts only if it is a manifest or a configuration among them.
    ///
    /// # Errors
    /// Says what cannot be read or written.
    pub(crate) fn of_commit(
        repository: &Repository,
        commit: Commit,
        folder: &Path,
        paths: &[PathBuf],
        name: String,
        place: Place,
    ) -> Result<Checkout, CliError> {
        let entries = repository.files(commit).map_err(CliError::Usage)?;
        Checkout::of_entries(repository, entries, folder, paths, name, place)
    }

    /// Like [`Checkout::of_commit`], with these files.
    ///
    /// # Errors
    /// Says what cannot be read or written.
    pub(crate) fn of_entries(
        repository: &Repository,
        mut entries: Vec<Entry>,
        folder: &Path,
        paths: &[PathBuf],
        name: String,
        place: Place,
    ) -> Result<Checkout, CliError> {
        let below = folder.strip_prefix(repository.root()).unwrap_or(Path::new(""));
        entries.retain(|entry| is_plain(&entry.path));
        let is_written =
            place == Place::Disk || entries.iter().any(|entry| asks_to_render(repository, entry));
        // Where nothing else names a set, the folder does.
        let own_name = repository.root().file_name().unwrap_or("root".as_ref());
        let temporary = match is_written {
            true => Some(
                temporary_folder()
                    .map_err(|error| CliError::Usage(format!("no temporary folder for `{name}`: {error}")))?,
            ),
            false => None,
        };
        let root = match &temporary {
            Some(temporary) => temporary.path().join(own_name),
            None if place == Place::Over => repository.root().to_owned(),
            None => temporary_path().join(own_name),
        };
        let asked = |path: &Path| {
            let asked = paths.iter().map(|asked| match asked.strip_prefix(repository.root()) {
                Ok(inside) => root.join(inside),
                Err(_) => files::absolute(&root.join(below).join(asked)),
            });
            is_read(path) && asked.into_iter().any(|asked| root.join(path).starts_with(asked))
        };
        let Some(temporary) = temporary else {
            if let Some(lacking) = entries.iter().find(|entry| asked(&entry.path) && !repository.has(entry)) {
                return Err(CliError::Usage(repository.content(lacking).err().unwrap_or_default()));
            }
            let there = entries.into_iter().filter(|entry| repository.has(entry));
            let files = there.map(|entry| (entry.path, entry.kind, entry.content));
            // The root of a repository is where a search upwards ends.
            let folders = [Path::new(".git"), below];
            let revision = Arc::new(Revision::new(root.clone(), repository.store(), files, &folders));
            let held = match place {
                Place::Over => Held::Over(revision),
                _ => Held::Apart { _held: Standing::of(&revision) },
            };
            return Ok(Checkout { folder: root.join(below), root, name, held });
        };
        write(repository, &entries, &root, &asked)?;
        let folder = root.join(below);
        let fails = |error: io::Error| CliError::Usage(format!("`{name}`: {error}"));
        fs::create_dir_all(&folder).map_err(fails)?;
        // The root of a repository is where a search upwards ends.
        fs::create_dir_all(root.join(".git")).map_err(fails)?;
        Ok(Checkout { folder, root, name, held: Held::Files { _held: temporary } })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path of the user in this state: that below the root of a repository, in another state of it.
    pub(crate) fn path(&self, path: &Path, root: &Path) -> PathBuf {
        match path.is_absolute().then(|| path.strip_prefix(root).ok()).flatten() {
            Some(below) => self.root.join(below),
            None => path.to_owned(),
        }
    }

    /// Works with the folder of the state as the current one.
    ///
    /// # Errors
    /// Those of the work, and if the folder cannot be entered.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> Result<T, CliError>) -> Result<T, CliError> {
        let enter = |folder: &Path| {
            files::enter(folder)
                .map_err(|error| CliError::Usage(format!("{}: {error}", files::display_path(folder))))
        };
        let _over = match &self.held {
            Held::Over(revision) => Some(Standing::of(revision)),
            _ => None,
        };
        let here = files::here();
        enter(&self.folder)?;
        let done = work();
        enter(&here)?;
        done
    }
}

/// Whether a file is a configuration that has charts or kustomizations rendered, so that programs read the files.
fn asks_to_render(repository: &Repository, entry: &Entry) -> bool {
    files::is_configuration(&entry.path)
        && repository.content(entry).is_ok_and(|text| memchr::memmem::find(&text, b"render").is_some())
}

/// A path that nothing has.
fn temporary_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let parent = fs::canonicalize(std::env::temp_dir()).unwrap_or_else(|_| std::env::temp_dir());
    parent.join(format!("gpulint-{}-{number}", std::process::id()))
}

/// Makes a temporary folder that only its owner can read.
pub(crate) fn temporary_folder() -> io::Result<Temporary> {
    let path = temporary_path();
    let private = |path: &Path| {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)
    };
    Ok(Temporary::create(path, private)?.0)
}

/// Whether a file of this name is a manifest, a configuration or something that is rendered with them.
fn is_read(path: &Path) -> bool {
    path.extension().is_some_and(|ending| READ.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// Writes the files of a revision below a folder. One that cannot be read is an error if it was asked about.
fn write(
    repository: &Repository,
    entries: &[Entry],
    root: &Path,
    asked: &dyn Fn(&Path) -> bool,
) -> Result<(), CliError> {
    let folders: BTreeSet<&Path> = entries.iter().filter_map(|entry| entry.path.parent()).collect();
    let fails = |path: &Path, error: &io::Error| {
        CliError::Usage(format!("{} of a revision cannot be written: {error}", path.display()))
    };
    for folder in std::iter::once(Path::new("")).chain(folders) {
        fs::create_dir_all(root.join(folder)).map_err(|error| fails(folder, &error))?;
    }
    let mut contents = Vec::with_capacity(entries.len());
    for entry in entries {
        let is_media =
            entry.path.extension().is_some_and(|ending| MEDIA.iter().any(|known| ending == *known));
        contents.push(if is_media {
            Some(Vec::new())
        } else {
            match repository.content(entry) {
                Ok(content) => Some(content),
                Err(error) if asked(&entry.path) => return Err(CliError::Usage(error)),
                Err(_) => None,
            }
        });
    }
    let files = entries.par_iter().zip(&contents).filter(|(entry, _)| entry.kind == EntryKind::File);
    files.filter_map(|(entry, content)| Some((entry, content.as_ref()?))).try_for_each(
        |(entry, content)| {
            let content = if content.len() > MAX_BYTES { &[][..] } else { content.as_slice() };
            fs::write(root.join(&entry.path), content).map_err(|error| fails(&entry.path, &error))
        },
    )?;
    // Links come last, so that no file is written through one.
    for (entry, content) in entries.iter().zip(&contents).filter(|(entry, _)| entry.kind == EntryKind::Link) {
        if let Some(content) = content {
            link(&root.join(&entry.path), content);
        }
    }
    Ok(())
}

/// Whether a path stays below the folder that it is written into, and is not part of a repository.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    })
}

/// Makes a symbolic link, if the target is relative; other links lead out of every revision.
fn link(path: &Path, target: &[u8]) {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let target = Path::new(std::ffi::OsStr::from_bytes(target));
        if target.is_relative() {
            // A link that cannot be made is one that leads nowhere.
            let _ = std::os::unix::fs::symlink(target, path);
        }
    }
    #[cfg(not(unix))]
    let _ = (path, target);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_plain;

    #[test]
    fn paths_of_a_revision_stay_in_its_folder() {
        for (path, plain) in [
            ("a/b.yaml", true),
            ("../a.yaml", false),
            ("a/../../b.yaml", false),
            ("/etc/passwd", false),
            (".git/config", false),
            ("a/.GIT/hooks/pre-commit", false),
            (".github/workflows/a.yaml", true),
        ] {
            assert_eq!(is_plain(Path::new(path)), plain, "{path}");
        }
    }
}
