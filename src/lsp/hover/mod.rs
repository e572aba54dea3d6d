//! The hover text for the position of the cursor: the findings there, with the manual of their rules, and an
//! explanation of the value.
//!
//! ```text
//! offset ─► findings ─► manual of each rule, short             (findings)
//!        └► Spot ─► Place ─► the first room that knows it ─► text for each set ─► one text
//!                     workload, pool, class    what `gpulint why` and `gpulint pools` say, and the class
//!                     labels, taints           requirements, labels, taints, tolerations
//!                     times, amounts, keda     schedules, durations, quantities, triggers
//! ```
//!
//! A value that a placeholder hides is not explained.

mod amounts;
mod catalogue;
mod class;
mod findings;
mod keda;
mod labels;
mod pool;
mod schedule;
mod taints;
#[cfg(test)]
pub(crate) mod tests;
mod times;
mod words;
mod workload;

use gpulint_rules::tree::Span;
use gpulint_rules::{Kind, Node, Object, Platform, Pointer, Shape};

use crate::lsp::view::{SetView, Spot, View};

use words::code;

/// Maximum number of sets to examine: a base may be part of hundreds.
const MAX_SETS: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hover {
    pub(crate) span: Span,
    pub(crate) markdown: String,
}

pub(crate) fn at(view: &View<'_>, offset: u32) -> Option<Hover> {
    let findings = findings::at(view, offset);
    let value = view.at(offset).and_then(|spot| Some((spot.span, of_value(view, &spot)?)));
    match (findings, value) {
        (None, None) => None,
        (Some(only), None) => Some(only),
        (None, Some((span, markdown))) => Some(Hover { span, markdown }),
        (Some(found), Some((span, markdown))) => {
            Some(Hover { span, markdown: format!("{}\n\n---\n\n{markdown}", found.markdown) })
        }
    }
}

/// A key or a scalar of an object.
pub(crate) struct Place<'a> {
    pub(crate) object: &'a Object,
    pub(crate) node: Node<'a>,
    steps: Vec<String>,
}

impl<'a> Place<'a> {
    fn new(spot: &Spot<'a>) -> Option<Place<'a>> {
        let is_scalar = spot.node.shape() == Shape::Scalar;
        if (!spot.on_key && !is_scalar) || spot.node.is_unknown() {
            return None;
        }
        let steps = spot.node.pointer().steps().to_vec();
        Some(Place { object: spot.object, node: spot.node.clone(), steps })
    }

    fn path(&self) -> Vec<&str> {
        self.steps.iter().map(String::as_str).collect()
    }

    /// The node after the first `steps` steps of the path.
    fn ancestor(&self, steps: usize) -> Node<'a> {
        let kept = self.steps.iter().take(steps).cloned();
        self.object.root().at(&Pointer::from_steps(kept))
    }
}

/// A set, with the object as the set applies it.
struct InSet<'a> {
    set: &'a SetView<'a>,
    object: &'a Object,
    platform: &'a Platform,
}

fn of_value(view: &View<'_>, spot: &Spot<'_>) -> Option<String> {
    let place = Place::new(spot)?;
    let rooms = [
        workload::of_place,
        pool::of_place,
        class::of_place,
        labels::of_place,
        taints::of_place,
        schedule::of_place,
        times::of_place,
        keda::of_place,
        amounts::of_place,
    ];
    rooms.iter().find_map(|room| room(view, &place))
}

/// The texts for all sets. Sets are named only if their texts differ.
fn in_sets(view: &View<'_>, object: &Object, text: impl Fn(&InSet<'_>) -> Option<String>) -> Option<String> {
    let platform = &view.engine.settings().platform;
    let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
    for set in view.sets.iter().take(MAX_SETS) {
        let object = applied(set, object).unwrap_or(object);
        let Some(text) = text(&InSet { set, object, platform }) else { continue };
        let name = set.name.unwrap_or_default();
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name),
            None => texts.push((text, vec![name])),
        }
    }
    let looked_at = view.sets.len().min(MAX_SETS);
    match texts.as_slice() {
        [] => None,
        [(text, names)] if names.len() == looked_at => Some(text.clone()),
        several => {
            let parts: Vec<String> = several
                .iter()
                .map(|(text, names)| {
                    let names: Vec<String> =
                        names.iter().filter(|name| !name.is_empty()).map(|name| code(name)).collect();
                    match names.as_slice() {
                        [] => text.clone(),
                        names => format!("In {}:\n\n{text}", names.join(", ")),
                    }
                })
                .collect();
            Some(parts.join("\n\n---\n\n"))
        }
    }
}

fn applied<'a>(set: &SetView<'a>, object: &Object) -> Option<&'a Object> {
    let id = object.id();
    let of_kind = || set.cluster.objects().iter().filter(|other| other.id().kind == id.kind);
    let same = set.cluster.all(&id.group, &id.kind, id.namespace_or_default(), &id.name);
    same.iter().find(|other| other.is_same_manifest(object)).or_else(|| {
        // A kustomization may change its name or namespace.
        of_kind().find(|other| other.is_same_manifest(object))
    })
}

/// The reference to the node class, if the object is a NodePool or another object with requirements.
fn has_node_class_ref(object: &Object) -> Option<Node<'_>> {
    if object.is(Kind::NODE_POOL) {
        return Some(object.path(&["spec", "template", "spec", "nodeClassRef"]));
    }
    object.is(Kind::NODE_CLAIM).then(|| object.path(&["spec", "nodeClassRef"]))
}
