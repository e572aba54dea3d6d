//! The idle replica count of a ScaledObject is not between 0 and its minimum.
//!
//! # Why
//! KEDA scales to `idleReplicaCount` while no trigger is active. Its admission rejects a count that is
//! not below `minReplicaCount`, and one without a written minimum. Of the counts that are accepted
//! only 0 works: the HPA does not let a target rest at another one.
//!
//! # Fix
//! Write `idleReplicaCount: 0` and a `minReplicaCount`, or leave the idle count out.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//!  spec:
//!    scaleTargetRef: {name: llm}
//! -  idleReplicaCount: 2 # <-
//! +  idleReplicaCount: 0
//!    minReplicaCount: 2
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/#idlereplicacount>

use crate::rules::autoscaling::report_below;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-idle-replicas-invalid",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    rejected_by: &[Authority::ApiServer, Authority::KedaAdmission],
    depends_on: &[Product::Keda],
    docs: docs(include_str!("keda_idle_replicas_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    // Nothing is reported while a placeholder hides the maximum.
    max_replicas(object)?;
    let min = spec.get("minReplicaCount");
    let idle = spec.get("idleReplicaCount");
    let (resting, floor) = (idle.int()?, min_replicas(object)?);
    // KEDA treats an explicit minimum of 0 as 1, and an absent one as 0.
    let counted = if min.is_set() { floor.max(1) } else { 0 };
    // Before 2.20 the CRD has no bounds, and the admission webhook does not return the error.
    let rejects = ctx.platform().keda >= Version::new(2, 20);
    if resting < 0 {
        report_below(&idle, 0, rejects.then_some(Authority::ApiServer), ctx);
    } else if resting >= counted {
        let minimum = if min.is_set() {
            format!("`minReplicaCount` {floor}")
        } else {
            "`minReplicaCount`, which is not written".to_owned()
        };
        ctx.report(&idle, format!("`idleReplicaCount` {resting} is not below {minimum}"))
            .help("KEDA's admission webhook rejects this: write a minimum above the idle count")
            .rejected_by(rejects.then_some(Authority::KedaAdmission));
    } else if resting > 0 {
        ctx.report(&idle, format!("`idleReplicaCount` {resting} has no effect: only 0 works"))
            .help("write 0, or leave it out")
            .severity(Severity::Warning);
    }
    None
}
