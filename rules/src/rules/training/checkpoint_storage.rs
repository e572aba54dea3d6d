//! A training run keeps its checkpoints where they end with the pod.
//!
//! # Why
//! An emptyDir, and the container's own file system, are deleted with the pod. After a drain, a Spot
//! reclaim or a failed GPU the run starts again from the beginning, however many checkpoints it wrote.
//! It is a warning where checkpoints are mounted from an emptyDir, and where nothing outlives the pods
//! of a run that is marked do-not-disrupt; otherwise information, because scripts may save elsewhere.
//!
//! # Fix
//! Mount a PersistentVolumeClaim (FSx for Lustre, EFS) for checkpoints, or write them to object storage
//! and give the run the URI.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=1, train.py]
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!            volumeMounts: [{name: work, mountPath: /checkpoints}]
//!        volumes:
//!          - name: work
//! -          emptyDir: {} # <-
//! +          persistentVolumeClaim: {claimName: bert-checkpoints}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>
//! - <https://kubernetes.io/docs/concepts/storage/volumes/#emptydir>

use crate::karpenter::do_not_disrupt::DO_NOT_DISRUPT;
use crate::rules::class_evidence::add_class_evidence;
use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::checkpoint::{
    checkpoint_mounts, has_lasting_volume, names_checkpoints, names_remote_storage, volume,
};

pub(crate) static RULE: Rule = Rule {
    id: "checkpoint-storage",
    kinds: WORKLOAD_KINDS,
    docs: docs(include_str!("checkpoint_storage.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !trains(object) || object.is_partial() {
        return None;
    }
    let all = templates(object);
    // The launcher of an MPI job, or the driver of another, passes the command on to the pods with accelerators.
    if all.iter().any(names_remote_storage) {
        return None;
    }
    for template in all.iter().filter(|t| requests_accelerator(t)) {
        if template.spec.has_unknown_key() {
            continue;
        }
        inspect(object, template, ctx);
        // The other templates of a run have the same volumes.
        break;
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = object.display_name();
    let help = "mount a PersistentVolumeClaim for checkpoints, or give the run the URI of object storage";
    for mount in checkpoint_mounts(template) {
        let empty = volume(template, mount.get("name").text()?)?.get("emptyDir");
        if !empty.is_absent() {
            let message = format!("checkpoints of `{name}` are in an emptyDir, which ends with the pod");
            let finding = ctx.report(&empty, message);
            finding.help(help);
            add_class_evidence(finding, object, object.classified());
            return None;
        }
    }
    if has_lasting_volume(object, template) {
        return None;
    }
    let precious = template.annotation(DO_NOT_DISRUPT).is_set();
    let silent = !precious && names_checkpoints(template);
    if silent {
        return None;
    }
    let severity = if precious { Severity::Warning } else { Severity::Info };
    let finding = ctx.report(
        &template.spec.get("volumes"),
        format!(
            "training run `{name}` has no storage that outlives its pods: it restarts from the beginning"
        ),
    );
    finding.severity(severity).help(help);
    add_class_evidence(finding, object, object.classified());
    None
}
