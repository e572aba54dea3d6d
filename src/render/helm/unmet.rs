//! What a chart lacks where it is rendered with its own values, and does not render.

use std::fs;

use crate::render::defaults::demanded;
use crate::render::installs::{Chart, Install};
use crate::render::{Job, Unmet};

use super::templates::{Values, find_template, values_of};

/// Whether a chart is rendered with its own values because nothing in the input installs it.
pub(super) fn is_default(chart: &Chart, install: &Install) -> bool {
    matches!(install, Install::Own) && chart.installs.len() == 1
}

/// What a chart lacks, if a failure shows it: a template of a dependency, or values, where it is rendered with its own because
/// nothing in the input installs it.
pub(super) fn unmet(chart: &Chart, install: &Install, message: &str, job: &Job<'_>) -> Option<Unmet> {
    // Those of `required` and `fail`, of a schema, of a field of a map that is not set (Helm 3), and of a function that gets
    // nothing.
    const DEMANDS: [&str; 5] = [
        "execution error at",
        "values don't meet the specifications",
        "nil pointer evaluating interface {}",
        "of untyped nil",
        "invalid value; expected",
    ];
    // Those of `include` and of `template`.
    let lacks_template = message.contains(": no template ") || message.contains("\" not defined");
    if !chart.missing.remote.is_empty() && lacks_template {
        return Some(Unmet::Dependencies);
    }
    let is_demanded = || {
        DEMANDS.iter().any(|words| message.contains(words)) || prints_what_is_not_given(chart, message, job)
    };
    (is_default(chart, install) && is_demanded()).then_some(Unmet::Values)
}

/// Whether the template that a failure names prints a value that the chart does not give itself: what is printed may be no YAML
/// without it.
fn prints_what_is_not_given(chart: &Chart, message: &str, job: &Job<'_>) -> bool {
    if message.contains("parse error at (") {
        return false;
    }
    let words = message.split([' ', '"', ':', '(']);
    let mut templates = words.filter(|word| word.contains("/templates/") && word.starts_with(&chart.name));
    templates.any(|from| {
        let found = find_template(chart, from, job.sources);
        let own = Values { files: Vec::new(), singles: &[], has_own: true };
        let values = values_of(chart, &own, &found, job.sources);
        let text = found.template.and_then(|path| fs::read_to_string(path).ok());
        text.is_some_and(|text| demanded(&values, &text, &(0..text.len())).is_some())
    })
}

/// A chart with what it lacks, for a note.
pub(super) fn lacking(chart: &Chart, unmet: Unmet, message: &str) -> String {
    let what = match unmet {
        Unmet::Dependencies => chart.missing.remote.join(", "),
        Unmet::Values => message.split_once("` failed: ").map_or(message, |(_, words)| words).to_owned(),
    };
    format!("{} ({what})", chart.shown)
}
