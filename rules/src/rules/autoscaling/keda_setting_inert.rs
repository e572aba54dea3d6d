//! A setting of a ScaledObject has no effect with its minimum.
//!
//! # Why
//! KEDA itself decides only between zero and one replica; from `minReplicaCount` up the HPA decides. With a
//! minimum of 1 or more and no `idleReplicaCount`, `cooldownPeriod`, `initialCooldownPeriod`,
//! `pollingInterval` and every activation threshold are read and have no effect. In particular
//! `cooldownPeriod` does not slow the way in: that is the HPA's stabilization window. From KEDA 2.19 on the
//! polls also count the failures of a `fallback`, so that `pollingInterval` has an effect beside one.
//! Where minimum and maximum are equal, `autoscaler-without-range` is the one finding.
//!
//! # Fix
//! Remove the setting. To slow scaling in, write `scaleDown.stabilizationWindowSeconds` into the `behavior`
//! below `advanced.horizontalPodAutoscalerConfig`. A `cooldownPeriod` other than the default of 300 is a
//! warning, because somebody expects something of it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//! -  pollingInterval: 5 # <-
//!    minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#cooldownperiod>
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#activating-and-scaling-thresholds>

use crate::keda::value::boolean;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-setting-inert",
    kinds: &[Kind::SCALED_OBJECT],
    fix: Some(Safety::Safe),
    tag: Some(Tag::Unnecessary),
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_setting_inert.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

const POLLS_COUNT_FAILURES_SINCE: Version = Version::new(2, 19);

/// KEDA's `cooldownPeriod`, in seconds.
const DEFAULT_COOLDOWN: i64 = 300;
/// The longest stabilization window of an HPA, in seconds.
const LONGEST_WINDOW: i64 = 3600;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let min = spec.get("minReplicaCount").int()?;
    let idle = spec.get("idleReplicaCount");
    let is_open = spec.has_unknown_key() || object.may_lack_fields();
    // It never scales at all, which autoscaler-without-range reports.
    let is_fixed = spec.get("maxReplicaCount").int() == Some(min);
    if min < 1 || is_fixed || idle.is_set() || idle.is_unknown() || is_open {
        return None;
    }
    let cached = |node: &Node<'_>| {
        let cached = node.get("useCachedMetrics");
        cached.is_unknown() || cached.bool() == Some(true)
    };
    // The polls count the failures after which a fallback holds (`getScalerState` in pkg/scaling/scale_handler.go).
    let counts_failures = spec.get("fallback").is_set() && ctx.platform().keda >= POLLS_COUNT_FAILURES_SINCE;
    // The polls renew cached metrics, and ask the sources of a formula.
    let polls =
        counts_failures || uses_modifiers(object) != Some(false) || triggers(object).any(|t| cached(&t.node));
    for name in ["cooldownPeriod", "initialCooldownPeriod", "pollingInterval"] {
        let node = spec.get(name);
        if node.is_set()
            && !(name == "pollingInterval" && polls)
            && (name != "cooldownPeriod" || meant_window(object, &node, ctx).is_none())
        {
            inert(&node, name, min, ctx);
        }
    }
    for trigger in triggers(object) {
        let Some(scaler) = trigger.scaler(ctx.platform().keda).filter(|scaler| !scaler.open) else {
            continue;
        };
        // A key that the scaler requires has to stay.
        for (name, node) in trigger.metadata().entries() {
            let known = name.starts_with("activation")
                && scaler.keys.iter().any(|key| key.name == name && !key.required);
            let zero =
                node.text().is_some_and(|text| text.trim() == "0" || boolean(text.trim()) == Some(false));
            if known && node.is_set() && !zero {
                inert(&node, name, min, ctx);
            }
        }
    }
    let composite = spec.path(&["advanced", "scalingModifiers", "activationTarget"]);
    if composite.text().is_some_and(|text| !text.is_empty() && text != "0") {
        inert(&composite, "activationTarget", min, ctx);
    }
    None
}

/// Reports a cooldown that is meant for scaling in to the minimum, which follows another field. The default is often spelled out
/// without a meaning.
fn meant_window(object: &Object, node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let seconds = node.int().filter(|seconds| *seconds != DEFAULT_COOLDOWN)?;
    let behavior =
        object.path(&["spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown"]);
    if !behavior.is_absent() {
        return None;
    }
    let window = behavior.get("stabilizationWindowSeconds");
    let message = format!(
        "`cooldownPeriod` does not decide when it scales in to the minimum: after 300 s, not {seconds}"
    );
    ctx.report(node, message)
        .at_key()
        .severity(Severity::Warning)
        .help("write it as `stabilizationWindowSeconds` of `behavior.scaleDown`, which counts above 0")
        .fix(
            Fix::unsafe_("write it as the stabilization window")
                .set(&window, json!(seconds.clamp(0, LONGEST_WINDOW)))
                .remove(node),
        );
    Some(())
}

fn inert(node: &Node<'_>, name: &str, min: i64, ctx: &mut Context<'_>) {
    let message = match name {
        "cooldownPeriod" => format!("`{name}` counts only on the way to zero, and the minimum is {min}"),
        _ => format!("`{name}` has no effect with a minimum of {min}"),
    };
    let finding = ctx.report(node, message);
    finding
        .help(match name {
            "cooldownPeriod" => "remove it; `behavior.scaleDown.stabilizationWindowSeconds` slows scaling in",
            _ => "remove it: it matters only on the way from and to zero",
        })
        .at_key()
        .fix(Fix::safe(format!("remove `{name}`")).remove(node));
}
