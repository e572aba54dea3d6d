//! A pod has two volumes that the kubelet takes for one.
//!
//! # Why
//! The kubelet knows a volume by its driver and its `volumeHandle`. Two PersistentVolumes with the same
//! handle, which copies of an example for Amazon S3, EFS or FSx often have, are one volume for it: before
//! Kubernetes 1.35 a pod that mounts both stays in ContainerCreating without an event that says why, and
//! later one of the two file systems is mounted in both places. Before 1.35 the same happens to a pod that
//! names one claim in two volumes.
//!
//! # Fix
//! Give each PersistentVolume a `volumeHandle` of its own; for EFS it may end in the path or the access
//! point, for Mountpoint for Amazon S3 it is any text. Mount one volume in two places by two
//! `volumeMounts`, with `subPath`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: PersistentVolume
//!  metadata: {name: models}
//!  spec:
//!    capacity: {storage: 1200Gi}
//!    accessModes: [ReadOnlyMany]
//!    storageClassName: ""
//!    csi: {driver: s3.csi.aws.com, volumeHandle: s3-models, volumeAttributes: {bucketName: models}}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolume
//!  metadata: {name: prompts}
//!  spec:
//!    capacity: {storage: 1200Gi}
//!    accessModes: [ReadOnlyMany]
//!    storageClassName: ""
//! -  csi: {driver: s3.csi.aws.com, volumeHandle: s3-models, volumeAttributes: {bucketName: prompts}}
//! +  csi: {driver: s3.csi.aws.com, volumeHandle: s3-prompts, volumeAttributes: {bucketName: prompts}}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: models, namespace: eval}
//!  spec:
//!    accessModes: [ReadOnlyMany]
//!    storageClassName: ""
//!    volumeName: models
//!    resources: {requests: {storage: 1200Gi}}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: prompts, namespace: eval}
//!  spec:
//!    accessModes: [ReadOnlyMany]
//!    storageClassName: ""
//!    volumeName: prompts
//!    resources: {requests: {storage: 1200Gi}}
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: compare, namespace: eval}
//!  spec:
//!    restartPolicy: Never
//!    containers:
//!      - name: main
//!        image: example.com/compare:1.4.0
//!        resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2Gi}}
//!        volumeMounts: [{name: models, mountPath: /models}, {name: prompts, mountPath: /prompts}]
//!    volumes:
//!      - {name: models, persistentVolumeClaim: {claimName: models}}
//!      - {name: prompts, persistentVolumeClaim: {claimName: prompts}} # <-
//! ```
//!
//! # References
//! - <https://github.com/kubernetes/kubernetes/issues/132921>
//! - <https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-mounted-twice",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME],
    depends_on: &[Product::Kubernetes],
    docs: docs(include_str!("volume_mounted_twice.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The version from which a pod may have several names for one volume: kubernetes 1.35.0
/// `pkg/kubelet/volumemanager/cache/desired_state_of_world.go`, `outerVolumeSpecNames`; 1.34.1 has one.
const SEVERAL_NAMES: Version = Version::new(1, 35);

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    for template in templates(object) {
        inspect(object, &template, ctx);
    }
    None
}

fn inspect<'a>(object: &'a Object, template: &Template<'a>, ctx: &mut Context<'_>) -> Option<()> {
    let of_volume = |volume: Node<'a>| {
        let claim = volume.path(&["persistentVolumeClaim", "claimName"]);
        claim.text().map(|name| (name, claim))
    };
    // The kubelet passes over volumes that no container mounts.
    let mounted: Vec<&str> = template
        .all_containers()
        .flat_map(|container| ["volumeMounts", "volumeDevices"].map(|field| container.get(field)))
        .flat_map(|list| list.items().collect::<Vec<_>>())
        .filter_map(|mount| mount.get("name").text())
        .collect();
    let is_mounted =
        |volume: &Node<'a>| volume.get("name").text().is_some_and(|name| mounted.contains(&name));
    let volumes = template.spec.get("volumes");
    let all: Vec<(&str, Node<'a>)> = volumes.items().filter(is_mounted).filter_map(of_volume).collect();
    for (at, (name, node)) in all.iter().enumerate() {
        let before = &all[..at];
        if before.iter().any(|(other, _)| other == name) {
            let platform = ctx.platform();
            let is_old = platform.version(Product::Kubernetes) < SEVERAL_NAMES;
            // Half of the supported versions are older.
            if is_old || !platform.is_stated(Product::Kubernetes) {
                let message = format!(
                    "two volumes name the claim `{name}`: before Kubernetes 1.35 the pod never starts"
                );
                ctx.report(node, message)
                    .severity(if is_old { Severity::Warning } else { Severity::Info })
                    .help("keep one volume, and mount it in both places, with `subPath` where they differ");
            }
            continue;
        }
        let Some(volume) = volume_of_claim(object, name, ctx) else { continue };
        let handle = handle(volume);
        let same = before.iter().find_map(|(claim, _)| {
            let other = volume_of_claim(object, claim, ctx)?;
            (handle.is_some() && self::handle(other) == handle).then_some((claim, other))
        });
        if let Some(((claim, other), (_, handle))) = same.zip(handle) {
            let message = format!(
                "the claims `{name}` and `{}` have the `volumeHandle` `{}`: the kubelet takes them for one",
                ellipsize(claim),
                ellipsize(handle)
            );
            ctx.report(node, message)
                .help("give each PersistentVolume a `volumeHandle` of its own, or mount one volume in both places")
                .related(volume, &volume.path(&["spec", "csi", "volumeHandle"]), "its handle")
                .related(other, &other.path(&["spec", "csi", "volumeHandle"]), "the handle of another volume of the pod");
        }
    }
    None
}

/// The PersistentVolume that a claim names, or that is reserved for it.
pub(in crate::rules) fn volume_of_claim<'i>(
    object: &Object,
    claim: &str,
    ctx: &Context<'i>,
) -> Option<&'i Object> {
    let claim = ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), claim)?;
    let name = claim.path(&["spec", "volumeName"]);
    let volume = ctx.partner(Kind::PERSISTENT_VOLUME, "default", name.text()?)?;
    (!claim.may_lack_fields() && !volume.may_lack_fields()).then_some(volume)
}

fn handle(volume: &Object) -> Option<(&str, &str)> {
    let csi = volume.path(&["spec", "csi"]);
    Some((csi.get("driver").text()?, csi.get("volumeHandle").text()?))
}
