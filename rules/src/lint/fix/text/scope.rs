//! The part of a file that is edited at once and parsed again afterwards to verify the result.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::editor::{EditOp, EditOutcome, Editor, WorkingCopy};
use super::layout::Layout;
use super::{Edit, Repair};
use crate::lint::fix::text::piece_table::{PieceTable, TextChange, apply_changes};
use crate::lint::fix::value::{Patched, is_value_of};
use crate::lint::fix::{Fix, FixError};
use crate::object::Object;
use crate::source::{Document, Source, parse_chunk, read};
use crate::tree::Span;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

pub(super) struct Scope {
    range: Range<usize>,
    /// The values of its documents before the edits. Null replaces a document that consists of the object, because
    /// none of it stays unchanged.
    values: Vec<Option<Value>>,
    document_index: usize,
    /// Pointer to the object in that document, if the scope is parsed alone.
    object_pointer: Pointer,
}

impl Scope {
    /// The chunk of the file that contains the object's document, with all documents in it.
    pub(super) fn document(source: &Source, object: &Object, span: Span) -> Scope {
        let part = source.chunk_of(span.start);
        let text = &source.text()[part.clone()];
        let object_pointer = object.document_pointer();
        let around = match object_pointer.steps() {
            [] => Value::Null,
            _ => Node::from_document_slot(object.tree().0, 0).to_json(),
        };
        let mut scope =
            Scope { range: part.clone(), values: vec![Some(around)], document_index: 0, object_pointer };
        // A chunk contains more than one document only if there is text after `...`, or a directive.
        if text.contains("\n...") || has_directive(text) {
            let documents = parse_chunk(source, part);
            let found = documents.iter().position(|document| document.span == span);
            scope.document_index = found.unwrap_or_default();
            scope.values = documents.iter().map(value_of).collect();
        }
        scope
    }

    /// The list item that contains the object, if it parses to the same value without its list. A list of
    /// thousands of items is then not parsed again for each of them.
    pub(super) fn item(object: &Object) -> Option<Scope> {
        let (tree, root) = object.tree();
        if root == 0 {
            return None;
        }
        let source = &object.origin()?.source;
        let part = source.chunk_of(tree.span(root).start);
        let layout = Layout::new(tree, part);
        let list = layout.parent(root)?;
        let (part, place) = if layout.is_flow(list) {
            (layout.span(root), Pointer::root())
        } else {
            let dash = layout.start(root)?;
            // Blank lines after it are part of a block scalar that keeps them, or may become part of one.
            let end = layout.skip_blank_lines(layout.end_with_comments(root, layout.column(dash))?);
            let text = &layout.text[..end];
            let whole_lines = layout.is_first_on_line(dash)
                && layout.key(root).is_none()
                && (text.ends_with('\n') || end == layout.text.len());
            whole_lines.then(|| (layout.line_start(dash)..end, Pointer::from_steps(["0"])))?
        };
        let value = object.root().to_json();
        let alone = read(&Source::from_text("", &source.text()[part.clone()]));
        let read_alone = match alone.as_slice() {
            [only] if only.diagnostics.is_empty() => only.root()?.at(&place).to_json(),
            _ => return None,
        };
        let whole = if place.steps().is_empty() { value.clone() } else { Value::Array(vec![value.clone()]) };
        (read_alone == value).then_some(Scope {
            range: part,
            values: vec![Some(whole)],
            document_index: 0,
            object_pointer: place,
        })
    }

    pub(super) fn repair(
        mut self,
        source: &Source,
        object: &Object,
        fix: &Fix,
        result: Patched<'_>,
    ) -> Result<Repair, FixError> {
        let old = &source.text()[self.range.clone()];
        let path = source.path();
        let mut draft = WorkingCopy {
            tree: Arc::clone(object.tree().0),
            range: self.range.clone(),
            object_pointer: object.document_pointer(),
        };
        let mut pieces = PieceTable::new(old.len());
        let mut steps: VecDeque<EditOp> = fix.operations.iter().filter_map(EditOp::of).collect();
        while let Some(step) = steps.pop_front() {
            match Editor::new(&draft, path).edit(&step)? {
                EditOutcome::Changes(mut changes) => {
                    for change in &mut changes {
                        change.range =
                            draft.to_scope_range(&change.range).ok_or(FixError::VerificationFailed)?;
                    }
                    pieces.apply_all(changes);
                }
                EditOutcome::Rewrite(simpler) => {
                    for step in simpler.into_iter().rev() {
                        steps.push_front(step);
                    }
                    continue;
                }
            }
            if !steps.is_empty() || !fix.creates.is_empty() {
                let text =
                    apply_changes(old, &pieces.changes(old.len())).ok_or(FixError::VerificationFailed)?;
                draft = WorkingCopy::parse(path, &text, self.document_index, &self.object_pointer)?;
            }
        }
        if !fix.creates.is_empty() {
            let documents = Editor::new(&draft, path).new_documents(&fix.creates)?;
            pieces.apply_all(vec![TextChange::insert(draft.range.len(), documents)]);
        }
        let changes = pieces.changes(old.len());
        let new = apply_changes(old, &changes).ok_or(FixError::VerificationFailed)?;
        let edited = self.values.get_mut(self.document_index).and_then(Option::as_mut);
        let edited = edited.and_then(|document| document.pointer_mut(&self.object_pointer.to_string()));
        *edited.ok_or(FixError::VerificationFailed)? = result.value;
        self.values.extend(fix.creates.iter().cloned().map(Some));
        if !self.reads_as_intended(source, old, &new, &result.written) {
            return Err(FixError::VerificationFailed);
        }
        let start = self.range.start;
        let edit = |change: TextChange| Edit {
            span: span(start + change.range.start..start + change.range.end),
            text: change.text,
        };
        Ok(Repair { edits: changes.into_iter().map(edit).collect(), scope: span(self.range.clone()) })
    }

    /// Whether the new text parses to the patched value, and everything else to the same value as before.
    fn reads_as_intended(&self, source: &Source, old: &str, new: &str, written: &[Node<'_>]) -> bool {
        // The part must still be separated from the rest of the file.
        let is_last = self.range.end == source.text().len();
        let ends_as_before = is_last || new.ends_with('\n') == old.ends_with('\n');
        let marks = |text: &str| (has_directive(text), text.starts_with("---"));
        let lead = |text: &str| text.len() - text.trim_start_matches(' ').len();
        if !ends_as_before || marks(old) != marks(new) || lead(old) != lead(new) {
            return false;
        }
        let documents = read(&Source::from_text("", new));
        let same_values = documents.len() == self.values.len()
            && documents.iter().zip(&self.values).all(|(document, value)| match (document.root(), value) {
                (Some(read), Some(expected)) => is_value_of(&read, expected, written),
                (read, expected) => read.is_none() && expected.is_none(),
            });
        let problems = |documents: &[Document]| documents.iter().map(|d| d.diagnostics.len()).sum::<usize>();
        let after = problems(&documents);
        same_values && (after == 0 || after <= problems(&read(&Source::from_text("", old))))
    }
}

fn span(range: Range<usize>) -> Span {
    Span::new(range.start as u32, range.end as u32)
}

fn value_of(document: &Document) -> Option<Value> {
    Some(document.root()?.to_json())
}

fn has_directive(text: &str) -> bool {
    text.starts_with('%') || text.contains("\n%")
}
