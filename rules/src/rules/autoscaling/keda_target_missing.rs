//! The target of a ScaledObject or HTTPScaledObject is not in the input.
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

use crate::rules::autoscaling::target_missing;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-target-missing",
    kinds: &[Kind::SCALED_OBJECT, Kind::HTTP_SCALED_OBJECT],
    reads: target_missing::READS,
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("keda_target_missing.rs")),
    check: Check::Object(target_missing::check),
    ..Rule::warning(Group::Autoscaling)
};
