//! A claim cannot be bound to its volume, or asks for a mode its driver rejects.
//!
//! # Why
//! A PersistentVolumeClaim with `volumeName` is bound to that volume only if both have the same class and
//! volume mode, and if the volume has each access mode that the claim asks for and is as large. Otherwise
//! the claim stays Pending, and so do the pods that mount it, for ever: file systems of EFS and FSx, which
//! hold models and datasets, are often provided like this. A volume with a `claimRef` to the claim is bound
//! without a look at its class; one with a `claimRef` to another claim is never bound to this one. The
//! driver of a class also has to provide the mode: EBS attaches a volume to one node, or as a block device
//! of io2 to many, and the drivers of EFS and FSx mount none that is for many readers only. A class that is
//! not in the input counts by its name where that is one for disks everywhere: `gp2`, `gp3`, `ebs-sc`,
//! `standard-rwo`, `managed-csi`. `standard` and `local-path`, which most clusters have for disks, are
//! information.
//!
//! # Fix
//! Write the same class, mode and size in both. A volume without a class needs `storageClassName: ""` in the
//! claim: without the field, the claim gets the default class of the cluster.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: PersistentVolume
//!  metadata: {name: models}
//!  spec:
//!    capacity: {storage: 1200Gi}
//!    accessModes: [ReadWriteMany]
//!    storageClassName: fsx-models
//!    csi:
//!      driver: fsx.csi.aws.com
//!      volumeHandle: fs-0f1e2d3c4b5a69788
//!      volumeAttributes: {dnsname: fs-0f1e2d3c4b5a69788.fsx.eu-west-1.amazonaws.com, mountname: mvxkb}
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: models, namespace: serving}
//!  spec:
//!    volumeName: models
//! -  storageClassName: fsx # <-
//! +  storageClassName: fsx-models
//!    accessModes: [ReadWriteMany]
//!    resources: {requests: {storage: 1200Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume>
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#class-1>

use super::access_modes::{check_claim, check_volume, own_claims};
use crate::cluster::storage::is_default;
use crate::cluster::together::is_renamed;
use crate::rules::prelude::*;

/// The annotation that takes precedence over the field, on claims and volumes.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) static RULE: Rule = Rule {
    id: "volume-claim-unbindable",
    kinds: kinds![[Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME], WORKLOAD_KINDS],
    reads: &[Kind::PERSISTENT_VOLUME, Kind::STORAGE_CLASS],
    pairs: &[Pair { with: &[Kind::PERSISTENT_VOLUME], partners: claims_of, beside: default_classes }],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("volume_claim_unbindable.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Scheduling)
};

fn claims_of(volume: &Object, cluster: &Cluster) -> Vec<Object> {
    let names = |claim: &&Object| claim.path(&["spec", "volumeName"]).text() == Some(volume.name());
    cluster.of(Kind::PERSISTENT_VOLUME_CLAIM).filter(names).cloned().collect()
}

fn default_classes(_: &Object, _: &Object, cluster: &Cluster) -> Vec<Object> {
    cluster.of(Kind::STORAGE_CLASS).filter(|class| is_default(class)).cloned().collect()
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    if object.is(Kind::PERSISTENT_VOLUME) {
        return check_volume(object, ctx);
    }
    if object.is(Kind::PERSISTENT_VOLUME_CLAIM) {
        check_claim(&object.get("spec"), ctx);
        return named_volume(object, ctx);
    }
    for template in templates(object) {
        for claim in own_claims(object, &template) {
            check_claim(&claim, ctx);
        }
    }
    None
}

/// What `checkVolumeSatisfyClaim` of the controller compares (Kubernetes 1.37, pkg/controller/volume/persistentvolume).
fn named_volume(claim: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = claim.get("spec");
    let name = spec.get("volumeName").text().filter(|name| !name.is_empty())?;
    let volume = ctx.partner(Kind::PERSISTENT_VOLUME, "default", name)?;
    // kustomize does not change `volumeName` and `claimRef` with the names of volumes and claims.
    if volume.may_lack_fields() || is_renamed(volume) || is_renamed(claim) {
        return None;
    }
    let of_volume = volume.get("spec");
    let reserved = of_volume.get("claimRef");
    if reserved.is_set() {
        return reserved_for_another(claim, volume, &spec, &reserved, ctx);
    }
    class(claim, volume, ctx);
    modes(claim, volume, ctx);
    let (wanted, capacity) =
        (spec.path(&["resources", "requests", "storage"]), of_volume.path(&["capacity", "storage"]));
    if let Some((more, has)) = Quantity::at(&wanted).zip(Quantity::at(&capacity))
        && more.milli() > has.milli()
    {
        let (more, has) = (wanted.text()?, capacity.text()?);
        let message =
            format!("the volume `{name}` has {has}, so that a claim of {more} is never bound to it");
        ctx.report(&wanted, message)
            .help(format!("ask for {has} or less"))
            .related(volume, &capacity, "the size of the volume")
            .fix(Fix::unsafe_(format!("ask for {has}")).set(&wanted, json!(has)));
    }
    None
}

/// A volume with a `claimRef` is for that claim alone.
fn reserved_for_another(
    claim: &Object,
    volume: &Object,
    spec: &Node<'_>,
    reserved: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let (name, namespace) = (reserved.get("name").text()?, reserved.get("namespace").text()?);
    // Where the claim has no namespace, that of the volume says where it is applied.
    let is_same = name == claim.name() && claim.namespace().is_none_or(|own| own == namespace);
    if is_same || reserved.has_unknown() {
        return None;
    }
    let message = format!("the volume `{}` is reserved for the claim `{namespace}/{name}`", volume.name());
    ctx.report(&spec.get("volumeName"), message)
        .help("name another volume, or correct the `claimRef` of this one: the claim stays Pending")
        .related(volume, reserved, "reserved here");
    None
}

fn class(claim: &Object, volume: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = ["spec", "storageClassName"];
    let (wanted, has) = (claim.path(&field), volume.path(&field));
    let annotated = |object: &Object| object.path(&["metadata", "annotations", CLASS_ANNOTATION]).is_set();
    if annotated(claim) || annotated(volume) || wanted.is_unknown() || has.is_unknown() {
        return None;
    }
    let class = has.text().unwrap_or_default();
    let defaulted = ctx.cluster().of(Kind::STORAGE_CLASS).find(|class| is_default(class));
    let asked = match (wanted.text(), defaulted) {
        (Some(asked), _) => asked,
        (None, Some(default)) => default.name(),
        // The cluster may have a default class that is not in the input.
        (None, None) => return None,
    };
    if asked == class || !wanted.is_set() && !ctx.pairs_with(defaulted?) {
        return None;
    }
    let name = volume.name();
    let quoted = if class.is_empty() { "\"\"" } else { class };
    let has_class = if class.is_empty() { "no class".to_owned() } else { format!("the class `{class}`") };
    let message = match wanted.is_set() {
        true if asked.is_empty() => {
            format!("the claim has no class, and its volume `{name}` has {has_class}")
        }
        true => format!("the class is not that of the volume `{name}`, which has {has_class}"),
        false => {
            format!("the claim gets the default class `{asked}`, and its volume `{name}` has {has_class}")
        }
    };
    let finding = ctx.report(&wanted, message);
    let finding =
        finding.help(format!("write `storageClassName: {quoted}`: the claim stays Pending otherwise"));
    let finding = finding.related(volume, &has, "the class of the volume");
    finding.fix(Fix::unsafe_("write the class of the volume".to_owned()).set(&wanted, json!(class)));
    None
}

fn modes(claim: &Object, volume: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let field = ["spec", "accessModes"];
    let (wanted, has) = (claim.path(&field), volume.path(&field));
    let all = |modes: &Node<'_>| {
        modes.items().map(|mode| mode.text().map(str::to_owned)).collect::<Option<Vec<_>>>()
    };
    let (asked, offered) = (all(&wanted)?, all(&has)?);
    for (mode, node) in asked.iter().zip(wanted.items()).filter(|(mode, _)| !offered.contains(mode)) {
        let offered = offered.join(", ");
        let message = format!("the volume `{}` has the access modes {offered}, not {mode}", volume.name());
        ctx.report(&node, message)
            .help(format!("write {offered}: the claim stays Pending otherwise"))
            .related(volume, &has, "the modes of the volume");
    }
    let mode = |object: &Object| {
        let mode = object.path(&["spec", "volumeMode"]);
        (!mode.is_unknown()).then(|| mode.text().unwrap_or("Filesystem").to_owned())
    };
    let (asked, has) = (mode(claim)?, mode(volume)?);
    if asked != has {
        let message = format!("the volume `{}` has the mode {has}, not {asked}", volume.name());
        ctx.report(&claim.path(&["spec", "volumeMode"]), message)
            .help(format!("write `volumeMode: {has}`: the claim stays Pending otherwise"))
            .related(volume, &volume.path(&["spec", "volumeMode"]), "the mode of the volume");
    }
    None
}
