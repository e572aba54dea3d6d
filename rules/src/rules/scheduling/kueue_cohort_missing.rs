//! A ClusterQueue without a cohort has settings that only act in one.
//!
//! # Why
//! `reclaimWithinCohort` and `borrowWithinCohort` let a ClusterQueue of Kueue preempt workloads of the other
//! queues of its cohort that run on quota which it has lent. A queue outside of any cohort lends and borrows
//! nothing: the settings have no effect, and a workload waits where its author expects it to preempt others.
//!
//! # Fix
//! Name the cohort, or remove the settings.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: kueue.x-k8s.io/v1beta1
//!  kind: ClusterQueue
//!  metadata: {name: research}
//!  spec:
//! +  cohort: accelerators
//!    namespaceSelector: {}
//!    preemption:
//! -    reclaimWithinCohort: Any # <-
//! +    reclaimWithinCohort: Any
//!      withinClusterQueue: LowerPriority
//!    resourceGroups:
//!      - coveredResources: [cpu, memory, nvidia.com/gpu]
//!        flavors:
//!          - name: h100
//!            resources:
//!              - {name: cpu, nominalQuota: 192}
//!              - {name: memory, nominalQuota: 2Ti}
//!              - {name: nvidia.com/gpu, nominalQuota: 8}
//! ```
//!
//! # References
//! - <https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#cohort>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "kueue-cohort-missing",
    kinds: &[Kind::CLUSTER_QUEUE],
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("kueue_cohort_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    // The field has another name since `v1beta2`.
    let is_set = |name: &str| spec.get(name).is_set() && spec.get(name).text() != Some("");
    if object.is_partial() || spec.has_unknown_key() || is_set("cohort") || is_set("cohortName") {
        return None;
    }
    let preemption = spec.get("preemption");
    let reclaim = preemption.get("reclaimWithinCohort");
    let borrow = preemption.path(&["borrowWithinCohort", "policy"]);
    for (field, name) in [(reclaim, "reclaimWithinCohort"), (borrow, "borrowWithinCohort")] {
        if field.text().is_some_and(|text| text != "Never") {
            let message =
                format!("`{name}` has no effect: ClusterQueue `{}` is in no cohort", object.display_name());
            ctx.report(&field, message)
                .identified_by(name)
                .help("name the cohort with which it shares quota, or remove the setting");
        }
    }
    None
}
