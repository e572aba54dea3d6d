//! How many pods a Deployment adds and misses during a rollout, as its controller rounds.

use crate::cluster::views::disruptions::IntOrPercent;
use crate::rules::prelude::*;

/// The pods of a rolling update.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rules) struct Rollout {
    /// Pods beyond the replicas: `maxSurge`, rounded up.
    pub surge: i64,
    /// Pods that may be unavailable: `maxUnavailable`, rounded down.
    pub unavailable: i64,
    /// Whether the manifest sets either.
    pub written: bool,
}

/// The rolling update of a Deployment with this many replicas, or the canary of an Argo Rollout, which has the same fields and
/// defaults; `None` for other strategies, and where it is not known.
pub(in crate::rules) fn rollout(object: &Object, replicas: i64) -> Option<Rollout> {
    let strategy = object.path(&["spec", "strategy"]);
    let kind = strategy.get("type");
    let is_argo = object.is(Kind::ROLLOUT);
    let update = strategy.get(if is_argo { "canary" } else { "rollingUpdate" });
    if strategy.has_unknown() || object.get("spec").has_unknown_key() || object.is_patched_by_kustomize() {
        return None;
    }
    if kind.is_set() && kind.text() != Some("RollingUpdate") || is_argo && !update.is_set() {
        return None;
    }
    let read = |field: &str| {
        let node = update.get(field);
        if node.is_set() { IntOrPercent::read(&node) } else { Some(IntOrPercent::Percent(25)) }
    };
    let surge = read("maxSurge")?.of(replicas, true);
    let mut unavailable = read("maxUnavailable")?.of(replicas, false);
    // If both round to 0, the controller uses 1 for `maxUnavailable`.
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    let written = update.get("maxSurge").is_set() || update.get("maxUnavailable").is_set();
    Some(Rollout { surge, unavailable, written })
}

#[cfg(test)]
mod tests {
    use super::{Rollout, rollout};
    use crate::object::Object;
    use serde_json::{Value, json};

    #[test]
    fn rollouts_are_rounded_as_the_controller_does() {
        let both =
            |surge: Value, unavailable: Value| json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let cases = [
            (json!(null), 1, Some((1, 0))),
            (json!(null), 3, Some((1, 0))),
            (json!(null), 4, Some((1, 1))),
            (json!(null), 5, Some((2, 1))),
            (json!(null), 8, Some((2, 2))),
            (both(json!(0), json!(1)), 3, Some((0, 1))),
            (both(json!(1), json!(0)), 3, Some((1, 0))),
            (both(json!("0%"), json!("10%")), 3, Some((0, 1))),
            (both(json!("0%"), json!("50%")), 3, Some((0, 1))),
            (both(json!("100%"), json!("100%")), 3, Some((3, 3))),
            (both(json!("34%"), json!("34%")), 3, Some((2, 1))),
            (both(json!("1"), json!(0)), 3, None),
        ];
        for (update, replicas, expected) in cases {
            let strategy = if update.is_null() { json!(null) } else { json!({"rollingUpdate": update}) };
            let value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
                "spec": {"strategy": strategy, "template": {"spec": {"containers": []}}}});
            let object = Object::from_json(&value).unwrap();
            let expected = expected.map(|(surge, unavailable)| Rollout {
                surge,
                unavailable,
                written: !update.is_null(),
            });
            assert_eq!(rollout(&object, replicas), expected, "{strategy} of {replicas}");
        }
        let value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
            "spec": {"strategy": {"type": "Recreate"}, "template": {"spec": {"containers": []}}}});
        assert_eq!(rollout(&Object::from_json(&value).unwrap(), 3), None);
    }
}
