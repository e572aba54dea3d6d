//! What is edited at once, and the law: the part of a file that is read again after the edits.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::editor::{Draft, Editor, Outcome, Step};
use super::layout::Layout;
use super::{Edit, Repair};
use crate::lint::fix::text::piece_table::{Change, Pieces, rewrite};
use crate::lint::fix::value::same;
use crate::lint::fix::{Fix, Refused};
use crate::object::Object;
use crate::source::{Document, Source, parse_part, read};
use crate::tree::Span;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// The part of a file that is edited, and read again to check the law.
pub(super) struct Scope {
    part: Range<usize>,
    /// What its documents hold before the edits.
    values: Vec<Option<Value>>,
    /// The edited document.
    number: usize,
    /// The object in that document, when the scope is read alone.
    place: Pointer,
}

impl Scope {
    /// The documents that are cut out of the file together with the object's own.
    pub(super) fn document(source: &Source, object: &Object, span: Span) -> Scope {
        let part = source.part_of(span.start);
        let text = &source.text()[part.clone()];
        let mut scope = Scope {
            part: part.clone(),
            values: vec![Some(Node::in_document(object.tree().0, 0).to_json())],
            number: 0,
            place: object.place_in_document(),
        };
        // Only text after `...`, or a directive, gives a part more than one document.
        if text.contains("\n...") || has_directive(text) {
            let documents = parse_part(source, part);
            let found = documents.iter().position(|document| document.span == span);
            scope.number = found.unwrap_or_default();
            scope.values = documents.iter().map(value_of).collect();
        }
        scope
    }

    /// The item of a list that the object is, where it reads the same without its list: a list
    /// of thousands is not read again for each of its items.
    pub(super) fn item(object: &Object) -> Option<Scope> {
        let (tree, root) = object.tree();
        if root == 0 {
            return None;
        }
        let source = &object.origin()?.source;
        let part = source.part_of(tree.slot(root).span.start);
        let layout = Layout::new(tree, part);
        let list = layout.parent(root)?;
        let (part, place) = if layout.is_flow(list) {
            (layout.span(root), Pointer::root())
        } else {
            let dash = layout.start(root)?;
            // Blank lines behind it are part of a text that keeps them, or may become so.
            let end = layout.skip_blank_lines(layout.tail(root, layout.column(dash))?);
            let text = &layout.text[..end];
            let whole_lines = layout.is_first(dash)
                && layout.key(root).is_none()
                && (text.ends_with('\n') || end == layout.text.len());
            whole_lines.then(|| (layout.line_start(dash)..end, Pointer::from_steps(["0"])))?
        };
        let value = object.root().to_json();
        let alone = read(&Source::from_text("", &source.text()[part.clone()]));
        let read_alone = match alone.as_slice() {
            [only] if only.problems.is_empty() => only.root()?.at(&place).to_json(),
            _ => return None,
        };
        let whole = if place.steps().is_empty() { value.clone() } else { Value::Array(vec![value.clone()]) };
        (read_alone == value).then_some(Scope { part, values: vec![Some(whole)], number: 0, place })
    }

    pub(super) fn repair(
        mut self,
        source: &Source,
        object: &Object,
        fix: &Fix,
        result: &Value,
    ) -> Result<Repair, Refused> {
        let old = &source.text()[self.part.clone()];
        let path = source.path();
        let mut draft = Draft {
            tree: Arc::clone(object.tree().0),
            range: self.part.clone(),
            place: object.place_in_document(),
        };
        let mut pieces = Pieces::new(old.len());
        let mut steps: VecDeque<Step> = fix.operations.iter().filter_map(Step::of).collect();
        while let Some(step) = steps.pop_front() {
            match Editor::new(&draft, path).edit(&step)? {
                Outcome::Changes(mut changes) => {
                    for change in &mut changes {
                        change.range = draft.in_scope(&change.range).ok_or(Refused::Reads)?;
                    }
                    pieces.make(changes);
                }
                Outcome::Instead(simpler) => {
                    for step in simpler.into_iter().rev() {
                        steps.push_front(step);
                    }
                    continue;
                }
            }
            if !steps.is_empty() || !fix.creates.is_empty() {
                let text = rewrite(old, &pieces.changes(old.len())).ok_or(Refused::Reads)?;
                draft = Draft::read(path, &text, self.number, &self.place)?;
            }
        }
        if !fix.creates.is_empty() {
            let documents = Editor::new(&draft, path).documents(&fix.creates)?;
            pieces.make(vec![Change::insert(draft.range.len(), documents)]);
        }
        let changes = pieces.changes(old.len());
        let new = rewrite(old, &changes).ok_or(Refused::Reads)?;
        let edited = self.values.get_mut(self.number).and_then(Option::as_mut);
        let edited = edited.and_then(|document| document.pointer_mut(&self.place.to_string()));
        *edited.ok_or(Refused::Reads)? = result.clone();
        self.values.extend(fix.creates.iter().cloned().map(Some));
        if !self.holds(source, old, &new) {
            return Err(Refused::Reads);
        }
        let start = self.part.start;
        let edit = |change: Change| Edit {
            span: span(start + change.range.start..start + change.range.end),
            text: change.text,
        };
        Ok(Repair { edits: changes.into_iter().map(edit).collect(), scope: span(self.part.clone()) })
    }

    /// The law.
    fn holds(&self, source: &Source, old: &str, new: &str) -> bool {
        // What was cut from the rest of the file must still be cut there.
        let is_last = self.part.end == source.text().len();
        let ends_as_before = is_last || new.ends_with('\n') == old.ends_with('\n');
        let marks = |text: &str| (has_directive(text), text.starts_with("---"));
        let lead = |text: &str| text.len() - text.trim_start_matches(' ').len();
        if !ends_as_before || marks(old) != marks(new) || lead(old) != lead(new) {
            return false;
        }
        let documents = read(&Source::from_text("", new));
        let same_values = documents.len() == self.values.len()
            && documents.iter().zip(&self.values).all(|(document, value)| {
                match (value_of(document), value) {
                    (Some(read), Some(meant)) => same(&read, meant),
                    (read, meant) => read.is_none() && meant.is_none(),
                }
            });
        let problems = |documents: &[Document]| documents.iter().map(|d| d.problems.len()).sum::<usize>();
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
