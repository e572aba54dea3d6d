//! The cursor in an object, and its surroundings.

use std::sync::LazyLock;

use gpulint_rules::kind::definitions::CustomResourceDefinitions;
use gpulint_rules::{Cluster, Outline, Platform};

use super::sketch::Sketch;
use crate::lsp::view::View;

pub(super) struct Cursor<'a> {
    pub(super) sketch: &'a Sketch<'a>,
    pub(super) view: Option<&'a View<'a>>,
    pub(super) object: usize,
    pub(super) kind: Option<&'a str>,
    pub(super) api_version: Option<&'a str>,
    /// The steps from the object to the mapping that gets the field, or to the value.
    pub(super) steps: Vec<String>,
}

impl Cursor<'_> {
    /// The steps with `[]` in place of the index of an item, to compare them with the tables of places.
    pub(super) fn pattern(&self) -> Vec<&str> {
        let steps = self.steps.iter();
        steps
            .map(|step| if step.bytes().all(|b| b.is_ascii_digit()) { "[]" } else { step.as_str() })
            .collect()
    }

    /// The outline of the schema at a place in the object.
    pub(super) fn outline(&self, steps: &[String]) -> Option<Outline<'_>> {
        static NONE: LazyLock<CustomResourceDefinitions> = LazyLock::new(CustomResourceDefinitions::default);
        let definitions = self.view.map_or(&*NONE, |view| &view.engine.settings().definitions);
        Outline::at(self.api_version, self.kind?, steps, definitions)
    }

    /// The text of a field beside the value under the cursor, or of a mapping further up: `up` is the number
    /// of mappings.
    pub(super) fn beside(&self, node: usize, up: usize, name: &str) -> Option<&str> {
        let mut at = node;
        for _ in 0..up {
            at = self.sketch.nodes[at].parent;
        }
        self.sketch.field(at, name)
    }

    /// The other values of the list that contains a value.
    pub(super) fn other_items(&self, node: usize) -> Vec<&str> {
        let list = self.sketch.nodes[node].parent;
        let items = self.sketch.nodes[list].children.iter();
        items.filter(|item| **item != node).filter_map(|item| self.sketch.scalar(*item)).collect()
    }

    /// The clusters of the sets that the file is applied with.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.view.into_iter().flat_map(|view| view.sets.iter().map(|set| set.cluster))
    }

    /// The platform of the cluster.
    pub(super) fn platform(&self) -> Platform {
        self.view.map_or_else(Platform::default, |view| view.engine.settings().platform.clone())
    }

    pub(super) fn is_of_karpenter(&self) -> bool {
        matches!(self.kind, Some("NodePool" | "NodeClaim" | "NodeOverlay" | "Provisioner"))
    }
}
