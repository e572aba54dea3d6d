//! The loop of the language server: handles the messages of the client in order, updates the projects, and
//! answers.
//!
//! Pending edits are applied together, and their diagnostics are sent, before the next request is answered.
//! Everything happens on one thread, except that the rules run on all threads. A panic loses an answer but
//! does not end the server.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::Notification as _;
use lsp_types::request::Request as _;
use lsp_types::{
    ConfigurationItem, ConfigurationParams, Diagnostic, DidChangeTextDocumentParams,
    DidChangeWatchedFilesParams, DidChangeWatchedFilesRegistrationOptions, DidChangeWorkspaceFoldersParams,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, DidSaveTextDocumentParams, FileChangeType,
    FileSystemWatcher, GlobPattern, InitializeParams, MessageType, PublishDiagnosticsParams, Registration,
    RegistrationParams, Uri,
};
use lsp_types::{notification, request};
use serde::Deserialize;
use serde_json::Value;

use crate::args::LspArgs;
use crate::error::CliError;
use crate::files::Disk;
use crate::interrupt;

use super::answers;
use super::buffers::Buffer;
use super::client::{Client, Progress, Waker};
use super::convert::path_of;
use super::project::{Change, Project, Reading};
use super::rendering::Renderer;
use super::session::{Options, Sent, Session, read};
use super::{capabilities, findings};

/// The section of gpulint in the client's configuration.
const SECTION: &str = "gpulint";
/// Glob patterns of the files on which findings depend.
const WATCHED: [&str; 4] = [
    "**/*.{yaml,yml,json,tpl,tgz}",
    "**/{Kustomization,.gitignore,.ignore}",
    "**/*.{tf,tofu,tfvars,sh,bash,mk,md}",
    "**/{Makefile,GNUmakefile,justfile,Justfile}",
];

struct Server {
    session: Session,
    /// The changes since the findings were last updated.
    changes: Vec<Change>,
    /// The files whose diagnostics may have changed since they were last sent.
    stale: BTreeSet<PathBuf>,
    asked: Option<RequestId>,
    /// The errors of configurations that were shown to the user.
    shown: Vec<String>,
    renderer: Renderer,
    is_shut_down: bool,
}

/// Serves a client until it exits. The exit code is 1 if the client exits without having shut the server
/// down.
pub(crate) fn serve(connection: Connection, args: LspArgs) -> Result<ExitCode, CliError> {
    let (id, params) = Client::begin(&connection)?;
    let params: InitializeParams = serde_json::from_value(params)?;
    let client = Client::new(connection, &params.capabilities);
    client.finish(id, serde_json::to_value(capabilities::of(&client))?)?;
    let options = params.initialization_options.as_ref().map(read_options).unwrap_or_default();
    let mut server = Server {
        session: Session::new(client, args, options),
        changes: Vec::new(),
        stale: BTreeSet::new(),
        asked: None,
        shown: Vec::new(),
        renderer: Renderer::default(),
        is_shut_down: false,
    };
    server.watch();
    server.ask_for_options();
    server.open(roots(&params));
    server.publish();
    server.render();
    let code = server.run();
    let is_rendering = server.renderer.is_running();
    drop(server);
    if is_rendering {
        interrupt::end_all();
    }
    Ok(code)
}

impl Server {
    fn run(&mut self) -> ExitCode {
        while let Some(message) = self.session.client.next() {
            match message {
                Message::Request(request) if request.method == request::Shutdown::METHOD => {
                    self.is_shut_down = true;
                    self.session.client.answer(request.id, ());
                }
                Message::Notification(note) if note.method == notification::Exit::METHOD => break,
                Message::Request(request) => self.handle_request(request),
                Message::Notification(note) => self.handle_notification(note),
                Message::Response(response) => self.handle_response(response),
            }
            if self.session.client.is_idle() {
                self.guard("checking", |server| {
                    server.refresh();
                    server.publish();
                    server.render();
                });
            }
        }
        ExitCode::from(u8::from(!self.is_shut_down))
    }

    /// Runs work that may panic. After a panic the projects are read again, because the work may be half
    /// done.
    fn guard<T>(&mut self, what: &str, work: impl FnOnce(&mut Server) -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.session
                    .client
                    .log(MessageType::ERROR, format!("{what}: internal error: {}", text_of(&*panic)));
                let again = catch_unwind(AssertUnwindSafe(|| {
                    let stale: Vec<_> = self.session.projects.iter_mut().map(Project::reload).collect();
                    self.stale.extend(stale.into_iter().flatten());
                }));
                if again.is_err() {
                    self.session.client.log(MessageType::ERROR, "the folders could not be read again");
                }
                None
            }
        }
    }

    fn handle_request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        if self.is_shut_down {
            self.session.client.fail(id, ErrorCode::InvalidRequest, "the server was shut down");
            return;
        }
        let known = id.clone();
        let answered = self.guard(&method, |server| {
            server.refresh();
            server.publish();
            match answers::answer(&mut server.session, &method, params) {
                Ok(value) => server.session.client.answer(id, value),
                Err(answers::Refusal { code, message }) => server.session.client.fail(id, code, &message),
            }
        });
        if answered.is_none() {
            self.session.client.fail(known, ErrorCode::InternalError, "an internal error; the log has it");
        }
    }

    fn handle_notification(&mut self, note: Notification) {
        let Notification { method, params } = note;
        let known = self.guard(&method, |server| match method.as_str() {
            notification::DidOpenTextDocument::METHOD => read(params).map(|params| server.did_open(params)),
            notification::DidChangeTextDocument::METHOD => {
                read(params).map(|params| server.did_change(params))
            }
            notification::DidCloseTextDocument::METHOD => {
                read(params).map(|params| server.did_close(&params))
            }
            notification::DidSaveTextDocument::METHOD => read(params).map(|params| server.did_save(&params)),
            notification::DidChangeWatchedFiles::METHOD => {
                read(params).map(|params| server.did_change_files(params))
            }
            notification::DidChangeWorkspaceFolders::METHOD => {
                read(params).map(|params| server.did_change_folders(params))
            }
            notification::DidChangeConfiguration::METHOD => {
                server.did_change_options(&params);
                Some(())
            }
            Waker::METHOD => {
                server.take_rendered();
                Some(())
            }
            // Other notifications are ignored.
            _ => Some(()),
        });
        if known == Some(None) {
            self.session.client.log(MessageType::WARNING, format!("{method}: invalid parameters"));
        }
    }

    fn handle_response(&mut self, response: Response) {
        if self.asked.take_if(|asked| *asked == response.id).is_none() {
            return;
        }
        let sections: Vec<Value> = response.response_result.ok().and_then(read).unwrap_or_default();
        if let Some(section) = sections.first().filter(|section| section.is_object()) {
            self.set_options(read_options(section));
        }
    }

    fn did_open(&mut self, params: DidOpenTextDocumentParams) {
        let document = params.text_document;
        let Some(path) = path_of(&document.uri) else { return };
        self.session.uris.insert(path.clone(), document.uri);
        if self.session.project_of(&path).is_none() {
            let mut disk = Disk::default();
            disk.put(&path, Some(document.text.as_str().into()));
            let project = Project::open_file(&path, &self.session.args, &disk);
            self.add_project(project);
        }
        let buffer = Buffer::new(document.version, document.text);
        self.session.buffers.insert(path.clone(), buffer);
        self.put(&path, true);
        // The client may use another URI for the file than before.
        self.stale.insert(path);
    }

    fn did_change(&mut self, params: DidChangeTextDocumentParams) {
        let Some(path) = path_of(&params.text_document.uri) else { return };
        let Some(buffer) = self.session.buffers.get_mut(&path) else { return };
        buffer.version = params.text_document.version;
        buffer.apply(params.content_changes, self.session.client.encoding);
        self.put(&path, false);
    }

    fn did_close(&mut self, params: &DidCloseTextDocumentParams) {
        let Some(path) = path_of(&params.text_document.uri) else { return };
        self.session.buffers.remove(&path);
        if let Some(at) = self.session.project_of(&path) {
            self.session.projects[at].put_buffer(&path, None);
            if self.session.projects[at].is_single() {
                self.session.projects.remove(at);
                self.stale.insert(path);
                return;
            }
            self.changes.push(Change::Buffer(path.clone(), true));
        }
        self.stale.insert(path);
    }

    fn did_save(&mut self, params: &DidSaveTextDocumentParams) {
        let Some(path) = path_of(&params.text_document.uri) else { return };
        let is_new = self.session.project_of(&path).is_some_and(|at| !self.session.projects[at].has(&path));
        self.changes.push(Change::Disk(path, is_new));
    }

    fn did_change_files(&mut self, params: DidChangeWatchedFilesParams) {
        for event in params.changes {
            if let Some(path) = path_of(&event.uri) {
                self.changes.push(Change::Disk(path, event.typ != FileChangeType::CHANGED));
            }
        }
    }

    fn did_change_folders(&mut self, params: DidChangeWorkspaceFoldersParams) {
        for folder in &params.event.removed {
            let Some(path) = path_of(&folder.uri) else { continue };
            self.stale.extend(self.session.sent.keys().filter(|file| file.starts_with(&path)).cloned());
            self.session.projects.retain(|project| project.is_single() || project.root() != path);
        }
        let added = params.event.added.iter().filter_map(|folder| path_of(&folder.uri)).collect();
        self.open(added);
        // Open files that were in a removed folder, or in none.
        for path in self.session.buffers.keys().cloned().collect::<Vec<_>>() {
            self.stale.insert(path);
        }
    }

    fn did_change_options(&mut self, params: &Value) {
        if self.session.client.can.has_configuration {
            self.ask_for_options();
            return;
        }
        let settings = &params["settings"];
        let section = if settings[SECTION].is_object() { &settings[SECTION] } else { settings };
        if section.is_object() {
            self.set_options(read_options(section));
        }
    }

    fn ask_for_options(&mut self) {
        if self.session.client.can.has_configuration {
            let item = ConfigurationItem { scope_uri: None, section: Some(SECTION.to_owned()) };
            let params = ConfigurationParams { items: vec![item] };
            self.asked = Some(self.session.client.request::<request::WorkspaceConfiguration>(params));
        }
    }

    fn set_options(&mut self, options: Options) {
        let before = std::mem::replace(&mut self.session.options, options);
        if before != options && self.session.client.can.refreshes_hints {
            self.session.client.request::<request::InlayHintRefreshRequest>(());
        }
    }

    /// Requests that the client watches files.
    fn watch(&mut self) {
        if !self.session.client.can.watches_files {
            return;
        }
        let watcher =
            |glob: &str| FileSystemWatcher { glob_pattern: GlobPattern::String(glob.to_owned()), kind: None };
        let watchers = WATCHED.into_iter().map(watcher).collect();
        let options = DidChangeWatchedFilesRegistrationOptions { watchers };
        let registration = Registration {
            id: "gpulint-files".to_owned(),
            method: notification::DidChangeWatchedFiles::METHOD.to_owned(),
            register_options: serde_json::to_value(options).ok(),
        };
        self.session
            .client
            .request::<request::RegisterCapability>(RegistrationParams { registrations: vec![registration] });
    }

    /// Reads folders, and handles messages in between.
    fn open(&mut self, roots: Vec<PathBuf>) {
        let mut progress = None;
        for root in roots {
            if self.session.projects.iter().any(|project| !project.is_single() && project.root() == root) {
                continue;
            }
            let mut disk = Disk::default();
            for (path, buffer) in self.session.buffers.iter().filter(|(path, _)| path.starts_with(&root)) {
                disk.put(path, Some(Arc::from(buffer.text.as_str())));
            }
            let title =
                format!("gpulint: reading {}", root.file_name().unwrap_or_default().to_string_lossy());
            let progress = progress.get_or_insert_with(|| Progress::new(&mut self.session.client, "reading"));
            let reading = Reading::default();
            let args = &self.session.args;
            let counts = || [&reading.done, &reading.total].map(|count| count.load(Ordering::Relaxed));
            let work = || Project::open(&root, args, &disk, &reading);
            match progress.during(&mut self.session.client, &title, counts, work) {
                Ok(project) => self.add_project(project),
                Err(panic) => {
                    let message = format!("{}: internal error: {}", root.display(), text_of(&*panic));
                    self.session.client.show(MessageType::ERROR, message);
                }
            }
        }
        if let Some(progress) = progress {
            progress.end(&self.session.client);
        }
        // Files that were checked alone and are in a new folder now belong to it.
        let folders: Vec<PathBuf> = self
            .session
            .projects
            .iter()
            .filter(|one| !one.is_single())
            .map(|one| one.root().to_owned())
            .collect();
        let is_inside = |project: &Project| folders.iter().any(|folder| project.root().starts_with(folder));
        self.session.projects.retain(|project| !project.is_single() || !is_inside(project));
    }

    /// Begins to render the folders that wait for it.
    fn render(&mut self) {
        self.renderer.begin(&self.session.args, || self.session.client.waker());
    }

    fn take_rendered(&mut self) {
        let Some((root, result)) = self.renderer.end() else { return };
        let words = match result {
            Ok(Ok(rendered)) => {
                let project =
                    self.session.projects.iter_mut().find(|one| one.is_rendered() && one.root() == root);
                self.stale
                    .extend(project.map(|project| project.set_rendered(rendered)).into_iter().flatten());
                return;
            }
            // The project shows it as well.
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("internal error: {}", text_of(&*panic)),
        };
        self.session.client.log(MessageType::ERROR, format!("rendering {}: {words}", root.display()));
    }

    fn add_project(&mut self, project: Result<Project, CliError>) {
        match project {
            Ok(project) => {
                self.stale.extend(project.files().chain(project.configurations()).map(Path::to_owned));
                if project.is_rendered() {
                    self.renderer.want(project.root());
                }
                self.session.projects.push(project);
                self.session.projects.sort_by_key(|project| {
                    (project.is_single(), std::cmp::Reverse(project.root().components().count()))
                });
            }
            Err(error) => self.session.client.show(MessageType::ERROR, error.to_string()),
        }
    }

    /// Replaces the text of a file by that of its buffer, which was opened or edited.
    fn put(&mut self, path: &Path, is_opened: bool) {
        let Some(text) = self.session.buffers.get(path).map(|buffer| Arc::<str>::from(buffer.text.as_str()))
        else {
            return;
        };
        for project in self.session.projects.iter_mut().filter(|project| project.covers(path)) {
            project.put_buffer(path, Some(Arc::clone(&text)));
        }
        let change = Change::Buffer(path.to_owned(), is_opened);
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// Updates the findings.
    fn refresh(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        for project in &mut self.session.projects {
            let own: Vec<Change> =
                changes.iter().filter(|change| project.covers(change.path())).cloned().collect();
            if own.is_empty() {
                continue;
            }
            self.stale.extend(project.update(&own));
            if project.is_rendered() && own.iter().any(|change| matches!(change, Change::Disk(..))) {
                self.renderer.want(project.root());
            }
        }
        // The configuration that is edited has diagnostics of its own.
        self.stale.extend(changes.iter().map(|change| change.path().to_owned()));
    }

    /// Sends the diagnostics that have changed.
    fn publish(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        let mut has_changed = false;
        for path in stale {
            let Some(uri) = self.session.uri(&path) else { continue };
            let diagnostics = findings::of_file(&self.session, &path);
            let new = (!diagnostics.is_empty())
                .then(|| Sent { uri: uri.clone(), result_id: findings::result_id(&diagnostics) });
            let id = new.as_ref().map(|sent| sent.result_id.clone());
            let before = match new {
                Some(new) => self.session.sent.insert(path.clone(), new),
                None => self.session.sent.remove(&path),
            };
            let renamed = before.as_ref().filter(|before| before.uri != uri).map(|before| before.uri.clone());
            if renamed.is_none() && before.map(|before| before.result_id) == id {
                continue;
            }
            has_changed = true;
            if self.session.client.can.pulls_diagnostics {
                continue;
            }
            let publish = |uri: Uri, diagnostics: Vec<Diagnostic>, version: Option<i32>| {
                let params = PublishDiagnosticsParams { uri, diagnostics, version };
                self.session.client.notify::<notification::PublishDiagnostics>(params);
            };
            if let Some(renamed) = renamed {
                publish(renamed, Vec::new(), None);
            }
            publish(uri, diagnostics, self.session.version(&path));
        }
        if has_changed && self.session.client.can.refreshes_diagnostics {
            self.session.client.request::<request::WorkspaceDiagnosticRefresh>(());
        }
        self.show_errors();
        for panic in self.session.projects.iter_mut().flat_map(Project::take_panics) {
            self.session.client.log(MessageType::ERROR, panic);
        }
    }

    /// Shows the errors in configurations, each once.
    fn show_errors(&mut self) {
        let errors: Vec<String> =
            self.session.projects.iter().flat_map(|project| project.errors().iter().cloned()).collect();
        for error in errors.iter().filter(|error| !self.shown.contains(error)) {
            self.session.client.show(MessageType::ERROR, format!("gpulint: {error}"));
        }
        self.shown = errors;
    }
}

/// The folders that the client has open.
#[expect(deprecated, reason = "older clients name one root only")]
fn roots(params: &InitializeParams) -> Vec<PathBuf> {
    let folders = params.workspace_folders.iter().flatten();
    let folders: Vec<PathBuf> = folders.filter_map(|folder| path_of(&folder.uri)).collect();
    if !folders.is_empty() {
        return folders;
    }
    let root = params.root_uri.as_ref().and_then(path_of);
    let root = root.or_else(|| params.root_path.as_ref().map(|path| crate::files::absolute(Path::new(path))));
    root.into_iter().collect()
}

/// The options in a section of the client's configuration; unknown or invalid options count as absent.
fn read_options(section: &Value) -> Options {
    Options::deserialize(section).unwrap_or_default()
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
