//! A short form of the manual of the rules whose findings are at an offset.

use gpulint_rules::tree::Span;
use gpulint_rules::{Finding, Rule};

use super::Hover;
use crate::lsp::view::View;
use crate::report::manual_paragraph;

/// Maximum length in bytes of the texts on the reason and on the fix.
const MAX_WHY: usize = 700;
/// Maximum number of rules for which the reason is shown; with more rules, only the first one has it.
const MAX_EXPLAINED: usize = 2;

/// The findings at an offset, each rule once.
pub(super) fn at(view: &View<'_>, offset: u32) -> Option<Hover> {
    let mut span: Option<Span> = None;
    let mut rules: Vec<&Finding> = Vec::new();
    for finding in &view.report.findings {
        let Some(own) = span_in(view, finding).filter(|own| holds(*own, offset)) else { continue };
        // The narrowest location is the most specific one.
        let is_narrower = |known: Span| own.end - own.start < known.end - known.start;
        if span.is_none_or(is_narrower) {
            span = Some(own);
        }
        if !rules.iter().any(|known| known.rule.id == finding.rule.id) {
            rules.push(finding);
        }
    }
    let parts: Vec<String> = rules
        .iter()
        .enumerate()
        .map(|(number, finding)| of_finding(finding, rules.len() <= MAX_EXPLAINED || number == 0))
        .collect();
    Some(Hover { span: span?, markdown: parts.join("\n\n---\n\n") })
}

fn span_in(view: &View<'_>, finding: &Finding) -> Option<Span> {
    let (source, _, span) = finding.location.resolve_span()?;
    (source.path() == view.file.source.path()).then_some(span)
}

fn holds(span: Span, offset: u32) -> bool {
    span.start <= offset && (offset < span.end || span.start == span.end && offset == span.start)
}

fn of_finding(finding: &Finding, is_explained: bool) -> String {
    let rule = finding.rule;
    let mut out =
        format!("**{}** · {} · [{}]({})", rule.summary(), finding.severity.name(), rule.id, rule.url());
    if is_explained {
        out.push_str("\n\n");
        out.push_str(&manual_paragraph(rule, "Why", MAX_WHY).unwrap_or_default());
    }
    if let Some(what) = what_to_write(finding, rule) {
        out.push_str("\n\n**Fix:** ");
        out.push_str(&what);
    }
    out.trim_end().to_owned()
}

/// The help of the finding, otherwise the text of the manual.
fn what_to_write(finding: &Finding, rule: &Rule) -> Option<String> {
    finding.help.clone().or_else(|| manual_paragraph(rule, "Fix", MAX_WHY))
}
