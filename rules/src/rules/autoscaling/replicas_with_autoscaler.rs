//! A workload sets `replicas`, which its autoscaler also manages.
//!
//! # Why
//! Each `kubectl apply`, and each sync of a GitOps tool, sets `replicas` back to what is written, and the
//! autoscaler undoes that: under load pods are killed and started again. It is a warning where the set has
//! an Application or ApplicationSet of Argo CD with `selfHeal: true`, or a Kustomization of Flux, that applies
//! the file: both write the number back while nobody deploys anything. Nothing is reported where the
//! Application ignores the field, with `RespectIgnoreDifferences=true`. With `replicas: 0` an HPA is switched
//! off, which is a warning: it changes nothing until somebody writes another number.
//!
//! # Fix
//! Remove `replicas`. The next client-side apply after that resets the number to 1 once; the guide on
//! migrating to autoscaling says how to avoid it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: router}
//!  spec:
//! -  replicas: 3 # <-
//!    selector: {matchLabels: {app: router}}
//!    template:
//!      metadata: {labels: {app: router}}
//!      spec:
//!        containers:
//!          - name: router
//!            image: example.com/router:1.0.0
//!            readinessProbe: {httpGet: {path: /ready, port: 8080}}
//!            resources: {requests: {cpu: "1", memory: 1Gi}}
//!  ---
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: router}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: router}
//!    minReplicas: 2
//!    maxReplicas: 6
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#migrating-deployments-and-statefulsets-to-horizontal-autoscaling>

use crate::cluster::views::{AUTOSCALER_MAKERS, as_target};
use crate::rules::gitops::{delivery_of, may_be_ignored};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "replicas-with-autoscaler",
    kinds: REPLICATED_KINDS,
    reads: &[
        Kind::HPA,
        Kind::SCALED_OBJECT,
        AUTOSCALER_MAKERS[0],
        AUTOSCALER_MAKERS[1],
        Kind::ARGO_APPLICATION,
        Kind::ARGO_APPLICATION_SET,
        Kind::FLUX_KUSTOMIZATION,
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("replicas_with_autoscaler.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let node = object.path(&["spec", "replicas"]);
    let count = node.int().filter(|count| *count >= 0)?;
    // An object from a cluster always has a number, and a patch may remove this one.
    if object.path(&["metadata", "uid"]).is_set() || object.is_scaled_by_kustomize() {
        return None;
    }
    let target = as_target(object);
    let views = ctx.cluster().views();
    let scalers = views.scaled_objects_of(&target).iter().chain(views.hpas_of(&target));
    let made = views.made_autoscalers_of(&target).iter().filter(|maker| maker.is(Kind::HTTP_SCALED_OBJECT));
    let mut scalers = scalers.chain(made);
    let scaler = scalers.find(|scaler| ctx.pairs_with(scaler))?;
    let delivery = delivery_of(object, &["spec", "replicas"], ctx);
    let is_ignored = match &delivery {
        Some(delivery) => delivery.ignores,
        None => may_be_ignored(object, &["spec", "replicas"], ctx),
    };
    if is_ignored {
        return None;
    }
    let kind = scaler.kind();
    if count == 0 {
        return stopped(scaler, &node, ctx);
    }
    let message = format!(
        "each apply resets `replicas` to {count} and overrides {kind} `{}`",
        ellipsize(scaler.name())
    );
    let cluster = ctx.cluster();
    let is_near = |other: &Object| cluster.pairs(object, other);
    let finding = ctx.report(&node, message);
    finding
        .help("remove `replicas`, which the autoscaler sets")
        .related(scaler, &scaler.path(&["spec", "scaleTargetRef", "name"]), "it scales this object")
        .fix(Fix::unsafe_("leave the number to the autoscaler").remove(&node));
    if let Some(delivery) = delivery.filter(|delivery| delivery.heals) {
        finding.severity(Severity::Warning);
        // Its path leads to the file, also where it is kept in a folder far away.
        if is_near(delivery.by) {
            let name = delivery.by.path(&["metadata", "name"]);
            finding.related(delivery.by, &name, "it writes the number back by itself");
        }
    }
    None
}

/// Reports `replicas: 0`, with which an HPA does nothing until somebody writes another number: a way to switch a workload
/// off, or a mistake. KEDA raises it to its minimum.
fn stopped(scaler: &Object, node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if !scaler.is(Kind::HPA) || scaler.path(&["spec", "minReplicas"]).int_or(1) == Some(0) {
        return None;
    }
    let name = ellipsize(scaler.name());
    ctx.report(
        node,
        format!("with `replicas: 0` HPA `{name}` is switched off at each apply, and nothing runs"),
    )
    .help("if it is not switched off on purpose, remove `replicas`, which the autoscaler sets")
    .severity(Severity::Warning)
    .related(scaler, &scaler.path(&["spec", "scaleTargetRef", "name"]), "it scales this object")
    .fix(Fix::unsafe_("leave the number to the autoscaler").remove(node));
    None
}
