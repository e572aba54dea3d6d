//! Two VerticalPodAutoscalers change the requests of the same pods.
//!
//! # Why
//! Only one VPA acts on a pod. Where several have the same target, the one that was created first wins, and
//! otherwise the one whose name is first in the alphabet: bounds, modes and containers of the other are never
//! used. A deployment to a new cluster may create them the other way round. VPAs with `updateMode: "Off"` do not
//! count, as they only recommend.
//!
//! # Fix
//! Write one VPA with a policy for each container in `resourcePolicy.containerPolicies`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling.k8s.io/v1
//!  kind: VerticalPodAutoscaler
//!  metadata: {name: indexer, namespace: search}
//!  spec:
//!    targetRef: {apiVersion: apps/v1, kind: Deployment, name: indexer}
//!    updatePolicy: {updateMode: Recreate}
//!  ---
//!  apiVersion: autoscaling.k8s.io/v1
//!  kind: VerticalPodAutoscaler
//!  metadata: {name: indexer-memory, namespace: search}
//!  spec:
//! -  targetRef: {apiVersion: apps/v1, kind: Deployment, name: indexer} # <-
//! -  updatePolicy: {updateMode: Recreate}
//! +  targetRef: {apiVersion: apps/v1, kind: Deployment, name: indexer}
//! +  updatePolicy: {updateMode: "Off"}
//!    resourcePolicy:
//!      containerPolicies: [{containerName: "*", controlledResources: [memory]}]
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/autoscaler/blob/master/vertical-pod-autoscaler/docs/known-limitations.md>

use super::vpa_hpa_conflict::target;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "vpa-overlap",
    kinds: &[Kind::VPA],
    reads: &[Kind::VPA],
    docs: docs(include_str!("vpa_overlap.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Source: `GetControllingVPAForPod` and `Stronger` in `pkg/utils/vpa/api.go` of the VPA.
fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !acts(object) {
        return None;
    }
    let own = target(object)?;
    let recommenders = object.path(&["spec", "recommenders"]);
    let cluster = ctx.cluster();
    // The first by name is the one that stays.
    let is_other = |other: &&Object| {
        other.name() < object.name()
            && acts(other)
            && target(other).is_some_and(|key| key == own)
            && ctx.pairs_with(other)
    };
    let other = cluster.in_namespace(Kind::VPA, object.namespace_or_default()).find(is_other)?;
    let name = ellipsize(other.name());
    let message = format!("`{name}` has the same target: only one of both VPAs acts, the one that is older");
    let both = recommenders.is_set() && other.path(&["spec", "recommenders"]).is_set();
    ctx.report(&object.path(&["spec", "targetRef"]), message)
        .help(if both {
            "keep one, with the recommender that shall count"
        } else {
            "write one VPA with a policy for each container, or `updateMode: \"Off\"` in the other"
        })
        .related(other, &other.path(&["spec", "targetRef"]), "the other one");
    None
}

/// Whether a VPA changes pods, as far as is known.
fn acts(object: &Object) -> bool {
    let policy = object.path(&["spec", "updatePolicy"]);
    let mode = policy.get("updateMode");
    let is_on = match mode.text() {
        Some(mode) => mode != "Off",
        None => mode.is_absent() && !policy.is_unknown(),
    };
    is_on
        && !object.may_lack_fields()
        && !object.is_namespace_unknown()
        && !object.get("spec").has_unknown_key()
}
