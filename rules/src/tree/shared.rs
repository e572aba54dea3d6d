//! Nodes that several documents of a file have in common: those that are equal to the byte, but for a name of the same
//! length. Only their places and this name tell their trees apart.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::tree::{Slot, SlotKind, Tree};

/// The nodes of several trees.
pub(crate) struct SharedNodes {
    pub(super) slots: Box<[Slot]>,
    /// What follows from the nodes whatever the name says; who computes it says what it is.
    pub(crate) derived: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Tree {
    /// Makes the nodes those that other trees can share. Gives the tree back as it is if its nodes are not all that it
    /// has.
    pub(crate) fn share(mut self) -> Tree {
        let has_alias = || self.slots.iter().any(|slot| slot.kind == SlotKind::Alias);
        if self.out_of_line_keys.is_empty() && self.strings.is_empty() && !has_alias() {
            let slots = std::mem::take(&mut self.slots).into_boxed_slice();
            self.shared = Some(Arc::new(SharedNodes { slots, derived: OnceLock::new() }));
        }
        self
    }

    /// The tree of a document with the same nodes that is `shift` bytes further on in the text. `None` if the nodes are
    /// not those that can be shared.
    pub(crate) fn shifted(&self, shift: u32) -> Option<Tree> {
        Some(Tree {
            shared: Some(Arc::clone(self.shared.as_ref()?)),
            shift: self.shift.wrapping_add(shift),
            key_signs: self.key_signs,
            may_have_placeholders: self.may_have_placeholders,
            has_patch_directive: self.has_patch_directive,
            ..Tree::new(Arc::clone(&self.text), self.spans)
        })
    }

    /// The nodes, if other trees share them or can do so.
    pub(crate) fn shared_nodes(&self) -> Option<&Arc<SharedNodes>> {
        self.shared.as_ref()
    }

    /// How far the document is behind that of the shared nodes.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }
}
