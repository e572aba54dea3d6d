//! Which findings of several renders are one.

use std::collections::HashMap;
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Location, Rendered, Rule};

/// The key by which findings of several renders are merged.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct MergeKey {
    path: String,
    span: Span,
    rule: &'static str,
    /// For a literal text or a value, the message without names; otherwise the whole message, because one text may give
    /// several.
    words: Vec<String>,
    /// The number of the finding among those with these words at one place of the rendered text, which differ in names: one
    /// place may have several.
    ordinal: usize,
}

/// The messages of the findings at each place of a rendered text.
#[derive(Default)]
pub(super) struct Ordinals(HashMap<(*const Source, u32, MergeKey), Vec<String>>);

impl Ordinals {
    pub(super) fn number(&mut self, key: MergeKey, rendered: &Rendered, message: &str) -> MergeKey {
        let field = match &rendered.place {
            Location::Within(field, _) => field,
            place => place,
        };
        let Some((source, _, span)) = field.resolve_span() else { return key };
        let known = self.0.entry((Arc::as_ptr(source), span.start, key.clone())).or_default();
        let ordinal = known.iter().position(|one| one == message).unwrap_or_else(|| {
            known.push(message.to_owned());
            known.len() - 1
        });
        MergeKey { ordinal, ..key }
    }
}

impl MergeKey {
    pub(super) fn of(rendered: &Rendered, rule: &'static Rule, message: &str, is_value: bool) -> MergeKey {
        let words = if rendered.is_literal || is_value {
            // Releases and kustomizations may change names, so that they differ between renders.
            message.split('`').step_by(2).map(str::to_owned).collect()
        } else {
            vec![message.to_owned()]
        };
        MergeKey {
            path: rendered.source.path().to_owned(),
            span: rendered.span,
            rule: rule.id,
            words,
            ordinal: 0,
        }
    }
}
