//! The `fallback` of a ScaledObject.

use super::{Trigger, triggers, uses_modifiers};
use crate::object::Object;
use crate::tree::node::Node;

#[derive(Clone, Debug)]
pub(crate) struct Fallback<'a> {
    /// `spec.fallback`, a mapping.
    pub node: Node<'a>,
    /// Whether a formula replaces the metrics of the ScaledObject.
    pub modifiers: bool,
    /// The triggers. `None` if the type of a trigger is not known.
    pub triggers: Option<Vec<Trigger<'a>>>,
}

impl<'a> Fallback<'a> {
    /// The fallback of a ScaledObject. `None` if it has none, or if a placeholder hides whether there are
    /// scaling modifiers.
    pub(crate) fn of(object: &'a Object) -> Option<Fallback<'a>> {
        let node = object.path(&["spec", "fallback"]);
        if !node.is_mapping() {
            return None;
        }
        let modifiers = uses_modifiers(object)?;
        let all: Vec<Trigger<'_>> = triggers(object).collect();
        let known =
            object.path(&["spec", "triggers"]).is_sequence() && all.iter().all(|t| t.kind().is_some());
        Some(Fallback { node, modifiers, triggers: known.then_some(all) })
    }

    /// Whether all triggers are `cpu` and `memory` triggers. KEDA's admission webhook then rejects a
    /// fallback.
    pub(crate) fn has_resource_triggers_only(&self) -> bool {
        let all = self.triggers.as_deref().unwrap_or_default();
        !self.modifiers && !all.is_empty() && all.iter().all(Trigger::is_resource)
    }
}
