//! The API server rejects the HPA that KEDA would create.
//!
//! # Why
//! The `behavior` of a ScaledObject is copied into an HPA. KEDA's CRD checks its structure and not its
//! limits, so a window above an hour, a period above half an hour, a policy of 0 or an empty list of
//! policies is accepted first; then the HPA cannot be created, and nothing scales.
//!
//! # Fix
//! Write `stabilizationWindowSeconds` from 0 to 3600, `periodSeconds` from 1 to 1800, a `value` above 0,
//! the types `Pods` or `Percent`, and `selectPolicy` as `Max`, `Min` or `Disabled`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 1
//!    maxReplicaCount: 8
//!    advanced:
//!      horizontalPodAutoscalerConfig:
//!        behavior:
//!          scaleDown:
//! -          stabilizationWindowSeconds: 7200 # <-
//! +          stabilizationWindowSeconds: 3600
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/#HorizontalPodAutoscalerSpec>
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#advanced>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-behavior-invalid",
    kinds: &[Kind::SCALED_OBJECT],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_behavior_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let behavior = super::hpa_behavior(object);
    for direction in ["scaleUp", "scaleDown"] {
        let rules = behavior.get(direction);
        limit(&rules.get("stabilizationWindowSeconds"), 0, 3600, ctx);
        one_of(&rules.get("selectPolicy"), &["Max", "Min", "Disabled"], ctx);
        let policies = rules.get("policies");
        if policies.is_sequence() && policies.items().next().is_none() {
            ctx.report(&policies, "an empty list of policies is rejected when KEDA creates the HPA")
                .help("write a policy, or leave `policies` out")
                .fix(Fix::unsafe_("leave the default policies").remove(&policies));
        }
        for policy in policies.items() {
            limit(&policy.get("periodSeconds"), 1, 1800, ctx);
            limit(&policy.get("value"), 1, i64::from(i32::MAX), ctx);
            one_of(&policy.get("type"), &["Pods", "Percent"], ctx);
        }
    }
    None
}

fn limit(node: &Node<'_>, least: i64, most: i64, ctx: &mut Context<'_>) {
    let Some(value) = node.int().filter(|value| !(least..=most).contains(value)) else { return };
    let nearest = value.clamp(least, most);
    let name = node.pointer().steps().last().cloned().unwrap_or_default();
    let limits = if value < least { format!("at least {least}") } else { format!("at most {most}") };
    ctx.report(node, format!("`{name}` must be {limits}: the API server rejects the HPA with {value}"))
        .help(format!("write {nearest}"))
        .fix(Fix::unsafe_(format!("write {nearest}")).set(node, json!(nearest)));
}

fn one_of(node: &Node<'_>, words: &[&str], ctx: &mut Context<'_>) {
    if let Some(text) = node.text().filter(|text| !words.contains(text)) {
        let name = node.pointer().steps().last().cloned().unwrap_or_default();
        ctx.report(node, format!("the API server rejects the HPA with `{name}: {}`", ellipsize(text)))
            .help(format!("write one of `{}`", words.join("`, `")));
    }
}
