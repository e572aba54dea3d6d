//! Applies one operation to one working copy: where the target is in the text, whether anything else refers
//! to it, and which edit of a collection is needed.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::layout::Layout;
use super::write::Style;
use crate::lint::fix::text::piece_table::TextChange;
use crate::lint::fix::{FixError, Operation};
use crate::source::{Source, read};
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::tree::{SlotKind, Tree};

/// The document after the operations so far.
pub(super) struct WorkingCopy {
    pub(super) tree: Arc<Tree>,
    /// Range of the scope in the text of the tree.
    pub(super) range: Range<usize>,
    pub(super) object_pointer: Pointer,
}

impl WorkingCopy {
    pub(super) fn parse(
        path: &str,
        text: &str,
        number: usize,
        place: &Pointer,
    ) -> Result<WorkingCopy, FixError> {
        let source = Source::from_text(path, text);
        let document = read(&source).into_iter().nth(number);
        let tree = document.and_then(|d| d.tree).ok_or(FixError::VerificationFailed)?;
        Ok(WorkingCopy { tree, range: 0..text.len(), object_pointer: place.clone() })
    }

    /// Converts a range of the tree's text to one of the scope's text.
    pub(super) fn to_scope_range(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let start = range.start.checked_sub(self.range.start)?;
        let end = range.end.checked_sub(self.range.start)?;
        (range.end <= self.range.end && start <= end).then_some(start..end)
    }
}

/// An operation that changes something.
pub(super) enum EditOp {
    Add(Pointer, Value),
    Replace(Pointer, Value),
    Remove(Pointer),
    Move(Pointer, Pointer),
}

impl EditOp {
    pub(super) fn of(operation: &Operation) -> Option<EditOp> {
        Some(match operation {
            Operation::Test { .. } => return None,
            Operation::Add { path, value } => EditOp::Add(Pointer::parse(path)?, value.clone()),
            Operation::Replace { path, value } => EditOp::Replace(Pointer::parse(path)?, value.clone()),
            Operation::Remove { path } => EditOp::Remove(Pointer::parse(path)?),
            Operation::Move { from, path } => EditOp::Move(Pointer::parse(from)?, Pointer::parse(path)?),
        })
    }
}

/// The result of an operation.
pub(super) enum EditOutcome {
    Changes(Vec<TextChange>),
    /// Operations to apply instead.
    Rewrite(Vec<EditOp>),
}

pub(super) struct Editor<'d> {
    pub(super) layout: Layout<'d>,
    pub(super) style: Style,
    path: &'d str,
    object_pointer: &'d Pointer,
}

impl<'d> Editor<'d> {
    pub(super) fn new(draft: &'d WorkingCopy, path: &'d str) -> Editor<'d> {
        // The style is detected in the whole document.
        let whole = Layout::new(&draft.tree, 0..draft.tree.text.len());
        Editor {
            style: Style::detect(&whole, draft.range.start),
            layout: Layout::new(&draft.tree, draft.range.clone()),
            path,
            object_pointer: &draft.object_pointer,
        }
    }

    pub(super) fn edit(&self, step: &EditOp) -> Result<EditOutcome, FixError> {
        let (pointer, changes) = match step {
            EditOp::Add(pointer, value) => (pointer, self.add(pointer, value)?),
            EditOp::Replace(pointer, value) => {
                let slot = self.resolve(pointer)?;
                self.ensure_unaliased(slot, true, pointer)?;
                (pointer, self.replace(slot, value))
            }
            EditOp::Remove(pointer) => {
                let slot = self.resolve(pointer)?;
                self.ensure_unaliased(slot, true, pointer)?;
                (pointer, self.remove(slot))
            }
            EditOp::Move(from, to) => {
                let slot = self.resolve(from)?;
                self.ensure_unaliased(slot, false, from)?;
                match self.move_entry_to(slot, to)? {
                    Some(changes) => (from, Some(changes)),
                    None => {
                        let value = Node::from_document_slot(self.layout.tree, slot).to_json();
                        return Ok(EditOutcome::Rewrite(vec![
                            EditOp::Remove(from.clone()),
                            EditOp::Add(to.clone(), value),
                        ]));
                    }
                }
            }
        };
        changes.map(EditOutcome::Changes).ok_or_else(|| FixError::Layout(pointer.field_path()))
    }

    fn add(&self, pointer: &Pointer, value: &Value) -> Result<Option<Vec<TextChange>>, FixError> {
        let Some((name, above)) = pointer.steps().split_last() else {
            return Ok(self.replace(self.resolve(pointer)?, value));
        };
        let above = Pointer::from_steps(above.iter().cloned());
        let parent = self.resolve(&above)?;
        self.ensure_unaliased(parent, false, &above)?;
        let layout = &self.layout;
        Ok(match layout.kind(parent) {
            SlotKind::Alias => return Err(FixError::Alias(above.field_path())),
            SlotKind::Mapping | SlotKind::FlowMapping => match layout.tree.entry(parent, name) {
                Some((_, true)) => return Err(FixError::Merge(pointer.field_path())),
                Some((slot, false)) => {
                    self.ensure_unaliased(slot, true, pointer)?;
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

    /// Moves an entry with its text, if the target mapping does not have it yet.
    fn move_entry_to(&self, slot: u32, to: &Pointer) -> Result<Option<Vec<TextChange>>, FixError> {
        let Some((name, above)) = to.steps().split_last() else {
            return Ok(None);
        };
        let above = Pointer::from_steps(above.iter().cloned());
        let parent = self.resolve(&above)?;
        self.ensure_unaliased(parent, false, &above)?;
        let kind = self.layout.kind(parent);
        if !kind.is_mapping() || self.layout.tree.entry(parent, name).is_some() {
            return Ok(None);
        }
        Ok(self.move_entry(slot, parent, name))
    }

    /// The node that a pointer of the object refers to.
    fn resolve(&self, pointer: &Pointer) -> Result<u32, FixError> {
        let tree = self.layout.tree;
        let mut at = 0;
        for step in self.object_pointer.steps().iter().chain(pointer.steps()) {
            let kind = self.layout.kind(at);
            let next = match kind {
                SlotKind::Alias => return Err(FixError::Alias(pointer.field_path())),
                SlotKind::Mapping | SlotKind::FlowMapping => match tree.entry(at, step) {
                    Some((_, true)) => return Err(FixError::Merge(pointer.field_path())),
                    Some((child, false)) => Some(child),
                    None => None,
                },
                _ => step.parse().ok().and_then(|index| tree.children(at).nth(index)),
            };
            at = next.ok_or_else(|| FixError::Patch(format!("no `{}`", pointer.field_path())))?;
        }
        Ok(at)
    }

    /// Checks that nothing else refers to the edited text: no alias of the node or of its ancestors and, if
    /// it is removed, none of its descendants.
    fn ensure_unaliased(&self, slot: u32, goes: bool, pointer: &Pointer) -> Result<(), FixError> {
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
        if used { Err(FixError::Anchor(pointer.field_path())) } else { Ok(()) }
    }

    /// Whether the document is JSON and not YAML in flow style.
    pub(super) fn is_json(&self) -> bool {
        self.path.ends_with(".json")
    }

    /// New documents, to be inserted after this one.
    pub(super) fn new_documents(&self, values: &[Value]) -> Result<String, FixError> {
        if self.is_json() {
            return Err(FixError::Layout("a JSON file".to_owned()));
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
