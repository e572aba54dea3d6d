//! One operation on one draft: where its place is written, whether something else reads it, and
//! which edit of a collection it is.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::layout::Layout;
use super::write::Style;
use crate::lint::fix::text::piece_table::Change;
use crate::lint::fix::{Operation, Refused};
use crate::source::{Source, read};
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::tree::{SlotKind, Tree};

/// The document as the operations so far leave it.
pub(super) struct Draft {
    pub(super) tree: Arc<Tree>,
    /// Its scope in the tree's text.
    pub(super) range: Range<usize>,
    /// The object in the document.
    pub(super) place: Pointer,
}

impl Draft {
    pub(super) fn read(path: &str, text: &str, number: usize, place: &Pointer) -> Result<Draft, Refused> {
        let source = Source::from_text(path, text);
        let document = read(&source).into_iter().nth(number);
        let tree = document.and_then(|d| d.tree).ok_or(Refused::Reads)?;
        Ok(Draft { tree, range: 0..text.len(), place: place.clone() })
    }

    /// A range of the tree's text as one of the scope's text.
    pub(super) fn in_scope(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let start = range.start.checked_sub(self.range.start)?;
        let end = range.end.checked_sub(self.range.start)?;
        (range.end <= self.range.end && start <= end).then_some(start..end)
    }
}

/// An operation that changes something.
pub(super) enum Step {
    Add(Pointer, Value),
    Replace(Pointer, Value),
    Remove(Pointer),
    Move(Pointer, Pointer),
}

impl Step {
    pub(super) fn of(operation: &Operation) -> Option<Step> {
        Some(match operation {
            Operation::Test { .. } => return None,
            Operation::Add { path, value } => Step::Add(Pointer::parse(path)?, value.clone()),
            Operation::Replace { path, value } => Step::Replace(Pointer::parse(path)?, value.clone()),
            Operation::Remove { path } => Step::Remove(Pointer::parse(path)?),
            Operation::Move { from, path } => Step::Move(Pointer::parse(from)?, Pointer::parse(path)?),
        })
    }
}

/// What an operation amounts to.
pub(super) enum Outcome {
    /// Changes of the draft.
    Changes(Vec<Change>),
    /// Other operations in its place.
    Instead(Vec<Step>),
}

/// Edits one draft.
pub(super) struct Editor<'d> {
    pub(super) layout: Layout<'d>,
    pub(super) style: Style,
    path: &'d str,
    place: &'d Pointer,
}

impl<'d> Editor<'d> {
    pub(super) fn new(draft: &'d Draft, path: &'d str) -> Editor<'d> {
        // The habits are those of the whole document.
        let whole = Layout::new(&draft.tree, 0..draft.tree.text.len());
        Editor {
            style: Style::of(&whole, draft.range.start),
            layout: Layout::new(&draft.tree, draft.range.clone()),
            path,
            place: &draft.place,
        }
    }

    pub(super) fn edit(&self, step: &Step) -> Result<Outcome, Refused> {
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
        changes.map(Outcome::Changes).ok_or_else(|| Refused::Layout(pointer.field()))
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
                _ => step.parse().ok().and_then(|index| tree.children(at).nth(index)),
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
        let mut at = Some(slot);
        while let Some(here) = at {
            at = self.layout.parent(here);
            around.extend(at);
        }
        let inside = slot..tree.end(slot);
        let used = tree.aliases().iter().any(|(alias, target)| {
            around.contains(target) || (goes && inside.contains(target) && !inside.contains(alias))
        });
        if used { Err(Refused::Anchor(pointer.field())) } else { Ok(()) }
    }

    /// Whether the document is JSON rather than YAML in flow style.
    pub(super) fn is_json(&self) -> bool {
        self.path.ends_with(".json")
    }

    /// New documents, to be written behind this one.
    pub(super) fn documents(&self, values: &[Value]) -> Result<String, Refused> {
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
