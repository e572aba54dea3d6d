//! The two sides of a change, from the arguments.

use std::path::{Path, PathBuf};

use crate::args::PlanArgs;
use crate::checkout::{Checkout, Place};
use crate::error::CliError;
use crate::files;
use crate::git::{Commit, Content, Entry, EntryKind, Repository};
use crate::terminal::count;

/// How the working tree is called.
const WORKING_TREE: &str = "the working tree";

pub(super) struct Sides {
    pub(super) before: Checkout,
    pub(super) after: Checkout,
    /// The paths to look at, as the user wrote them.
    pub(super) paths: Vec<PathBuf>,
    /// The folder below which an absolute path of the user is looked for on both sides.
    pub(super) root: PathBuf,
}

/// What the first argument says.
enum Revisions<'a> {
    /// The default branch and the working tree.
    Default,
    /// A revision and the working tree.
    Since(&'a str),
    Between(&'a str, &'a str),
    /// The second revision, since it left the first.
    Parted(&'a str, &'a str),
}

impl Sides {
    pub(super) fn of(args: &PlanArgs) -> Result<Sides, CliError> {
        if let (Some(before), Some(after)) = (&args.before, &args.after) {
            return folders(before, after, &args.what);
        }
        let here = files::absolute(Path::new("."));
        let no_repository =
            |error| CliError::Usage(format!("{error}; --before DIR --after DIR compare two folders"));
        let repository = Repository::around(&here).map_err(no_repository)?;
        let (revisions, paths) = parse(&args.what, &repository)?;
        let (base, base_name, tip) = resolve(&revisions, &repository).map_err(CliError::Usage)?;
        if tip.is_none() && repository.is_bare {
            let root = repository.root().display();
            return Err(CliError::Usage(format!(
                "{root} has no working tree; name two revisions, as BASE..HEAD"
            )));
        }
        Sides::of_commits(&repository, (base, base_name), tip, &here, paths, place(args))
    }

    /// A commit and what is in `folder`, a folder of its repository, now.
    pub(super) fn since(
        repository: &Repository,
        commit: Commit,
        name: &str,
        folder: &Path,
    ) -> Result<Sides, CliError> {
        let paths = or_here(Vec::new());
        Sides::of_commits(repository, (commit, name.to_owned()), None, folder, paths, Place::Apart)
    }

    fn of_commits(
        repository: &Repository,
        (base, base_name): (Commit, String),
        tip: Option<(Commit, String)>,
        folder: &Path,
        paths: Vec<PathBuf>,
        place: Place,
    ) -> Result<Sides, CliError> {
        let root = repository.root().to_owned();
        let files = |commit: Commit| repository.files(commit).map_err(CliError::Usage);
        let old = files(base)?;
        let new = tip.as_ref().map(|(tip, _)| files(*tip)).transpose()?;
        let named = Named::of(&paths, folder, &root, (&old, new.as_deref()));
        let paths = named.as_ref().map_or(paths, |named| vec![named.around.clone()]);
        let checkout = |entries: Vec<Entry>, name: String| {
            Checkout::of_entries(repository, entries, folder, &paths, name, place)
        };
        let tip_name = tip.map_or_else(|| WORKING_TREE.to_owned(), |(_, name)| name);
        let after = match (named, new) {
            (Some(named), _) => {
                let name = format!("{} of {tip_name}", named.name());
                checkout(named.put(old.clone()), name)?
            }
            (None, Some(new)) => checkout(new, tip_name)?,
            (None, None) => Checkout::of_folder(folder, &root, tip_name),
        };
        Ok(Sides { before: checkout(old, base_name)?, after, paths, root })
    }
}

/// The files that a user names, without a folder: what they alone change is looked at.
struct Named {
    /// Each with its path below the root of the repository; `None` if it is removed.
    files: Vec<(PathBuf, Option<Entry>)>,
    /// The folder that is read: the current one, or the repository if a file is elsewhere.
    around: PathBuf,
}

impl Named {
    /// `None` if one of the paths is no file. Without a state after the change this is the working tree.
    fn of(
        paths: &[PathBuf],
        folder: &Path,
        root: &Path,
        (old, new): (&[Entry], Option<&[Entry]>),
    ) -> Option<Named> {
        let absolute: Vec<PathBuf> = paths.iter().map(|path| files::absolute(&folder.join(path))).collect();
        let find = |all: &[Entry], path: &Path| all.iter().find(|entry| entry.path == path).cloned();
        let file = |absolute: &PathBuf| {
            let path = absolute.strip_prefix(root).ok()?.to_owned();
            let now = match new {
                Some(new) => find(new, &path),
                None => absolute.is_file().then(|| Entry {
                    path: path.clone(),
                    kind: EntryKind::File,
                    content: Content::OnDisk(absolute.clone()),
                }),
            };
            (now.is_some() || find(old, &path).is_some()).then_some((path, now))
        };
        let files: Option<Vec<_>> = absolute.iter().map(file).collect();
        let is_here = absolute.iter().all(|path| path.starts_with(folder));
        let around = if is_here { PathBuf::from(".") } else { root.to_owned() };
        files.map(|files| Named { files, around })
    }

    fn name(&self) -> String {
        match self.files.as_slice() {
            [(path, _)] => files::display_path(path),
            several => count(several.len(), "file"),
        }
    }

    /// Puts the files in the place of those of another state.
    fn put(self, mut entries: Vec<Entry>) -> Vec<Entry> {
        entries.retain(|entry| self.files.iter().all(|(path, _)| *path != entry.path));
        entries.extend(self.files.into_iter().filter_map(|(_, entry)| entry));
        entries
    }
}

/// Where the files of revisions are. A configuration that the user names may have programs read them as well.
fn place(args: &PlanArgs) -> Place {
    if args.render || args.rules.config.is_some() { Place::Disk } else { Place::Over }
}

/// The commit before the change, and the one after it; `None` is the working tree.
type Commits = (Commit, String, Option<(Commit, String)>);

fn resolve(revisions: &Revisions<'_>, repository: &Repository) -> Result<Commits, String> {
    let named = |name: &str| Ok::<_, String>((repository.resolve(name)?, name.to_owned()));
    let left = |tip: Commit, name: &str, head: Commit| repository.merge_base((tip, name), head);
    Ok(match *revisions {
        Revisions::Default => {
            let Some((name, tip)) = repository.default_branch() else {
                let advice = repository.advice("HEAD");
                return Err(format!(
                    "no default branch is known; name the base, as in `gpulint plan main`{advice}"
                ));
            };
            (left(tip, &name, repository.resolve("HEAD")?)?, name, None)
        }
        Revisions::Since(name) => {
            (left(repository.resolve(name)?, name, repository.resolve("HEAD")?)?, name.to_owned(), None)
        }
        Revisions::Between(base, tip) => {
            let (base, name) = named(base)?;
            (base, name, Some(named(tip)?))
        }
        Revisions::Parted(base, tip) => {
            let (to, to_name) = named(tip)?;
            (left(repository.resolve(base)?, base, to)?, base.to_owned(), Some((to, to_name)))
        }
    })
}

/// Two folders of the user, with paths in each.
fn folders(before: &Path, after: &Path, paths: &[String]) -> Result<Sides, CliError> {
    for folder in [before, after] {
        if !folder.is_dir() {
            return Err(CliError::Usage(format!("{}: not a folder", files::display_path(folder))));
        }
    }
    let paths = or_here(paths.iter().map(PathBuf::from).collect());
    let checkout = |folder: &Path| Checkout::of_folder(folder, folder, files::display_path(folder));
    Ok(Sides { before: checkout(before), after: checkout(after), paths, root: files::absolute(after) })
}

/// The revisions and the paths among the arguments. A first argument that names both a revision and a file is refused.
fn parse<'a>(what: &'a [String], repository: &Repository) -> Result<(Revisions<'a>, Vec<PathBuf>), CliError> {
    let Some((first, rest)) = what.split_first() else {
        return Ok((Revisions::Default, or_here(Vec::new())));
    };
    let is_revision = |name: &String| !Path::new(name).exists() && repository.find(name).is_some();
    if let Some(second) = rest.iter().find(|name| is_revision(name)) {
        return Err(CliError::Usage(format!(
            "`{second}` is a revision; two of them are written as {first}..{second}, and a path as ./{second}"
        )));
    }
    let or_head = |name: &'a str| if name.is_empty() { "HEAD" } else { name };
    let paths = |paths: &[String]| or_here(paths.iter().map(PathBuf::from).collect());
    let is_path = Path::new(first).exists();
    if !is_path && let Some((base, tip)) = first.split_once("...") {
        return Ok((Revisions::Parted(or_head(base), or_head(tip)), paths(rest)));
    }
    if !is_path && let Some((base, tip)) = first.split_once("..") {
        return Ok((Revisions::Between(or_head(base), or_head(tip)), paths(rest)));
    }
    match (repository.find(first), is_path) {
        (Some(_), true) => Err(CliError::Usage(format!(
            "`{first}` is a revision and a path; write ./{first} for the path, or {first}... for the revision"
        ))),
        (None, true) => Ok((Revisions::Default, paths(what))),
        // A revision that is not there is an error that says so.
        (_, false) => Ok((Revisions::Since(first), paths(rest))),
    }
}

fn or_here(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    if paths.is_empty() { vec![PathBuf::from(".")] } else { paths }
}
