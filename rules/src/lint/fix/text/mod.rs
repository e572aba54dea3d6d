//! Applies a fix to the text that an object was read from.
//!
//! The results are edits: comments, order, quotes, indentation and line ends are kept wherever the fix does
//! not change them. Each operation edits the text that the previous one produced; together they are edits of
//! the text on disk.
//!
//! Every result is verified before it is returned: parsing the edited text yields exactly the patched value,
//! and all other documents and objects unchanged. A fix that cannot be applied this way is rejected with the
//! reason.

mod block;
mod editor;
mod flow;
mod layout;
mod piece_table;
mod scope;
mod write;

use super::value::Patched;
use super::{Fix, FixError};
use crate::object::Object;
use crate::tree::Span;
use scope::Scope;

/// One edit: the bytes of the span are replaced by the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub span: Span,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The edits in order, without overlaps.
    pub edits: Vec<Edit>,
    /// The verified part of the file: the document, or the lines of an item of a list. Repairs whose scopes
    /// do not touch each other can be applied together.
    pub scope: Span,
}

/// The edits of the object's source that apply a fix.
///
/// # Errors
/// As [`repair`].
pub fn edits(object: &Object, fix: &Fix) -> Result<Vec<Edit>, FixError> {
    repair(object, fix).map(|repair| repair.edits)
}

/// The edits of the object's source that apply a fix, and their scope.
///
/// # Errors
/// [`FixError`] if the fix does not apply, or if its target cannot be edited without changing anything else.
pub fn repair(object: &Object, fix: &Fix) -> Result<Repair, FixError> {
    let origin = object.origin().ok_or(FixError::NoText)?;
    let source = &*origin.source;
    if !source.is_utf8() {
        return Err(FixError::Encoding);
    }
    let result = Patched::new(&object.root(), fix)?;
    if fix.creates.is_empty()
        && let Some(item) = Scope::item(object)
        && let Ok(repair) = item.repair(source, object, fix, result.clone())
    {
        return Ok(repair);
    }
    Scope::document(source, object, origin.span).repair(source, object, fix, result)
}

/// The text after edits that are in order and do not overlap. `None` otherwise.
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
