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

/// Whether the volume of a claim is attached to one node at a time, as far as the name of its class or the class itself says. A claim
/// without a class has the default one of the input.
pub(super) fn is_block_storage(claim: &Object, ctx: &Context<'_>) -> bool {
    let class = claim.path(&["spec", "storageClassName"]);
    !is_bound(claim)
        && match class.is_absent() {
            true => default_class(claim, ctx).is_some_and(|class| is_block_class(class.name(), ctx)),
            false => class.text().is_some_and(|name| is_block_class(name, ctx)),
        }
}

/// Whether the volume of a claim is of a default class that the input does not show. Most clusters of EKS have one of EBS.
pub(super) fn has_unknown_default(claim: &Object, ctx: &Context<'_>) -> bool {
    ctx.platform().eks
        && !claim.may_lack_fields()
        && !is_bound(claim)
        && claim.path(&["spec", "storageClassName"]).is_absent()
        && !ctx.cluster().has_any(Kind::STORAGE_CLASS)
}

/// Whether a claim is for a volume that exists.
fn is_bound(claim: &Object) -> bool {
    ["volumeName", "selector", "dataSourceRef"].iter().any(|field| claim.path(&["spec", field]).is_set())
}

/// The only default class beside a claim.
fn default_class<'a>(claim: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let classes = ctx.cluster().of(Kind::STORAGE_CLASS);
    let mut defaults = classes.filter(|class| is_default(class) && ctx.cluster().pairs(claim, class));
    defaults.next().filter(|_| defaults.next().is_none())
}

/// Whether volumes of a class are attached to one node at a time, as far as its name or the class itself says.
pub(super) fn is_block_class(name: &str, ctx: &Context<'_>) -> bool {
    /// Local disks, on which both pods start, and file systems, which do not enforce the mode.
    const OTHERS: [&str; 15] = [
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
    ];
    const BLOCK: [&str; 14] = [
        "gp2",
        "gp3",
        "io1",
        "io2",
        "st1",
        "sc1",
        "ebs",
        "block",
        "rbd",
        "longhorn",
        "disk",
        "premium-rwo",
        "standard-rwo",
        "managed-csi",
    ];
    if let Some(class) = ctx.partner(Kind::STORAGE_CLASS, "default", name) {
        let driver = class.get("provisioner");
        return driver.text().is_some_and(|driver| !mentions(driver, &OTHERS) && mentions(driver, &BLOCK));
    }
    mentions(name, &BLOCK) && !mentions(name, &OTHERS)
}
