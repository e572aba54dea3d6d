//! The state of a client: its folders, its open files, and the diagnostics that were sent to it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsp_types::Uri;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::LspArgs;
use crate::git::Commit;
use crate::interrupt::Temporary;
use crate::judge::JudgedSet;

use super::buffers::Buffer;
use super::client::Client;
use super::convert::{Places, uri_of};
use super::project::{Change, Project};
use super::view::View;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Options {
    pub(crate) inlay_hints: bool,
}

pub(super) struct Sent {
    /// The URI under which they were sent.
    pub(super) uri: Uri,
    pub(super) result_id: String,
}

/// What was read to say what changes since the last commit.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// The sets of the last commit, by folder; they hold for that commit only.
    pub(super) heads: HashMap<PathBuf, (Commit, Vec<JudgedSet>)>,
    /// The page that was shown last.
    pub(super) page: Option<Temporary>,
}

/// A client with its folders and files.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) args: LspArgs,
    pub(crate) options: Options,
    /// The projects. Those of inner folders precede those of outer folders.
    pub(super) projects: Vec<Project>,
    pub(crate) buffers: HashMap<PathBuf, Buffer>,
    /// The URIs that the client used for the files that it opened.
    pub(super) uris: HashMap<PathBuf, Uri>,
    /// The diagnostics that were sent. Files without diagnostics have no entry.
    pub(super) sent: BTreeMap<PathBuf, Sent>,
    pub(super) plans: Plans,
}

impl Session {
    pub(super) fn new(client: Client, args: LspArgs, options: Options) -> Session {
        Session {
            client,
            args,
            options,
            projects: Vec::new(),
            buffers: HashMap::new(),
            uris: HashMap::new(),
            sent: BTreeMap::new(),
            plans: Plans::default(),
        }
    }

    /// The index of the project that a file belongs to: that of the innermost folder.
    pub(super) fn project_of(&self, path: &Path) -> Option<usize> {
        self.projects.iter().position(|project| project.owns(path))
    }

    pub(crate) fn project(&self, path: &Path) -> Option<&Project> {
        self.project_of(path).map(|at| &self.projects[at])
    }

    /// Evaluates a project with another text for a file. The file itself does not change.
    pub(crate) fn try_text<T>(
        &mut self,
        path: &Path,
        text: &str,
        look: impl FnOnce(&Project) -> Option<T>,
    ) -> Option<T> {
        let at = self.project_of(path)?;
        let kept = self.buffers.get(path).map(|buffer| Arc::from(buffer.text.as_str()));
        let project = &mut self.projects[at];
        let change = [Change::Buffer(path.to_owned(), false)];
        project.put_buffer(path, Some(Arc::from(text)));
        project.update(&change);
        let seen = look(project);
        project.put_buffer(path, kept);
        project.update(&change);
        seen
    }

    /// Runs a function on the view of a file that is checked.
    pub(crate) fn view<T>(
        &self,
        path: &Path,
        look: impl FnOnce(&View<'_>, &Places<'_>) -> Option<T>,
    ) -> Option<T> {
        let project = self.project(path)?;
        let report = project.report(path)?;
        look(&project.view(path, &report)?, &self.places(project))
    }

    /// The version of the text of an open file.
    pub(crate) fn version(&self, path: &Path) -> Option<i32> {
        self.buffers.get(path).map(|buffer| buffer.version)
    }

    pub(crate) fn files_with_diagnostics(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.sent.iter().map(|(path, sent)| (path.as_path(), sent.result_id.as_str()))
    }

    pub(crate) fn places<'s>(&'s self, project: &'s Project) -> Places<'s> {
        Places::new(project, &self.uris, self.client.encoding)
    }

    /// The text of a file: that of its buffer if it is open.
    pub(crate) fn text(&self, path: &Path) -> std::io::Result<String> {
        match self.buffers.get(path) {
            Some(buffer) => Ok(buffer.text.clone()),
            None => std::fs::read_to_string(path),
        }
    }

    pub(crate) fn uri(&self, path: &Path) -> Option<Uri> {
        self.uris.get(path).cloned().or_else(|| uri_of(path))
    }
}

/// Reads parameters; `None` if they do not conform to the protocol.
pub(super) fn read<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}
