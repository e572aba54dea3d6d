//! The code actions for findings: fixes, a comment that suppresses a finding, the manual, and conversions.

mod minimal;
mod requests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use gpulint_rules::lint::fix::FixError;
use gpulint_rules::lint::fix::rounds::{FileEdit, FixTarget, applicable_repair};
use gpulint_rules::lint::fix::text::{Edit, Repair, repair};
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Engine, Finding, Kind, MANUAL, Safety, migration};
use lsp_types::{
    CodeAction, CodeActionContext, CodeActionDisabled, CodeActionKind, CodeActionOrCommand, Command,
    Diagnostic, DocumentChanges, NumberOrString, OneOf, OptionalVersionedTextDocumentIdentifier, Position,
    Range, ShowDocumentParams, TextDocumentEdit, TextEdit, Uri, WorkspaceEdit,
};
use serde_json::{Value, json};

use crate::allow_comment;

use super::client::Capabilities;
use super::diagnostics;
use super::diagnostics::Locate;
use super::view::View;

pub(crate) use requests::{answer, execute, resolve};

use minimal::minimal;

/// Applies every safe fix of a file. Clients request it as `source.fixAll`, or by this name.
pub(crate) const FIX_ALL: CodeActionKind = CodeActionKind::new("source.fixAll.gpulint");
/// The command that opens a page of the manual. Its argument is the address.
pub(crate) const OPEN_MANUAL: &str = "gpulint.openManual";
/// The command that selects the reason of a suppression that was just inserted. Its arguments are the URI and
/// the range.
const SELECT_REASON: &str = "gpulint.selectReason";
pub(crate) const COMMANDS: [&str; 2] = [OPEN_MANUAL, SELECT_REASON];
/// Placeholder for the reason of a suppression.
const REASON: &str = "TODO: say why";

#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The URI that the client uses for the file.
    pub(crate) uri: &'a Uri,
    /// The version of the text, if the file is open.
    pub(crate) version: Option<i32>,
    /// The cursor or the selection, in bytes.
    pub(crate) range: Span,
    pub(crate) context: &'a CodeActionContext,
}

/// Converts locations and ranges for the client.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) can: Capabilities,
    /// Converts the location of a finding.
    pub(crate) locate: &'a Locate<'a>,
    /// Converts a range of bytes of the file.
    pub(crate) range: &'a dyn Fn(Span) -> Range,
}

/// The actions for a range, the most likely ones first.
pub(crate) fn of_range(
    view: &View<'_>,
    request: &Request<'_>,
    shown: &Shown<'_>,
) -> Vec<CodeActionOrCommand> {
    let mut offer = Offer { view, request, shown, actions: Vec::new() };
    let chosen = offer.chosen();
    if offer.is_wanted(&CodeActionKind::QUICKFIX) {
        offer.add_fixes(&chosen);
        offer.add_fix_all(&chosen);
        offer.add_suppressions(&chosen);
        offer.add_manual(&chosen);
    }
    if offer.is_wanted(&CodeActionKind::REFACTOR_REWRITE) {
        offer.add_conversions();
    }
    if request.context.only.is_some() && offer.is_wanted(&FIX_ALL) && offer.safely_fixable() > 0 {
        offer.push_fix_all(FIX_ALL, Vec::new());
    }
    offer.actions.into_iter().map(CodeActionOrCommand::CodeAction).collect()
}

/// The page or selection that a command shows. `None` for a command or arguments that no action has.
pub(crate) fn shown_by(command: &str, arguments: &[Value]) -> Option<ShowDocumentParams> {
    let uri = |value: &Value| value.as_str()?.parse::<Uri>().ok();
    match (command, arguments) {
        (OPEN_MANUAL, [address]) if address.as_str()?.starts_with(MANUAL) => Some(ShowDocumentParams {
            uri: uri(address)?,
            external: Some(true),
            take_focus: Some(true),
            selection: None,
        }),
        (SELECT_REASON, [file, range]) => Some(ShowDocumentParams {
            uri: uri(file)?,
            external: Some(false),
            take_focus: Some(true),
            selection: Some(serde_json::from_value(range.clone()).ok()?),
        }),
        _ => None,
    }
}

/// The edits that apply the safe fixes of a file, and then those of the findings that remain. `recheck`
/// returns the findings of the file with another text; if it returns `None`, no more fixes are applied.
pub(crate) fn fix_all(
    source: &Arc<Source>,
    findings: &[Finding],
    recheck: &mut dyn FnMut(&str) -> Option<Vec<Finding>>,
) -> Vec<Edit> {
    let Some(first) = FileEdit::of(findings, Safety::Safe) else { return Vec::new() };
    let mut target = Target { text: source.text().to_owned(), checked: None, recheck };
    Engine::fix(&mut target, vec![(0, first)]);
    minimal(source.text(), &[whole(source.text(), target.text)])
}

/// The URI of the file of an action that has to be resolved.
pub(crate) fn unresolved(action: &CodeAction) -> Option<Uri> {
    action.data.as_ref()?.get("fixAll")?.as_str()?.parse().ok()
}

/// Makes a workspace edit for a file.
fn workspace_edit(uri: &Uri, version: Option<i32>, edits: &[Edit], shown: &Shown<'_>) -> WorkspaceEdit {
    let edit = |edit: &Edit| TextEdit { range: (shown.range)(edit.span), new_text: edit.text.clone() };
    edit_of(uri, version, edits.iter().map(edit).collect(), shown.can)
}

/// Makes a workspace edit from edits with ranges.
fn edit_of(uri: &Uri, version: Option<i32>, edits: Vec<TextEdit>, can: Capabilities) -> WorkspaceEdit {
    if can.has_document_changes {
        let text_document = OptionalVersionedTextDocumentIdentifier { uri: uri.clone(), version };
        let edit = TextDocumentEdit { text_document, edits: edits.into_iter().map(OneOf::Left).collect() };
        let document_changes = Some(DocumentChanges::Edits(vec![edit]));
        return WorkspaceEdit { document_changes, ..WorkspaceEdit::default() };
    }
    #[expect(clippy::mutable_key_type, reason = "the protocol's own type; nobody changes what a URI caches")]
    let changes = [(uri.clone(), edits)].into();
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}

/// The edit that replaces a whole text by another one.
fn whole(before: &str, text: String) -> Edit {
    Edit { span: Span::new(0, u32::try_from(before.len()).unwrap_or(u32::MAX)), text }
}

/// A text to which fixes are applied in rounds.
struct Target<'r> {
    text: String,
    /// The last text that was checked again, and its findings.
    checked: Option<(String, Vec<Finding>)>,
    recheck: &'r mut dyn FnMut(&str) -> Option<Vec<Finding>>,
}

impl FixTarget for Target<'_> {
    type Edit = FileEdit;

    fn plan(&mut self, _: Option<&BTreeSet<usize>>) -> Vec<(usize, FileEdit)> {
        if self.checked.as_ref().is_none_or(|(text, _)| *text != self.text) {
            self.checked = (self.recheck)(&self.text).map(|findings| (self.text.clone(), findings));
        }
        let findings = self.checked.as_ref().map(|(_, findings)| findings.as_slice()).unwrap_or_default();
        FileEdit::of(findings, Safety::Safe).map(|edit| (0, edit)).into_iter().collect()
    }

    fn content(&self, _: usize) -> Option<Cow<'_, str>> {
        Some(self.text.as_str().into())
    }

    fn edited(edit: &FileEdit) -> Cow<'_, str> {
        edit.text.as_str().into()
    }

    fn apply(&mut self, _: usize, edit: FileEdit) {
        self.text = edit.text;
    }
}

/// A finding in the range, and the diagnostics of the client for it.
struct Chosen<'a> {
    finding: &'a Finding,
    span: Span,
    diagnostics: Vec<Diagnostic>,
}

struct Offer<'a> {
    view: &'a View<'a>,
    request: &'a Request<'a>,
    shown: &'a Shown<'a>,
    actions: Vec<CodeAction>,
}

impl<'a> Offer<'a> {
    /// Whether the client requests actions of a kind.
    fn is_wanted(&self, kind: &CodeActionKind) -> bool {
        let is_part = |asked: &CodeActionKind| {
            let rest = kind.as_str().strip_prefix(asked.as_str());
            asked.as_str().is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.request.context.only.as_ref().is_none_or(|only| only.iter().any(is_part))
    }

    /// The findings that overlap the range, and those whose diagnostics the client sent.
    fn chosen(&self) -> Vec<Chosen<'a>> {
        let own = self.view.file.source.path();
        let range = self.request.range;
        let mut chosen = Vec::new();
        for finding in &self.view.report.findings {
            let Some((source, _, span)) = finding.location.resolve_span() else { continue };
            if source.path() != own {
                continue;
            }
            let touches = span.start <= range.end && range.start <= span.end;
            let is_of_rule = |one: &&Diagnostic| is_rule(one, finding.rule.id);
            let mut named = self.request.context.diagnostics.iter().filter(is_of_rule).peekable();
            if !touches && named.peek().is_none() {
                continue;
            }
            let place = (self.shown.range)(span);
            let named: Vec<Diagnostic> = named.filter(|one| one.range == place).cloned().collect();
            match named.is_empty() {
                true if !touches => {}
                true => {
                    let (locate, can) = (self.shown.locate, self.shown.can);
                    let diagnostics = vec![diagnostics::diagnostic(finding, None, locate, can)];
                    chosen.push(Chosen { finding, span, diagnostics });
                }
                false => chosen.push(Chosen { finding, span, diagnostics: named }),
            }
        }
        chosen
    }

    fn edit(&self, edits: &[Edit]) -> WorkspaceEdit {
        workspace_edit(self.request.uri, self.request.version, edits, self.shown)
    }

    /// Adds a quick fix for each finding that has a fix; equal ones are merged.
    fn add_fixes(&mut self, chosen: &[Chosen<'a>]) {
        let mut known: Vec<(String, Vec<Edit>, usize)> = Vec::new();
        let first = self.actions.len();
        for one in chosen {
            let Some(fix) = &one.finding.fix else { continue };
            let Some(repair) = applicable_repair(one.finding, fix.safety) else { continue };
            let title = fix.title_with_effect();
            let action = CodeAction {
                title: title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(one.diagnostics.clone()),
                is_preferred: (fix.safety == Safety::Safe).then_some(true),
                ..CodeAction::default()
            };
            match self.edits(repair) {
                Ok(edits) => {
                    let same = known.iter().find(|(words, same, _)| *words == title && *same == edits);
                    if let Some(at) = same.map(|(.., at)| *at) {
                        let all = self.actions[at].diagnostics.get_or_insert_default();
                        all.extend(one.diagnostics.iter().cloned());
                        continue;
                    }
                    let edit = Some(self.edit(&edits));
                    known.push((title, edits, self.actions.len()));
                    self.actions.push(CodeAction { edit, ..action });
                }
                Err(reason) if self.shown.can.shows_disabled => {
                    let disabled = Some(CodeActionDisabled { reason });
                    self.actions.push(CodeAction { disabled, is_preferred: None, ..action });
                }
                Err(_) => {}
            }
        }
        self.actions[first..]
            .sort_by_key(|action| (action.disabled.is_some(), action.is_preferred.is_none()));
    }

    /// The smallest edits that apply a fix.
    fn edits(&self, repair: Result<Repair, FixError>) -> Result<Vec<Edit>, String> {
        let repair = repair.map_err(|error| error.to_string())?;
        match repair.edits.is_empty() {
            true => Err("it changes nothing".to_owned()),
            false => Ok(minimal(self.view.file.source.text(), &repair.edits)),
        }
    }

    fn safely_fixable(&self) -> usize {
        let is_safe = |finding: &&Finding| finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe);
        self.view.report.findings.iter().filter(is_safe).count()
    }

    /// Adds the action that applies all safe fixes, if the range has a safe fix and the file has others.
    fn add_fix_all(&mut self, chosen: &[Chosen<'a>]) {
        let is_safe =
            |one: &&Chosen<'_>| one.finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe);
        let diagnostics: Vec<Diagnostic> =
            chosen.iter().filter(is_safe).flat_map(|one| one.diagnostics.clone()).collect();
        if !diagnostics.is_empty() && self.safely_fixable() > 1 {
            self.push_fix_all(CodeActionKind::QUICKFIX, diagnostics);
        }
    }

    fn push_fix_all(&mut self, kind: CodeActionKind, diagnostics: Vec<Diagnostic>) {
        let mut action = CodeAction {
            title: "make all safe fixes in this file".to_owned(),
            kind: Some(kind),
            diagnostics: (!diagnostics.is_empty()).then_some(diagnostics),
            ..CodeAction::default()
        };
        if self.shown.can.resolves_edits {
            action.data = Some(json!({"fixAll": self.request.uri.as_str()}));
        } else {
            // The caller that may change the project can check again.
            let edits = fix_all(&self.view.file.source, &self.view.report.findings, &mut |_| None);
            if edits.is_empty() {
                return;
            }
            action.edit = Some(self.edit(&edits));
        }
        self.actions.push(action);
    }

    fn add_suppressions(&mut self, chosen: &[Chosen<'a>]) {
        let source = &self.view.file.source;
        let line_of = |one: &Chosen<'_>| source.lines().line_of(one.span.start);
        let mut known: Vec<(&str, usize)> = Vec::new();
        for one in chosen {
            let (rule, line) = (one.finding.rule, line_of(one));
            if known.contains(&(rule.id, line)) {
                continue;
            }
            known.push((rule.id, line));
            let same =
                chosen.iter().filter(|other| other.finding.rule.id == rule.id && line_of(other) == line);
            let mut action = CodeAction {
                title: format!("suppress {} here, with a reason", rule.id),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(same.flat_map(|other| other.diagnostics.clone()).collect()),
                ..CodeAction::default()
            };
            let insertion = match allow_comment::is_in_template(one.finding) {
                true => Err(allow_comment::TEMPLATE),
                false => allow_comment::insertion(source, line, rule, REASON),
            };
            match insertion {
                Ok(insertion) => {
                    let at = Span::new(insertion.at, insertion.at);
                    let edit = Edit { span: at, text: insertion.text };
                    if self.shown.can.shows_documents {
                        action.command = self.selection(&edit);
                    }
                    action.edit = Some(self.edit(&[edit]));
                }
                Err(reason) if self.shown.can.shows_disabled && allow_comment::is_suppressible(rule) => {
                    action.disabled = Some(CodeActionDisabled { reason: reason.to_owned() });
                }
                Err(_) => continue,
            }
            self.actions.push(action);
        }
    }

    fn selection(&self, edit: &Edit) -> Option<Command> {
        let before = edit.text.find(REASON)?;
        let start = (self.shown.range)(edit.span).start;
        // The comment is one line and ASCII up to its reason, so that a character is one unit in every
        // encoding.
        let units = |text: &str| u32::try_from(text.len()).unwrap_or_default();
        let from = Position { character: start.character + units(&edit.text[..before]), ..start };
        let to = Position { character: from.character + units(REASON), ..from };
        Some(Command {
            title: "write the reason".to_owned(),
            command: SELECT_REASON.to_owned(),
            arguments: Some(vec![json!(self.request.uri.as_str()), json!(Range { start: from, end: to })]),
        })
    }

    /// Adds the manual page of each rule.
    fn add_manual(&mut self, chosen: &[Chosen<'a>]) {
        if !self.shown.can.shows_documents {
            return;
        }
        let mut known: Vec<&str> = Vec::new();
        for one in chosen {
            let rule = one.finding.rule;
            if known.contains(&rule.id) {
                continue;
            }
            known.push(rule.id);
            let title = format!("open the manual on {}", rule.id);
            let arguments = Some(vec![json!(rule.url())]);
            let same = chosen.iter().filter(|other| other.finding.rule.id == rule.id);
            self.actions.push(CodeAction {
                title: title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(same.flat_map(|other| other.diagnostics.clone()).collect()),
                command: Some(Command { title, command: OPEN_MANUAL.to_owned(), arguments }),
                ..CodeAction::default()
            });
        }
    }

    /// Adds the conversion of each object of an old API of Karpenter that overlaps the range.
    fn add_conversions(&mut self) {
        let range = self.request.range;
        let Some(cluster) = self.view.sets.first().map(|set| set.cluster) else { return };
        for object in &self.view.file.objects {
            let Some(span) = object.root().span() else { continue };
            if span.start > range.end || range.start > span.end {
                continue;
            }
            let platform = &self.view.engine.settings().platform;
            let Some(conversion) = migration::conversion(object, cluster, platform) else { continue };
            let id = object.id();
            let of_class = ["EC2NodeClass", "AWSNodeTemplate"].contains(&id.kind.as_str());
            let group = if of_class { Kind::EC2_NODE_CLASS.group } else { Kind::NODE_POOL.group };
            let title = format!("convert {} {} to {group}/v1", id.kind, id.name);
            let kind = Some(CodeActionKind::REFACTOR_REWRITE);
            match conversion.and_then(|fix| self.edits(repair(object, &fix))) {
                Ok(edits) => {
                    let edit = Some(self.edit(&edits));
                    // The conversion may already be there as the quick fix of a finding.
                    if !self.actions.iter().any(|action| action.edit == edit) {
                        self.actions.push(CodeAction { title, kind, edit, ..CodeAction::default() });
                    }
                }
                Err(reason) if self.shown.can.shows_disabled => self.actions.push(CodeAction {
                    title,
                    kind,
                    disabled: Some(CodeActionDisabled { reason }),
                    ..CodeAction::default()
                }),
                Err(_) => {}
            }
        }
    }
}

fn is_rule(diagnostic: &Diagnostic, id: &str) -> bool {
    matches!(&diagnostic.code, Some(NumberOrString::String(code)) if code == id)
        && diagnostic.source.as_deref() == Some(diagnostics::SOURCE)
}

#[cfg(test)]
pub(crate) mod tests;
