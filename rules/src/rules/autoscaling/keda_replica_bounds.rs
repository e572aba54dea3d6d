//! The replica bounds of a ScaledObject or ScaledJob contradict each other.
//!
//! # Why
//! The API server rejects a minimum below 0, a maximum below 1, and a ScaledObject whose
//! `minReplicaCount` is above `maxReplicaCount`, which is 100 where it is not written. Before KEDA 2.20
//! the object is accepted, and KEDA cannot create its HPA.
//!
//! # Fix
//! Write 0 <= `minReplicaCount` <= `maxReplicaCount`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//! -  minReplicaCount: 12 # <-
//! +  minReplicaCount: 2
//!    maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/>

use crate::rules::autoscaling::report_below;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-replica-bounds",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    rejected_by: &[Authority::ApiServer],
    owns: &[
        Ownership { path: "spec/minReplicaCount", aspect: Aspect::Value },
        Ownership { path: "spec/maxReplicaCount", aspect: Aspect::Value },
    ],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_replica_bounds.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let min = object.path(&["spec", "minReplicaCount"]);
    let max = object.path(&["spec", "maxReplicaCount"]);
    // KEDA's CRD has these bounds since 2.20.
    let authority = (ctx.platform().keda >= Version::new(2, 20)).then_some(Authority::ApiServer);
    report_below(&min, 0, authority, ctx);
    report_below(&max, 1, authority, ctx);
    let (floor, ceiling) = (min.int()?, max.int_or(100)?);
    // A ScaledJob's minimum above its maximum is lowered, not rejected.
    if floor > ceiling && object.is(Kind::SCALED_OBJECT) {
        let of = if max.is_set() { format!("{ceiling}") } else { format!("{ceiling}, the default") };
        let message = format!("`minReplicaCount` {floor} is above `maxReplicaCount` ({of})");
        let finding = ctx.report(&min, message).help("raise the maximum or lower the minimum");
        finding.rejected_by(authority);
        if max.is_set() {
            finding.related(object, &max, "the maximum");
        }
    }
    None
}
