//! Volumes that one node, or one pod, can use at a time.

use crate::cluster::storage::is_default;
use crate::rules::prelude::*;
use crate::workload::node_labels::names_nodes;

/// Whether the pods of a template are held on one node, whose volumes they share, or may be.
pub(super) fn stays_on_one_node(template: &Template<'_>) -> bool {
    names_nodes(template)
        || template.spec.get("nodeSelector").is_unknown()
        || template.spec.get("affinity").is_set()
}

/// The access mode of a claim that one node or one pod at a time can use.
pub(super) fn single_node_mode(claim: &Object) -> Option<&'static str> {
    let modes = claim.path(&["spec", "accessModes"]);
    let modes: Vec<&str> = modes.items().map(|mode| mode.text()).collect::<Option<_>>()?;
    match modes.as_slice() {
        ["ReadWriteOnce"] => Some("ReadWriteOnce"),
        ["ReadWriteOncePod"] => Some("ReadWriteOncePod"),
        _ => None,
    }
}

/// Whether the volume of a claim is attached to one node at a time, as far as the name of its class or the class itself says.
/// A rule that asks reads StorageClasses and NodePools.
pub(super) fn is_block_storage(claim: &Object, ctx: &Context<'_>) -> bool {
    is_block_claim(&claim.get("spec"), ctx)
}

/// [`is_block_storage`] for the spec of a claim.
pub(super) fn is_block_claim(spec: &Node<'_>, ctx: &Context<'_>) -> bool {
    let class = spec.get("storageClassName");
    if is_bound(spec) {
        return false;
    }
    match class.text() {
        Some(name) => is_block_class(name, ctx),
        None => class.is_absent() && is_default_block_storage(ctx),
    }
}

/// Whether the default class of the cluster is one of block storage: by the class itself, or because EKS has no other. The default of a
/// cluster on one machine is a folder of that.
fn is_default_block_storage(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    match cluster.of(Kind::STORAGE_CLASS).find(|class| is_default(class)) {
        Some(class) => class.get("provisioner").text().is_some_and(is_block_driver),
        None => cluster.shows_eks(),
    }
}

/// Whether the volume of a claim is of a default class that the input does not show. Most clusters of EKS have one of EBS.
pub(super) fn has_unknown_default(claim: &Object, ctx: &Context<'_>) -> bool {
    let spec = claim.get("spec");
    ctx.platform().eks
        && !claim.may_lack_fields()
        && !is_bound(&spec)
        && spec.get("storageClassName").is_absent()
        && !ctx.cluster().has_any(Kind::STORAGE_CLASS)
}

/// Whether a claim is for a volume that exists.
fn is_bound(claim: &Node<'_>) -> bool {
    ["volumeName", "selector", "dataSourceRef"].iter().any(|field| claim.get(field).is_set())
}

/// Whether volumes of a class are attached to one node at a time, as far as its name or the class itself says.
pub(super) fn is_block_class(name: &str, ctx: &Context<'_>) -> bool {
    /// Names that people and clouds give classes of disks. What a class is called after its speed is a disk, unless it says
    /// where that is.
    const NAMES: [&str; 12] = [
        "premium-rwo",
        "standard-rwo",
        "managed-csi",
        "managed-premium",
        "managed-standard",
        "pd-ssd",
        "pd-balanced",
        "hyperdisk",
        "cinder",
        "oci-bv",
        "ssd",
        "hdd",
    ];
    if let Some(class) = ctx.partner(Kind::STORAGE_CLASS, "default", name) {
        return class.get("provisioner").text().is_some_and(is_block_driver);
    }
    is_block_driver(name) || mentions(name, &NAMES) && !mentions(name, &OTHERS)
}

/// Local disks, on which both pods start, and file systems, which do not enforce the mode.
const OTHERS: [&str; 18] = [
    "local",
    "hostpath",
    "host-path",
    "nfs",
    "efs",
    "fsx",
    "smb",
    "cifs",
    "cephfs",
    "azurefile",
    "gluster",
    "juicefs",
    "filestore",
    "standard-rwx",
    "rancher",
    "topolvm",
    "lvm",
    "zfs",
];

/// Whether a provisioner, or a class by its name, is one of disks that are attached to one node at a time.
fn is_block_driver(name: &str) -> bool {
    const BLOCK: [&str; 13] = [
        "gp2", "gp3", "io1", "io2", "st1", "sc1", "ebs", "block", "rbd", "longhorn", "disk", "pd.csi",
        "cinder",
    ];
    mentions(name, &BLOCK) && !mentions(name, &OTHERS)
}

/// The spec of the claim behind a volume that the pods of a template write to, with the object that has it: a claim of the input, or
/// one of the workload's own.
pub(super) fn claim_behind<'i>(
    object: &'i Object,
    template: &Template<'i>,
    name: &str,
    ctx: &Context<'i>,
) -> Option<(&'i Object, Node<'i>)> {
    let mut own = object.path(&["spec", "volumeClaimTemplates"]).items();
    if let Some(claim) = own.find(|claim| claim.path(&["metadata", "name"]).text() == Some(name)) {
        return Some((object, claim.get("spec")));
    }
    let mut volumes = template.spec.get("volumes").items();
    let volume = volumes.find(|volume| volume.get("name").text() == Some(name))?;
    let source = volume.get("persistentVolumeClaim");
    if !matches!(source.get("readOnly").bool(), None | Some(false)) || source.has_unknown() {
        return None;
    }
    let claim = source.get("claimName").text()?;
    let claim = ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), claim)?;
    (!claim.may_lack_fields()).then(|| (claim, claim.get("spec")))
}
