//! A workload sets `replicas`, which its autoscaler also manages.
//!
//! # Why
//! Each `kubectl apply`, and each sync of a GitOps tool, sets `replicas` back to what is written, and the
//! autoscaler undoes that: under load pods are killed and started again. It is a warning where the set has
//! an Application or ApplicationSet of Argo CD with `selfHeal: true`, or a Kustomization of Flux, that
//! applies the file: both write the number back while nobody deploys anything, unless `ignoreDifferences`
//! hides the number from the comparison. A sync for another reason writes what `ignoreDifferences` names
//! all the same: a warning too. Nothing is reported where the Application also has
//! `RespectIgnoreDifferences=true`, and where the kustomization of the folder lists the workload and leaves the
//! file of the autoscaler out. With `replicas: 0` an HPA is switched off, which is a warning: it
//! changes nothing until somebody writes another number. Under a ScaledObject it stops all pods, and KEDA
//! starts them again. With `driftDetection` Flux writes the number of a chart back as well: a warning at a
//! HelmRelease with `replicaCount` or `replicas` in its values, where an autoscaler scales what is named
//! after the release.
//!
//! # Fix
//! Remove `replicas`, or let the drift detection ignore `/spec/replicas`. The next client-side apply after
//! that resets the number to 1 once; the guide on migrating to autoscaling says how to avoid it.
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
//! - <https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/#respect-ignore-differences-configs>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#migrating-deployments-and-statefulsets-to-horizontal-autoscaling>

use crate::cluster::views::{AUTOSCALER_MAKERS, as_target, scale_target};
use crate::rules::gitops::{Ignored, RESPECTS, delivery_of, may_be_ignored};
use crate::rules::prelude::*;
use crate::workload::charts::{is_for_other_cluster, release_name, target_namespace};
use crate::workload::command::base_name;

const KINDS: &[Kind] = kinds![REPLICATED_KINDS, [Kind::HELM_RELEASE]];

pub(crate) static RULE: Rule = Rule {
    id: "replicas-with-autoscaler",
    kinds: KINDS,
    reads: kinds![
        KINDS,
        [Kind::HPA, Kind::SCALED_OBJECT],
        AUTOSCALER_MAKERS,
        [Kind::ARGO_APPLICATION, Kind::ARGO_APPLICATION_SET, Kind::FLUX_KUSTOMIZATION]
    ],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("replicas_with_autoscaler.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::HELM_RELEASE) {
        return of_release(object, ctx);
    }
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
        Some(delivery) => matches!(delivery.ignored, Ignored::Always),
        None => may_be_ignored(object, &["spec", "replicas"], ctx),
    };
    if is_ignored {
        return None;
    }
    let kind = scaler.kind();
    if count == 0 && scaler.is(Kind::HPA) {
        return stopped(scaler, &node, ctx);
    }
    let name = ellipsize(scaler.name());
    let message = match count {
        0 => format!("each apply stops all pods, also busy ones, until {kind} `{name}` scales up again"),
        _ => format!("each apply resets `replicas` to {count} and overrides {kind} `{name}`"),
    };
    let cluster = ctx.cluster();
    let is_near = |other: &Object| cluster.pairs(object, other);
    let finding = ctx.report(&node, message);
    finding
        .help("remove `replicas`, which the autoscaler sets")
        .related(scaler, &scaler.path(&["spec", "scaleTargetRef", "name"]), "it scales this object")
        .fix(Fix::unsafe_("leave the number to the autoscaler").remove(&node));
    let delivery = delivery?;
    if delivery.heals {
        finding.severity(Severity::Warning);
        // Its path leads to the file, also where it is kept in a folder far away.
        if is_near(delivery.by) {
            let name = delivery.by.path(&["metadata", "name"]);
            finding.related(delivery.by, &name, "it writes the number back by itself");
        }
    }
    if let Ignored::InComparison(entry) = &delivery.ignored {
        finding.severity(Severity::Warning).help(format!(
            "remove `replicas`, or write `{RESPECTS}` in `syncOptions`: syncs do not read `ignoreDifferences`"
        ));
        if is_near(delivery.by) {
            finding.related(delivery.by, entry, "only the comparison leaves the number out");
        }
    }
    None
}

/// The values with which charts leave the number of replicas to an autoscaler.
const SWITCHES: [&str; 6] =
    ["autoscaler", "autoscaling", "horizontalPodAutoscaler", "horizontalPodAutoscaling", "hpa", "keda"];

/// Whether a value is a switch, which may be on, or has one.
fn is_switch(value: &Node<'_>) -> bool {
    let enabled = value.get("enabled");
    value.is_unknown() || value.bool() == Some(true) || enabled.is_set() && enabled.bool() != Some(false)
}

/// Reports a number of replicas in the values of a release, which helm-controller (0.37 and later) writes back when an
/// autoscaler has changed it.
fn of_release(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let (detection, values) = (spec.get("driftDetection"), spec.get("values"));
    let ignore = detection.get("ignore");
    let is_replicas = |path: Node<'_>| path.text().is_none_or(|path| "/spec/replicas".starts_with(path));
    if detection.get("mode").text() != Some("enabled")
        || ignore.is_unknown()
        || ignore.items().any(|entry| entry.get("paths").items().any(is_replicas))
        || spec.get("postRenderers").is_set()
        || SWITCHES.iter().any(|key| is_switch(&values.get(key)))
        || object.may_lack_fields()
        || is_for_other_cluster(object)
    {
        return None;
    }
    let numbers = ["replicaCount", "replicas"].map(|key| values.get(key));
    let node = numbers.into_iter().find(|node| node.int().is_some_and(|count| count > 0))?;
    let release = release_name(object, "")?;
    let (cluster, namespace) = (ctx.cluster(), target_namespace(object)?);
    let is_here = |name: &str| {
        let mut all = REPLICATED_KINDS.iter().flat_map(|kind| cluster.in_namespace(*kind, namespace));
        all.any(|workload| workload.name() == name)
    };
    // The chart makes the target, which it names after the release, with its own name or without.
    let full = values.get("fullnameOverride");
    let own = [values.get("nameOverride"), spec.path(&["chart", "spec", "chart"])];
    let is_of_release = |name: &str| {
        let rest = name.strip_prefix(release.as_str()).map(|rest| rest.trim_start_matches('-'));
        let is_rest = |own: &Node<'_>| own.text().is_some_and(|own| rest == Some(base_name(own)));
        let is_named = match full.is_set() {
            true => full.text() == Some(name),
            false => rest == Some("") || own.iter().any(is_rest),
        };
        is_named && !is_here(name)
    };
    let kinds = [Kind::SCALED_OBJECT, Kind::HPA];
    let mut scalers = kinds.into_iter().flat_map(|kind| cluster.in_namespace(kind, namespace));
    let scaler = scalers.find(|scaler| {
        scale_target(scaler).is_some_and(|(_, _, name)| is_of_release(&name)) && ctx.pairs_with(scaler)
    })?;
    let kind = if scaler.is(Kind::HPA) { "HPA" } else { scaler.kind() };
    let message = format!("Flux writes this number back when {kind} `{}` scales", ellipsize(scaler.name()));
    let entry = json!({"paths": ["/spec/replicas"]});
    let fix = Fix::unsafe_("ignore the number of replicas");
    let fix = if ignore.is_set() { fix.append(&ignore, entry) } else { fix.set(&ignore, json!([entry])) };
    ctx.report(&node, message)
        .severity(Severity::Warning)
        .help("write `ignore: [{paths: [/spec/replicas]}]` in `driftDetection`")
        .related(scaler, &scaler.path(&["spec", "scaleTargetRef", "name"]), "it scales what the chart makes")
        .fix(fix);
    Some(())
}

/// Reports `replicas: 0`, with which an HPA does nothing until somebody writes another number: a way to switch a workload
/// off, or a mistake.
fn stopped(scaler: &Object, node: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if scaler.path(&["spec", "minReplicas"]).int_or(1) == Some(0) {
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
