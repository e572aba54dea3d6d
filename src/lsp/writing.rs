//! Completion, definitions and references as the protocol has them.

use std::path::PathBuf;

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionList, CompletionParams, CompletionResponse,
    CompletionTextEdit, Documentation, GotoDefinitionParams, GotoDefinitionResponse, InsertTextMode,
    MarkupContent, MarkupKind, ReferenceParams, TextDocumentPositionParams, TextEdit,
};

use gpulint_rules::{CheckReport, Location};

use super::completion::{self, Item, ItemKind};
use super::convert::path_of;
use super::links;
use super::position::Positions;
use super::session::Session;
use super::view::View;

/// What can be written at a place.
pub(crate) fn completion(session: &Session, params: &CompletionParams) -> CompletionResponse {
    let at = &params.text_document_position;
    let items = items(session, at).unwrap_or_default();
    CompletionResponse::List(CompletionList { is_incomplete: false, items })
}

fn items(session: &Session, at: &TextDocumentPositionParams) -> Option<Vec<CompletionItem>> {
    let path = path_of(&at.text_document.uri)?;
    let project = session.project(&path);
    let encoding = session.client.encoding;
    let own;
    let (text, positions) = match session.buffers.get(&path) {
        Some(buffer) => (buffer.text.as_str(), &buffer.positions),
        None => {
            let text = project?.file(&path)?.source.text();
            own = Positions::new(text);
            (text, &own)
        }
    };
    let offset = positions.offset(text, at.position, encoding);
    let is_configuration =
        path.file_name().is_some_and(|name| crate::config::NAMES.iter().any(|known| name == *known));
    let found = if is_configuration {
        completion::configuration(text, offset)
    } else {
        let report = project.and_then(|project| project.report(&path));
        let view = project.zip(report.as_deref()).and_then(|(project, report)| project.view(&path, report));
        completion::manifest(text, offset, view.as_ref())
    };
    let order = found.len().to_string().len();
    let item = |(number, item): (usize, Item)| {
        let range = positions.range(text, item.span, encoding);
        CompletionItem {
            sort_text: Some(format!("{number:0order$}")),
            kind: Some(kind(item.kind)),
            filter_text: Some(item.label.clone()),
            text_edit: Some(CompletionTextEdit::Edit(TextEdit { range, new_text: item.insert })),
            // Lines are indented already.
            insert_text_mode: Some(InsertTextMode::AS_IS),
            label: item.label,
            detail: item.detail,
            documentation: item.documentation.map(|value| {
                Documentation::MarkupContent(MarkupContent { kind: MarkupKind::Markdown, value })
            }),
            ..CompletionItem::default()
        }
    };
    Some(found.into_iter().enumerate().map(item).collect())
}

fn kind(kind: ItemKind) -> CompletionItemKind {
    match kind {
        ItemKind::Field => CompletionItemKind::FIELD,
        ItemKind::Label => CompletionItemKind::PROPERTY,
        ItemKind::Value => CompletionItemKind::VALUE,
        ItemKind::Choice => CompletionItemKind::ENUM_MEMBER,
        ItemKind::Object => CompletionItemKind::REFERENCE,
        ItemKind::Kind => CompletionItemKind::CLASS,
        ItemKind::Rule => CompletionItemKind::CONSTANT,
        ItemKind::Keyword => CompletionItemKind::KEYWORD,
    }
}

/// The names of the objects that are named at a place.
pub(crate) fn definition(session: &Session, params: &GotoDefinitionParams) -> Option<GotoDefinitionResponse> {
    let found = linked(session, &params.text_document_position_params, links::definition)?;
    Some(GotoDefinitionResponse::Array(found))
}

/// Everything that names the object whose name is at a place.
pub(crate) fn references(session: &Session, params: &ReferenceParams) -> Option<Vec<lsp_types::Location>> {
    let with_declaration = params.context.include_declaration;
    let find = |view: &View<'_>, offset: u32| links::references(view, offset, with_declaration);
    linked(session, &params.text_document_position, find)
}

fn linked(
    session: &Session,
    at: &TextDocumentPositionParams,
    find: impl FnOnce(&View<'_>, u32) -> Vec<Location>,
) -> Option<Vec<lsp_types::Location>> {
    let path: PathBuf = path_of(&at.text_document.uri)?;
    let project = session.project(&path)?;
    let report = project.report(&path)?;
    let report: &CheckReport = &report;
    let view = project.view(&path, report)?;
    let places = session.places(project);
    let source = &view.file.source;
    let offset = places.positions(source).offset(source.text(), at.position, places.encoding());
    Some(find(&view, offset).iter().filter_map(|location| places.location(location)).collect())
}
