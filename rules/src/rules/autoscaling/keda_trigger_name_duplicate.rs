//! Two triggers of an object have the same name.
//!
//! # Why
//! Metrics and the formulas of scaling modifiers name a trigger by its `name`. KEDA's admission
//! rejects an object in which two triggers share one.
//!
//! # Fix
//! Give each trigger a name of its own, or none.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    triggers:
//!      - type: kubernetes-workload
//!        name: queue
//!        metadata: {podSelector: app=llm-client, value: "4"}
//!      - type: kubernetes-workload
//! -      name: queue # <-
//! +      name: batch
//!        metadata: {podSelector: app=llm-batch, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#triggers>

use std::collections::BTreeMap;

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-trigger-name-duplicate",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("keda_trigger_name_duplicate.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mut names: BTreeMap<&str, Node<'_>> = BTreeMap::new();
    for trigger in triggers(object) {
        let name = trigger.node.get("name");
        let Some(text) = name.text().filter(|t| !t.is_empty()) else { continue };
        if let Some(first) = names.get(text) {
            ctx.report(&name, format!("a second trigger is named `{}`", ellipsize(text)))
                .help("give each trigger its own name: KEDA rejects the object")
                .related(object, first, "the first");
        } else {
            names.insert(text, name);
        }
    }
    None
}
