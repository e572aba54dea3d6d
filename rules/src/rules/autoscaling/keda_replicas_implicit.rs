//! The replica bounds of a ScaledObject are left to KEDA's defaults.
//!
//! # Why
//! A ScaledObject without `minReplicaCount` scales to zero, and one without `maxReplicaCount` scales to 100
//! replicas; a ScaledJob starts up to 100 Jobs. On accelerators that maximum is a bill, so it is a
//! warning there. All else is advice.
//!
//! # Fix
//! Write both bounds.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: llm}
//! -spec: # <-
//! +spec:
//!    scaleTargetRef: {name: llm}
//!    minReplicaCount: 2
//! +  maxReplicaCount: 8
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/reference/scaledobject-spec/>
//! - <https://keda.sh/docs/latest/reference/scaledjob-spec/>

use crate::keda::MAX_REPLICAS;
use crate::rules::autoscaling::scale_target::{accelerators_of_replica, target, target_name};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-replicas-implicit",
    kinds: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reads: SCALABLE_KINDS,
    docs: docs(include_str!("keda_replicas_implicit.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    if !spec.is_mapping() || spec.has_unknown_key() {
        return None;
    }
    let (min, max) = (spec.get("minReplicaCount"), spec.get("maxReplicaCount"));
    let is_job = object.is(Kind::SCALED_JOB);
    // A ScaledJob without Jobs is at rest.
    let (no_min, no_max) = (min.is_absent() && !is_job, max.is_absent());
    let workload = if is_job { Some(object) } else { target(object, ctx) };
    let workload = workload.filter(|workload| uses_accelerators(workload));
    if let Some(workload) = workload.filter(|_| no_max) {
        let count = accelerators_of_replica(workload);
        let replicas = if is_job { "Jobs" } else { "replicas" };
        let cost = match count {
            Some((resource, each)) => format!("of {each} `{resource}` each: {} in all", each * MAX_REPLICAS),
            None => "on accelerators".to_owned(),
        };
        ctx.report(
            &max,
            format!("without `maxReplicaCount` KEDA goes up to {MAX_REPLICAS} {replicas} {cost}"),
        )
        .help("write the most replicas that you would pay for")
        .severity(Severity::Warning)
        .related(workload, &workload.path(&["metadata", "name"]), "it requests accelerators");
    }
    // A schedule sets the number of replicas.
    let scheduled = triggers(object).all(|trigger| trigger.kind() == Some("cron"));
    let no_max = no_max && workload.is_none() && !scheduled;
    let name = if is_job { ellipsize(object.name()) } else { target_name(object) };
    let (node, message) = match (no_min, no_max) {
        (true, true) => {
            (&min, format!("no bounds are written: `{name}` has from 0 to {MAX_REPLICAS} replicas"))
        }
        (true, false) => (&min, format!("without `minReplicaCount`, `{name}` scales to zero")),
        (false, true) if is_job => {
            (&max, format!("without `maxReplicaCount`, `{name}` starts up to {MAX_REPLICAS} Jobs"))
        }
        (false, true) => {
            (&max, format!("without `maxReplicaCount`, `{name}` has up to {MAX_REPLICAS} replicas"))
        }
        (false, false) => return None,
    };
    ctx.report(node, message).help(match (no_min, no_max) {
        (true, true) => "write `minReplicaCount` and `maxReplicaCount`",
        (true, false) => "write `minReplicaCount: 0` if that is meant, or the least that must run",
        _ => "write `maxReplicaCount`",
    });
    None
}
