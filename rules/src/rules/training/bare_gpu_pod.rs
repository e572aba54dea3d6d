//! A GPU Pod has no controller that would create it again.
//!
//! # Why
//! A Pod by itself is gone when its node is: after a Spot reclaim, an expired node or a failed GPU
//! nothing starts it again. It also holds its node: Karpenter does not consolidate a node with a pod
//! that no controller owns.
//!
//! Pods that people start by hand are not reported: tests of a GPU, those that only wait or have a terminal,
//! and those in folders for examples and tests.
//!
//! # Fix
//! Write a Job for work that ends, a Deployment or StatefulSet for work that does not.
//!
//! # Bad
//! ```yaml,bad
//! apiVersion: v1
//! kind: Pod # <-
//! metadata: {name: embed}
//! spec:
//!   restartPolicy: Never
//!   containers:
//!     - name: main
//!       image: example.com/embed:1.4.0
//!       resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # Good
//! ```yaml,good
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: embed}
//! spec:
//!   backoffLimit: 2
//!   activeDeadlineSeconds: 7200
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!         - name: main
//!           image: example.com/embed:1.4.0
//!           resources: {requests: {cpu: 4, memory: 16Gi}, limits: {nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/workloads/pods/#using-pods>
//! - <https://karpenter.sh/docs/concepts/disruption/>

use crate::lint::finding::Merge;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::devices::accelerator_names;
use crate::workload::diagnostic::only_waits;

pub(crate) static RULE: Rule = Rule {
    id: "bare-gpu-pod",
    kinds: &[Kind::POD],
    reads: &[Kind::NAMESPACE],
    docs: docs(include_str!("bare_gpu_pod.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !uses_accelerators(object) || object.is_owned() || object.is_partial() || is_example(object) {
        return None;
    }
    // Someone starts it by hand, looks at a node, and deletes it.
    if is_test(object) || only_waits(object) || is_interactive(object) {
        return None;
    }
    let class = ctx.class_of(object).class;
    if matches!(class, WorkloadClass::Infra | WorkloadClass::Notebook) {
        return None;
    }
    let trains = trains(object, ctx);
    let name = object.display_name();
    let what = if trains { "training" } else { accelerator_names(object).0 };
    let severity = if trains && !is_called_test(object) { Severity::Warning } else { Severity::Info };
    let message = format!("{what} Pod `{name}` has no controller: nothing starts it again");
    let finding = ctx.report(&object.get("kind"), message.clone());
    finding.severity(severity).help("write a Job, or a Deployment for work that does not end");
    if let Some(group) = pod_group(object) {
        finding.merges(Merge::new(group, message, |merge| merge.subject().to_owned()));
    }
    None
}

/// Whether the pod is called a test, which a person starts again.
fn is_called_test(object: &Object) -> bool {
    const WORDS: [&str; 6] = ["check", "debug", "smoke", "smoketest", "test", "verify"];
    object.name().split('-').any(|word| WORDS.contains(&word))
}

/// Whether a container has a terminal or reads what a person types.
fn is_interactive(object: &Object) -> bool {
    let reads =
        |container: Node<'_>| ["stdin", "tty"].iter().any(|field| container.get(field).bool() == Some(true));
    templates(object).iter().flat_map(Template::containers).any(reads)
}

/// The labels and annotations that name a group of pods: of Volcano and Kubernetes' coscheduling, KAI and Kueue.
const GROUPS: [&str; 5] = [
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group-name",
    "kueue.x-k8s.io/pod-group-name",
];

/// The group of pods that are scheduled together, for which one finding is enough.
fn pod_group(object: &Object) -> Option<&str> {
    let metadata = object.get("metadata");
    let maps = [metadata.get("labels"), metadata.get("annotations")];
    maps.iter().find_map(|map| GROUPS.iter().find_map(|key| map.get(key).text()))
}
