//! The selector of an autoscaled workload also matches the pods of another one.
//!
//! # Why
//! The HPA takes the pods whose metrics it reads from the selector of its target, not from their owner. The
//! pods of a CronJob or of another Deployment with these labels count as well: their CPU distorts the mean,
//! and where one of them requests none the HPA computes nothing at all (`missing request for cpu`). The
//! Deployment itself does not take them over, because they have another owner. The new number of replicas is
//! the ratio of usage and target times all ready pods of the selector: beside two pods of a canary an HPA of
//! three pods at 80 % of its target computes four. External and Object metrics of the type `Value` are
//! multiplied in this way as well. Where names or labels say that the two are versions of one program, it is
//! information; nothing is reported for the target of a Canary of Flagger, which keeps the versions apart.
//!
//! # Fix
//! Give the other pods another value of the label, or add one to the selector. The selector of a Deployment
//! cannot be changed, so the labels of the others are the easier side.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: shop, namespace: web}
//!  spec:
//! -  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop} # <-
//! +  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
//!    minReplicas: 2
//!    maxReplicas: 9
//!    metrics:
//!      - type: Resource
//!        resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: shop, namespace: web}
//!  spec:
//!    selector: {matchLabels: {app: shop}}
//!    template:
//!      metadata: {labels: {app: shop}}
//!      spec:
//!        containers:
//!          - name: shop
//!            image: "example.com/shop:1.0.0"
//!            resources: {requests: {cpu: "1"}}
//!  ---
//!  apiVersion: batch/v1
//!  kind: CronJob
//!  metadata: {name: mail, namespace: web}
//!  spec:
//!    schedule: 0 4 * * *
//!    jobTemplate:
//!      spec:
//!        template:
//! -        metadata: {labels: {app: shop}}
//! +        metadata: {labels: {app: shop-mail}}
//!          spec:
//!            restartPolicy: Never
//!            containers:
//!              - name: mail
//!                image: "example.com/mail:1.0.0"
//!                resources: {requests: {cpu: "1"}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#how-does-a-horizontalpodautoscaler-work>
//! - <https://github.com/kubernetes/kubernetes/issues/78761>

use crate::cluster::views::disruptions::runs_as_job;
use crate::rules::autoscaling::autoscaler_without_range::fixed_count;
use crate::rules::autoscaling::scale_target::target;
use crate::rules::availability::selected_workloads::{are_versions, is_stopped, run_together};
use crate::rules::prelude::*;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "hpa-selector-overlaps",
    kinds: &[Kind::HPA, Kind::SCALED_OBJECT],
    reads: kinds![[Kind::CANARY], WORKLOAD_KINDS],
    docs: docs(include_str!("hpa_selector_overlaps.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Autoscaling)
};

/// How the pods of the selector enter the number of replicas.
#[derive(Clone, Copy)]
enum Use {
    /// By their own metrics.
    Metrics,
    /// By the number of those that are ready, which multiplies the ratio of a metric of the type `Value`
    /// (`getUsageRatioReplicaCount`). `AverageValue` is compared with the replicas of the target's status.
    Count,
}

fn use_of_pods(object: &Object) -> Option<Use> {
    let is_value = |node: Node<'_>| node.text() == Some("Value");
    if object.is(Kind::HPA) {
        let kinds = ["Resource", "ContainerResource", "Pods"];
        let metrics = || object.path(&["spec", "metrics"]).items();
        let reads = |metric: Node<'_>| metric.get("type").text().is_some_and(|kind| kinds.contains(&kind));
        if object.path(&["spec", "targetCPUUtilizationPercentage"]).is_set() || metrics().any(reads) {
            return Some(Use::Metrics);
        }
        let counts = |metric: Node<'_>| match metric.get("type").text() {
            Some("External") => is_value(metric.path(&["external", "target", "type"])),
            Some("Object") => is_value(metric.path(&["object", "target", "type"])),
            _ => false,
        };
        return metrics().any(counts).then_some(Use::Count);
    }
    if triggers(object).any(|trigger| trigger.is_resource()) {
        return Some(Use::Metrics);
    }
    let counts = match uses_modifiers(object)? {
        true => is_value(object.path(&["spec", "advanced", "scalingModifiers", "metricType"])),
        false => triggers(object).any(|trigger| is_value(trigger.node.get("metricType"))),
    };
    counts.then_some(Use::Count)
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Another strategy finds the pods by their owner.
    let is_by_owner = !object.path(&["spec", "selectionStrategy"]).is_absent();
    let used = use_of_pods(object)?;
    // Without a range no metric decides anything.
    if is_by_owner || object.is_partial() || fixed_count(object).is_some() {
        return None;
    }
    let workload = target(object, ctx)?;
    let wanted = workload.path(&["spec", "selector"]);
    if !wanted.is_mapping() || workload.is_patched_by_kustomize() {
        return None;
    }
    let own = templates(workload);
    let namespace = workload.namespace_or_default();
    let is_canary = |name: &str| {
        let mut canaries = ctx.cluster().in_namespace(Kind::CANARY, namespace);
        canaries.any(|canary| canary.path(&["spec", "targetRef", "name"]).text() == Some(name))
    };
    if is_canary(workload.name()) {
        return None;
    }
    let is_match = |other: &&Object| {
        !other.ptr_eq(workload)
            && templates(other).iter().any(|t| selector::matches(&wanted, &t.labels()) == Some(true))
            && !other.is_partial()
            && !is_stopped(other)
            // The pods of a dump have an owner.
            && !other.is_owned()
            && run_together(workload, other, ctx.cluster())
            && !is_canary(other.name())
    };
    let around = || ctx.cluster().views().candidates(namespace, &wanted).filter(is_match);
    let is_version = |other: &Object| !runs_as_job(other) && are_versions(workload, other);
    let other = around().find(|other| !is_version(other)).or_else(|| around().next())?;
    let pods = own.first().map(|template| template.labels()).unwrap_or_default();
    // A selector that does not match its own pods is rejected.
    if selector::matches(&wanted, &pods) != Some(true) {
        return None;
    }
    let message = format!(
        "the selector of `{}` also matches the pods of {} `{}`, {} as well",
        workload.display_name(),
        other.kind(),
        other.display_name(),
        match used {
            Use::Metrics => "whose metrics are counted",
            Use::Count => "which multiply the metric",
        }
    );
    ctx.report(&object.path(&["spec", "scaleTargetRef"]), message)
        .severity(if is_version(other) { Severity::Info } else { Severity::Warning })
        .help("give the other pods another value of the label: the HPA finds pods by the selector of its target")
        .related(workload, &wanted, "the selector")
        .related(other, &other.path(&["metadata", "name"]), "its pods have these labels");
    None
}
