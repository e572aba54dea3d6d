//! Edits of objects that are equal to the byte but for their names: the edits of one are those of the others.

use std::sync::{Mutex, PoisonError};

use super::{Edit, Repair};
use crate::lint::fix::{Fix, Operation};
use crate::object::{Memo, MemoSlot, Object};
use crate::tree::Span;

static REPAIRS: Memo<KnownRepairs> = Memo::new(MemoSlot::Repairs);

/// So many are kept of one object.
const MOST_KNOWN: usize = 16;

/// The repairs of an object, with places as in the document of the shared nodes.
#[derive(Default)]
pub(super) struct KnownRepairs(Mutex<Vec<(Vec<Operation>, Repair)>>);

/// What is known of the objects that are like this one, if a fix says nothing about what their names are part of.
pub(super) fn known_repairs<'o>(object: &'o Object, fix: &Fix) -> Option<&'o KnownRepairs> {
    let is_beside_name = |path: &str| path.starts_with("/spec/");
    let is_beside_names = fix.creates.is_empty()
        && fix.operations.iter().all(|operation| match operation {
            Operation::Test { path, .. }
            | Operation::Add { path, .. }
            | Operation::Replace { path, .. }
            | Operation::Remove { path } => is_beside_name(path),
            Operation::Move { from, path } => is_beside_name(from) && is_beside_name(path),
        });
    if is_beside_names { object.memo_of_alike(&REPAIRS) } else { None }
}

impl KnownRepairs {
    /// The repair of an object, if that of another one is known.
    pub(super) fn get(&self, object: &Object, fix: &Fix) -> Option<Repair> {
        let shift = object.tree().0.shift();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, repair) = known.iter().find(|(operations, _)| *operations == fix.operations)?;
        Some(repair.shifted(shift))
    }

    /// Keeps the repair of an object, unless it edits the name, or stands at the end of the file, where less has to hold.
    pub(super) fn add(&self, object: &Object, fix: &Fix, repair: &Repair) {
        let name = object.path(&["metadata", "name"]).span();
        let is_beside =
            |edit: &Edit| name.is_some_and(|name| edit.span.end < name.start || name.end < edit.span.start);
        let is_last = object.source().is_none_or(|source| repair.scope.end as usize >= source.text().len());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_last && known.len() < MOST_KNOWN && repair.edits.iter().all(is_beside) {
            let shift = object.tree().0.shift();
            known.push((fix.operations.clone(), repair.shifted(shift.wrapping_neg())));
        }
    }
}

impl Repair {
    /// The same for a document with the same text that is `shift` bytes further on.
    fn shifted(&self, shift: u32) -> Repair {
        let placed = |span: Span| Span::new(span.start.wrapping_add(shift), span.end.wrapping_add(shift));
        let edit = |edit: &Edit| Edit { span: placed(edit.span), text: edit.text.clone() };
        Repair { edits: self.edits.iter().map(edit).collect(), scope: placed(self.scope) }
    }
}
