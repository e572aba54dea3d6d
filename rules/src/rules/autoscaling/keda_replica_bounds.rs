//! The replica bounds of an object of KEDA contradict each other.
//!
//! # Why
//! The API server rejects a minimum below 0, a maximum below 1, and a ScaledObject whose
//! `minReplicaCount` is above `maxReplicaCount`, which is 100 where it is not written. Before KEDA 2.20
//! the object is accepted, and KEDA cannot create its HPA. From `replicas` of an HTTPScaledObject the HTTP
//! add-on makes such a ScaledObject.
//!
//! # Fix
//! Write 0 <= `minReplicaCount` <= `maxReplicaCount`. To switch a workload off, write the annotation
//! `autoscaling.keda.sh/paused-replicas: "0"` in the place of a maximum of 0.
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
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB, Kind::HTTP_SCALED_OBJECT],
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
    let of_add_on = object.is(Kind::HTTP_SCALED_OBJECT);
    let spec = object.get("spec");
    let (min_name, max_name) =
        if of_add_on { ("replicas.min", "replicas.max") } else { ("minReplicaCount", "maxReplicaCount") };
    let field = |name: &str| spec.path(&name.split('.').collect::<Vec<_>>());
    let (min, max) = (field(min_name), field(max_name));
    // KEDA's CRD has these bounds since 2.20, that of the HTTP add-on has none.
    let is_bounded = !of_add_on && ctx.platform().keda >= Version::new(2, 20);
    let authority = is_bounded.then_some(Authority::ApiServer);
    report_below(&min, 0, authority, ctx);
    if max.int() == Some(0) && min.int_or(0) == Some(0) && object.is(Kind::SCALED_OBJECT) {
        ctx.report(&max, format!("`{max_name}` 0 is below 1"))
            .help("to switch it off, write the annotation `autoscaling.keda.sh/paused-replicas: \"0\"`")
            .rejected_by(authority);
    } else {
        report_below(&max, 1, authority, ctx);
    }
    let (floor, ceiling) = (min.int()?, max.int_or(100)?);
    // A ScaledJob's minimum above its maximum is lowered, not rejected.
    if floor > ceiling && !object.is(Kind::SCALED_JOB) {
        let of = if max.is_set() { format!("{ceiling}") } else { format!("{ceiling}, the default") };
        let message = format!("`{min_name}` {floor} is above `{max_name}` ({of})");
        let finding = ctx.report(&min, message).help("raise the maximum or lower the minimum");
        finding.rejected_by(authority);
        if max.is_set() {
            finding.related(object, &max, "the maximum");
        }
    }
    None
}
