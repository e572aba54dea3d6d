//! Answers the requests of the client for actions.

use std::path::Path;
use std::sync::Arc;

use lsp_types::request;
use lsp_types::{
    CodeAction, CodeActionOrCommand, CodeActionParams, ExecuteCommandParams, TextEdit, WorkspaceEdit,
};

use super::super::configuration;
use super::super::convert::path_of;
use super::super::findings;
use super::super::plans;
use super::super::session::Session;
use super::{Request, Shown, edit_of, fix_all, of_range, shown_by, unresolved, workspace_edit};

/// The actions for a range of a file.
pub(crate) fn answer(session: &Session, params: &CodeActionParams) -> Vec<CodeActionOrCommand> {
    let uri = &params.text_document.uri;
    let offered = path_of(uri).and_then(|path| {
        if findings::is_configuration(session.project(&path)?, &path) {
            return Some(of_configuration(session, &path, params));
        }
        session.view(&path, |view, places| {
            let source = &view.file.source;
            let range = places.positions(source).span(source.text(), params.range, places.encoding());
            let request = Request { uri, version: session.version(&path), range, context: &params.context };
            let shown = Shown {
                can: session.client.can,
                locate: &|place| places.location(place),
                range: &|span| places.range(source, span),
            };
            Some(of_range(view, &request, &shown))
        })
    });
    offered.unwrap_or_default()
}

/// The actions for a range of a configuration.
fn of_configuration(session: &Session, path: &Path, params: &CodeActionParams) -> Vec<CodeActionOrCommand> {
    let uri = &params.text_document.uri;
    let version = session.version(path);
    let edit = |range, word: &str| {
        let edits = vec![TextEdit { range, new_text: word.to_owned() }];
        edit_of(uri, version, edits, session.client.can)
    };
    let found = findings::of_file(session, path);
    let actions = configuration::actions(&found, params.range, &params.context, edit);
    actions.into_iter().map(CodeActionOrCommand::CodeAction).collect()
}

/// Resolves an action: adds the edit that it was offered without.
pub(crate) fn resolve(session: &mut Session, mut action: CodeAction) -> CodeAction {
    if let Some(path) = unresolved(&action).as_ref().and_then(path_of) {
        action.edit = fixed(session, &path);
    }
    action
}

/// The edit that applies all safe fixes of a file in rounds. After each round the file is checked again.
fn fixed(session: &mut Session, path: &Path) -> Option<WorkspaceEdit> {
    let uri = session.uri(path)?;
    let project = session.project(path)?;
    let source = Arc::clone(&project.file(path)?.source);
    let findings = project.report(path)?.findings.clone();
    let edits = fix_all(&source, &findings, &mut |text| {
        session.try_text(path, text, |project| Some(project.report(path)?.findings.clone()))
    });
    let project = session.project(path)?;
    let places = session.places(project);
    let version = session.version(path);
    let shown = Shown {
        can: session.client.can,
        locate: &|place| places.location(place),
        range: &|span| places.range(&source, span),
    };
    Some(workspace_edit(&uri, version, &edits, &shown))
}

/// Executes a command of an action or a code lens. Returns a page that the client cannot show by itself.
pub(crate) fn execute(session: &mut Session, params: &ExecuteCommandParams) -> Option<String> {
    if params.command == plans::PLAN {
        return plans::show(session, &params.arguments);
    }
    if let Some(page) = shown_by(&params.command, &params.arguments) {
        session.client.request::<request::ShowDocument>(page);
    }
    None
}
