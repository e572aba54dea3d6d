//! The replica bounds of an autoscaler contradict each other.
//!
//! # Why
//! The API server refuses a ScaledObject whose `minReplicaCount` is above `maxReplicaCount`, which
//! is 100 where it is not written, and an HPA whose `minReplicas` is above `maxReplicas` or below
//! one. KEDA's admission refuses an `idleReplicaCount` that is not below the minimum. Nothing of
//! the object is applied then.
//!
//! # Fix
//! Write bounds with 0 <= idle < min <= max. Only an idle count of 0 works.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: llm}
//! -  minReplicaCount: 12 # <-
//! +  minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: "app=llm-client", value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/>
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/>

use crate::platform::Version;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-replica-bounds",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::HPA],
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    owns: &[
        Ownership { path: "spec/minReplicaCount", aspect: Aspect::Value },
        Ownership { path: "spec/maxReplicaCount", aspect: Aspect::Value },
    ],
    docs: docs(include_str!("keda_replica_bounds.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if object.is(Kind::HPA) {
        check_hpa(&spec, ctx);
        return None;
    }
    let min = spec.get("minReplicaCount");
    let max = spec.get("maxReplicaCount");
    // KEDA's definition has bounds, and its admission returns what it finds, since 2.20; before,
    // the HPA could not be made.
    let strict = ctx.platform().keda >= Version::new(2, 20);
    let since_2_20 = strict.then_some(Authority::ApiServer);
    below(&min, 0, since_2_20, ctx);
    below(&max, 1, since_2_20, ctx);
    let ceiling = number(&max, 100)?;
    // A ScaledJob's minimum above its maximum is lowered, not refused.
    if object.is(Kind::SCALED_OBJECT)
        && let Some(floor) = min.int()
        && floor > ceiling
    {
        let of = if max.is_set() { format!("{ceiling}") } else { format!("{ceiling}, the default") };
        let finding =
            ctx.report(&min, format!("`minReplicaCount` {floor} is above `maxReplicaCount` ({of})"));
        finding.help("raise the maximum or lower the minimum");
        finding.rejected_by(since_2_20);
        if max.is_set() {
            finding.related(object, &max, "the maximum");
        }
    }
    let idle = spec.get("idleReplicaCount");
    let resting = idle.int()?;
    let floor = number(&min, 0)?;
    // KEDA counts a written 0 as 1, and an absent minimum as 0.
    let counted = if min.is_set() { floor.max(1) } else { 0 };
    if resting < 0 {
        below(&idle, 0, since_2_20, ctx);
    } else if resting >= counted {
        let minimum = if min.is_set() {
            format!("`minReplicaCount` {floor}")
        } else {
            "`minReplicaCount`, which is not written".to_owned()
        };
        ctx.report(&idle, format!("`idleReplicaCount` {resting} is not below {minimum}"))
            .help("KEDA's admission refuses this: write a minimum above the idle count")
            .rejected_by(strict.then_some(Authority::KedaAdmission));
    } else if resting > 0 {
        ctx.report(&idle, format!("`idleReplicaCount` {resting} has no effect: only 0 works"))
            .help("write 0, or leave it out")
            .severity(Severity::Warning);
    }
    None
}

fn check_hpa(spec: &Node<'_>, ctx: &mut Context<'_>) {
    let min = spec.get("minReplicas");
    let max = spec.get("maxReplicas");
    let external =
        spec.get("metrics").items().any(|m| matches!(m.get("type").text(), Some("Object" | "External")));
    // Zero is legal where the alpha gate HPAScaleToZero is on, which EKS never has, and then only
    // with such a metric.
    let zero = external && !ctx.platform().eks;
    below(&min, i64::from(!zero), Some(Authority::ApiServer), ctx);
    below(&max, 1, Some(Authority::ApiServer), ctx);
    if !max.is_set() && spec.is_mapping() && !max.is_unknown() {
        ctx.report(&max, "`maxReplicas` is missing")
            .help("an HPA needs it: write the most replicas that you would pay for")
            .rejected_by(Some(Authority::ApiServer));
    }
    if let (Some(floor), Some(ceiling)) = (min.int(), max.int())
        && floor > ceiling
    {
        ctx.report(&max, format!("`maxReplicas` {ceiling} is below `minReplicas` {floor}"))
            .help("raise the maximum or lower the minimum")
            .rejected_by(Some(Authority::ApiServer));
    }
}

fn below(node: &Node<'_>, least: i64, refuser: Option<Authority>, ctx: &mut Context<'_>) {
    if let Some(value) = node.int()
        && value < least
    {
        let name = node.pointer().steps().last().cloned().unwrap_or_default();
        ctx.report(node, format!("`{name}` {value} is below {least}"))
            .help(format!("write {least} or more"))
            .rejected_by(refuser);
    }
}

/// The value, the default where nothing is written, `None` where it is not known.
fn number(node: &Node<'_>, default: i64) -> Option<i64> {
    if node.is_set() { node.int() } else { Some(default) }
}
