//! A ClusterQueue without a cohort has settings that only act in one.
//!
//! # Why
//! `reclaimWithinCohort` and `borrowWithinCohort` let a ClusterQueue of Kueue preempt workloads of the other
//! queues of its cohort that run on quota which it has lent. A queue outside of any cohort lends and borrows
//! nothing: the settings have no effect, and a workload waits where its author expects it to preempt others.
//! A `borrowingLimit` or `lendingLimit` of a quota is not just without effect: Kueue rejects a ClusterQueue
//! that has one and no cohort.
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

use crate::lint::finding::{ALSO_HERE, MAX_MERGED_RELATED};
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
    if object.may_lack_fields() || spec.has_unknown_key() || is_set("cohort") || is_set("cohortName") {
        return None;
    }
    limits(object, ctx);
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

/// Reports limits of quotas. `validateLimit` in `pkg/webhooks/clusterqueue_webhook.go` of Kueue 0.6 to 0.14 rejects both, and a
/// validation rule of the CRD the first one.
fn limits(object: &Object, ctx: &mut Context<'_>) {
    let mut fields = Vec::new();
    for group in object.root().items_at(&["spec", "resourceGroups"]) {
        let flavors = group.get("flavors");
        for resource in flavors.items().flat_map(|flavor| flavor.get("resources").items()) {
            for name in ["borrowingLimit", "lendingLimit"] {
                let field = resource.get(name);
                if field.is_set() {
                    fields.push((name, field));
                }
            }
        }
    }
    // One finding for a queue: one cohort is the remedy for all of its limits.
    let Some((name, first)) = fields.first() else { return };
    let verb = if *name == "borrowingLimit" { "borrow" } else { "lend" };
    let message = format!(
        "Kueue rejects `{name}` of ClusterQueue `{}`, which is in no cohort with which to {verb}",
        object.display_name()
    );
    let several = fields.len() > 1;
    let finding = ctx.report(first, message);
    finding.severity(Severity::Error).help(match several {
        true => "name the cohort with which it shares quota, or remove all such limits",
        false => "name the cohort with which it shares quota, or remove the limit",
    });
    for (_, field) in fields.iter().skip(1).take(MAX_MERGED_RELATED) {
        finding.related(object, field, ALSO_HERE);
    }
}
