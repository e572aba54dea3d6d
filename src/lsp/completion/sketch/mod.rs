//! The outline of one YAML document that may be broken while it is typed, and where in it the cursor is.
//!
//! The reader of manifests stops at the first syntax error. This one never stops: it goes by lines and indentation, takes
//! what it understands, and skips the rest, so that a broken line costs only itself. It knows block and flow
//! collections, quotes, comments and block scalars, and nothing of anchors and tags. On documents that parse it
//! finds the same fields at the same places, which a test holds for every fixture.

mod flow;
mod lines;
mod model;

pub(super) use model::{KeyPlace, Place, Sketch, ValuePlace};

/// Reads the document that holds an offset.
pub(super) fn read(text: &str, offset: u32) -> Sketch<'_> {
    let mut offset = (offset as usize).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let mut sketch = Sketch::new(text, offset);
    let (start, end) = document_around(text, offset);
    lines::read(&mut sketch, start, end);
    sketch
}

/// The bytes of the document that holds an offset, without the lines that separate documents.
fn document_around(text: &str, offset: usize) -> (usize, usize) {
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_separator {
            if at > offset {
                return (start, at);
            }
            start = at + line.len();
        }
        at += line.len();
    }
    (start.min(text.len()), text.len())
}
