//! A ScaledObject scales to zero, and no trigger can scale it up again.
//!
//! # Why
//! `cpu` and `memory` are measured on running pods: with zero replicas there is nothing to measure,
//! so they neither take a workload to zero nor bring it back. The minimum is 0 where it is not
//! written. KEDA's admission rejects a ScaledObject on a Deployment or a StatefulSet that has no
//! other trigger and a minimum of 0.
//!
//! # Fix
//! Write `minReplicaCount: 1` or more, or add a trigger that is there without pods, such as a queue
//! or `cron`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: router, namespace: chat}
//!  spec:
//!    scaleTargetRef: {name: router}
//! -  minReplicaCount: 0 # <-
//! +  minReplicaCount: 1
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: cpu
//!        metricType: Utilization
//!        metadata: {value: "70"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/cpu/>
//! - <https://keda.sh/docs/latest/concepts/admission-webhooks/>

use crate::keda::{Trigger, triggers};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-cannot-wake",
    kinds: &[Kind::SCALED_OBJECT],
    rejected_by: &[Authority::KedaAdmission],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_cannot_wake.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let min = spec.get("minReplicaCount");
    let reference = spec.get("scaleTargetRef");
    let list = spec.get("triggers");
    let zero = !min.is_unknown() && (!min.is_set() || min.int() == Some(0));
    if !zero || !list.is_sequence() || !reference.is_mapping() {
        return None;
    }
    // KEDA reads only these two kinds, in this version of their group.
    let word = |name: &str, default: &'static str| match reference.get(name).text() {
        Some(text) if !text.is_empty() => Some(text.to_owned()),
        _ if reference.get(name).is_unknown() => None,
        _ => Some(default.to_owned()),
    };
    let version = word("apiVersion", "apps/v1");
    let kind = word("kind", "Deployment");
    if version.as_deref() != Some("apps/v1") || !matches!(kind.as_deref(), Some("Deployment" | "StatefulSet"))
    {
        return None;
    }
    let all: Vec<Trigger<'_>> = triggers(object).collect();
    if all.is_empty() || !all.iter().all(Trigger::is_resource) {
        return None;
    }
    ctx.report(&min, "the workload can never scale up from 0: `cpu` and `memory` triggers need running pods")
        .help("write `minReplicaCount: 1`, or add a trigger that is there without pods")
        .fix(Fix::unsafe_("keep one replica").set(&min, json!(1)));
    None
}
