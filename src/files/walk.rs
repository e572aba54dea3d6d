//! Finds the files below the given paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::directories::Directories;
use super::heredocs::{is_terraform, manifests_in};
use super::system::EntryType;
use super::unapplied::Unapplied;
use super::walker::{Entry, Walk, Walked};
use super::{Disk, SkipReason, Skipped, absolute, display_path, map_on_all_threads, system};

/// A file to read.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The path as reported.
    pub(crate) display_path: String,
    /// The path to open.
    pub(crate) path: PathBuf,
    pub(crate) absolute: PathBuf,
    /// Whether it was given as an argument, and not found in a folder.
    pub(crate) named: bool,
    /// The descriptor, if it is an open stream: 0 is standard input, others are those of a shell's `<(command)`.
    pub(crate) stream: Option<u32>,
    /// The reason why it is not applied to a cluster, if its path shows one. The file is then checked only on
    /// request, or if a kustomization lists it.
    pub(crate) unapplied: Option<SkipReason>,
}

#[derive(Debug, Default)]
pub(crate) struct FoundFiles {
    /// The files, sorted by the reported path.
    pub(crate) inputs: Vec<Input>,
    /// Entries that are not regular files.
    pub(crate) skipped: Vec<Skipped>,
    /// Number of files that each configuration ignores.
    pub(crate) ignored: BTreeMap<String, usize>,
    /// The absolute paths of the ignored files.
    pub(crate) excluded: Vec<PathBuf>,
    /// Paths that could not be read, with the reason.
    pub(crate) errors: Vec<String>,
    /// The content of the folders that were read.
    pub(crate) directories: Directories,
    /// The absolute paths of files in folders that may hold manifests and are not read, with the reason.
    pub(crate) unread: Vec<(SkipReason, PathBuf)>,
}

struct Candidate {
    input: Input,
    /// The absolute path with links resolved, if it is known.
    real: Option<PathBuf>,
}

/// Maximum number of files and folders to visit to explain why nothing was found.
const MAX_ENTRIES: usize = 100_000;

/// Finds the files under `paths`; `-` is standard input. It is reported under the name `stdin`, and so is
/// another stream if there is only one.
pub(crate) fn find(paths: &[PathBuf], stdin: &Path) -> FoundFiles {
    find_with_unsaved(paths, stdin, &[])
}

/// Finds files like [`find`], where those with the absolute paths `unsaved` exist as well, although they are only in an
/// editor.
pub(crate) fn find_with_unsaved(paths: &[PathBuf], stdin: &Path, unsaved: &[PathBuf]) -> FoundFiles {
    let mut found = FoundFiles { directories: Directories::of_unsaved(unsaved), ..FoundFiles::default() };
    let mut candidates = Vec::new();
    let mut linked = paths.len() > 1;
    let streams: BTreeSet<u32> = paths.iter().filter_map(|path| stream(path)).collect();
    for path in paths {
        let stream = stream(path);
        let mut push_stream = |number: u32| {
            let own = PathBuf::from(format!("<fd {number}>"));
            let name = if number == 0 || streams.len() == 1 { stdin } else { &own };
            let input = Input { stream: Some(number), path: path.clone(), ..named(name) };
            candidates.push(Candidate { input, real: None });
        };
        if path.as_os_str() == "-" {
            push_stream(0);
            continue;
        }
        match (system::entry_type(path), stream) {
            (Ok(of), Some(number)) if of != EntryType::Directory => push_stream(number),
            (Ok(EntryType::Directory), _) => linked |= walk(path, &mut found, &mut candidates),
            (Ok(EntryType::File), _) => match path.file_name().and_then(SkipReason::of_name) {
                // Many templates are YAML: one that is named is read.
                None | Some(SkipReason::TerraformTemplate | SkipReason::Template) => {
                    candidates.push(Candidate { input: named(path), real: None });
                }
                Some(SkipReason::Terraform) if has_manifests(path) => {
                    candidates.push(Candidate { input: named(path), real: None });
                }
                Some(reason) => found.skip(path, reason),
            },
            (Ok(_), _) => {
                found.errors.push(format!("{}: not a file", display_path(path)));
                found.skip(path, SkipReason::NotAFile);
            }
            (Err(error), _) if system::own_type(path).is_ok_and(|of| of == EntryType::Link) => {
                found.errors.push(format!("{}: {}", display_path(path), reason(&error)));
                found.skip(path, SkipReason::DanglingLink);
            }
            (Err(_), _) if unsaved.contains(&absolute(path)) => {
                candidates.push(Candidate { input: named(path), real: None });
            }
            (Err(error), _) => found.errors.push(format!("{}: {error}", display_path(path))),
        }
    }
    found.inputs = match linked {
        true => deduplicate(candidates),
        false => candidates.into_iter().map(|candidate| candidate.input).collect(),
    };
    found.inputs.sort_by(|a, b| a.display_path.cmp(&b.display_path));
    found
}

impl FoundFiles {
    fn skip(&mut self, path: &Path, reason: SkipReason) {
        self.skipped.push(Skipped { file: display_path(path), document: None, reason, partial: false });
    }
}

/// A file that was given as an argument.
fn named(path: &Path) -> Input {
    Input {
        display_path: display_path(path),
        path: path.to_owned(),
        absolute: absolute(path),
        named: true,
        stream: None,
        unapplied: None,
    }
}

/// The descriptor that a path names: standard input, or the one that a shell substitutes for `<(command)`.
fn stream(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "-" | "/dev/stdin" => Some(0),
        other => ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|of| other.strip_prefix(of))?.parse().ok(),
    }
}

/// The number of files with names of manifests that ignore files such as `.gitignore` hide below the folders
/// among some paths.
pub(crate) fn count_hidden(paths: &[PathBuf]) -> usize {
    let known = Directories::default();
    let manifests = |root: &Path, is_filtered: bool| {
        let walk = Walk { known: &known, is_filtered, limit: MAX_ENTRIES };
        let entries = walk.run(root, is_manifest_name).entries;
        entries.iter().filter(|entry| system::is_file(&entry.path)).count()
    };
    let hidden = paths.iter().filter(|path| system::is_dir(path));
    hidden.map(|root| manifests(root, false).saturating_sub(manifests(root, true))).sum()
}

/// Reads a folder. Returns whether it contains a link to a file.
fn walk(root: &Path, found: &mut FoundFiles, candidates: &mut Vec<Candidate>) -> bool {
    let walk = Walk { known: &found.directories, is_filtered: true, limit: usize::MAX };
    let Walked { entries, errors, directories, unread } = walk.run(root, is_manifest_name);
    let unread = map_on_all_threads(unread, |(reason, path): (SkipReason, PathBuf)| {
        let is_read = match reason {
            SkipReason::Terraform => has_manifests(&path),
            SkipReason::TerraformTemplate | SkipReason::Template => is_yaml_with_placeholders(&path),
            _ => false,
        };
        (is_read, reason, path)
    });
    let (read, unread): (Vec<_>, Vec<_>) = unread.into_iter().partition(|(is_read, ..)| *is_read);
    found.unread.extend(unread.into_iter().map(|(_, reason, path)| (reason, path)));
    found.errors.extend(errors);
    found.directories.extend(directories);
    let given = if root == Path::new(".") { Path::new("") } else { root };
    let root = absolute(root);
    let mut unapplied = Unapplied::below(&root);
    let mut linked = false;
    for (.., absolute) in read {
        let path = absolute.strip_prefix(&root).map_or_else(|_| absolute.clone(), |below| given.join(below));
        let unapplied = unapplied.reason(&absolute, &found.directories);
        let display_path = display_path(&path);
        let input = Input { display_path, path, absolute, named: false, stream: None, unapplied };
        candidates.push(Candidate { input, real: None });
    }
    for Entry { path, absolute, real, entry_type } in entries {
        let is_link = entry_type == EntryType::Link;
        if is_link {
            match system::entry_type(&path) {
                Ok(EntryType::File) => linked = true,
                // A link to a folder is not followed: the folder is read at its own path, or if it is given
                // as an argument.
                Ok(EntryType::Directory) => continue,
                Ok(_) => {
                    found.skip(&path, SkipReason::NotAFile);
                    continue;
                }
                Err(_) => {
                    found.skip(&path, SkipReason::DanglingLink);
                    continue;
                }
            }
        } else if entry_type != EntryType::File {
            found.skip(&path, SkipReason::NotAFile);
            continue;
        }
        let unapplied = unapplied.reason(&absolute, &found.directories);
        let display_path = display_path(&path);
        let input = Input { display_path, path, absolute, named: false, stream: None, unapplied };
        candidates.push(Candidate { input, real: (!is_link).then_some(real) });
    }
    linked
}

/// Whether a file of Terraform has manifests in its heredocs.
fn has_manifests(path: &Path) -> bool {
    is_terraform(path) && Disk::default().read_small(path).is_some_and(|text| manifests_in(&text).is_some())
}

/// Whether a template is a manifest as it stands: what is filled in are parts of its scalars. One whose result is beside it, under its
/// name without the end, is not read a second time.
fn is_yaml_with_placeholders(path: &Path) -> bool {
    !path.with_extension("").exists()
        && Disk::default().read_small(path).is_some_and(|text| is_filled_in_scalars(&text))
}

/// Whether a text is a manifest whose placeholders are all `${NAME}` in the middle of lines: `limits: ${LIMITS}` is a value, while
/// a line that begins with a placeholder may become any lines.
fn is_filled_in_scalars(text: &str) -> bool {
    const OTHERS: [&str; 4] = ["%{", "{{", "$${", "<%"];
    let has = |field: &str| text.lines().any(|line| line.starts_with(field));
    let is_name = |after: &str| {
        let name = after.split_once('}').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_in_scalar = |line: &str| !line.trim_start().starts_with("${");
    has("apiVersion:")
        && has("kind:")
        && !OTHERS.iter().any(|other| text.contains(other))
        && text.lines().all(is_in_scalar)
        && text.split("${").skip(1).all(is_name)
}

fn is_manifest_name(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|extension| {
        ["yaml", "yml", "json"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Removes duplicates of files that were given or linked several times. The given path is kept, or the
/// shortest.
fn deduplicate(candidates: Vec<Candidate>) -> Vec<Input> {
    let mut by_file: HashMap<PathBuf, Input> = HashMap::new();
    let mut streams: BTreeMap<u32, Input> = BTreeMap::new();
    for Candidate { input, real } in candidates {
        if let Some(number) = input.stream {
            streams.entry(number).or_insert(input);
            continue;
        }
        let real = real.or_else(|| system::canonicalize(&input.path).ok());
        let real = real.unwrap_or_else(|| input.absolute.clone());
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
