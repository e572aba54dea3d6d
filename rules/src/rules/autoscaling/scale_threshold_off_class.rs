//! The GPU utilization at which a service scales does not suit its kind of work.
//!
//! # Why
//! How full GPUs may run before another replica starts depends on who waits: people in a chat notice
//! the queue at 60 %, a real-time API at 70 %, a batch job may use 85 %. A threshold of 95 % or more
//! scales when requests already wait, one of 30 % or less pays for GPUs that do nothing. The class of
//! the target comes from its labels, command and image; the label `gpulint.dev/workload-class` sets it.
//!
//! # Fix
//! Write the threshold for the class: 60 (interactive), 70 (real-time), 85 (batch). 80 is fine to start
//! with for all of them.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: llm, namespace: chat}
//! spec:
//!   scaleTargetRef: {name: llm}
//!   minReplicaCount: 2
//!   maxReplicaCount: 8
//!   triggers:
//!     - type: prometheus
//!       metricType: Value
//!       metadata:
//!         serverAddress: http://prometheus.monitoring.svc:9090
//!         query: avg(DCGM_FI_DEV_GPU_UTIL)
//!         threshold: "95" # <-
//! ---
//! apiVersion: apps/v1
//! kind: Deployment
//! metadata:
//!   name: llm
//!   namespace: chat
//!   labels: {gpulint.dev/workload-class: realtime-inference}
//! spec:
//!   selector: {matchLabels: {app: llm}}
//!   template:
//!     metadata: {labels: {app: llm}}
//!     spec:
//!       containers:
//!         - name: server
//!           image: example.com/server:1.0.0
//!           resources: {limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: keda.sh/v1alpha1
//! kind: ScaledObject
//! metadata: {name: llm, namespace: chat}
//! spec:
//!   scaleTargetRef: {name: llm}
//!   minReplicaCount: 2
//!   maxReplicaCount: 8
//!   triggers:
//!     - type: prometheus
//!       metricType: Value
//!       metadata:
//!         serverAddress: http://prometheus.monitoring.svc:9090
//!         query: avg(DCGM_FI_DEV_GPU_UTIL)
//!         threshold: "70"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/prometheus/>
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>

use crate::keda::value::number;
use crate::promql::bound::upper_bound;
use crate::promql::metrics::{Unit, metric};
use crate::rules::autoscaling::scale_target::unique_target;
use crate::rules::class_evidence::CLASSED_TARGETS;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "scale-threshold-off-class",
    kinds: &[Kind::SCALED_OBJECT, Kind::HPA],
    reads: CLASSED_TARGETS,
    docs: docs(include_str!("scale_threshold_off_class.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Autoscaling)
};

/// A threshold in percent that suits every class initially.
const STARTER: f64 = 80.0;
/// How far from the value of its class a threshold may be.
const MARGIN: f64 = 15.0;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let thresholds = thresholds(object);
    if thresholds.is_empty() {
        return None;
    }
    let workload = unique_target(object, ctx)?;
    let classified = ctx.class_of(workload);
    let suits =
        [(WorkloadClass::Realtime, 70.0), (WorkloadClass::Interactive, 60.0), (WorkloadClass::Batch, 85.0)];
    let (class, suited) = suits.into_iter().find(|(class, _)| classified.is(*class))?;
    for (node, percent) in thresholds {
        let is_extreme = percent >= 95.0 || percent <= 30.0;
        if (percent - suited).abs() <= MARGIN && !is_extreme || percent == STARTER {
            continue;
        }
        let message = format!(
            "scales at {percent} % GPU utilization, but `{}` is {}, for which {suited} % is usual",
            workload.display_name(),
            class.name()
        );
        ctx.report(&node, message)
            .help(format!("write the value for the class, which is known because {}", classified.evidence))
            .severity(if is_extreme { Severity::Warning } else { Severity::Info })
            .related(workload, &workload.path(&["metadata", "name"]), "the target");
    }
    None
}

/// The thresholds on GPU utilization, in percent.
fn thresholds(object: &Object) -> Vec<(Node<'_>, f64)> {
    let mut out = Vec::new();
    if object.is(Kind::HPA) {
        for entry in object.path(&["spec", "metrics"]).items() {
            for (source, values) in
                [("pods", &["averageValue"][..]), ("external", &["value", "averageValue"])]
            {
                let name = entry.path(&[source, "metric", "name"]);
                let is_utilization = name.text().is_some_and(|name| {
                    let name = name.to_ascii_lowercase();
                    name == "gpu_utilization" || name == "dcgm_fi_dev_gpu_util" || name.ends_with("gpu_util")
                });
                for value in values.iter().filter(|_| is_utilization) {
                    let node = entry.path(&[source, "target", value]);
                    let quantity = Quantity::at(&node);
                    if let Some(quantity) = quantity {
                        let percent = quantity.nano() as f64 / 1e9;
                        // A fraction of 1 is another scale.
                        if percent > 1.0 && percent <= 100.0 {
                            out.push((node, percent));
                        }
                    }
                }
            }
        }
        return out;
    }
    if uses_modifiers(object) != Some(false) {
        return out;
    }
    for query in queries(object) {
        let Some(expr) = query.parsed.expr() else { continue };
        let is_utilization = expr
            .metric_names()
            .iter()
            .all(|name| *name == "DCGM_FI_DEV_GPU_UTIL" || *name == "DCGM_FI_PROF_GR_ENGINE_ACTIVE");
        let node = query.entry(object).path(&["metadata", "threshold"]);
        let threshold = node.text().and_then(|text| number(text.trim()));
        let of_metric = expr.metric_names().first().and_then(|name| metric(name)).map(|metric| metric.unit);
        let full = match upper_bound(expr) {
            Some(bound) if bound == 1.0 || bound == 100.0 => Some(bound),
            // A sum is divided by the replicas.
            None if expr.sole_selector().is_some() => match of_metric {
                Some(Unit::Percent) => Some(100.0),
                Some(Unit::Ratio) => Some(1.0),
                _ => None,
            },
            _ => None,
        };
        if let (true, Some(threshold), Some(full)) = (is_utilization, threshold, full)
            && threshold <= full
            && threshold > full / 100.0
        {
            out.push((node, (threshold / full * 1e4).round() / 1e2));
        }
    }
    out
}
