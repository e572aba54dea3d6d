//! What another version changes, as text.

use std::fmt::Write as _;

use gpulint_rules::Location;

use crate::preview::Preview;
use crate::terminal::RenderOptions;

/// So many entries of a kind are in the text.
const MAX_LINES: usize = 20;

/// The block below the findings.
pub(super) fn text(preview: &Preview, options: RenderOptions) -> String {
    let steps: Vec<String> = preview.steps.iter().map(|step| step.title(options.unicode)).collect();
    let mut out = format!("preview of {}\n", steps.join(", "));
    for note in preview.steps.iter().filter_map(|step| step.note()) {
        let _ = writeln!(out, "  {note}");
    }
    match preview.new.len() {
        0 => out.push_str("  no finding is new\n"),
        1 => out.push_str("  1 finding is new, marked above\n"),
        new => {
            let _ = writeln!(out, "  {new} findings are new, marked above");
        }
    }
    for finding in preview.gone.iter().take(MAX_LINES) {
        let place = place(&finding.location);
        let (severity, rule) = (finding.severity.name(), finding.rule.id);
        let _ = writeln!(out, "  goes away: {place}{severity}[{rule}] {}", finding.message);
    }
    if preview.gone.len() > MAX_LINES {
        let _ = writeln!(out, "  goes away: {} more", preview.gone.len() - MAX_LINES);
    }
    for change in preview.changes.iter().take(MAX_LINES) {
        let field =
            Location::Field { object: change.object.clone(), pointer: change.pointer.clone(), key: false };
        let _ =
            writeln!(out, "  changes: {}from Karpenter {} on {}", place(&field), change.version, change.text);
    }
    if preview.changes.len() > MAX_LINES {
        let _ = writeln!(out, "  changes: {} more", preview.changes.len() - MAX_LINES);
    }
    out
}

/// `a.yaml:3:5: `.
fn place(location: &Location) -> String {
    let Some((source, _, span)) = location.resolve_span() else { return String::new() };
    let at = source.lines().position(source.text(), span.start);
    format!("{}:{}:{}: ", source.path(), at.line, at.column)
}
