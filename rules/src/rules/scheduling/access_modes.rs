//! The access modes that the drivers of AWS provide.
//!
//! Sources: aws-ebs-csi-driver `isValidCapability` (one node, or many for a block device of io2); `volumeCaps` of the drivers of EFS
//! and FSx, which have no mode for many readers.

use crate::cluster::storage::{
    AUTO_MODE_EBS_DRIVER, EBS_DRIVER, EFS_DRIVER, FSX_DRIVER, IN_TREE_EBS_DRIVER, is_default,
};
use crate::rules::prelude::*;

const OF_FILE_SYSTEMS: [&str; 3] = [EFS_DRIVER, FSX_DRIVER, "fsx.openzfs.csi.aws.com"];

pub(super) fn is_of_ebs(driver: &str) -> bool {
    [EBS_DRIVER, AUTO_MODE_EBS_DRIVER, IN_TREE_EBS_DRIVER].contains(&driver)
}

/// The specs of the claims that a workload makes.
pub(super) fn own_claims<'a>(object: &'a Object, template: &Template<'a>) -> Vec<Node<'a>> {
    let of_replicas = object.path(&["spec", "volumeClaimTemplates"]).items();
    let of_pods = template.spec.get("volumes").items();
    of_replicas
        .chain(of_pods.map(|volume| volume.path(&["ephemeral", "volumeClaimTemplate"])))
        .map(|claim| claim.get("spec"))
        .filter(Node::is_mapping)
        .collect()
}

/// The spec of the claim that a volume of a template has, by the volume's name.
pub(super) fn own_claim<'a>(
    object: &'a Object,
    template: &Template<'a>,
    name: &str,
    ctx: &Context<'a>,
) -> Option<Node<'a>> {
    let of_replicas = object.path(&["spec", "volumeClaimTemplates"]);
    let mut of_replicas = of_replicas.items();
    if let Some(claim) = of_replicas.find(|claim| claim.path(&["metadata", "name"]).text() == Some(name)) {
        return Some(claim.get("spec"));
    }
    let mut volumes = template.spec.get("volumes").items();
    let volume = volumes.find(|volume| volume.get("name").text() == Some(name))?;
    let own = volume.path(&["ephemeral", "volumeClaimTemplate", "spec"]);
    if own.is_mapping() {
        return Some(own);
    }
    let name = volume.path(&["persistentVolumeClaim", "claimName"]);
    let claim = ctx.partner(Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), name.text()?)?;
    let bound = claim.path(&["spec", "volumeName"]);
    (!bound.is_set() && !bound.is_unknown() && !claim.may_lack_fields()).then(|| claim.get("spec"))
}

/// The class of a claim, if it is in the input: the default one where the claim names none.
pub(super) fn class_of<'i>(spec: &Node<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let named = spec.get("storageClassName");
    match named.text() {
        Some(name) => ctx.partner(Kind::STORAGE_CLASS, "default", name),
        None if named.is_set() => None,
        None => {
            ctx.cluster().of(Kind::STORAGE_CLASS).find(|class| is_default(class) && ctx.pairs_with(class))
        }
    }
}

/// The drivers of the volumes of a template, as far as they are known.
pub(super) fn drivers<'a>(template: &Template<'a>, ctx: &Context<'a>) -> Vec<&'a str> {
    let (object, _) = template.place;
    let volumes: Vec<Node<'a>> = template.spec.get("volumes").items().collect();
    let inline = volumes.iter().filter_map(|volume| volume.path(&["csi", "driver"]).text());
    let named = volumes.iter().filter_map(|volume| {
        let name = volume.path(&["persistentVolumeClaim", "claimName"]).text()?;
        Some(
            ctx.cluster()
                .unique(Kind::PERSISTENT_VOLUME_CLAIM, object.namespace_or_default(), name)?
                .get("spec"),
        )
    });
    let of_claim = |spec: Node<'a>| match spec.get("volumeName").text().filter(|name| !name.is_empty()) {
        Some(name) => ctx
            .cluster()
            .unique(Kind::PERSISTENT_VOLUME, "default", name)?
            .path(&["spec", "csi", "driver"])
            .text(),
        None => class_of(&spec, ctx)?.get("provisioner").text(),
    };
    inline.chain(named.chain(own_claims(object, template)).filter_map(of_claim)).collect()
}

/// Reports a mode of a claim that the driver of its class does not provide.
pub(super) fn check_claim(spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // The modes of a claim for a volume that exists are those of that volume.
    let bound = spec.get("volumeName");
    if bound.is_unknown() || bound.text().is_some_and(|name| !name.is_empty()) {
        return None;
    }
    let Some(class) = class_of(spec, ctx) else {
        return check_known_name(spec, ctx);
    };
    let driver = class.get("provisioner");
    // The driver of EBS makes gp3 where the class names no type.
    let kind = class.path(&["parameters", "type"]);
    let may_be_io2 = kind.is_unknown() || kind.text() == Some("io2");
    let (mode, fault) = refused(spec, driver.text()?, may_be_io2)?;
    report(&mode, fault, ctx).related(class, &driver, "the driver of the class");
    Some(())
}

/// Reports a mode that the disks of a class do not provide which is not in the input, and known by its name.
fn check_known_name(spec: &Node<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let name = spec.get("storageClassName").text()?;
    let cloud = cloud_of_name(name)?;
    let cluster = ctx.cluster();
    // A class of the input may be of another driver, and a volume that is written by hand may have the class.
    let has_name = |volume: &Object| volume.path(&["spec", "storageClassName"]).text() == Some(name);
    if cluster.of(Kind::STORAGE_CLASS).any(|class| class.name() == name)
        || cluster.of(Kind::PERSISTENT_VOLUME).any(has_name)
        || spec.get("selector").is_set()
    {
        return None;
    }
    // A block device of io2 may be attached to several nodes.
    let (mode, fault) = refused(spec, EBS_DRIVER, true)?;
    if matches!(cloud, Cloud::Google | Cloud::Several) && mode.text() != Some("ReadWriteMany") {
        return None;
    }
    let message = match cloud {
        Cloud::Amazon => {
            format!("`{name}` is by its name a class of EBS, whose driver rejects {}", mode.text()?)
        }
        Cloud::Google | Cloud::Azure => {
            format!("`{name}` is a class of disks, whose driver rejects {}", mode.text()?)
        }
        Cloud::Several => {
            format!("most classes called `{name}` have disks, whose drivers reject {}", mode.text()?)
        }
    };
    let finding = report(&mode, Fault { message, help: fault.help }, ctx);
    if cloud == Cloud::Several {
        finding.severity(Severity::Info);
    }
    Some(())
}

/// Whose disks a class has.
#[derive(Clone, Copy, PartialEq)]
enum Cloud {
    Amazon,
    Google,
    Azure,
    /// The disks of most clouds and distributions.
    Several,
}

/// The cloud with disks under a name: EKS makes `gp2`, and `gp3`, `io2` and `ebs-sc` are those of the documentation; GKE makes
/// `standard-rwo` and `premium-rwo`, AKS those that begin with `managed`. Their drivers refuse several writers of a file system
/// as well (gcp-compute-persistent-disk-csi-driver `validateVolumeCapability`, azuredisk-csi-driver `IsValidVolumeCapabilities`).
/// `standard` is the class of GKE and of kind, and `local-path` that of k3s, which is a folder of one node unless it is told to share.
fn cloud_of_name(name: &str) -> Option<Cloud> {
    match name {
        "standard" | "local-path" => return Some(Cloud::Several),
        "standard-rwo" | "premium-rwo" => return Some(Cloud::Google),
        "managed-csi" | "managed-csi-premium" | "managed-premium" => return Some(Cloud::Azure),
        _ => {}
    }
    let mut parts = name.split('-');
    let is_type = |part: &str| ["gp2", "gp3", "io1", "io2"].contains(&part);
    // `gp3-over-nfs`: a server of files on such a disk.
    let is_shared = |part: &str| {
        ["efs", "fsx", "nfs", "rwx", "shared", "longhorn", "ceph", "cephfs", "rook", "juicefs"]
            .contains(&part)
    };
    let is_ebs = is_type(parts.clone().next()?) || parts.clone().any(|part| part == "ebs");
    (is_ebs && !parts.any(is_shared)).then_some(Cloud::Amazon)
}

/// Reports a mode of a volume that is written by hand, as [`check_claim`] does for a claim.
pub(super) fn check_volume(volume: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = volume.get("spec");
    let driver = spec.path(&["csi", "driver"]);
    let driver =
        if spec.get("awsElasticBlockStore").is_set() { Some(IN_TREE_EBS_DRIVER) } else { driver.text() };
    let (mode, fault) = refused(&spec, driver?, true)?;
    report(&mode, fault, ctx);
    Some(())
}

struct Fault {
    message: String,
    help: &'static str,
}

fn report<'c>(mode: &Node<'_>, fault: Fault, ctx: &'c mut Context<'_>) -> &'c mut Finding {
    ctx.report(mode, fault.message).severity(Severity::Warning).help(fault.help)
}

/// The first mode of a claim or a volume that a driver refuses.
fn refused<'a>(spec: &Node<'a>, driver: &str, may_be_io2: bool) -> Option<(Node<'a>, Fault)> {
    let list = spec.get("accessModes");
    if list.has_unknown() || spec.get("volumeMode").is_unknown() {
        return None;
    }
    let modes: Vec<Node<'a>> = list.items().collect();
    let is_block = spec.get("volumeMode").text() == Some("Block");
    if is_of_ebs(driver) {
        let is_refused = |mode: &Node<'_>| match mode.text() {
            Some("ReadOnlyMany") => true,
            Some("ReadWriteMany") => !(is_block && may_be_io2),
            _ => false,
        };
        let mode = modes.into_iter().find(is_refused)?;
        let message = format!("the driver of EBS rejects {}: a volume is attached to one node", mode.text()?);
        let help = "write ReadWriteOnce, or take a file system, such as a class of EFS or FSx";
        return Some((mode, Fault { message, help }));
    }
    let is_read_only = |mode: &Node<'_>| mode.text() == Some("ReadOnlyMany");
    if !OF_FILE_SYSTEMS.contains(&driver) || !modes.iter().all(is_read_only) {
        return None;
    }
    let message = format!("`{driver}` mounts no volume as ReadOnlyMany: the pods do not start");
    let help = "write ReadWriteMany, and `readOnly: true` where pods mount the volume";
    Some((modes.into_iter().next()?, Fault { message, help }))
}
