//! A training run writes checkpoints to a bucket in which it cannot replace files.
//!
//! # Why
//! Mountpoint for Amazon S3 lets a program make new files. Without `allow-overwrite` it cannot write a file
//! that exists, and without `allow-delete` it cannot remove one: both fail with "Operation not permitted".
//! A run that starts again writes its last checkpoint once more, keeps a file such as `last.ckpt`, and
//! removes old checkpoints.
//!
//! # Fix
//! Add `allow-overwrite` and `allow-delete` to the `mountOptions` of the PersistentVolume. Files are still
//! replaced as a whole, and can be renamed only in directory buckets: let the program write to S3 by itself
//! where that is not enough.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: PersistentVolume
//!  metadata: {name: checkpoints}
//!  spec:
//!    capacity: {storage: 1200Gi}
//!    accessModes: [ReadWriteMany]
//!    storageClassName: ""
//! -  mountOptions: [region eu-west-1] # <-
//! +  mountOptions: [region eu-west-1, allow-overwrite, allow-delete]
//!    csi: {driver: s3.csi.aws.com, volumeHandle: checkpoints, volumeAttributes: {bucketName: runs}}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: checkpoints, namespace: models}
//!  spec:
//!    accessModes: [ReadWriteMany]
//!    storageClassName: ""
//!    volumeName: checkpoints
//!    resources: {requests: {storage: 1200Gi}}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: bert, namespace: models}
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
//!            command: [torchrun, --nproc_per_node=1, train.py, --output_dir=/out/bert]
//!            resources: {requests: {cpu: 6, memory: 24Gi}, limits: {nvidia.com/gpu: 1}}
//!            volumeMounts: [{name: out, mountPath: /out}]
//!        volumes: [{name: out, persistentVolumeClaim: {claimName: checkpoints}}]
//! ```
//!
//! # References
//! - <https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md#file-modifications-and-deletions>
//! - <https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md>

use crate::cluster::storage::{S3_DRIVER, is_for_reading};
use crate::rules::prelude::*;
use crate::rules::training::trains;
use crate::workload::checkpoint::{checkpoint_mounts, destination, mount_of, read_only};

pub(crate) static RULE: Rule = Rule {
    id: "bucket-forbids-overwrite",
    kinds: &[Kind::PERSISTENT_VOLUME],
    reads: kinds![[Kind::PERSISTENT_VOLUME_CLAIM, Kind::NAMESPACE], WORKLOAD_KINDS],
    docs: docs(include_str!("bucket_forbids_overwrite.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Training)
};

fn check(volume: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = volume.get("spec");
    let options = spec.get("mountOptions");
    let is_of_bucket = spec.path(&["csi", "driver"]).text() == Some(S3_DRIVER);
    if !is_of_bucket || volume.may_lack_fields() || options.has_unknown() || spec.has_unknown_key() {
        return None;
    }
    let has = |name: &str| {
        options.items().any(|one| one.text().is_some_and(|text| text.trim_start_matches('-') == name))
    };
    if has("allow-overwrite") || has("allow-delete") || has("read-only") || is_for_reading(volume) {
        return None;
    }
    let reference = spec.get("claimRef");
    let named = reference.get("namespace").text().zip(reference.get("name").text());
    let claims = ctx.cluster().of(Kind::PERSISTENT_VOLUME_CLAIM).filter(|claim| match named {
        Some((namespace, name)) => claim.namespace_or_default() == namespace && claim.name() == name,
        None => claim.path(&["spec", "volumeName"]).text() == Some(volume.name()),
    });
    let (run, mount) = claims.filter(|claim| ctx.pairs_with(claim)).find_map(|claim| {
        let users = ctx.cluster().views().users_of_claim(claim.namespace_or_default(), claim.name());
        users.iter().find_map(|user| {
            let mount = mount_of_checkpoints(user, claim.name())?;
            (ctx.pairs_with(user) && trains(user, ctx)).then_some((user, mount))
        })
    })?;
    let message = format!(
        "`{}` keeps checkpoints in a bucket where it cannot replace or remove files",
        run.display_name()
    );
    let place = if options.is_set() { options } else { spec.get("csi") };
    ctx.report(&place, message).help("add `allow-overwrite` and `allow-delete` to `mountOptions`").related(
        run,
        &mount,
        "checkpoints go there",
    );
    None
}

/// The mount of a claim to which a run writes its checkpoints.
fn mount_of_checkpoints<'a>(run: &'a Object, claim: &str) -> Option<Node<'a>> {
    templates(run).iter().find_map(|template| {
        let is_of_claim = |mount: &Node<'a>| {
            let name = mount.get("name").text();
            template.spec.get("volumes").items().any(|volume| {
                volume.get("name").text() == name
                    && volume.path(&["persistentVolumeClaim", "claimName"]).text() == Some(claim)
            })
        };
        let named: Vec<_> = template
            .containers()
            .filter_map(|container| {
                destination(&container).map(|to| mount_of(template, &container, &to.path))
            })
            .collect();
        let is_written = |mount: &Node<'a>| is_of_claim(mount) && read_only(template, mount).is_none();
        if named.is_empty() {
            return checkpoint_mounts(template).find(is_written);
        }
        named.into_iter().flatten().flatten().find(is_written)
    })
}
