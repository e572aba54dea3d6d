//! The activation threshold of a trigger is above its scaling threshold.
//!
//! # Why
//! Below the activation threshold KEDA scales to zero, whatever the threshold asks for. With a threshold of
//! 10 and an activation of 50, a queue of 40 jobs asks for four replicas, and gets none: the jobs stay
//! until more arrive.
//!
//! # Fix
//! Write an activation threshold below the threshold.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: worker}
//!  spec:
//!    scaleTargetRef: {name: worker}
//!    minReplicaCount: 0
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata:
//!          podSelector: app=llm-client
//!          value: "10"
//! -        activationValue: "50" # <-
//! +        activationValue: "5"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/#activating-and-scaling-thresholds>

use crate::keda::value::number;
use crate::rules::autoscaling::scale_target::rests_at_zero;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-activation-above-threshold",
    kinds: &[Kind::SCALED_OBJECT],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_activation_above_threshold.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let idle = object.path(&["spec", "idleReplicaCount"]);
    if !(rests_at_zero(object)? || idle.int() == Some(0)) || uses_modifiers(object)? {
        return None;
    }
    // With several triggers another one may keep the workload awake.
    let mut all = triggers(object);
    let (Some(trigger), None) = (all.next(), all.next()) else { return None };
    let scaler = trigger.scaler(ctx.platform().keda).filter(|scaler| !scaler.open)?;
    let metadata = trigger.metadata();
    for key in &scaler.keys {
        let Some(rest) = key.name.strip_prefix("activation") else { continue };
        let first = rest.chars().next().map(|c| c.to_ascii_lowercase());
        let target: String = first.into_iter().chain(rest.chars().skip(1)).collect();
        let Some(target) = scaler.keys.iter().find(|key| key.name == target) else { continue };
        let activation = metadata.get(key.name);
        let threshold = metadata.get(target.name);
        if threshold.is_unknown() {
            continue;
        }
        let asked = threshold.text().map(str::trim).or(target.default).and_then(number);
        let (Some(text), Some(asked)) = (activation.text().map(str::trim), asked) else { continue };
        if number(text).is_some_and(|n| n > asked) && asked > 0.0 {
            let message = format!(
                "values from {asked} to {} call for replicas, but KEDA scales to zero below the activation threshold",
                ellipsize(text)
            );
            ctx.report(&activation, message)
                .help(format!("set the activation threshold to at most the value of `{}`", target.name));
        }
    }
    None
}
