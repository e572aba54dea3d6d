//! The annotation that keeps KEDA away from an HPA is on the wrong object.
//!
//! # Why
//! KEDA's admission rejects a ScaledObject whose target already has an HPA, unless that HPA carries
//! `validations.keda.sh/hpa-ownership: "false"`. It reads the annotation on the HPA alone, and compares it
//! with exactly `"false"`: on a ScaledObject, or with another value, it has no effect. The annotations of
//! KEDA have several prefixes, and one with another than its own has none either.
//!
//! # Fix
//! Write `validations.keda.sh/hpa-ownership: "false"` on the HPA. To take over an HPA, write
//! `scaledobject.keda.sh/transfer-hpa-ownership: "true"` on the ScaledObject instead.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata:
//!    name: llm
//! -  annotations: {validations.keda.sh/hpa-ownership: "true"} # <-
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/admission-webhooks/>
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#transfer-ownership-of-an-existing-hpa>

use crate::keda::{OWNERSHIP, TRANSFER};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-hpa-ownership-misplaced",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    fix: Some(Safety::Safe),
    docs: docs(include_str!("keda_hpa_ownership_misplaced.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let annotations = object.path(&["metadata", "annotations"]);
    other_prefix(object, &annotations, ctx);
    let node = annotations.get(OWNERSHIP);
    let text = node.text()?;
    if object.is(Kind::SCALED_OBJECT) {
        let whole = if annotations.entries().len() == 1 { &annotations } else { &node };
        ctx.report(&node, "KEDA reads `hpa-ownership` on the HPA, and ignores it on a ScaledObject")
            .help("write it on the HPA, with the value \"false\"")
            .fix(Fix::safe("remove the annotation").remove(whole));
    } else if text != "false" {
        ctx.report(&node, "only the value `false` of `hpa-ownership` has an effect")
            .help("write \"false\" to have KEDA's admission leave this HPA alone");
    }
    None
}

/// The annotation of a kind with another prefix of KEDA's, as in `autoscaling.keda.sh/transfer-hpa-ownership`.
fn other_prefix(object: &Object, annotations: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let right = if object.is(Kind::SCALED_OBJECT) { TRANSFER } else { OWNERSHIP };
    let (_, name) = right.split_once('/')?;
    for (key, node) in annotations.entries() {
        let prefix = key.split_once('/').filter(|(_, of)| *of == name).map(|(prefix, _)| prefix);
        if key != right && prefix.is_some_and(|prefix| prefix == "keda.sh" || prefix.ends_with(".keda.sh")) {
            ctx.report(&node, format!("KEDA does not read `{key}`"))
                .at_key()
                .help(format!("write `{right}`"));
        }
    }
    None
}
