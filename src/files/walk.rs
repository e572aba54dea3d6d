//! Finds the files below the given paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

use super::unapplied::Unapplied;
use super::{SkipReason, Skipped, absolute, display_path};

/// A file to read.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The path as reported.
    pub(crate) display_path: String,
    /// The path to open.
    pub(crate) path: PathBuf,
    /// The absolute path.
    pub(crate) absolute: PathBuf,
    /// Whether it was given as an argument, not found in a folder.
    pub(crate) named: bool,
    /// The descriptor, if it is an open stream: 0 is standard input, others are those of a shell's `<(command)`.
    pub(crate) stream: Option<u32>,
    /// Why it is not applied to a cluster, if its path says so: it is checked only on request, or if a
    /// kustomization lists it.
    pub(crate) unapplied: Option<SkipReason>,
}

/// The files below the paths.
#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    /// Sorted by the reported path.
    pub(crate) inputs: Vec<Input>,
    /// Entries that are not regular files.
    pub(crate) skipped: Vec<Skipped>,
    /// How many files each configuration ignores.
    pub(crate) ignored: BTreeMap<String, usize>,
    /// The absolute paths of those files.
    pub(crate) excluded: Vec<PathBuf>,
    /// Paths that could not be read, with the reason.
    pub(crate) errors: Vec<String>,
}

/// Folders that contain no manifests of the user.
pub(super) const EXCLUDED_FOLDERS: [&str; 5] = [".git", ".hg", ".svn", ".terraform", "node_modules"];

/// How many files and folders are looked at to say why nothing was found.
const MAX_ENTRIES: usize = 100_000;

/// Finds the files under `paths`; `-` is standard input. It is reported under the name `stdin`, and so is another stream if
/// there is only one.
pub(crate) fn find(paths: &[PathBuf], stdin: &Path) -> FoundFiles {
    let mut found = FoundFiles::default();
    let mut linked = paths.len() > 1;
    let streams: BTreeSet<u32> = paths.iter().filter_map(|path| stream(path)).collect();
    for path in paths {
        let stream = stream(path);
        let mut push_stream = |number: u32| {
            let own = PathBuf::from(format!("<fd {number}>"));
            let name = if number == 0 || streams.len() == 1 { stdin } else { &own };
            found.inputs.push(Input { stream: Some(number), path: path.clone(), ..input(name, true) });
        };
        if path.as_os_str() == "-" {
            push_stream(0);
            continue;
        }
        match (fs::metadata(path), stream) {
            (Ok(data), Some(number)) if !data.is_dir() => push_stream(number),
            (Ok(data), _) if data.is_dir() => linked |= walk(path, &mut found),
            (Ok(data), _) if data.is_file() => found.inputs.push(input(path, true)),
            (Ok(_), _) => {
                found.errors.push(format!("{}: not a file", display_path(path)));
                found.skip(path, SkipReason::NotAFile);
            }
            (Err(error), _) if fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) => {
                found.errors.push(format!("{}: {}", display_path(path), reason(&error)));
                found.skip(path, SkipReason::DanglingLink);
            }
            (Err(error), _) => found.errors.push(format!("{}: {error}", display_path(path))),
        }
    }
    if linked {
        found.inputs = deduplicate(std::mem::take(&mut found.inputs));
    }
    found.inputs.sort_by(|a, b| a.display_path.cmp(&b.display_path));
    found
}

impl FoundFiles {
    fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.skipped.push(Skipped { file: display_path(path), document: None, reason, partial: false });
    }
}

fn input(path: &Path, named: bool) -> Input {
    Input {
        display_path: display_path(path),
        path: path.to_owned(),
        absolute: absolute(path),
        named,
        stream: None,
        unapplied: None,
    }
}

/// The descriptor that a path names: standard input, or what a shell puts in the place of `<(command)`.
fn stream(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "-" | "/dev/stdin" => Some(0),
        other => ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|of| other.strip_prefix(of))?.parse().ok(),
    }
}

/// A walk of a folder, without what is never a manifest of the user.
fn walker(root: &Path) -> WalkBuilder {
    let mut walker = WalkBuilder::new(root);
    walker.hidden(false).require_git(false).git_global(false).follow_links(false).filter_entry(|entry| {
        entry.depth() == 0
            || !entry.file_type().is_some_and(|t| t.is_dir())
            || !EXCLUDED_FOLDERS.iter().any(|never| entry.file_name() == *never)
    });
    walker
}

/// How many files with names of manifests ignore files such as `.gitignore` hide below the folders among some paths.
pub(crate) fn count_hidden(paths: &[PathBuf]) -> usize {
    let manifests = |walker: &WalkBuilder| {
        let entries = walker.build().take(MAX_ENTRIES).flatten();
        entries
            .filter(|entry| entry.depth() > 0 && entry.path().is_file() && is_manifest_name(entry.path()))
            .count()
    };
    let hidden = paths.iter().filter(|path| path.is_dir()).map(|root| {
        let mut all = walker(root);
        all.ignore(false).git_ignore(false).git_exclude(false).parents(false);
        manifests(&all).saturating_sub(manifests(&walker(root)))
    });
    hidden.sum()
}

/// Reads a folder. Returns whether it contains a link to a file.
fn walk(root: &Path, found: &mut FoundFiles) -> bool {
    let mut linked = false;
    let mut unapplied = Unapplied::below(root);
    let entries = walker(root).build();
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.errors.push(error.to_string());
                continue;
            }
        };
        let Some(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() || entry.depth() == 0 || !is_manifest_name(entry.path()) {
            continue;
        }
        let path = strip_current_dir(root, entry.path());
        let mut push = || {
            found.inputs.push(Input { unapplied: unapplied.reason(entry.path()), ..input(path, false) });
        };
        if kind.is_file() {
            push();
        } else if kind.is_symlink() {
            match fs::metadata(path) {
                Ok(data) if data.is_file() => {
                    linked = true;
                    push();
                }
                // A link to a folder is not followed: the folder is read at its own path, or if given as an
                // argument.
                Ok(data) if data.is_dir() => {}
                Ok(_) => found.skip(path, SkipReason::NotAFile),
                Err(_) => found.skip(path, SkipReason::DanglingLink),
            }
        } else {
            found.skip(path, SkipReason::NotAFile);
        }
    }
    linked
}

/// Removes a leading `./` of paths in the current folder.
fn strip_current_dir<'a>(root: &Path, path: &'a Path) -> &'a Path {
    if root == Path::new(".") { path.strip_prefix(".").unwrap_or(path) } else { path }
}

fn is_manifest_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Removes duplicates of files that were given or linked several times. The given path is kept, or the
/// shortest.
fn deduplicate(inputs: Vec<Input>) -> Vec<Input> {
    let mut by_file: BTreeMap<PathBuf, Input> = BTreeMap::new();
    let mut streams: BTreeMap<u32, Input> = BTreeMap::new();
    for input in inputs {
        if let Some(number) = input.stream {
            streams.entry(number).or_insert(input);
            continue;
        }
        let real = fs::canonicalize(&input.path).unwrap_or_else(|_| input.absolute.clone());
        let rank = |i: &Input| (!i.named, i.absolute != real, i.display_path.len(), i.display_path.clone());
        match by_file.get_mut(&real) {
            Some(known) if rank(known) <= rank(&input) => {}
            Some(known) => *known = input,
            None => {
                by_file.insert(real, input);
            }
        }
    }
    streams.into_values().chain(by_file.into_values()).collect()
}

fn reason(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        "a link to what is not there".to_owned()
    } else {
        error.to_string()
    }
}
