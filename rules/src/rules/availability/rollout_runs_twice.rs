//! A Rollout takes its pods from a Deployment that runs its own as well.
//!
//! # Why
//! A Rollout of Argo with `workloadRef` reads the pod template of a Deployment and starts pods of its own. It
//! leaves those of the Deployment alone unless `scaleDown` says otherwise, so that twice as many pods run,
//! Services send requests to both, and each change of the template starts a rollout of both. `onsuccess`
//! and `progressively` scale the Deployment to 0 in the first revision only: if its manifest has replicas, a
//! later `apply` starts them again, which is an info, unless an Application of Argo CD leaves that number to
//! others. An autoscaler of the Deployment does not scale the Rollout.
//!
//! # Fix
//! Write `replicas: 0` in the Deployment. While a workload is being moved, leave its replicas out and write
//! `scaleDown: onsuccess` or `progressively`. Let the autoscaler scale the Rollout.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: argoproj.io/v1alpha1
//!  kind: Rollout
//!  metadata: {name: basket, namespace: shop}
//!  spec:
//!    replicas: 3
//! -  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: basket} # <-
//! +  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: basket}
//!    strategy:
//!      canary: {steps: [{setWeight: 20}, {pause: {duration: 5m}}]}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: basket, namespace: shop}
//!  spec:
//! -  replicas: 3
//! +  replicas: 0
//!    selector: {matchLabels: {app: basket}}
//!    template:
//!      metadata: {labels: {app: basket}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/basket:5.1.0
//!            resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {memory: 256Mi}}
//! ```
//!
//! # References
//! - <https://argo-rollouts.readthedocs.io/en/stable/migrating/#reference-deployment-from-rollout>

use crate::rules::gitops::may_leave;
use crate::rules::partners::autoscalers;
use crate::rules::prelude::*;
use crate::workload::template::replicas;

pub(crate) static RULE: Rule = Rule {
    id: "rollout-runs-twice",
    kinds: &[Kind::ROLLOUT],
    reads: &[
        Kind::DEPLOYMENT,
        Kind::HPA,
        Kind::SCALED_OBJECT,
        Kind::ARGO_APPLICATION,
        Kind::ARGO_APPLICATION_SET,
    ],
    docs: docs(include_str!("rollout_runs_twice.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let reference = spec.get("workloadRef");
    let mode = reference.get("scaleDown");
    let is_deployment = reference.get("kind").text() == Some("Deployment")
        && reference.get("apiVersion").text().is_some_and(|version| version.starts_with("apps/"));
    let is_unknown = object.is_namespace_unknown() || spec.has_unknown_key() || reference.has_unknown_key();
    if !is_deployment || is_unknown || object.may_lack_fields() || replicas(object)? == 0 {
        return None;
    }
    let name = reference.get("name").text()?;
    let deployment = ctx.partner(Kind::DEPLOYMENT, object.namespace_or_default(), name)?;
    if !deployment.may_lack_fields() && both_run(&mode, deployment, ctx).is_none() {
        scaled_instead(object, deployment, ctx);
    }
    None
}

/// Reports pods of the Deployment that run beside those of the Rollout.
fn both_run(mode: &Node<'_>, deployment: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let written = deployment.path(&["spec", "replicas"]);
    let pods = replicas(deployment).filter(|pods| *pods > 0)?;
    let name = deployment.display_name();
    let (severity, message, help) = match mode.text() {
        // Both act while the revision of the Rollout is 1 (Argo Rollouts 1.8, `rollout/replicaset.go`).
        Some(once @ ("onsuccess" | "progressively"))
            if written.is_set() && !may_leave(deployment, &["spec", "replicas"], ctx) =>
        {
            (
                Severity::Info,
                format!(
                    "a later `apply` sets Deployment `{name}` to {pods} again, which `{once}` scales down once"
                ),
                "leave `replicas` out of the Deployment, or write `replicas: 0` when the Rollout serves",
            )
        }
        Some("never") => (Severity::Warning, twice(&name, pods), HELP),
        None if mode.is_absent() => (Severity::Warning, twice(&name, pods), HELP),
        _ => return None,
    };
    let finding = ctx.report(mode, message).severity(severity).help(help);
    finding.related(deployment, &written, "the pods of the Deployment");
    Some(())
}

const HELP: &str =
    "write `replicas: 0` in the Deployment; `scaleDown: onsuccess` acts in a Rollout's first revision alone";

fn twice(name: &str, pods: i64) -> String {
    format!(
        "pods run twice: those of this Rollout, and {pods} of Deployment `{name}`, which it does not scale down"
    )
}

/// Reports an autoscaler of the Deployment where the Rollout has none.
fn scaled_instead(object: &Object, deployment: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if !autoscalers(object, cluster).is_empty() {
        return None;
    }
    let scaler = cluster.views().autoscaler_of(deployment).filter(|scaler| ctx.pairs_with(scaler))?;
    let kind = if scaler.is(Kind::HPA) { "HPA" } else { scaler.kind() };
    let (scaler_name, name) = (scaler.display_name(), deployment.display_name());
    let message =
        format!("{kind} `{scaler_name}` scales Deployment `{name}`, and not this Rollout of its pods");
    ctx.report(&object.path(&["spec", "workloadRef", "name"]), message)
        .help(format!(
            "write `scaleTargetRef: {{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: {}}}`",
            object.display_name()
        ))
        .related(scaler, &scaler.path(&["spec", "scaleTargetRef"]), "what it scales");
    Some(())
}
