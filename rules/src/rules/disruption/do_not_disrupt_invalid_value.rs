//! `karpenter.sh/do-not-disrupt` has a value that Karpenter ignores.
//!
//! # Why
//! On a pod Karpenter takes `"true"` and, from 1.12 on, a positive duration such as `"4h"`, counted
//! from the pod's start; on a node only `"true"`. Everything else, `"True"`, `"yes"` or `"1d"`, is
//! as if it were not written, and the run is evicted like any other. Annotations are strings: an
//! unquoted `true` is rejected by the API server.
//!
//! # Fix
//! Write `"true"` with quotes, or a duration in hours, minutes and seconds.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    ttlSecondsAfterFinished: 86400
//!    template:
//! -    metadata:
//! -      labels: {app: bert-training}
//! -      annotations:
//! -        karpenter.sh/do-not-disrupt: "yes" # <-
//! +    metadata:
//! +      labels: {app: bert-training}
//! +      annotations: {karpenter.sh/do-not-disrupt: "true"}
//!      spec:
//!        restartPolicy: Never
//!        terminationGracePeriodSeconds: 120
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py, --save-to=s3://runs/bert]
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/disruption/#pod-level-controls>
//! - <https://karpenter.sh/docs/concepts/disruption/#node-level-controls>

use crate::facts::duration;
use crate::facts::duration::DurationField;
use crate::karpenter::do_not_disrupt::{DURATIONS_SINCE, is_active, pool_annotation};
use crate::platform::Platform;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-invalid-value",
    kinds: kinds![[Kind::NODE_POOL, Kind::NODE, Kind::NODE_CLAIM], WORKLOAD_KINDS],
    fix: Some(Safety::Safe),
    owns: &[Ownership { path: "**/annotations/karpenter.sh~1do-not-disrupt", aspect: Aspect::Value }],
    depends_on: &[Product::Karpenter],
    docs: docs(include_str!("do_not_disrupt_invalid_value.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Disruption)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::NODE_POOL) {
        inspect(&pool_annotation(object), false, ctx);
    } else if object.is(Kind::NODE) || object.is(Kind::NODE_CLAIM) {
        inspect(&object.annotation(DO_NOT_DISRUPT), false, ctx);
    }
    for template in templates(object) {
        inspect(&template.annotation(DO_NOT_DISRUPT), true, ctx);
    }
    None
}

/// Checks one value; `pod` is true if durations are accepted there.
fn inspect(node: &Node<'_>, pod: bool, ctx: &mut Context<'_>) {
    if !node.is_set() || node.is_unknown() {
        return;
    }
    let platform = ctx.platform();
    let Some(text) = node.text() else {
        let finding =
            ctx.report(node, "annotations must be strings: quote the value of `karpenter.sh/do-not-disrupt`");
        finding.help("write it in quotes: `\"true\"`");
        let quoted = match (node.bool(), node.int()) {
            (Some(false), _) => "false",
            (Some(true), _) | (_, Some(1)) => "true",
            _ => return,
        };
        finding.fix(title(quoted, node));
        return;
    };
    if text == "true" || (pod && is_active(text, platform)) {
        return;
    }
    if text == "false" {
        ctx.report(node, "`karpenter.sh/do-not-disrupt: \"false\"` is the same as leaving it out")
            .severity(Severity::Info)
            .help("remove it, or write `\"true\"` to protect the pod");
        return;
    }
    let shown: String = text.chars().take(30).collect();
    let is_duration = GoDuration::parse(text).is_ok_and(GoDuration::is_positive);
    let finding = ctx.report(
        node,
        format!("Karpenter ignores `karpenter.sh/do-not-disrupt: \"{shown}\"`: nothing is protected"),
    );
    if is_duration && pod {
        finding.help(format!("durations are read from Karpenter {DURATIONS_SINCE} on; write `\"true\"`"));
    } else if is_duration || !pod {
        finding.help("on nodes only `\"true\"` counts");
    } else if platform.karpenter >= DURATIONS_SINCE {
        finding.help("write `\"true\"`, or a duration of hours and minutes such as `\"24h\"`");
    } else {
        finding.help("write `\"true\"`");
    }
    if let Some(better) = suggest(text, pod, platform) {
        finding.fix(title(&better, node));
    }
}

fn title(value: &str, node: &Node<'_>) -> Fix {
    let value: Value = json!(value);
    Fix::new(format!("write `{value}`"), Safety::Safe).set(node, value)
}

/// The intended value, if it is certain.
fn suggest(text: &str, pod: bool, platform: &Platform) -> Option<String> {
    if matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "yes" | "1" | "on") {
        return Some("true".to_owned());
    }
    if !pod || GoDuration::parse(text).is_ok() {
        return None;
    }
    duration::suggest(DurationField::TerminationGracePeriod, text).filter(|t| is_active(t, platform))
}
