//! The requests of the client: dispatches each to the function that answers it, and answers requests for
//! diagnostics.

use lsp_server::ErrorCode;
use lsp_types::request;
use lsp_types::request::Request as _;
use lsp_types::{
    DocumentDiagnosticParams, DocumentDiagnosticReport, FullDocumentDiagnosticReport,
    RelatedFullDocumentDiagnosticReport, RelatedUnchangedDocumentDiagnosticReport,
    UnchangedDocumentDiagnosticReport, WorkspaceDiagnosticParams, WorkspaceDiagnosticReport,
    WorkspaceDocumentDiagnosticReport, WorkspaceFullDocumentDiagnosticReport,
    WorkspaceUnchangedDocumentDiagnosticReport,
};
use serde::Serialize;
use serde_json::Value;

use super::actions;
use super::convert::path_of;
use super::features;
use super::findings;
use super::plans;
use super::session::{Session, read};

/// The error of a request that has no result.
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

type Answer = Result<Value, Refusal>;

pub(crate) fn answer(session: &mut Session, method: &str, params: Value) -> Answer {
    match method {
        request::DocumentDiagnosticRequest::METHOD => {
            with(params, |params| file_diagnostics(session, &params))
        }
        request::WorkspaceDiagnosticRequest::METHOD => {
            with(params, |params| all_diagnostics(session, &params))
        }
        request::HoverRequest::METHOD => with(params, |params| features::hover(session, &params)),
        request::InlayHintRequest::METHOD => with(params, |params| features::inlay_hints(session, &params)),
        request::Completion::METHOD => with(params, |params| features::completion(session, &params)),
        request::GotoDefinition::METHOD => with(params, |params| features::definition(session, &params)),
        request::References::METHOD => with(params, |params| features::references(session, &params)),
        request::CodeActionRequest::METHOD => with(params, |params| actions::answer(session, &params)),
        request::CodeActionResolveRequest::METHOD => with(params, |action| actions::resolve(session, action)),
        request::CodeLensRequest::METHOD => with(params, |params| plans::lenses(session, &params)),
        request::ExecuteCommand::METHOD => with(params, |params| actions::execute(session, &params)),
        _ => Err(Refusal {
            code: ErrorCode::MethodNotFound,
            message: format!("there is no request `{method}`"),
        }),
    }
}

fn with<P: serde::de::DeserializeOwned, R: Serialize>(params: Value, answer: impl FnOnce(P) -> R) -> Answer {
    let Some(params) = read(params) else {
        let message = "invalid parameters".to_owned();
        return Err(Refusal { code: ErrorCode::InvalidParams, message });
    };
    serde_json::to_value(answer(params))
        .map_err(|error| Refusal { code: ErrorCode::InternalError, message: error.to_string() })
}

/// The diagnostics of a file, or the answer that they are unchanged.
fn file_diagnostics(session: &Session, params: &DocumentDiagnosticParams) -> DocumentDiagnosticReport {
    let items = match path_of(&params.text_document.uri) {
        Some(path) => findings::of_file(session, &path),
        None => Vec::new(),
    };
    let id = findings::result_id(&items);
    if params.previous_result_id.as_ref() == Some(&id) {
        let report = UnchangedDocumentDiagnosticReport { result_id: id };
        return DocumentDiagnosticReport::Unchanged(RelatedUnchangedDocumentDiagnosticReport {
            related_documents: None,
            unchanged_document_diagnostic_report: report,
        });
    }
    let report = FullDocumentDiagnosticReport { result_id: Some(id), items };
    DocumentDiagnosticReport::Full(RelatedFullDocumentDiagnosticReport {
        related_documents: None,
        full_document_diagnostic_report: report,
    })
}

/// The diagnostics of all files that have some, and of those that had some at the previous request.
fn all_diagnostics(session: &Session, params: &WorkspaceDiagnosticParams) -> WorkspaceDiagnosticReport {
    let mut items = Vec::new();
    let mut known: std::collections::HashMap<&str, &str> =
        params.previous_result_ids.iter().map(|one| (one.uri.as_str(), one.value.as_str())).collect();
    for (path, id) in session.files_with_diagnostics() {
        let Some(uri) = session.uri(path) else { continue };
        let version = session.version(path).map(i64::from);
        let result_id = id.to_owned();
        items.push(match known.remove(uri.as_str()) {
            Some(before) if before == id => {
                WorkspaceDocumentDiagnosticReport::Unchanged(WorkspaceUnchangedDocumentDiagnosticReport {
                    uri,
                    version,
                    unchanged_document_diagnostic_report: UnchangedDocumentDiagnosticReport { result_id },
                })
            }
            _ => WorkspaceDocumentDiagnosticReport::Full(WorkspaceFullDocumentDiagnosticReport {
                uri,
                version,
                full_document_diagnostic_report: FullDocumentDiagnosticReport {
                    result_id: Some(result_id),
                    items: findings::of_file(session, path),
                },
            }),
        });
    }
    // The remaining files had diagnostics and have none now.
    let empty = findings::result_id(&[]);
    for one in &params.previous_result_ids {
        if known.get(one.uri.as_str()).is_some_and(|id| *id != empty) {
            items.push(WorkspaceDocumentDiagnosticReport::Full(WorkspaceFullDocumentDiagnosticReport {
                uri: one.uri.clone(),
                version: None,
                full_document_diagnostic_report: FullDocumentDiagnosticReport {
                    result_id: Some(empty.clone()),
                    items: Vec::new(),
                },
            }));
        }
    }
    WorkspaceDiagnosticReport { items }
}
