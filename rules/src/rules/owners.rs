//! Which rule speaks of what the API server refuses, where a rule of its own knows more than the
//! schema: the fields by their paths, and the rules that own them.
//!
//! The rules over the schema (manifest-incomplete, unknown-field, invalid-value) run last. What an
//! owner has reported, at the field, above or below it, they leave to it; where the owner is
//! switched off they are silent; and where an owner that is on says nothing, they speak, so that
//! nothing that is refused goes by. A new rule over a field of its own adds a line here.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::Kind;
use crate::lint::rule::Context;
use crate::object::Object;
use crate::schema::{Violation, ViolationKind};
use crate::tree::pointer::Pointer;

/// What a rule owns of a field.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Aspect {
    /// What is written or missing, in it and beside it: the rule has one finding for all.
    Whole,
    /// That it is missing.
    Missing,
    /// That it is there.
    Unknown,
    /// What is written.
    Value,
}

/// A rule and the field it owns.
pub(crate) struct PrecedenceEntry {
    /// The kinds; all where there are none.
    kinds: &'static [Kind],
    /// The path: `*` is one step, `**` any number of them.
    path: &'static str,
    aspect: Aspect,
    rule: &'static str,
}

const fn entry(
    kinds: &'static [Kind],
    path: &'static str,
    of: Aspect,
    rule: &'static str,
) -> PrecedenceEntry {
    PrecedenceEntry { kinds, path, aspect: of, rule }
}

const POOL: &[Kind] = &[Kind::NODE_POOL];
const POOL_OR_CLAIM: &[Kind] = &[Kind::NODE_POOL, Kind::NODE_CLAIM];
const CLASS: &[Kind] = &[Kind::EC2_NODE_CLASS];
const SCALED: &[Kind] = &[Kind::SCALED_OBJECT, Kind::SCALED_JOB];

/// By kind, then by path.
pub(crate) static PRECEDENCE: &[PrecedenceEntry] = &[
    entry(POOL, "spec/disruption/consolidateAfter", Aspect::Missing, "consolidate-after-missing"),
    entry(POOL, "spec/disruption/budgets/*/schedule", Aspect::Value, "budget-schedule-invalid"),
    entry(POOL_OR_CLAIM, "**/nodeClassRef/**", Aspect::Whole, "node-class-ref-incomplete"),
    entry(POOL_OR_CLAIM, "**/nodeClassRef/apiVersion", Aspect::Unknown, "node-class-ref-incomplete"),
    entry(CLASS, "spec/amiSelectorTerms", Aspect::Value, "node-class-ami-terms"),
    entry(SCALED, "spec/minReplicaCount", Aspect::Value, "keda-replica-bounds"),
    entry(SCALED, "spec/maxReplicaCount", Aspect::Value, "keda-replica-bounds"),
    entry(SCALED, "spec/triggers/*/metadata/*", Aspect::Value, "keda-trigger-invalid"),
    entry(&[], "**/annotations/karpenter.sh~1do-not-disrupt", Aspect::Value, "do-not-disrupt-invalid-value"),
    entry(&[], "**/resources/*/*", Aspect::Value, "gpu-limit-mismatch"),
];

/// What earlier rules have said of an object.
pub(crate) struct EarlierReports<'o> {
    object: &'o Object,
    /// Where any rule has claimed a refusal.
    rejected: BTreeSet<Pointer>,
    /// Those of the rules that own something, by rule.
    reported_by: BTreeMap<&'static str, Vec<Pointer>>,
    /// The owners that do not judge this object.
    disabled: BTreeSet<&'static str>,
}

impl<'o> EarlierReports<'o> {
    /// Collects it; for an object without violations there is nothing to ask.
    pub(crate) fn of(object: &'o Object, ctx: &Context<'_>) -> EarlierReports<'o> {
        let mut owned = EarlierReports {
            object,
            rejected: BTreeSet::new(),
            reported_by: BTreeMap::new(),
            disabled: BTreeSet::new(),
        };
        if object.violations().is_empty() {
            return owned;
        }
        owned.rejected.extend(ctx.earlier_rejections(None).cloned());
        for owner in PRECEDENCE.iter().filter(|o| o.applies_to(object)) {
            if !ctx.is_rule_enabled(owner.rule) {
                owned.disabled.insert(owner.rule);
            }
            let said: Vec<Pointer> = if owner.aspect == Aspect::Whole {
                // What Karpenter alone makes of one field says nothing about its siblings.
                ctx.earlier_server_rejections(owner.rule).cloned().collect()
            } else {
                ctx.earlier_rejections(Some(owner.rule)).cloned().collect()
            };
            owned.reported_by.entry(owner.rule).or_insert(said);
        }
        owned
    }

    /// Whether another rule has spoken of a violation, or is kept from speaking of it.
    pub(crate) fn covers(&self, violation: &Violation) -> bool {
        if self.rejected.contains(&violation.pointer) {
            return true;
        }
        let steps = violation.pointer.steps();
        let above = Pointer::from_steps(steps.iter().take(steps.len().saturating_sub(1)).cloned());
        let part = match violation.kind {
            ViolationKind::Missing => Aspect::Missing,
            ViolationKind::Unknown => Aspect::Unknown,
            _ => Aspect::Value,
        };
        PRECEDENCE
            .iter()
            .filter(|o| {
                o.applies_to(self.object)
                    && (o.aspect == part || o.aspect == Aspect::Whole && part != Aspect::Unknown)
            })
            .filter(|o| matches(o.path, steps))
            .any(|o| {
                // One finding of a rule that owns the whole speaks of the siblings too.
                let part = if o.aspect == Aspect::Whole { &above } else { &violation.pointer };
                let said = self.reported_by.get(o.rule);
                self.disabled.contains(o.rule)
                    || said.is_some_and(|all| all.iter().any(|at| is_ancestor_or_descendant(at, part)))
            })
    }
}

impl PrecedenceEntry {
    fn applies_to(&self, object: &Object) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| object.is(*kind))
    }
}

/// Whether one of two places is the other, or stands above it.
fn is_ancestor_or_descendant(a: &Pointer, b: &Pointer) -> bool {
    a.steps().iter().zip(b.steps()).all(|(a, b)| a == b)
}

fn matches(path: &str, steps: &[String]) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches_parts(&parts, steps)
}

fn matches_parts(parts: &[&str], steps: &[String]) -> bool {
    match (parts.split_first(), steps.split_first()) {
        (None, rest) => rest.is_none(),
        (Some((&"**", rest)), _) => (0..=steps.len()).any(|skipped| matches_parts(rest, &steps[skipped..])),
        (Some((part, rest)), Some((step, below))) => {
            (*part == "*" || part.replace("~1", "/") == *step) && matches_parts(rest, below)
        }
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{PRECEDENCE, matches};
    use crate::cluster::objects::Index;
    use crate::lint::engine::Engine;
    use crate::lint::settings::{Settings, find_rule};
    use crate::object::Object;

    #[test]
    fn owners_are_rules() {
        for owner in PRECEDENCE {
            assert!(find_rule(owner.rule).is_some(), "{}", owner.rule);
        }
    }

    #[test]
    fn what_karpenter_says_of_a_field_hides_no_other() {
        let pool = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {
                "group": "eks.amazonaws.com", "kind": "EC2NodeClass", "name": {"a": "b"},
            }}}},
        });
        let pool = Object::from_json(&pool).expect("an object");
        let findings = Engine::new(Settings::default()).check_object(&pool, &Index::new(false));
        let at = |name: &str, rule: &str| {
            let place = format!("/spec/template/spec/nodeClassRef/{name}");
            findings
                .iter()
                .any(|f| f.rule.id == rule && f.location.pointer().is_some_and(|p| p.to_string() == place))
        };
        assert!(at("kind", "node-class-ref-incomplete"));
        assert!(at("name", "invalid-value"));
    }

    #[test]
    fn paths_match_whole() {
        let steps = |text: &str| -> Vec<String> { text.split('/').map(str::to_owned).collect() };
        for (path, text, is) in [
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/*/c", "a/0/c", true),
            ("**/c", "a/b/c", true),
            ("**/c/**", "a/c", true),
            ("**/c/**", "a/c/d/e", true),
            ("**/c/**", "a/d", false),
        ] {
            assert_eq!(matches(path, &steps(text)), is, "{path} {text}");
        }
    }
}
