//! The requests of the client for actions.

use std::path::Path;
use std::sync::Arc;

use lsp_types::request;
use lsp_types::{
    CodeAction, CodeActionOrCommand, CodeActionParams, ExecuteCommandParams, TextEdit, WorkspaceEdit,
};

use super::super::configuration;
use super::super::convert::path_of;
use super::super::findings;
use super::super::server::Server;
use super::{Request, Shown, edit_of, fix_all, of_range, shown_by, unresolved, workspace_edit};

/// The actions for a range of a file.
pub(crate) fn answer(server: &Server, params: &CodeActionParams) -> Vec<CodeActionOrCommand> {
    let uri = &params.text_document.uri;
    let offered = path_of(uri).and_then(|path| {
        let project = server.project(&path)?;
        if findings::is_configuration(project, &path) {
            return Some(of_configuration(server, &path, params));
        }
        let report = project.report(&path)?;
        let view = project.view(&path, &report)?;
        let places = server.places(project);
        let source = &view.file.source;
        let range = places.positions(source).span(source.text(), params.range, places.encoding());
        let version = server.buffers.get(&path).map(|buffer| buffer.version);
        let request = Request { uri, version, range, context: &params.context };
        let shown = Shown {
            can: server.client.can,
            locate: &|place| places.location(place),
            range: &|span| places.range(source, span),
        };
        Some(of_range(&view, &request, &shown))
    });
    offered.unwrap_or_default()
}

/// The actions for a range of a configuration.
fn of_configuration(server: &Server, path: &Path, params: &CodeActionParams) -> Vec<CodeActionOrCommand> {
    let uri = &params.text_document.uri;
    let version = server.buffers.get(path).map(|buffer| buffer.version);
    let edit = |range, word: &str| {
        let edits = vec![TextEdit { range, new_text: word.to_owned() }];
        edit_of(uri, version, edits, server.client.can)
    };
    let found = findings::of_file(server, path);
    let actions = configuration::actions(&found, params.range, &params.context, edit);
    actions.into_iter().map(CodeActionOrCommand::CodeAction).collect()
}

/// An action with the edit that it was offered without.
pub(crate) fn resolve(server: &mut Server, mut action: CodeAction) -> CodeAction {
    if let Some(path) = unresolved(&action).as_ref().and_then(path_of) {
        action.edit = fixed(server, &path);
    }
    action
}

/// The edit that makes all safe fixes of a file, in rounds: the file is checked again with the text of each.
fn fixed(server: &mut Server, path: &Path) -> Option<WorkspaceEdit> {
    let uri = server.uri(path)?;
    let project = server.project(path)?;
    let source = Arc::clone(&project.file(path)?.source);
    let findings = project.report(path)?.findings.clone();
    let edits = fix_all(&source, &findings, &mut |text| {
        server.try_text(path, text, |project| Some(project.report(path)?.findings.clone()))
    });
    let project = server.project(path)?;
    let places = server.places(project);
    let version = server.buffers.get(path).map(|buffer| buffer.version);
    let shown = Shown {
        can: server.client.can,
        locate: &|place| places.location(place),
        range: &|span| places.range(&source, span),
    };
    Some(workspace_edit(&uri, version, &edits, &shown))
}

/// Does what an action asks for.
pub(crate) fn execute(server: &mut Server, params: &ExecuteCommandParams) {
    if let Some(page) = shown_by(&params.command, &params.arguments) {
        server.client.request::<request::ShowDocument>(page);
    }
}
