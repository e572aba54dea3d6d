//! Revisions of a git repository, read from its object database with `gix`: no other program runs, and nothing in the
//! repository changes.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The branches that are looked for where the remote does not say which is the default.
const DEFAULT_BRANCHES: [&str; 4] = ["origin/main", "origin/master", "main", "master"];

pub(crate) type Commit = gix::ObjectId;
/// The name of the content of a file.
pub(crate) type Blob = gix::ObjectId;

pub(crate) struct Repository {
    inner: gix::Repository,
    root: PathBuf,
    /// Whether there is no working tree.
    pub(crate) is_bare: bool,
}

/// What an entry of a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    /// A symbolic link; its content is the target.
    Link,
}

/// Where the content of a file is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Stored(Blob),
    /// In the working tree, at this absolute path.
    OnDisk(PathBuf),
}

/// A file of a revision, or one that takes its place.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The path below the root of the repository.
    pub(crate) path: PathBuf,
    pub(crate) kind: EntryKind,
    pub(crate) content: Content,
}

thread_local! {
    /// The repository that this thread reads, with its folder.
    static OPENED: RefCell<Option<(PathBuf, gix::Repository)>> = const { RefCell::new(None) };
}

/// The objects of a repository for all threads. Each opens it for itself: a [`gix::Repository`] stays on its thread.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    git: PathBuf,
}

impl Store {
    /// The objects of the repository with this folder, `.git` as a rule.
    pub(crate) fn at(git: &Path) -> Store {
        Store { git: git.to_owned() }
    }

    /// The content of a file.
    ///
    /// # Errors
    /// Says which object is missing.
    pub(crate) fn content(&self, of: &Content) -> io::Result<Vec<u8>> {
        let blob = match of {
            Content::Stored(blob) => *blob,
            Content::OnDisk(path) => return fs::read(path),
        };
        let fails = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
        OPENED.with_borrow_mut(|opened| {
            let repository = match opened.take().filter(|(git, _)| *git == self.git) {
                Some((_, repository)) => repository,
                None => gix::open(&self.git).map_err(|error| fails(&error))?,
            };
            let (_, repository) = opened.insert((self.git.clone(), repository));
            let mut object = repository.find_object(blob).map_err(|error| fails(&error))?;
            Ok(std::mem::take(&mut object.data))
        })
    }
}

impl Repository {
    /// The repository that a folder is in.
    ///
    /// # Errors
    /// Says that there is none.
    pub(crate) fn around(folder: &Path) -> Result<Repository, String> {
        let shown = folder.display();
        let inner = gix::discover(folder).map_err(|_| format!("{shown} is in no git repository"))?;
        let is_bare = inner.workdir().is_none();
        let root = crate::files::absolute(inner.workdir().unwrap_or(inner.git_dir()));
        Ok(Repository { inner, root, is_bare })
    }

    /// The absolute path of the working tree, or of the repository if it has none.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The commit that a revision names; `None` if it names none.
    pub(crate) fn find(&self, revision: &str) -> Option<Commit> {
        let id = self.inner.rev_parse_single(revision).ok()?;
        let commit = id.object().ok()?.peel_to_commit().ok()?;
        Some(commit.id)
    }

    /// The commit that a revision names.
    ///
    /// # Errors
    /// Says that there is no such revision, and how to fetch it if the clone is shallow.
    pub(crate) fn resolve(&self, revision: &str) -> Result<Commit, String> {
        self.find(revision).ok_or_else(|| {
            format!("there is no revision `{revision}` in {}{}", self.root.display(), self.advice(revision))
        })
    }

    /// The best common ancestor of two commits, which have these names.
    ///
    /// # Errors
    /// Says that the commits have none, and how to fetch it if the clone is shallow.
    pub(crate) fn merge_base(&self, (one, named): (Commit, &str), other: Commit) -> Result<Commit, String> {
        let found = self.inner.merge_base(one, other).ok().flatten();
        found.map(gix::Id::detach).ok_or_else(|| {
            format!(
                "{}: `{named}` and HEAD have no common ancestor{}",
                self.root.display(),
                self.advice(named)
            )
        })
    }

    /// The default branch, as the remote or the usual names say.
    pub(crate) fn default_branch(&self) -> Option<(String, Commit)> {
        let head = "origin/HEAD";
        let names = std::iter::once(head).chain(DEFAULT_BRANCHES);
        names.filter_map(|name| Some((name.to_owned(), self.find(name)?))).next()
    }

    /// What to do if a commit is not there because the clone is shallow.
    pub(crate) fn advice(&self, revision: &str) -> String {
        if !self.inner.is_shallow().unwrap_or_default() {
            return String::new();
        }
        let branch = revision.split(['~', '^']).next().unwrap_or(revision);
        let branch = branch.strip_prefix("origin/").unwrap_or(branch);
        let fetched = if branch == "HEAD" { String::new() } else { format!(" origin {branch}") };
        format!(
            ": the clone is shallow; set `fetch-depth: 0` of actions/checkout (GitLab: `GIT_DEPTH: 0`), or run \
             `git fetch --unshallow{fetched}`"
        )
    }

    /// The files of a commit.
    ///
    /// # Errors
    /// Says which object is missing, as in a partial clone.
    pub(crate) fn files(&self, commit: Commit) -> Result<Vec<Entry>, String> {
        let read = || -> Result<Vec<Entry>, gix::Error> {
            let tree = self.inner.find_commit(commit)?.tree()?;
            let entry = |entry: gix::traverse::tree::recorder::Entry| {
                let kind = match entry.mode.kind() {
                    gix::object::tree::EntryKind::Blob | gix::object::tree::EntryKind::BlobExecutable => {
                        EntryKind::File
                    }
                    gix::object::tree::EntryKind::Link => EntryKind::Link,
                    gix::object::tree::EntryKind::Tree | gix::object::tree::EntryKind::Commit => return None,
                };
                // A name that is not UTF-8 is not reported either.
                let path = String::from_utf8(Vec::from(entry.filepath)).ok()?;
                Some(Entry { path: PathBuf::from(path), kind, content: Content::Stored(entry.oid) })
            };
            Ok(tree.traverse().breadthfirst.files()?.into_iter().filter_map(entry).collect())
        };
        read().map_err(|error| format!("commit {commit}: {error}"))
    }

    /// The content of the file of a commit with a path below the root of the repository; `None` if the commit has none.
    pub(crate) fn content_at(&self, commit: Commit, path: &Path) -> Option<Vec<u8>> {
        let entry = self.inner.find_commit(commit).ok()?.tree().ok()?.lookup_entry_by_path(path).ok()??;
        Some(std::mem::take(&mut entry.object().ok()?.data))
    }

    /// The objects, for all threads.
    pub(crate) fn store(&self) -> Store {
        Store::at(&crate::files::absolute(self.inner.git_dir()))
    }

    /// Whether the content of a file is there; a partial clone may lack it.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        match &entry.content {
            Content::Stored(blob) => self.inner.has_object(*blob),
            Content::OnDisk(path) => path.is_file(),
        }
    }

    /// The content of a file.
    ///
    /// # Errors
    /// Says which object is missing, as in a partial clone.
    pub(crate) fn content(&self, entry: &Entry) -> Result<Vec<u8>, String> {
        let shown = entry.path.display();
        let blob = match &entry.content {
            Content::Stored(blob) => *blob,
            Content::OnDisk(path) => return fs::read(path).map_err(|error| format!("{shown}: {error}")),
        };
        let object = self.inner.find_object(blob);
        object.map(|mut object| std::mem::take(&mut object.data)).map_err(|error| {
            format!("{shown}: {error}; a partial clone lacks files, which `git fetch --refetch` gets")
        })
    }
}
