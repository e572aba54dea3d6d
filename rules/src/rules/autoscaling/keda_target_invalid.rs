//! A ScaledObject targets a kind that cannot be scaled.
//!
//! # Why
//! KEDA scales through the `/scale` subresource. A DaemonSet, a Job, a Pod or a RayCluster has none:
//! the object is accepted and is never Ready. This is an error with `--complete`, otherwise a warning.
//! `apiVersion` is `apps/v1` where it is not written, and a kind that its API group does not have is
//! rejected by KEDA's admission.
//!
//! # Fix
//! Aim at a Deployment, a StatefulSet or another kind with replicas, and write its `apiVersion` and
//! `kind`. Work that ends belongs in a ScaledJob.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: embed}
//!  spec:
//! -  scaleTargetRef: {kind: DaemonSet, name: embed} # <-
//! +  scaleTargetRef: {kind: StatefulSet, name: embed}
//!    triggers:
//!      - type: kubernetes-workload
//!        metadata: {podSelector: app=llm-client, value: "4"}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/concepts/scaling-deployments/>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-target-invalid",
    kinds: &[Kind::SCALED_OBJECT],
    // Only if it is known that the group has no such kind.
    rejected_by: &[Authority::KedaAdmission],
    docs: docs(include_str!("keda_target_invalid.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

/// Kinds without `/scale`, and the alternative.
const NOT_SCALABLE: &[(&str, &str)] = &[
    ("apps/DaemonSet", "remove the ScaledObject: a DaemonSet runs one pod on each node"),
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

/// All kinds of the groups that every cluster serves and that cannot have other kinds.
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
    let api_version = version.text().filter(|t| !t.is_empty()).unwrap_or("apps/v1");
    let name = kind.text().filter(|t| !t.is_empty()).unwrap_or("Deployment");
    if api_version.matches('/').count() > 1 {
        ctx.report(&version, format!("`{}` is not an API version", ellipsize(api_version)))
            .help("write `GROUP/VERSION`, such as `apps/v1`");
        return None;
    }
    // KEDA does not look these two up, whatever the version. It accepts the name of a kind also in lower
    // case.
    let has_it = |kinds: &[&str]| {
        kinds
            .iter()
            .chain(&["Deployment", "StatefulSet"])
            .any(|k| *k == name || k.to_ascii_lowercase() == name)
    };
    let built_in = BUILT_IN.iter().find(|(v, _)| *v == api_version);
    if !matches!(name, "Deployment" | "StatefulSet") && built_in.is_some_and(|(_, kinds)| !has_it(kinds)) {
        let field = if kind.is_set() { &kind } else { &version };
        let message = format!("`{api_version}` has no kind `{}`: KEDA rejects it", ellipsize(name));
        ctx.report(field, message).help("write the `apiVersion` that the kind belongs to");
        return None;
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let (_, instead) = NOT_SCALABLE.iter().find(|(k, _)| *k == format!("{group}/{name}"))?;
    // Where the input is not the whole cluster, something in it may serve `/scale` for the kind.
    let severity = if ctx.cluster().is_complete() { Severity::Error } else { Severity::Warning };
    ctx.report(&kind, format!("a {name} has no replicas that KEDA could set"))
        .help(*instead)
        .rejected_by(None)
        .severity(severity);
    None
}
