//! The replica bounds of a HorizontalPodAutoscaler contradict each other.
//!
//! # Why
//! The API server rejects an HPA without `maxReplicas`, with bounds below one, and with a maximum below
//! the minimum. A minimum of 0 is valid only with an Object or External metric, and only where the
//! feature gate HPAScaleToZero is on. Before Kubernetes 1.37 it is off by default, and EKS does not let you set
//! it. Such a manifest usually means that the gate is on, so this is reported as info, and not at all with
//! `platform: {eks: false}`.
//!
//! # Fix
//! Write 1 <= `minReplicas` <= `maxReplicas`. To scale to zero use KEDA's ScaledObject.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: embedder}
//!  spec:
//!    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: embedder}
//! -  minReplicas: 0 # <-
//! +  minReplicas: 1
//!    maxReplicas: 6
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/>
//! - <https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/>

use crate::rules::autoscaling::report_below;
use crate::rules::prelude::*;
use crate::schema::feature_gate;

pub(crate) static RULE: Rule = Rule {
    id: "hpa-replica-bounds",
    kinds: &[Kind::HPA],
    rejected_by: &[Authority::ApiServer],
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("hpa_replica_bounds.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Autoscaling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let min = spec.get("minReplicas");
    let max = spec.get("maxReplicas");
    let external =
        spec.get("metrics").items().any(|m| matches!(m.get("type").text(), Some("Object" | "External")));
    if external && min.int() == Some(0) {
        // The author has enabled the feature gate, or expects it to be on.
        let version = ctx.platform().kubernetes;
        if ctx.platform().eks
            && !ctx.cluster().is_gate_shown("HPAScaleToZero")
            && feature_gate("HPAScaleToZero")?.is_off(version, ctx.platform())
        {
            let message = format!(
                "`minReplicas: 0` requires the feature gate HPAScaleToZero, which is off by default in {version}"
            );
            ctx.report(&min, message)
                .severity(Severity::Info)
                .help("where the gate is off, write 1, or scale to zero with a KEDA ScaledObject");
        }
    } else if min.int() == Some(0) {
        ctx.report(&min, "`minReplicas: 0` requires a metric of type Object or External")
            .help("write 1, or scale to zero with a KEDA ScaledObject");
    } else {
        report_below(&min, 1, RULE.sole_authority(), ctx);
    }
    report_below(&max, 1, RULE.sole_authority(), ctx);
    if !max.is_set() && spec.is_mapping() {
        ctx.report(&max, "`maxReplicas` is missing")
            .help("an HPA needs it: write the most replicas that you would pay for");
    }
    let (floor, ceiling) = (min.int()?, max.int()?);
    if floor > ceiling {
        ctx.report(&max, format!("`maxReplicas` {ceiling} is below `minReplicas` {floor}"))
            .help("raise the maximum or lower the minimum");
    }
    None
}
