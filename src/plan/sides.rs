//! The two sides of a change, from the arguments.

use std::path::{Path, PathBuf};

use crate::args::PlanArgs;
use crate::checkout::{Checkout, Place};
use crate::error::CliError;
use crate::files;
use crate::git::{Commit, Repository};

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
        let checkout = |commit: Commit, name: String| {
            Checkout::of_commit(repository, commit, folder, &paths, name, place)
        };
        let before = checkout(base, base_name)?;
        let after = match tip {
            Some((tip, name)) => checkout(tip, name)?,
            None => Checkout::of_folder(folder, &root, WORKING_TREE.to_owned()),
        };
        Ok(Sides { before, after, paths, root })
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
