//! Precedence between the rules: the rules over the schema do not report what a rule that owns the field has reported.
//!
//! The rules over the schema (manifest-incomplete, unknown-field, invalid-value) run last. A violation at a
//! field, above or below it, that its owner ([`Rule::owns`](crate::Rule)) has reported is left to the owner;
//! where the owner is disabled nothing is reported; and where an owner that is enabled reports nothing, they
//! report, so that no rejection goes unreported.

use std::collections::{BTreeMap, BTreeSet};

use crate::kind::definitions::CustomResourceDefinitions;
use crate::lint::authority::Authority;
use crate::lint::context::Context;
use crate::lint::finding::Finding;
use crate::lint::rule::{Aspect, Ownership, Rule};
use crate::object::Object;
use crate::schema::{Violation, ViolationKind, accepted_by_definition, violations};
use crate::tree::pointer::Pointer;

#[derive(Default)]
pub(super) struct EarlierReports {
    /// Where any rule has reported a rejection.
    rejected: BTreeSet<Pointer>,
    owned: Vec<(&'static Ownership, &'static Rule)>,
    /// The locations that each owner has reported.
    reported_by: BTreeMap<&'static str, Vec<Pointer>>,
    /// The owners that are disabled for this object.
    disabled: BTreeSet<&'static str>,
}

impl EarlierReports {
    /// Collects the reports. Empty for an object without violations.
    pub(super) fn of(object: &Object, ctx: &Context<'_>) -> EarlierReports {
        let mut reports = EarlierReports::default();
        if violations(object, ctx.definitions()).is_empty() {
            return reports;
        }
        reports.rejected.extend(ctx.earlier_rejections(None).cloned());
        let owners = ctx.rules().iter().filter(|rule| !rule.owns.is_empty());
        for &rule in owners.filter(|rule| rule.kinds().iter().any(|kind| object.is(*kind))) {
            reports.owned.extend(rule.owns.iter().map(|owned| (owned, rule)));
            if !ctx.is_rule_enabled(rule.id) {
                reports.disabled.insert(rule.id);
            }
            let whole = rule.owns.iter().any(|owned| owned.aspect == Aspect::Whole);
            let reported: Vec<Pointer> = if whole {
                // A rejection of one field by Karpenter says nothing about other fields of the same object.
                ctx.earlier_server_rejections(rule.id).cloned().collect()
            } else {
                ctx.earlier_rejections(Some(rule.id)).cloned().collect()
            };
            reports.reported_by.insert(rule.id, reported);
        }
        reports
    }

    /// Whether another rule has reported a violation, or is disabled and would have reported it.
    pub(super) fn covers(&self, violation: &Violation) -> bool {
        if self.rejected.contains(&violation.pointer) {
            return true;
        }
        let steps = violation.pointer.steps();
        let parent = Pointer::from_steps(steps.iter().take(steps.len().saturating_sub(1)).cloned());
        let aspect = match violation.kind {
            ViolationKind::Missing => Aspect::Missing,
            ViolationKind::Unknown => Aspect::Unknown,
            _ => Aspect::Value,
        };
        self.owned
            .iter()
            .filter(|(owned, _)| {
                owned.aspect == aspect || owned.aspect == Aspect::Whole && aspect != Aspect::Unknown
            })
            .filter(|(owned, _)| matches(owned.path, steps))
            .any(|(owned, rule)| {
                // One finding of a rule that owns the whole object or list covers its other fields too.
                let part = if owned.aspect == Aspect::Whole { &parent } else { &violation.pointer };
                let reported = self.reported_by.get(rule.id);
                self.disabled.contains(rule.id)
                    || reported.is_some_and(|all| all.iter().any(|at| at.is_related_to(part)))
            })
    }
}

/// Whether the user's definition of an object's kind accepts a field, or its absence, of which a rule says that the API server
/// rejects it. What the schema does not state, a CEL expression for example, is left to the rule.
pub(super) fn is_accepted_by_definition(
    object: &Object,
    finding: &Finding,
    definitions: &CustomResourceDefinitions,
) -> bool {
    let Some(field) = finding.location.pointer() else { return false };
    if finding.rejected_by != Some(Authority::ApiServer)
        || accepted_by_definition(object, field, definitions) != Some(true)
    {
        return false;
    }
    let steps = field.steps();
    let is_owned = finding.rule.owns.iter().any(|owned| matches(owned.path, steps));
    let known = violations(object, &CustomResourceDefinitions::default());
    is_owned || known.iter().any(|violation| violation.pointer == *field)
}

/// Whether the steps of a pointer match a path as in [`Ownership::path`].
pub(super) fn matches(path: &str, steps: &[String]) -> bool {
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
    use super::matches;
    use crate::cluster::Cluster;
    use crate::lint::engine::Engine;
    use crate::lint::settings::Settings;
    use crate::object::Object;

    #[test]
    fn what_karpenter_says_of_a_field_hides_no_other() {
        let pool = serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {
                "group": "eks.amazonaws.com", "kind": "EC2NodeClass", "name": {"a": "b"},
            }}}},
        });
        let pool = Object::from_json(&pool).expect("an object");
        let findings = Engine::new(Settings::default()).check_object(&pool, &Cluster::new(false));
        let at = |name: &str, rule: &str| {
            let place = format!("/spec/template/spec/nodeClassRef/{name}");
            findings
                .iter()
                .any(|f| f.rule.id == rule && f.location.pointer().is_some_and(|p| p.to_string() == place))
        };
        assert!(at("kind", "node-class-ref-unserved"));
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
