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
pub fn edits(object: &Object, fix: &Fix) -> Result<Vec<Edit>, Refused> {
    repair(object, fix).map(|repair| repair.edits)
}

/// The edits of the object's source that a fix amounts to, and their scope.
///
/// # Errors
/// [`Refused`] where the fix does not apply, or its place cannot be edited without changing
/// anything else.
pub fn repair(object: &Object, fix: &Fix) -> Result<Repair, Refused> {
    let origin = object.origin().ok_or(Refused::NoText)?;
    let source = &*origin.source;
    if !source.is_utf8() {
        return Err(Refused::Encoding);
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
    /// Its scope in the tree's text.
    range: Range<usize>,
    /// The object in the document.
    place: Pointer,
}

impl Draft {
    fn read(path: &str, text: &str, number: usize, place: &Pointer) -> Result<Draft, Refused> {
        let source = Source::from_text(path, text);
        let document = read(&source).into_iter().nth(number);
        let tree = document.and_then(|d| d.tree).ok_or(Refused::Reads)?;
        Ok(Draft {
            tree,
            range: 0..text.len(),
            place: place.clone(),
        })
    }

    /// A range of the tree's text as one of the scope's text.
    fn in_scope(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let start = range.start.checked_sub(self.range.start)?;
        let end = range.end.checked_sub(self.range.start)?;
        (range.end <= self.range.end && start <= end).then_some(start..end)
    }
}

/// The part of a file that is edited, and read again to check the law.
struct Scope {
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
    fn document(source: &Source, object: &Object, span: Span) -> Scope {
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
    fn item(object: &Object) -> Option<Scope> {
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
        let whole = if place.steps().is_empty() {
            value.clone()
        } else {
            Value::Array(vec![value.clone()])
        };
        (read_alone == value).then_some(Scope {
            part,
            values: vec![Some(whole)],
            number: 0,
            place,
        })
    }

    fn repair(
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
        Ok(Repair {
            edits: changes.into_iter().map(edit).collect(),
            scope: span(self.part.clone()),
        })
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
        let problems =
            |documents: &[Document]| documents.iter().map(|d| d.problems.len()).sum::<usize>();
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
    fn new(draft: &'d Draft, path: &'d str) -> Editor<'d> {
        // The habits are those of the whole document.
        let whole = Layout::new(&draft.tree, 0..draft.tree.text.len());
        Editor {
            style: Style::of(&whole, draft.range.start),
            layout: Layout::new(&draft.tree, draft.range.clone()),
            path,
            place: &draft.place,
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
        if tree.aliases().is_empty() {
            return Ok(());
        }
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
        let used = tree.aliases().iter().any(|(alias, target)| {
            around.contains(target) || (goes && inside.contains(target) && !inside.contains(alias))
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
