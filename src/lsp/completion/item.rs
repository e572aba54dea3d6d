//! The result of completion: an item, and the collection of the values for one place.

use std::borrow::Cow;
use std::collections::HashSet;

use gpulint_rules::tree::Span;
use gpulint_rules::tree::scalar::{Scalar, resolve_plain};

use super::sketch::ValuePlace;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) span: Span,
    /// The text in the list.
    pub(crate) label: String,
    /// The text to insert, with its indentation.
    pub(crate) insert: String,
    pub(crate) kind: ItemKind,
    /// A short text beside the label: a type, a default, the hardware of an instance type.
    pub(crate) detail: Option<String>,
    /// The description, in Markdown.
    pub(crate) documentation: Option<String>,
}

/// The kind of an item, which decides its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Field,
    /// The key of a label, or the name of a resource.
    Label,
    /// A value from an open set.
    Value,
    /// A value from a closed set.
    Choice,
    Object,
    Kind,
    Rule,
    /// A word in a comment.
    Keyword,
}

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

    /// Adds a string. It is quoted if YAML would read it as a number or a boolean.
    pub(super) fn text(&mut self, kind: ItemKind, text: &str, detail: Option<String>) {
        let insert = match self.quoted {
            true => Cow::Borrowed(text),
            false => as_text(text),
        };
        self.raw(kind, text, &insert, detail);
    }

    /// Adds a value that is inserted as it is, unless it is already in the list.
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

/// The string in a YAML form that stays a string.
fn as_text(text: &str) -> Cow<'_, str> {
    let is_plain = matches!(resolve_plain(text), Scalar::Str(_))
        && !text.is_empty()
        && !text
            .starts_with(['*', '&', '!', '|', '>', '%', '@', '`', '"', '\'', '#', '-', '?', '{', '[', ','])
        && !text.contains(": ")
        && !text.contains(" #");
    if is_plain { Cow::Borrowed(text) } else { Cow::Owned(format!("\"{text}\"")) }
}

pub(super) fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
