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
use crate::schema::{Problem, Violation};
use crate::tree::pointer::Pointer;

/// What a rule owns of a field.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Of {
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
pub(crate) struct Owner {
    /// The kinds; all where there are none.
    kinds: &'static [Kind],
    /// The path: `*` is one step, `**` any number of them.
    path: &'static str,
    of: Of,
    rule: &'static str,
}

const fn owner(kinds: &'static [Kind], path: &'static str, of: Of, rule: &'static str) -> Owner {
    Owner { kinds, path, of, rule }
}

const POOL: &[Kind] = &[Kind::NODE_POOL];
const POOL_OR_CLAIM: &[Kind] = &[Kind::NODE_POOL, Kind::NODE_CLAIM];
const CLASS: &[Kind] = &[Kind::EC2_NODE_CLASS];
const SCALED: &[Kind] = &[Kind::SCALED_OBJECT, Kind::SCALED_JOB];

/// By kind, then by path.
pub(crate) static OWNERS: &[Owner] = &[
    owner(POOL, "spec/disruption/consolidateAfter", Of::Missing, "consolidate-after-missing"),
    owner(POOL, "spec/disruption/budgets/*/schedule", Of::Value, "budget-schedule-invalid"),
    owner(POOL_OR_CLAIM, "**/nodeClassRef/**", Of::Whole, "node-class-ref-incomplete"),
    owner(POOL_OR_CLAIM, "**/nodeClassRef/apiVersion", Of::Unknown, "node-class-ref-incomplete"),
    owner(CLASS, "spec/amiSelectorTerms", Of::Value, "node-class-ami-terms"),
    owner(SCALED, "spec/minReplicaCount", Of::Value, "keda-replica-bounds"),
    owner(SCALED, "spec/maxReplicaCount", Of::Value, "keda-replica-bounds"),
    owner(SCALED, "spec/triggers/*/metadata/*", Of::Value, "keda-trigger-invalid"),
    owner(&[], "**/annotations/karpenter.sh~1do-not-disrupt", Of::Value, "do-not-disrupt-invalid-value"),
    owner(&[], "**/resources/*/*", Of::Value, "gpu-limit-mismatch"),
];

/// What earlier rules have said of an object.
pub(crate) struct Owned<'o> {
    object: &'o Object,
    /// Where any rule has claimed a refusal.
    refused: BTreeSet<Pointer>,
    /// Those of the rules that own something, by rule.
    by_owner: BTreeMap<&'static str, Vec<Pointer>>,
    /// The owners that do not judge this object.
    silent: BTreeSet<&'static str>,
}

impl<'o> Owned<'o> {
    /// Collects it; for an object without violations there is nothing to ask.
    pub(crate) fn of(object: &'o Object, ctx: &Context<'_>) -> Owned<'o> {
        let mut owned =
            Owned { object, refused: BTreeSet::new(), by_owner: BTreeMap::new(), silent: BTreeSet::new() };
        if object.violations().is_empty() {
            return owned;
        }
        owned.refused.extend(ctx.refusals(None).cloned());
        for owner in OWNERS.iter().filter(|o| o.is_of(object)) {
            if !ctx.is_on(owner.rule) {
                owned.silent.insert(owner.rule);
            }
            let said: Vec<Pointer> = if owner.of == Of::Whole {
                // What Karpenter alone makes of one field says nothing about its siblings.
                ctx.server_refusals(owner.rule).cloned().collect()
            } else {
                ctx.refusals(Some(owner.rule)).cloned().collect()
            };
            owned.by_owner.entry(owner.rule).or_insert(said);
        }
        owned
    }

    /// Whether another rule has spoken of a violation, or is kept from speaking of it.
    pub(crate) fn has(&self, violation: &Violation) -> bool {
        if self.refused.contains(&violation.pointer) {
            return true;
        }
        let steps = violation.pointer.steps();
        let above = Pointer::from_steps(steps.iter().take(steps.len().saturating_sub(1)).cloned());
        let part = match violation.problem {
            Problem::Missing => Of::Missing,
            Problem::Unknown => Of::Unknown,
            _ => Of::Value,
        };
        OWNERS
            .iter()
            .filter(|o| o.is_of(self.object) && (o.of == part || o.of == Of::Whole && part != Of::Unknown))
            .filter(|o| matches(o.path, steps))
            .any(|o| {
                // One finding of a rule that owns the whole speaks of the siblings too.
                let part = if o.of == Of::Whole { &above } else { &violation.pointer };
                let said = self.by_owner.get(o.rule);
                self.silent.contains(o.rule)
                    || said.is_some_and(|all| all.iter().any(|at| on_one_line(at, part)))
            })
    }
}

impl Owner {
    fn is_of(&self, object: &Object) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|kind| object.is(*kind))
    }
}

/// Whether one of two places is the other, or stands above it.
fn on_one_line(a: &Pointer, b: &Pointer) -> bool {
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
    use super::{OWNERS, matches};
    use crate::cluster::objects::Index;
    use crate::lint::engine::Engine;
    use crate::lint::settings::{Settings, find_rule};
    use crate::object::Object;

    #[test]
    fn owners_are_rules() {
        for owner in OWNERS {
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
                .any(|f| f.rule.id == rule && f.place.pointer().is_some_and(|p| p.to_string() == place))
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
