//! What completion gives: an item, and the values of one place.

use std::borrow::Cow;
use std::collections::HashSet;

use gpulint_rules::tree::Span;
use gpulint_rules::tree::scalar::{Scalar, resolve_plain};

use super::sketch::ValuePlace;

/// Something that can be written at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) span: Span,
    /// What the list shows.
    pub(crate) label: String,
    /// What is written, indented as it has to be.
    pub(crate) insert: String,
    pub(crate) kind: ItemKind,
    /// A few words beside the label: a type, a default, what an instance has.
    pub(crate) detail: Option<String>,
    /// What it means, in Markdown.
    pub(crate) documentation: Option<String>,
}

/// What an item is, for its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// The name of a field.
    Field,
    /// The key of a label, or the name of a resource.
    Label,
    /// A value of no list.
    Value,
    /// One of the few values that there are.
    Choice,
    /// The name of an object.
    Object,
    /// A kind or an API version.
    Kind,
    /// A rule or a group of rules.
    Rule,
    /// A word of a comment.
    Keyword,
}

/// Collects the values of one place.
pub(super) struct Values {
    word: Span,
    quoted: bool,
    seen: HashSet<String>,
    pub(super) out: Vec<Item>,
}

impl Values {
    pub(super) fn new(place: &ValuePlace) -> Values {
        Values { word: place.word, quoted: place.quoted, seen: HashSet::new(), out: Vec::new() }
    }

    /// Adds a text. It is written in quotes where YAML would read it as a number or a boolean.
    pub(super) fn text(&mut self, kind: ItemKind, text: &str, detail: Option<String>) {
        let insert = match self.quoted {
            true => Cow::Borrowed(text),
            false => as_text(text),
        };
        self.raw(kind, text, &insert, detail);
    }

    /// Adds a value that is written as it is, unless it is there already.
    pub(super) fn raw(&mut self, kind: ItemKind, label: &str, insert: &str, detail: Option<String>) {
        if !self.seen.insert(label.to_owned()) {
            return;
        }
        self.out.push(Item {
            span: self.word,
            label: label.to_owned(),
            insert: insert.to_owned(),
            kind,
            detail,
            documentation: None,
        });
    }
}

/// A text as YAML needs it to stay a text.
fn as_text(text: &str) -> Cow<'_, str> {
    let is_plain = matches!(resolve_plain(text), Scalar::Str(_))
        && !text.is_empty()
        && !text
            .starts_with(['*', '&', '!', '|', '>', '%', '@', '`', '"', '\'', '#', '-', '?', '{', '[', ','])
        && !text.contains(": ")
        && !text.contains(" #");
    if is_plain { Cow::Borrowed(text) } else { Cow::Owned(format!("\"{text}\"")) }
}

/// The line ends of a text.
pub(super) fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
