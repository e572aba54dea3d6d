//! The language features for a position in a file, converted to the protocol: hover, completion, definition,
//! references, inlay hints.

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionList, CompletionParams, CompletionResponse,
    CompletionTextEdit, Documentation, GotoDefinitionParams, GotoDefinitionResponse, Hover, HoverContents,
    HoverParams, InlayHint, InlayHintLabel, InlayHintParams, InlayHintTooltip, InsertTextMode, MarkupContent,
    MarkupKind, ReferenceParams, TextDocumentPositionParams, TextEdit,
};

use gpulint_rules::Location;

use crate::files;

use super::completion::{self, Item, ItemKind};
use super::convert::{Places, path_of};
use super::position::Positions;
use super::session::Session;
use super::view::View;
use super::{hover, inlay, links};

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
    let found = if files::is_configuration(&path) {
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
            // Inserted lines are already indented.
            insert_text_mode: Some(InsertTextMode::AS_IS),
            label: item.label,
            detail: item.detail,
            documentation: item.documentation.map(|text| Documentation::MarkupContent(markdown(text))),
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

/// The locations of the names of the objects that are named at a position.
pub(crate) fn definition(session: &Session, params: &GotoDefinitionParams) -> Option<GotoDefinitionResponse> {
    let found = linked(session, &params.text_document_position_params, links::definition)?;
    Some(GotoDefinitionResponse::Array(found))
}

/// The locations that refer to the object whose name is at a position.
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
    at_place(session, at, |view, offset, places| {
        Some(find(view, offset).iter().filter_map(|location| places.location(location)).collect())
    })
}

pub(crate) fn hover(session: &Session, params: &HoverParams) -> Option<Hover> {
    at_place(session, &params.text_document_position_params, |view, offset, places| {
        let found = hover::at(view, offset)?;
        Some(Hover {
            contents: HoverContents::Markup(markdown(found.markdown)),
            range: Some(places.range(&view.file.source, found.span)),
        })
    })
}

/// Runs a function for a position in a file that is checked.
fn at_place<T>(
    session: &Session,
    at: &TextDocumentPositionParams,
    ask: impl FnOnce(&View<'_>, u32, &Places<'_>) -> Option<T>,
) -> Option<T> {
    session.view(&path_of(&at.text_document.uri)?, |view, places| {
        let source = &view.file.source;
        let offset = places.positions(source).offset(source.text(), at.position, places.encoding());
        ask(view, offset, places)
    })
}

/// The inlay hints of a part of a file; none unless they are enabled.
pub(crate) fn inlay_hints(session: &Session, params: &InlayHintParams) -> Vec<InlayHint> {
    session.options.inlay_hints.then(|| hints_of(session, params)).flatten().unwrap_or_default()
}

fn hints_of(session: &Session, params: &InlayHintParams) -> Option<Vec<InlayHint>> {
    session.view(&path_of(&params.text_document.uri)?, |view, places| {
        let (source, encoding) = (&view.file.source, places.encoding());
        let positions = places.positions(source);
        let within = positions.span(source.text(), params.range, encoding);
        let hint = |hint: inlay::Hint| InlayHint {
            position: positions.position(source.text(), hint.offset, encoding),
            label: InlayHintLabel::String(hint.label),
            kind: None,
            text_edits: None,
            tooltip: Some(InlayHintTooltip::String(hint.tooltip)),
            padding_left: Some(true),
            padding_right: None,
            data: None,
        };
        Some(inlay::hints(view, within).into_iter().map(hint).collect())
    })
}

fn markdown(value: String) -> MarkupContent {
    MarkupContent { kind: MarkupKind::Markdown, value }
}
