//! Applies a fix to the text that an object was read from.
//!
//! What comes out are edits: comments, order, quotes, indentation and line ends stay as they are
//! wherever the fix says nothing about them. Each operation edits the text that the one before
//! it left; all of them together are edits of the text on disk.
//!
//! The law holds for every answer, because it is checked before it is given: reading the edited
//! text gives exactly the patched value, and every other document and object as it was. What
//! cannot be edited so is refused with the reason.

mod block;
mod editor;
mod flow;
mod layout;
mod piece_table;
mod scope;
mod write;

use super::{Fix, FixError, value};
use crate::object::Object;
use crate::tree::Span;
use scope::Scope;

/// One edit: the bytes of the span become the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is replaced; empty for an insertion.
    pub span: Span,
    /// What stands there instead.
    pub text: String,
}

/// What a fix does to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The edits, in their order, none inside another.
    pub edits: Vec<Edit>,
    /// Where the law was checked: the document, or the lines of an item of a list. Repairs whose
    /// scopes do not touch each other can be made together.
    pub scope: Span,
}

/// The edits of the object's source that a fix amounts to.
///
/// # Errors
/// As [`repair`].
pub fn edits(object: &Object, fix: &Fix) -> Result<Vec<Edit>, FixError> {
    repair(object, fix).map(|repair| repair.edits)
}

/// The edits of the object's source that a fix amounts to, and their scope.
///
/// # Errors
/// [`Refused`] where the fix does not apply, or its place cannot be edited without changing
/// anything else.
pub fn repair(object: &Object, fix: &Fix) -> Result<Repair, FixError> {
    let origin = object.origin().ok_or(FixError::NoText)?;
    let source = &*origin.source;
    if !source.is_utf8() {
        return Err(FixError::Encoding);
    }
    let result = value::apply(&object.root().to_json(), fix)?;
    if fix.creates.is_empty()
        && let Some(item) = Scope::item(object)
        && let Ok(repair) = item.repair(source, object, fix, &result)
    {
        return Ok(repair);
    }
    Scope::document(source, object, origin.span).repair(source, object, fix, &result)
}

/// The text after edits, which are in order and do not overlap; `None` where they are not.
#[must_use]
pub fn apply_edits(text: &str, edits: &[Edit]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for edit in edits {
        out.push_str(text.get(at..edit.span.start as usize)?);
        out.push_str(&edit.text);
        at = edit.span.end as usize;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}
