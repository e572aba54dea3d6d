//! A TriggerAuthentication that no scaler names.
//!
//! # Why
//! A (Cluster)TriggerAuthentication does nothing by itself: a trigger has to name it in `authenticationRef`.
//! Where a trigger was meant to, KEDA asks its source without credentials. It is reported where the scalers
//! of its namespace are applied with it, for a ClusterTriggerAuthentication with `--complete`.
//!
//! # Fix
//! Name it in the trigger that needs it, or remove it.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: keda.sh/v1alpha1
//! kind: TriggerAuthentication
//! metadata: {name: orders, namespace: shop} # <-
//! spec:
//!   podIdentity: {provider: aws}
//! ---
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: worker, namespace: shop}
//! spec:
//!   scaleTargetRef: {name: worker}
//!   minReplicaCount: 1
//!   maxReplicaCount: 9
//!   triggers:
//!     - type: aws-sqs-queue
//!       metadata:
//!         queueURL: https://sqs.us-east-1.amazonaws.com/111122223333/orders
//!         awsRegion: us-east-1
//!         identityOwner: operator
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: keda.sh/v1alpha1
//! kind: TriggerAuthentication
//! metadata: {name: orders, namespace: shop}
//! spec:
//!   podIdentity: {provider: aws}
//! ---
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: worker, namespace: shop}
//! spec:
//!   scaleTargetRef: {name: worker}
//!   minReplicaCount: 1
//!   maxReplicaCount: 9
//!   triggers:
//!     - type: aws-sqs-queue
//!       metadata:
//!         queueURL: https://sqs.us-east-1.amazonaws.com/111122223333/orders
//!         awsRegion: us-east-1
//!       authenticationRef: {name: orders}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/authentication/>

use crate::rules::partners::authenticated;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-auth-unused",
    kinds: &[Kind::TRIGGER_AUTHENTICATION, Kind::CLUSTER_TRIGGER_AUTHENTICATION],
    reads: &[Kind::SCALED_OBJECT, Kind::SCALED_JOB],
    reports_absence: true,
    docs: docs(include_str!("keda_auth_unused.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

/// Scalers with a placeholder that may name any authentication.
struct HidesAuthentication;

impl Predicate for HidesAuthentication {
    const SLOT: QuerySlot = QuerySlot::HidesAuthentication;
    const KINDS: &'static [Kind] = &[Kind::SCALED_OBJECT, Kind::SCALED_JOB];

    fn is_satisfied(scaler: &Object) -> bool {
        scaler.path(&["spec", "triggers"]).has_unknown() || scaler.get("spec").is_unknown()
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if object.is_partial() || object.name().is_empty() || object.path(&["metadata", "name"]).is_unknown() {
        return None;
    }
    if !authenticated(object, cluster).is_empty() {
        return None;
    }
    let kinds = [Kind::SCALED_OBJECT, Kind::SCALED_JOB];
    if !cluster.satisfying::<HidesAuthentication>().is_empty() {
        return None;
    }
    let is_complete = kinds.iter().all(|kind| cluster.is_complete_for(*kind));
    if !is_complete {
        if object.is(Kind::CLUSTER_TRIGGER_AUTHENTICATION) || object.namespace().is_none() {
            return None;
        }
        let namespace = object.namespace_or_default();
        let mut around = kinds.iter().flat_map(|kind| cluster.in_namespace(*kind, namespace));
        around.find(|scaler| cluster.surely_pairs(object, scaler))?;
    }
    let name = object.path(&["metadata", "name"]);
    ctx.report(&name, format!("no trigger names {} `{}`", object.kind(), object.display_name()))
        .help("write `authenticationRef` into the trigger that needs it, or remove this");
    None
}
