//! The places of the top-level maps of an object, where most paths begin.

use crate::tree::node::Node;
use crate::tree::{NONE, Tree};

/// The slots of an object's top-level maps; [`NONE`] if they are absent, or come from an alias or a merge, which have
/// other pointers.
#[derive(Clone, Copy, Debug)]
pub struct PathCache {
    metadata: u32,
    spec: u32,
    /// `spec.template.metadata`.
    template_metadata: u32,
    /// `spec.template.spec`.
    template_spec: u32,
}

impl PathCache {
    /// Finds the maps of an object by its root.
    pub fn of(root: &Node<'_>) -> PathCache {
        let slot = |node: &Node<'_>| node.direct_mapping().unwrap_or(NONE);
        let spec = root.get("spec");
        let template = spec.get("template");
        PathCache {
            metadata: slot(&root.get("metadata")),
            template_metadata: slot(&template.get("metadata")),
            template_spec: slot(&template.get("spec")),
            spec: slot(&spec),
        }
    }

    /// [`Node::path`] from the root of the object that this was made of.
    pub fn path<'a>(&self, tree: &'a Tree, root: u32, names: &[&str]) -> Node<'a> {
        match self.shortcut(names) {
            Some((slot, rest)) => Node::from_slot(tree, root, slot).path(rest),
            None => Node::new(tree, root).path(names),
        }
    }

    /// The slot at the end of the cached part of a path, and the remaining names.
    fn shortcut<'n, 's>(&self, names: &'n [&'s str]) -> Option<(u32, &'n [&'s str])> {
        let (slot, rest) = match names {
            ["spec", "template", "spec", rest @ ..] if self.template_spec != NONE => {
                (self.template_spec, rest)
            }
            ["spec", "template", "metadata", rest @ ..] if self.template_metadata != NONE => {
                (self.template_metadata, rest)
            }
            ["spec", rest @ ..] => (self.spec, rest),
            ["metadata", rest @ ..] => (self.metadata, rest),
            _ => return None,
        };
        (slot != NONE).then_some((slot, rest))
    }
}
