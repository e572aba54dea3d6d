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
mod flow;
mod layout;
mod pieces;
mod write;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::value::same;
use super::{Fix, Operation, Refused, value};
use crate::node::Node;
use crate::object::Object;
use crate::pointer::Pointer;
use crate::source::{Document, NONE, SlotKind, Source, Span, Tree, parse_part, read};
use layout::Layout;
use pieces::{Change, Pieces, rewrite};
use write::Style;

/// One edit: the bytes of the span become the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is replaced; empty for an insertion.
    pub span: Span,
    /// What stands there instead.
    pub text: String,
}

/// The edits of the object's source that a fix amounts to, in their order, none inside another.
///
/// # Errors
/// [`Refused`] where the fix does not apply, or its place cannot be edited without changing
/// anything else.
pub fn edits(object: &Object, fix: &Fix) -> Result<Vec<Edit>, Refused> {
    let origin = object.origin().ok_or(Refused::NoText)?;
    let source = &*origin.source;
    if source.is_utf16() {
        return Err(Refused::Encoding);
    }
    let result = value::apply(&object.root().to_json(), fix)?;
    let part = source.part_of(origin.span.start);
    let old = &source.text()[part.clone()];
    let place = object.place_in_document();
    let known = Known::of(source, part.clone(), object, origin.span);

    let mut draft = Draft {
        tree: Arc::clone(object.tree().0),
        range: part.clone(),
    };
    let mut pieces = Pieces::new(old.len());
    let mut steps: VecDeque<Step> = fix.operations.iter().filter_map(Step::of).collect();
    while let Some(step) = steps.pop_front() {
        let editor = Editor::new(&draft, source.path(), &place);
        match editor.edit(&step)? {
            Outcome::Changes(mut changes) => {
                for change in &mut changes {
                    let range = &change.range;
                    change.range = range.start - draft.range.start..range.end - draft.range.start;
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
            draft = Draft::read(source.path(), &text, known.number)?;
        }
    }
    if !fix.creates.is_empty() {
        let documents = Editor::new(&draft, source.path(), &place).documents(&fix.creates)?;
        pieces.make(vec![Change::insert(draft.range.len(), documents)]);
    }

    let changes = pieces.changes(old.len());
    let new = rewrite(old, &changes).ok_or(Refused::Reads)?;
    let is_last = part.end == source.text().len();
    known.check(old, &new, is_last, &place, result, &fix.creates)?;
    let edit = |change: Change| Edit {
        span: Span::new(
            (part.start + change.range.start) as u32,
            (part.start + change.range.end) as u32,
        ),
        text: change.text,
    };
    Ok(changes.into_iter().map(edit).collect())
}

/// The text after edits, which are in order and do not overlap; `None` where they are not.
#[must_use]
pub fn rewritten(text: &str, edits: &[Edit]) -> Option<String> {
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

/// The document as the operations so far leave it.
struct Draft {
    tree: Arc<Tree>,
    /// Its part in the tree's text.
    range: Range<usize>,
}

impl Draft {
    fn read(path: &str, text: &str, number: usize) -> Result<Draft, Refused> {
        let source = Source::from_text(path, text);
        let document = read(&source).into_iter().nth(number);
        let tree = document.and_then(|d| d.tree).ok_or(Refused::Reads)?;
        Ok(Draft {
            tree,
            range: 0..text.len(),
        })
    }
}

/// What the documents of the part hold before the edits.
struct Known {
    values: Vec<Option<Value>>,
    /// The edited one.
    number: usize,
}

impl Known {
    fn of(source: &Source, part: Range<usize>, object: &Object, span: Span) -> Known {
        let text = &source.text()[part.clone()];
        // Only text after `...`, or a directive, gives a part more than one document.
        if !text.contains("\n...") && !has_directive(text) {
            return Known {
                values: vec![Some(Node::in_document(object.tree().0, 0).to_json())],
                number: 0,
            };
        }
        let documents = parse_part(source, part);
        Known {
            number: documents
                .iter()
                .position(|document| document.span == span)
                .unwrap_or_default(),
            values: documents.iter().map(value_of).collect(),
        }
    }

    /// The law.
    fn check(
        mut self,
        old: &str,
        new: &str,
        is_last: bool,
        place: &Pointer,
        result: Value,
        creates: &[Value],
    ) -> Result<(), Refused> {
        // What was cut from the rest of the file must still be cut there.
        let cut_as_before = (is_last || new.ends_with('\n'))
            && has_directive(old) == has_directive(new)
            && old.starts_with("---") == new.starts_with("---");
        let edited = self.values.get_mut(self.number).and_then(Option::as_mut);
        let edited = edited.and_then(|document| document.pointer_mut(&place.to_string()));
        let (true, Some(edited)) = (cut_as_before, edited) else {
            return Err(Refused::Reads);
        };
        *edited = result;
        self.values.extend(creates.iter().cloned().map(Some));
        let documents = read(&Source::from_text("", new));
        let holds = documents.len() == self.values.len()
            && documents.iter().zip(&self.values).all(|(document, value)| {
                match (value_of(document), value) {
                    (Some(read), Some(meant)) => same(&read, meant),
                    (read, meant) => read.is_none() && meant.is_none(),
                }
            });
        let problems = |documents: &[Document]| documents.iter().map(|d| d.problems.len()).sum();
        let after: usize = problems(&documents);
        let worse = after > 0 && after > problems(&read(&Source::from_text("", old)));
        if holds && !worse {
            Ok(())
        } else {
            Err(Refused::Reads)
        }
    }
}

fn value_of(document: &Document) -> Option<Value> {
    Some(document.root()?.to_json())
}

fn has_directive(text: &str) -> bool {
    text.starts_with('%') || text.contains("\n%")
}

/// An operation that changes something.
enum Step {
    Add(Pointer, Value),
    Replace(Pointer, Value),
    Remove(Pointer),
    Move(Pointer, Pointer),
}

impl Step {
    fn of(operation: &Operation) -> Option<Step> {
        Some(match operation {
            Operation::Test { .. } => return None,
            Operation::Add { path, value } => Step::Add(Pointer::parse(path)?, value.clone()),
            Operation::Replace { path, value } => {
                Step::Replace(Pointer::parse(path)?, value.clone())
            }
            Operation::Remove { path } => Step::Remove(Pointer::parse(path)?),
            Operation::Move { from, path } => {
                Step::Move(Pointer::parse(from)?, Pointer::parse(path)?)
            }
        })
    }
}

/// What an operation amounts to.
enum Outcome {
    /// Changes of the draft.
    Changes(Vec<Change>),
    /// Other operations in its place.
    Instead(Vec<Step>),
}

/// Edits one draft.
struct Editor<'d> {
    layout: Layout<'d>,
    style: Style,
    path: &'d str,
    place: &'d Pointer,
}

impl<'d> Editor<'d> {
    fn new(draft: &'d Draft, path: &'d str, place: &'d Pointer) -> Editor<'d> {
        let layout = Layout::new(&draft.tree, draft.range.clone());
        let at = layout.span(0).start;
        Editor {
            style: Style::of(&layout, at),
            layout,
            path,
            place,
        }
    }

    fn edit(&self, step: &Step) -> Result<Outcome, Refused> {
        let (pointer, changes) = match step {
            Step::Add(pointer, value) => (pointer, self.add(pointer, value)?),
            Step::Replace(pointer, value) => {
                let slot = self.find(pointer)?;
                self.is_free(slot, true, pointer)?;
                (pointer, self.replace(slot, value))
            }
            Step::Remove(pointer) => {
                let slot = self.find(pointer)?;
                self.is_free(slot, true, pointer)?;
                (pointer, self.remove(slot))
            }
            Step::Move(from, to) => {
                let slot = self.find(from)?;
                self.is_free(slot, false, from)?;
                match self.carry_to(slot, to)? {
                    Some(changes) => (from, Some(changes)),
                    None => {
                        let value = Node::in_document(self.layout.tree, slot).to_json();
                        return Ok(Outcome::Instead(vec![
                            Step::Remove(from.clone()),
                            Step::Add(to.clone(), value),
                        ]));
                    }
                }
            }
        };
        changes
            .map(Outcome::Changes)
            .ok_or_else(|| Refused::Layout(pointer.field()))
    }

    fn add(&self, pointer: &Pointer, value: &Value) -> Result<Option<Vec<Change>>, Refused> {
        let Some((name, above)) = pointer.steps().split_last() else {
            return Ok(self.replace(self.find(pointer)?, value));
        };
        let above = Pointer::from_steps(above.iter().cloned());
        let parent = self.find(&above)?;
        self.is_free(parent, false, &above)?;
        let layout = &self.layout;
        Ok(match layout.kind(parent) {
            SlotKind::Alias => return Err(Refused::Alias(above.field())),
            SlotKind::Mapping | SlotKind::FlowMapping => match layout.tree.entry(parent, name) {
                Some((_, true)) => return Err(Refused::Merge(pointer.field())),
                Some((slot, false)) => {
                    self.is_free(slot, true, pointer)?;
                    self.replace(slot, value)
                }
                None => self.add_member(parent, name, value),
            },
            SlotKind::Sequence | SlotKind::FlowSequence => {
                let length = layout.tree.children(parent).count();
                let index = if name == "-" {
                    Some(length)
                } else {
                    name.parse().ok().filter(|index| *index <= length)
                };
                index.and_then(|index| self.add_item(parent, index, value))
            }
            _ => None,
        })
    }

    /// Moves an entry with its text, where it goes to a mapping that does not have it yet.
    fn carry_to(&self, slot: u32, to: &Pointer) -> Result<Option<Vec<Change>>, Refused> {
        let Some((name, above)) = to.steps().split_last() else {
            return Ok(None);
        };
        let above = Pointer::from_steps(above.iter().cloned());
        let parent = self.find(&above)?;
        self.is_free(parent, false, &above)?;
        let kind = self.layout.kind(parent);
        if !kind.is_mapping() || self.layout.tree.entry(parent, name).is_some() {
            return Ok(None);
        }
        Ok(self.carry(slot, parent, name))
    }

    /// The written node of a pointer of the object.
    fn find(&self, pointer: &Pointer) -> Result<u32, Refused> {
        let tree = self.layout.tree;
        let mut at = 0;
        for step in self.place.steps().iter().chain(pointer.steps()) {
            let kind = self.layout.kind(at);
            let next = match kind {
                SlotKind::Alias => return Err(Refused::Alias(pointer.field())),
                SlotKind::Mapping | SlotKind::FlowMapping => match tree.entry(at, step) {
                    Some((_, true)) => return Err(Refused::Merge(pointer.field())),
                    Some((child, false)) => Some(child),
                    None => None,
                },
                _ => step
                    .parse()
                    .ok()
                    .and_then(|index| tree.children(at).nth(index)),
            };
            at = next.ok_or_else(|| Refused::Patch(format!("no `{}`", pointer.field())))?;
        }
        Ok(at)
    }

    /// That nothing else reads what is edited: no alias of the node or of what is around it, and,
    /// where it goes away, none of what is in it.
    fn is_free(&self, slot: u32, goes: bool, pointer: &Pointer) -> Result<(), Refused> {
        let tree = self.layout.tree;
        let mut around = vec![slot];
        let mut end = NONE;
        let mut at = Some(slot);
        while let Some(here) = at {
            if end == NONE {
                end = tree.slot(here).next;
            }
            at = self.layout.parent(here);
            around.extend(at);
        }
        let inside = slot..end;
        let used = tree.slots.iter().enumerate().any(|(alias, read)| {
            read.kind == SlotKind::Alias
                && (around.contains(&read.data)
                    || (goes
                        && inside.contains(&read.data)
                        && !inside.contains(&u32::try_from(alias).unwrap_or(NONE))))
        });
        if used {
            Err(Refused::Anchor(pointer.field()))
        } else {
            Ok(())
        }
    }

    /// Whether the document is JSON rather than YAML in flow style.
    fn is_json(&self) -> bool {
        self.path.ends_with(".json")
    }

    /// New documents, to be written behind this one.
    fn documents(&self, values: &[Value]) -> Result<String, Refused> {
        if self.is_json() {
            return Err(Refused::Layout("a JSON file".to_owned()));
        }
        let eol = self.style.eol;
        let text = &self.layout.text[self.layout.range.clone()];
        let ends = text.ends_with('\n');
        let mut out = String::new();
        for value in values {
            if !ends {
                out.push_str(eol);
            }
            out.push_str("---");
            out.push_str(eol);
            match value {
                Value::Object(map) if !map.is_empty() => out.push_str(&self.style.mapping(map, 0)),
                other => out.push_str(&self.style.flow(other)),
            }
            if ends {
                out.push_str(eol);
            }
        }
        Ok(out)
    }
}
