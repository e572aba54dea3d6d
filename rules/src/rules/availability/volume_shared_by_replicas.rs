//! Several replicas share a volume that only one node can attach.
//!
//! # Why
//! A claim with the access mode ReadWriteOnce is a volume of one node: EBS, for example. As soon as the
//! scheduler places a second replica on another node, that pod stays in ContainerCreating with "Multi-Attach
//! error for volume". With ReadWriteOncePod it stays Pending on the same node as well. It works as long as
//! all replicas happen to share a node, and breaks with the first scale-up, rollout or consolidation;
//! `strategy: Recreate` does not change that. The maximum of an autoscaler counts.
//!
//! # Fix
//! Use a StatefulSet with `volumeClaimTemplates`, or a file system that many nodes can mount
//! (ReadWriteMany: EFS, FSx).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: wiki}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: wiki}}
//!    template:
//!      metadata: {labels: {app: wiki}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/wiki:1.4.0
//!            volumeMounts: [{name: pages, mountPath: /pages}]
//!        volumes:
//!          - name: pages
//!            persistentVolumeClaim:
//!              claimName: pages # <-
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: pages}
//!  spec:
//! -  accessModes: [ReadWriteOnce]
//! -  storageClassName: gp3
//! +  accessModes: [ReadWriteMany]
//! +  storageClassName: efs
//!    resources: {requests: {storage: 20Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html>

use super::serving::{is_owned, tell_autoscaler};
use super::volumes::{CLAIM, STORAGE_CLASS, is_block_storage, single_node_mode, stays_on_one_node};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-shared-by-replicas",
    kinds: &[
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::REPLICA_SET,
        Kind::new("", "ReplicationController"),
        Kind::new("argoproj.io", "Rollout"),
    ],
    reads: &[CLAIM, STORAGE_CLASS, Kind::HPA, Kind::SCALED_OBJECT],
    docs: docs(include_str!("volume_shared_by_replicas.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || object.is_patched_by_kustomize() || is_owned(object) {
        return None;
    }
    let templates = templates(object);
    let [template] = templates.as_slice() else {
        return None;
    };
    if !template.spec.get("volumes").items().any(|volume| volume.get("persistentVolumeClaim").is_set()) {
        return None;
    }
    let replicas = ctx.cluster().views().replicas(object)?;
    if replicas.max < 2 || stays_on_one_node(template) {
        return None;
    }
    // A template of the same name replaces the volume with a claim for each replica.
    let own = object.path(&["spec", "volumeClaimTemplates"]);
    let of_replica =
        |name: &Node<'_>| own.items().any(|one| one.path(&["metadata", "name"]).text() == name.text());
    for volume in template.spec.get("volumes").items() {
        let source = volume.get("persistentVolumeClaim");
        let name = source.get("claimName");
        if source.get("readOnly").is_set() || of_replica(&volume.get("name")) {
            continue;
        }
        let namespace = object.namespace_or_default();
        let Some(claim) = name.text().and_then(|name| ctx.cluster().unique(CLAIM, namespace, name)) else {
            continue;
        };
        if claim.is_partial() || !ctx.cluster().likely_pairs(object, claim) {
            continue;
        }
        let Some(mode) = single_node_mode(claim) else {
            continue;
        };
        // Every driver enforces the mode of one pod; that of one node only those that attach a disk.
        if mode != "ReadWriteOncePod" && !is_block_storage(claim, ctx) {
            continue;
        }
        report(object, claim, mode, &name, ctx);
        return None;
    }
    None
}

fn report(object: &Object, claim: &Object, mode: &str, name: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let replicas = ctx.cluster().views().replicas(object)?;
    let most = if replicas.autoscaled { "up to " } else { "" };
    let message = format!(
        "{most}{} replicas of `{}` share `{}`, which is {mode}: one node can attach it",
        replicas.max,
        object.display_name(),
        claim.display_name()
    );
    let message = match mode {
        "ReadWriteOncePod" => message.replace("one node can attach it", "one pod can use it"),
        _ => message,
    };
    let autoscaler = ctx.cluster().views().autoscaler_of(object).filter(|_| replicas.autoscaled);
    let finding = ctx.report(name, message);
    tell_autoscaler(finding, autoscaler);
    finding
        .help("use `volumeClaimTemplates` of a StatefulSet, or a ReadWriteMany claim of EFS or FSx")
        .related(claim, &claim.path(&["spec", "accessModes"]), "the volume");
    None
}
