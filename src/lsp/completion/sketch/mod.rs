//! The outline of one YAML document that may be invalid while it is being typed, and the place of the cursor
//! in it.
//!
//! The parser of manifests stops at the first syntax error. This one never stops: it reads lines and
//! indentation, takes what it understands, and skips the rest, so that a broken line affects only itself. It
//! supports block and flow collections, quotes, comments and block scalars, but not anchors and tags. On
//! documents that parse it finds the same fields at the same places; a test checks this for every fixture.

mod flow;
mod lines;
mod model;

pub(super) use model::{KeyPlace, Place, Sketch, ValuePlace};

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

/// The bytes of the document that contains an offset, without the separators of documents.
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
