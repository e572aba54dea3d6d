//! The target of a ScaledObject is not in the input.
//!
//! # Why
//! `scaleTargetRef` is a Deployment of `apps/v1` where kind and version are not written, so a
//! StatefulSet of that name is not found. Nothing is scaled until the target exists, and KEDA's
//! admission rejects a `cpu` or `memory` trigger without it.
//!
//! # Fix
//! Write the `apiVersion` and `kind` of the target. With `--complete` a target that is not in the input
//! does not exist, and this is an error.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: embed}
//!  spec:
//!    scaleTargetRef:
//! -    name: embed # <-
//! +    name: embed
//! +    apiVersion: apps/v1
//! +    kind: StatefulSet
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//!  ---
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: embed}
//!  spec:
//!    selector: {matchLabels: {app: embed}}
//!    template:
//!      metadata: {labels: {app: embed}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.0.0
//!            resources: {requests: {cpu: "1"}}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/>

use crate::cluster::query::{ObjectKey, QuerySlot};
use crate::cluster::views::{Predicate, scale_target};
use crate::keda::ellipsize;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-target-missing",
    kinds: &[Kind::SCALED_OBJECT],
    reads: SCALABLE,
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_target_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Kinds with replicas that may have been intended if they have an object of the same name.
const SCALABLE: &[Kind] = &[
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::REPLICA_SET,
    Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    Kind::new("argoproj.io", "Rollout"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (namespace, _, name) = scale_target(object)?;
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let version = reference.get("apiVersion");
    let api_version = version.text().filter(|t| !t.is_empty()).unwrap_or("apps/v1");
    let kind = reference.get("kind").text().filter(|t| !t.is_empty()).unwrap_or("Deployment");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let wanted = SCALABLE.iter().find(|k| k.group == group && k.kind == kind)?;
    // An invalid API version is reported by keda-target-invalid.
    if api_version.matches('/').count() > 1 || ctx.cluster().has(*wanted, &namespace, &name) {
        return None;
    }
    let index = ctx.cluster();
    // In a snapshot of a cluster the target may be applied a moment later.
    let certain = index.is_complete();
    if certain && may_be_target(object, *wanted, &name, ctx) {
        return None;
    }
    let missing = index.is_complete_for(*wanted);
    let other = (SCALABLE.iter().filter(|k| *k != wanted))
        .flat_map(|k| index.all(k.group, k.kind, &namespace, &name).iter().map(|found| (k.kind, found)))
        .find(|(_, found)| ctx.pairs_with(found));
    let node = reference.get("name");
    let (wanted, short) = (wanted.kind, ellipsize(&name));
    if let Some((kind, found)) = other {
        let api_version = found.id().api_version();
        ctx.report(&node, format!("there is no {wanted} `{short}` here, but a {kind} of that name"))
            .help(format!("write `apiVersion: {api_version}` and `kind: {kind}`"))
            .related(found, &found.path(&["metadata", "name"]), "it is here")
            .severity(if certain { Severity::Error } else { Severity::Warning })
            .fix(
                Fix::unsafe_(format!("aim at the {kind}"))
                    .set(&version, json!(api_version))
                    .set(&reference.get("kind"), json!(kind)),
            );
    } else if missing {
        ctx.report(&node, format!("there is no {wanted} `{short}`"))
            .help("add the target or correct its name: nothing is scaled until it exists")
            .severity(if certain { Severity::Error } else { Severity::Info });
    }
    None
}

/// Objects whose name or namespace is not known before they are applied. A cluster has none, so this query saves a look
/// at each of its objects for each ScaledObject.
struct OpenTargets;

impl Predicate for OpenTargets {
    const SLOT: QuerySlot = QuerySlot::OpenTargets;
    const KINDS: &'static [Kind] = SCALABLE;

    fn is_satisfied(object: &Object) -> bool {
        is_name_unknown(object) || is_namespace_open(object)
    }
}

fn is_name_unknown(object: &Object) -> bool {
    object.path(&["metadata", "name"]).is_unknown()
}

fn is_namespace_open(object: &Object) -> bool {
    object.namespace().is_none() || object.is_namespace_unknown()
}

/// Whether one of the objects of the kind may have the name, or be in the namespace, when it is applied.
fn may_be_target(object: &Object, kind: Kind, name: &str, ctx: &Context<'_>) -> bool {
    let open = ctx.cluster().satisfying::<OpenTargets>();
    open.iter().any(|ObjectKey(found)| found.is(kind) && (is_name_unknown(found) || found.name() == name))
        || is_namespace_open(object) && ctx.cluster().of(kind).any(|found| found.name() == name)
}
