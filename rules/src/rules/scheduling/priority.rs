//! The priority of pods.

use crate::rules::prelude::*;

/// The built-in PriorityClasses, with their values (`pkg/apis/scheduling/v1/helpers.go` of Kubernetes 1.34).
pub(super) const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The priority of pods. `None` if their class is not in the input, or more than one is the default.
pub(super) fn priority(template: &Template<'_>, ctx: &Context<'_>) -> Option<i64> {
    let (number, class) = (template.spec.get("priority"), template.spec.get("priorityClassName"));
    if number.is_set() {
        return number.int();
    }
    if let Some(name) = class.text() {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        return known.or_else(|| ctx.partner(Kind::PRIORITY_CLASS, "default", name)?.get("value").int());
    }
    if !class.is_absent() || template.spec.has_unknown_key() {
        return None;
    }
    let is_default =
        |class: &&Object| class.get("globalDefault").bool() == Some(true) && ctx.pairs_with(class);
    let mut defaults = ctx.cluster().of(Kind::PRIORITY_CLASS).filter(is_default);
    match (defaults.next(), defaults.next()) {
        (None, _) => Some(0),
        (Some(class), None) => class.get("value").int(),
        (Some(_), Some(_)) => None,
    }
}
