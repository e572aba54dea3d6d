//! Why a chart or a kustomization was not rendered.

use std::path::Path;
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;

use super::process;
use super::process::Failure;

pub(super) struct RenderFailure {
    pub(super) scope: usize,
    /// Whether a program is not installed.
    pub(super) is_missing: bool,
    /// Whether it had too little time.
    pub(super) is_slow: bool,
    /// The `Chart.yaml` or the kustomization that was rendered.
    pub(super) source: Arc<Source>,
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: String,
}

impl RenderFailure {
    pub(super) fn new(
        scope: usize,
        (source, span): (Arc<Source>, Span),
        failure: &Failure,
        (message, help): (String, String),
    ) -> Self {
        let is_missing = *failure == Failure::Missing;
        let is_slow = matches!(failure, Failure::TooSlow(_));
        RenderFailure { scope, is_missing, is_slow, source, span, message, help }
    }
}

/// The text of the finding for a program that failed.
pub(super) fn failure_words(
    failure: &Failure,
    program: &str,
    command: &str,
    temporary: &[(&Path, &str)],
) -> (String, String) {
    match failure {
        Failure::Missing => (
            format!("`{command}` was not run: there is no `{program}` in PATH"),
            format!("install {program}, or check without --render"),
        ),
        Failure::Failed(words) => {
            let words = process::one_line(words, temporary);
            let help = if words.contains("missing in charts/") {
                "run `helm dependency build`: gpulint downloads nothing".to_owned()
            } else if program == "helm" {
                "repair it, or name the values that the chart needs in `render.helm` of gpulint.yaml"
                    .to_owned()
            } else {
                "repair it, or check without --render".to_owned()
            };
            (format!("`{command}` failed: {words}"), help)
        }
        Failure::TooSlow(limit) => (
            format!("`{command}` did not end within {} s", limit.as_secs_f32()),
            "--render-limit SECONDS gives it more time".to_owned(),
        ),
        Failure::TooLarge => {
            (format!("`{command}` printed more than 256 MiB"), "repair what goes on without end".to_owned())
        }
    }
}
