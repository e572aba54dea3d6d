//! A training run on accelerators does not say that it must not be disrupted.
//!
//! # Why
//! Consolidation and drift evict training pods like any others. The run starts again at its last
//! checkpoint, or at the beginning; in a distributed run every other worker waits. With
//! `karpenter.sh/do-not-disrupt` Karpenter leaves the node alone until the pod has ended. It does
//! not help against a spot reclaim or the expiry of the node. Where nothing in the input or in the
//! configuration (`platform.karpenter`) shows Karpenter, and in folders of examples, this is info.
//! Nothing is reported of pods on nodes of GKE or of a managed node group, or on TPUs.
//!
//! # Fix
//! Annotate the pod template with `karpenter.sh/do-not-disrupt: "true"`. Give the NodePool a
//! `terminationGracePeriod`, so that a hanging run cannot hold its node forever.
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
//! -    metadata: # <-
//! -      labels: {app: bert-training}
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
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>

use crate::karpenter::do_not_disrupt::DO_NOT_DISRUPT;
use crate::karpenter::nodepool::CAPACITY_TYPE;
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::disruption::karpenter_in_use::{READS, uses_karpenter};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::node_labels::{is_off_karpenter, names_karpenter};
use crate::workload::template::{is_short_deadline, is_short_lived, workload_kind};

pub(crate) static RULE: Rule = Rule {
    id: "do-not-disrupt-missing",
    kinds: WORKLOAD_KINDS,
    reads: &READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("do_not_disrupt_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Disruption)
};

/// Names of the annotation, including the deprecated ones, which another rule reports.
const NAMES: [&str; 3] = [DO_NOT_DISRUPT, "karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A group of pods that trains as one run ends as a Job does, also under a kind that starts it again.
    let is_group = object.is(Kind::LEADER_WORKER_SET);
    let ends = is_group || workload_kind(object).is_some_and(|k| k.runs_to_completion);
    if !(ends || object.is(Kind::POD)) || object.path(&["metadata", "ownerReferences"]).is_set() {
        return None;
    }
    // On the object itself it is reported by do-not-disrupt-misplaced.
    let own = object.path(&["metadata", "annotations"]);
    let misplaced = NAMES.iter().any(|n| own.get(n).is_set());
    if (misplaced && !object.is(Kind::POD)) || is_short_lived(object) {
        return None;
    }
    let templates = templates(object);
    let bare: Vec<&Template<'_>> = templates.iter().filter(|t| is_bare(t)).collect();
    let first = bare.first()?;
    let classified = ctx.cluster().views().class_of(object);
    if !classified.is(WorkloadClass::Training) || ctx.cluster().views().is_on_protected_nodes(object) {
        return None;
    }
    let node = first.annotation(DO_NOT_DISRUPT);
    let mut fix =
        Fix::new("protect the pods; check that the pool has a `terminationGracePeriod`", Safety::Unsafe);
    for template in &bare {
        fix = fix.set(&template.annotation(DO_NOT_DISRUPT), json!("true"));
    }
    let severity = if is_example(object) {
        Severity::Info
    } else if uses_karpenter(ctx) || templates.iter().any(names_karpenter) {
        Severity::Warning
    } else {
        Severity::Info
    };
    let name = object.display_name();
    let message = format!("training run `{name}` may be evicted to save money or to replace its node");
    let finding = ctx.report(&node, message);
    finding
        .severity(severity)
        .help("annotate its pods with `karpenter.sh/do-not-disrupt: \"true\"`")
        .fix(fix);
    add_class_evidence(finding, object, &classified);
    None
}

/// Whether a template requests accelerators, does not set the annotation, and may run on other capacity than
/// spot, where the annotation has no effect.
fn is_bare(template: &Template<'_>) -> bool {
    let annotations = template.metadata.get("annotations");
    let unknown = template.metadata.is_unknown()
        || annotations.is_unknown()
        || annotations.entries().iter().any(|(k, _)| is_placeholder(k));
    requests_accelerator(template)
        && !unknown
        && !NAMES.iter().any(|n| annotations.get(n).is_set())
        && !is_spot_only(template)
        && !is_off_karpenter(template)
        && !is_short_deadline(&template.spec.get("activeDeadlineSeconds"))
}

fn is_spot_only(template: &Template<'_>) -> bool {
    let wanted = template.spec.path(&["nodeSelector", CAPACITY_TYPE]);
    if wanted.is_unknown() || wanted.text() == Some("spot") {
        return true;
    }
    let terms = template.required_terms();
    let spot = |term: Node<'_>| {
        term.get("matchExpressions").items().any(|e| {
            let mut values = e.get("values").items();
            e.get("key").text() == Some(CAPACITY_TYPE)
                && e.get("operator").text() == Some("In")
                && values.all(|v| v.is_unknown() || v.text() == Some("spot"))
        })
    };
    terms.items().next().is_some() && terms.items().all(spot)
}
