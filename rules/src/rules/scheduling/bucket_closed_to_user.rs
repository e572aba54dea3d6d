//! A container that is not root mounts a bucket that only root can open.
//!
//! # Why
//! Mountpoint for Amazon S3 shows the files of a bucket to the user that mounts it, which is not that of the
//! container, and to root. Any other user gets `Permission denied` for the folder itself, whatever `uid`, `gid`
//! or `file-mode` say: a server does not find its model. The mount option `allow-other` opens it. Version 2 of
//! the driver adds that option by itself where the pod has an `fsGroup`, which is not reported, and mounts as
//! user 1000, who is not reported either.
//!
//! # Fix
//! Add `allow-other` to `mountOptions` of the PersistentVolume; to write, `uid` and `gid` of the container too.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: terms, namespace: search}
//!  spec:
//!    securityContext: {runAsUser: 2000}
//!    containers:
//!      - name: main
//!        image: example.com/terms:1.4.0
//!        resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}
//!        volumeMounts:
//!          - {name: lists, mountPath: /lists, readOnly: true} # <-
//!    volumes:
//!      - {name: lists, persistentVolumeClaim: {claimName: lists}}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: lists, namespace: search}
//!  spec:
//!    accessModes: [ReadOnlyMany]
//!    storageClassName: ""
//!    volumeName: lists
//!    resources: {requests: {storage: 100Gi}}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolume
//!  metadata: {name: lists}
//!  spec:
//!    capacity: {storage: 100Gi}
//!    accessModes: [ReadOnlyMany]
//!    storageClassName: ""
//!    claimRef: {namespace: search, name: lists}
//! -  mountOptions: [read-only]
//! +  mountOptions: [read-only, allow-other]
//!    csi: {driver: s3.csi.aws.com, volumeHandle: lists, volumeAttributes: {bucketName: lists}}
//! ```
//!
//! # References
//! - <https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md#file-and-directory-permissions>
//! - <https://github.com/awslabs/mountpoint-s3-csi-driver/issues/118>

use super::volume_mounted_twice::volume_of_claim;
use crate::cluster::storage::S3_DRIVER;
use crate::rules::prelude::*;
use crate::workload::security::{User, effective_user};

pub(crate) static RULE: Rule = Rule {
    id: "bucket-closed-to-user",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME],
    docs: docs(include_str!("bucket_closed_to_user.rs")),
    check: Check::PodTemplate(check),
    ..Rule::warning(Group::Scheduling)
};

/// The user of the pods that mount buckets: `MountpointPodUserID` of `pkg/cluster/cluster.go`, mountpoint-s3-csi-driver 2.
const MOUNTS: i64 = 1000;

/// The volume of a claim, if it is a bucket that only root and the user that mounts it can open: `NodePublishVolume` of
/// `pkg/driver/node/node.go`, mountpoint-s3-csi-driver 2.
fn closed_bucket<'i>(object: &Object, claim: &str, ctx: &Context<'i>) -> Option<&'i Object> {
    let volume = volume_of_claim(object, claim, ctx)?;
    let options = volume.path(&["spec", "mountOptions"]);
    let opens = |option: Node<'_>| {
        option.text().is_none_or(|text| text.trim().trim_start_matches('-').starts_with("allow-other"))
    };
    let is_open = options.is_unknown() || options.items().any(opens);
    (volume.path(&["spec", "csi", "driver"]).text() == Some(S3_DRIVER) && !is_open).then_some(volume)
}

fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let group = template.spec.path(&["securityContext", "fsGroup"]);
    if object.may_lack_fields() || template.spec.has_unknown_key() || !group.is_absent() {
        return None;
    }
    for volume in template.spec.get("volumes").items() {
        let claim = volume.path(&["persistentVolumeClaim", "claimName"]).text();
        let Some(bucket) = claim.and_then(|claim| closed_bucket(object, claim, ctx)) else { continue };
        let name = volume.get("name").text()?;
        let found = template.all_containers().find_map(|container| {
            let mut mounts = container.get("volumeMounts").items();
            let mount = mounts.find(|mount| mount.get("name").text() == Some(name))?;
            let User::Other(user) = effective_user(template, &container) else { return None };
            let number = user.int().filter(|number| *number != MOUNTS)?;
            Some((mount, user, number))
        });
        let Some((mount, user, number)) = found else { continue };
        let message =
            format!("user {number} cannot open the bucket of `{}`: only root can", bucket.display_name());
        let options = bucket.path(&["spec", "mountOptions"]);
        let place = if options.is_set() { options } else { bucket.path(&["spec", "csi", "driver"]) };
        ctx.report(&mount, message)
            .identified_by(name)
            .help("add `allow-other` to `mountOptions` of the PersistentVolume")
            .related(object, &user, "the user of the container")
            .related(bucket, &place, "mounted without `allow-other`");
    }
    None
}
