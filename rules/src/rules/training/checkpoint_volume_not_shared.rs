//! Pods of a training run on several nodes share a volume that one node can mount.
//!
//! # Why
//! A volume with the access mode `ReadWriteOnce`, such as one of EBS, is attached to one node. The pods
//! of a run that land on a second node wait for the volume in `ContainerCreating`, and the first ones
//! wait for them: the run never starts, and the GPUs of both nodes are paid for.
//!
//! # Fix
//! Use a claim with `ReadWriteMany` from a file system such as FSx for Lustre or EFS, or one claim a
//! pod.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: checkpoints, namespace: models}
//!  spec:
//! -  accessModes: [ReadWriteOnce]
//! -  storageClassName: gp3
//! +  accessModes: [ReadWriteMany]
//! +  storageClassName: fsx
//!    resources: {requests: {storage: 1200Gi}}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert-training, namespace: models}
//!  spec:
//!    parallelism: 2
//!    completions: 2
//!    completionMode: Indexed
//!    backoffLimit: 3
//!    activeDeadlineSeconds: 86400
//!    template:
//!      metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}
//!      spec:
//!        subdomain: bert
//!        terminationGracePeriodSeconds: 120
//!        restartPolicy: Never
//!        containers:
//!          - name: trainer
//!            image: registry.example.com/ml/bert:v3
//!            command: [torchrun, --nproc_per_node=8, --nnodes=2, train.py]
//!            resources:
//!              requests: {cpu: 90, memory: 900Gi}
//!              limits: {nvidia.com/gpu: 8}
//!            volumeMounts:
//!              - {name: work, mountPath: /checkpoints}
//!              - {name: shm, mountPath: /dev/shm}
//!        volumes:
//!          - name: work
//! -          persistentVolumeClaim: {claimName: checkpoints} # <-
//! +          persistentVolumeClaim: {claimName: checkpoints}
//!          - name: shm
//!            emptyDir: {medium: Memory}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-storage.html>

use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::devices::{first_accelerator, pods_of};

pub(crate) static RULE: Rule = Rule {
    id: "checkpoint-volume-not-shared",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NAMESPACE, Kind::PERSISTENT_VOLUME_CLAIM],
    docs: docs(include_str!("checkpoint_volume_not_shared.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

/// Maximum number of accelerators of a node.
const MOST_PER_NODE: i64 = 16;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !trains(object, ctx) {
        return None;
    }
    for template in templates(object) {
        inspect(object, &template, ctx);
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let pods = pods_of(object, template).filter(|pods| *pods > 1)?;
    let (resource, devices) = first_accelerator(template)?;
    // Pods with few GPUs may be on one node together.
    let most = if resource == "nvidia.com/gpu" { 8 } else { MOST_PER_NODE };
    if devices.count.saturating_mul(pods) <= most {
        return None;
    }
    for volume in template.spec.get("volumes").items() {
        let source = volume.get("persistentVolumeClaim");
        let Some(name) = source.get("claimName").text() else { continue };
        if source.get("readOnly").bool() == Some(true) {
            continue;
        }
        let Some(claim) = ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), name)
        else {
            continue;
        };
        let modes = claim.path(&["spec", "accessModes"]);
        let single = |mode: Node<'_>| matches!(mode.text(), Some("ReadWriteOnce" | "ReadWriteOncePod"));
        if modes.items().next().is_none() || !modes.items().all(single) {
            continue;
        }
        let of_one_pod = modes.items().any(|mode| mode.text() == Some("ReadWriteOncePod"));
        let who = if of_one_pod { "pod can use" } else { "node can mount" };
        let message = format!("{pods} pods on several nodes share claim `{name}`, which only one {who}");
        ctx.report(&source.get("claimName"), message)
            .help("use a claim with `ReadWriteMany`, of a shared file system")
            .related(claim, &modes, "its access modes");
    }
    None
}
