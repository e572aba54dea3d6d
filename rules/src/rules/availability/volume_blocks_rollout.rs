//! A rollout waits for a volume that the old pod holds.
//!
//! # Why
//! A `ReadWriteOnce` volume of block storage can be attached to one node. A Deployment with one replica
//! starts the new pod before it ends the old one: on another node the new pod stays in
//! `ContainerCreating` with a Multi-Attach error, and the old one is not ended, because the new one
//! never becomes ready. Whether it works depends on where the scheduler puts the pod. With
//! `ReadWriteOncePod` it never does. Storage classes that are local or shared by their name are left
//! out.
//!
//! # Fix
//! Write `strategy.type: Recreate`, which ends the old pod first, or use a StatefulSet. A volume that
//! several pods read belongs on shared storage, such as EFS or FSx.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: registry}
//!  spec:
//!    replicas: 1
//! +  strategy: {type: Recreate}
//!    selector: {matchLabels: {app: registry}}
//!    template:
//!      metadata: {labels: {app: registry}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/registry:2.8.3
//!            resources: {requests: {cpu: 100m, memory: 256Mi}}
//!            volumeMounts: [{name: data, mountPath: /data}]
//!        volumes:
//!          - name: data
//!            persistentVolumeClaim:
//! -            claimName: registry # <-
//! +            claimName: registry
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: registry}
//!  spec:
//!    accessModes: [ReadWriteOnce]
//!    storageClassName: gp3
//!    resources: {requests: {storage: 50Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#recreate-deployment>

use super::rollout::rollout;
use super::serving::is_owned;
use crate::rules::prelude::*;

const CLAIM: Kind = Kind::new("", "PersistentVolumeClaim");
const STORAGE_CLASS: Kind = Kind::new("storage.k8s.io", "StorageClass");

pub(crate) static RULE: Rule = Rule {
    id: "volume-blocks-rollout",
    kinds: &[Kind::DEPLOYMENT],
    reads: &[CLAIM, STORAGE_CLASS, Kind::HPA, Kind::SCALED_OBJECT],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("volume_blocks_rollout.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is_partial() || is_owned(object) {
        return None;
    }
    let claims = |template: &Template<'_>| {
        template.spec.get("volumes").items().any(|volume| volume.get("persistentVolumeClaim").is_set())
    };
    if !templates(object).iter().any(claims) {
        return None;
    }
    let replicas = ctx.cluster().views().replicas(object)?;
    let update = rollout(object, replicas.max)?;
    // Of more replicas than one, the others would have the same trouble without a rollout.
    if replicas.max != 1 || update.surge == 0 || update.unavailable > 0 {
        return None;
    }
    let namespace = object.namespace_or_default();
    for template in templates(object) {
        // Pods that are held on one node share its volumes.
        let selector = template.spec.get("nodeSelector");
        let affinity = template.spec.get("affinity");
        let stays = template.spec.get("nodeName").is_set()
            || selector.is_unknown()
            || selector.get("kubernetes.io/hostname").is_set()
            || affinity.is_set();
        if stays {
            continue;
        }
        for volume in template.spec.get("volumes").items() {
            let source = volume.get("persistentVolumeClaim");
            let name = source.get("claimName");
            let Some(claim) = name.text().and_then(|name| ctx.cluster().unique(CLAIM, namespace, name))
            else {
                continue;
            };
            if claim.is_partial()
                || !ctx.cluster().surely_pairs(object, claim)
                || source.get("readOnly").is_set()
            {
                continue;
            }
            let Some(mode) = single_node_mode(claim).filter(|_| is_block_storage(claim, ctx)) else {
                continue;
            };
            let strategy = object.path(&["spec", "strategy"]);
            let message = format!(
                "a rollout of `{}` may never end: the new pod waits for {mode} volume `{}` of the old one",
                object.display_name(),
                claim.display_name()
            );
            let finding = ctx.report(&name, message);
            finding
                .help("write `strategy.type: Recreate`, which ends the old pod before the new one starts")
                .related(claim, &claim.path(&["spec", "accessModes"]), "the volume");
            if !strategy.is_set() {
                let fix = Fix::new("end the old pod before the new one starts", Safety::Unsafe);
                finding.fix(fix.set(&strategy.get("type"), json!("Recreate")));
            }
            // One strategy for all volumes.
            return None;
        }
    }
    None
}

/// The access mode of a claim that one node or one pod at a time can use.
fn single_node_mode(claim: &Object) -> Option<&'static str> {
    let modes = claim.path(&["spec", "accessModes"]);
    let modes: Vec<&str> = modes.items().map(|mode| mode.text()).collect::<Option<_>>()?;
    match modes.as_slice() {
        ["ReadWriteOnce"] => Some("ReadWriteOnce"),
        ["ReadWriteOncePod"] => Some("ReadWriteOncePod"),
        _ => None,
    }
}

/// Whether the volume of a claim is attached to one node at a time, as far as the name of its class or the class itself says.
fn is_block_storage(claim: &Object, ctx: &Context<'_>) -> bool {
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
    let class = claim.path(&["spec", "storageClassName"]);
    if claim.path(&["spec", "volumeName"]).is_set() || class.is_unknown() {
        return false;
    }
    let Some(name) = class.text() else {
        // On EKS the default class is EBS, or the cluster has none.
        return false;
    };
    let has = |text: &str, words: &[&str]| {
        let text = text.to_ascii_lowercase();
        words.iter().any(|word| text.contains(word))
    };
    if let Some(class) = ctx.cluster().unique(STORAGE_CLASS, "default", name) {
        let driver = class.get("provisioner");
        return driver.text().is_some_and(|driver| !has(driver, &OTHERS) && has(driver, &BLOCK));
    }
    has(name, &BLOCK) && !has(name, &OTHERS)
}
