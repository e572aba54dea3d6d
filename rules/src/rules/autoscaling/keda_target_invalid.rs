//! A ScaledObject aims at something that cannot be scaled, or is not there.
//!
//! # Why
//! KEDA scales through the `/scale` subresource. A DaemonSet, a Job, a Pod or a RayCluster has
//! none: the object is taken and never gets Ready. `scaleTargetRef` means a Deployment of
//! `apps/v1` where kind and version are not written, so a StatefulSet of that name is not found.
//! A kind that its API group does not have is refused by KEDA's admission at once.
//!
//! # Fix
//! Aim at a Deployment, a StatefulSet or another kind with replicas, and write its `apiVersion`
//! and `kind`. Work that ends belongs in a ScaledJob.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: embed, namespace: chat}
//! spec:
//!   scaleTargetRef:
//!     apiVersion: batch/v1
//!     kind: Job # <-
//!     name: embed
//!   maxReplicaCount: 8
//!   triggers:
//!     - type: kubernetes-workload
//!       metadata: {podSelector: "app=llm-client", value: "4"}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: embed, namespace: chat}
//! spec:
//!   scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: embed}
//!   minReplicaCount: 1
//!   maxReplicaCount: 8
//!   triggers:
//!     - type: kubernetes-workload
//!       metadata: {podSelector: "app=llm-client", value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/>

use crate::cluster::views::scale_target;
use crate::keda::ellipsize;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-target-invalid",
    kinds: &[Kind::SCALED_OBJECT],
    reads: SCALABLE,
    // Only where the group is known to have no such kind.
    rejected_by: &[Authority::KedaAdmission],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_target_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

/// Kinds with replicas that a target of the same name may have been meant for.
const SCALABLE: &[Kind] = &[
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::REPLICA_SET,
    Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    Kind::new("argoproj.io", "Rollout"),
];

/// Kinds without `/scale`.
const NOT_SCALABLE: &[(&str, &str)] = &[
    ("apps/DaemonSet", "it runs one pod on each node"),
    ("batch/Job", "use a ScaledJob"),
    ("batch/CronJob", "use a ScaledJob, or a `cron` trigger"),
    ("/Pod", "put it into a Deployment"),
    ("jobset.x-k8s.io/JobSet", "use a ScaledJob, or queue the work"),
    ("ray.io/RayCluster", "use Ray's own autoscaler"),
    ("trainer.kubeflow.org/TrainJob", "a training job has a fixed size"),
    ("kubeflow.org/TFJob", "a training job has a fixed size"),
    ("kubeflow.org/XGBoostJob", "a training job has a fixed size"),
    ("kubeflow.org/MPIJob", "a training job has a fixed size"),
    ("batch.volcano.sh/Job", "a training job has a fixed size"),
];

/// All kinds of the groups that every cluster serves, where no other kind can be meant.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("apps/v1", &["DaemonSet", "ReplicaSet", "ControllerRevision", "Scale"]),
    ("batch/v1", &["Job", "CronJob"]),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let version = reference.get("apiVersion");
    let kind = reference.get("kind");
    if version.is_unknown() || kind.is_unknown() {
        return None;
    }
    let version_text = match version.text() {
        Some("") | None => "apps/v1",
        Some(text) => text,
    };
    if version_text.matches('/').count() > 1 {
        ctx.report(&version, format!("`{}` is no API version", ellipsize(version_text)))
            .help("write `GROUP/VERSION`, such as `apps/v1`")
            .rejected_by(Some(Authority::KedaAdmission));
        return None;
    }
    let kind_text = match kind.text() {
        Some("") | None => "Deployment",
        Some(text) => text,
    };
    // KEDA never looks these two up; of other kinds it takes the name, or the name in small letters.
    let assumed = matches!(kind_text, "Deployment" | "StatefulSet");
    if !assumed
        && let Some((_, kinds)) = BUILT_IN.iter().find(|(v, _)| *v == version_text)
        && !kinds
            .iter()
            .chain(&["Deployment", "StatefulSet"])
            .any(|k| *k == kind_text || k.to_ascii_lowercase() == kind_text)
    {
        let place = if kind.is_set() { &kind } else { &version };
        ctx.report(
            place,
            format!("`{version_text}` has no kind `{}`, and KEDA refuses it", ellipsize(kind_text)),
        )
        .help("write the `apiVersion` that the kind belongs to")
        .rejected_by(Some(Authority::KedaAdmission));
        return None;
    }
    let group = version_text.split_once('/').map_or("", |(group, _)| group);
    let full = format!("{group}/{kind_text}");
    if let Some((_, instead)) = NOT_SCALABLE.iter().find(|(k, _)| *k == full) {
        ctx.report(&kind, format!("a {kind_text} has no replicas that KEDA could set"))
            .help(*instead)
            .rejected_by(None);
        return None;
    }
    absent(object, &full, ctx);
    None
}

/// Nothing of that kind and name is in the input: perhaps another kind is.
fn absent(object: &Object, full: &str, ctx: &mut Context<'_>) {
    let Some((namespace, _, name)) = scale_target(object) else {
        return;
    };
    let Some(wanted) = SCALABLE.iter().find(|k| format!("{}/{}", k.group, k.kind) == full) else {
        return;
    };
    if ctx.index().has(*wanted, &namespace, &name) {
        return;
    }
    let missing = ctx.index().is_complete_for(*wanted);
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let other = SCALABLE
        .iter()
        .filter(|k| *k != wanted)
        .find_map(|k| ctx.index().all(k.group, k.kind, &namespace, &name).first().map(|o| (*k, o)));
    if let Some((kind, found)) = other {
        let version = found.id().api_version();
        ctx.report(
            &reference.get("name"),
            format!(
                "there is no {} `{}` here, but a {} of that name",
                wanted.kind,
                ellipsize(&name),
                kind.kind
            ),
        )
        .help(format!("write `apiVersion: {version}` and `kind: {}`", kind.kind))
        .related(found, &found.path(&["metadata", "name"]), "it is here")
        .fix(
            Fix::unsafe_(format!("aim at the {}", kind.kind))
                .set(&reference.get("apiVersion"), json!(version))
                .set(&reference.get("kind"), json!(kind.kind)),
        )
        .severity(Severity::Warning);
    } else if missing {
        ctx.report(&reference.get("name"), format!("there is no {} `{}`", wanted.kind, ellipsize(&name)))
            .help("nothing is scaled until it exists; a `cpu` trigger is refused before")
            .severity(Severity::Info);
    }
}
