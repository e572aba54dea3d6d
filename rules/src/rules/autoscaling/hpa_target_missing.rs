//! The target of an HPA is not in the input.
//!
//! # Why
//! The API server accepts an HPA for an object that does not exist, or that is another kind or in another
//! namespace: the controller reports `FailedGetScale` in its status, and the replicas stay where they are.
//!
//! # Fix
//! Write the `apiVersion`, `kind` and `name` of the target, which is in the namespace of the HPA. With
//! `--complete` a target that is not in the input does not exist, and this is an error.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: autoscaling/v2
//!  kind: HorizontalPodAutoscaler
//!  metadata: {name: embed, namespace: search}
//!  spec:
//!    scaleTargetRef:
//!      apiVersion: apps/v1
//! -    kind: Deployment
//! -    name: embed # <-
//! +    kind: StatefulSet
//! +    name: embed
//!    minReplicas: 2
//!    maxReplicas: 6
//!    metrics:
//!      - type: Resource
//!        resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: embed, namespace: search}
//!  spec:
//!    selector: {matchLabels: {app: embed}}
//!    template:
//!      metadata: {labels: {app: embed}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: "example.com/embed:1.0.0"
//!            resources: {requests: {cpu: "1"}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/>

use crate::rules::autoscaling::target_missing;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "hpa-target-missing",
    kinds: &[Kind::HPA],
    reads: target_missing::READS,
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("hpa_target_missing.rs")),
    check: Check::Object(target_missing::check),
    ..Rule::warning(Group::Autoscaling)
};
