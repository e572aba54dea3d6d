//! A volume lacks an attribute that its driver needs to mount it.
//!
//! # Why
//! The API server accepts any `volumeAttributes`, and a PersistentVolume without the right ones is bound. The
//! driver fails only when a pod starts on a node: it stays in ContainerCreating with the event FailedMount.
//! The driver of FSx for Lustre reads `dnsname` and `mountname`, both in lower case, and the driver of S3
//! `bucketName`; `volumeHandle` does not stand for them. Without `mountname` it mounts `/fsx`, which only file
//! systems of the type SCRATCH_1 have: for these the finding is advice that does not apply.
//!
//! A volume of EBS is in one zone. Without `nodeAffinity` neither the scheduler nor Karpenter knows which, and a
//! pod may get a node in another zone, where the volume cannot be attached: information, since a cluster may have
//! nodes in one zone alone.
//!
//! # Fix
//! Write the attribute. Other spellings are ignored. Write the zone of a volume of EBS in its `nodeAffinity`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: PersistentVolume
//!  metadata: {name: datasets}
//!  spec:
//!    capacity: {storage: 1200Gi}
//!    accessModes: [ReadWriteMany]
//!    csi:
//!      driver: fsx.csi.aws.com
//!      volumeHandle: fs-0d1c2b3a495867768
//! -    volumeAttributes: {mountname: fbwkz} # <-
//! +    volumeAttributes: {dnsname: fs-0d1c2b3a495867768.fsx.us-west-2.amazonaws.com, mountname: fbwkz}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/fsx-csi.html>
//! - <https://github.com/kubernetes-sigs/aws-ebs-csi-driver/tree/master/examples/kubernetes/static-provisioning>
//! - <https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md>

use crate::catalog::ZONE;
use crate::cluster::storage::{AUTO_MODE_EBS_DRIVER, EBS_DRIVER, FSX_DRIVER};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-attribute-missing",
    kinds: &[Kind::PERSISTENT_VOLUME],
    docs: docs(include_str!("volume_attribute_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The attributes that drivers need, and what they hold. Sources: aws-fsx-csi-driver `pkg/driver/node.go` ("dnsname is not provided") and
/// mountpoint-s3-csi-driver `pkg/driver/node/node.go` ("Bucket name not provided").
const NEEDED: [(&str, &str, &str); 2] = [
    (FSX_DRIVER, "dnsname", "the DNS name of the file system"),
    ("s3.csi.aws.com", "bucketName", "the name of the bucket"),
];

fn check(volume: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let csi = volume.path(&["spec", "csi"]);
    let driver = csi.get("driver").text()?;
    if [EBS_DRIVER, AUTO_MODE_EBS_DRIVER].contains(&driver) {
        return without_zone(volume, ctx);
    }
    let (_, wanted, what) = NEEDED.into_iter().find(|(name, _, _)| *name == driver)?;
    let attributes = csi.get("volumeAttributes");
    let mount = attributes.get("mountname");
    if volume.may_lack_fields()
        || csi.has_unknown_key()
        || attributes.is_unknown()
        || attributes.has_unknown_key()
    {
        return None;
    }
    let value = attributes.get(wanted);
    if value.text().is_some_and(|text| text.trim().is_empty()) {
        let message = format!("`{driver}` mounts no volume with an empty `{wanted}`");
        ctx.report(&value, message).help(format!("write {what}"));
        return None;
    }
    if !value.is_absent() {
        if driver == FSX_DRIVER && mount.is_absent() {
            let message =
                "without `mountname` the driver mounts `/fsx`, which only SCRATCH_1 file systems have";
            ctx.report(&attributes, message)
                .severity(Severity::Info)
                .help("add `mountname`: `aws fsx describe-file-systems` shows it as MountName");
        }
        return None;
    }
    let entries = attributes.entries();
    let bare = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
    let alike = entries.iter().find(|(name, _)| bare(name) == bare(wanted));
    if let Some((name, node)) = alike {
        let message =
            format!("the driver does not read `{}`, but `{wanted}`: pods cannot mount it", ellipsize(name));
        ctx.report(node, message).at_key().help(format!("write `{wanted}`"));
    } else {
        let message = format!("`{driver}` mounts no volume without the attribute `{wanted}`");
        ctx.report(&attributes, message).help(format!("add `{wanted}`, {what}"));
    }
    None
}

/// Reports a volume of EBS that does not say in which zone it is. The plugin VolumeZone of kube-scheduler reads labels of the
/// volume as well.
fn without_zone(volume: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = volume.get("spec");
    let labels = volume.path(&["metadata", "labels"]);
    let says_zone =
        [ZONE, "failure-domain.beta.kubernetes.io/zone"].iter().any(|key| labels.get(key).is_set());
    if !spec.get("nodeAffinity").is_absent()
        || says_zone
        || labels.has_unknown_key()
        || spec.has_unknown_key()
        || volume.may_lack_fields()
    {
        return None;
    }
    let name = volume.display_name();
    ctx.report(
        &spec.path(&["csi", "volumeHandle"]),
        format!("`{name}` has no `nodeAffinity`: its pods may start in a zone where EBS cannot attach it"),
    )
    .severity(Severity::Info)
    .help("write `nodeAffinity` with the zone of the volume in `topology.kubernetes.io/zone`");
    None
}
