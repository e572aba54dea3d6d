//! A rollout waits for a volume that the old pod holds.
//!
//! # Why
//! A `ReadWriteOnce` volume of block storage can be attached to one node. A Deployment with one replica
//! starts the new pod before it ends the old one: on another node the new pod stays in
//! `ContainerCreating` with a Multi-Attach error, and the old one is not ended, because the new one
//! never becomes ready. Whether it works depends on where the scheduler puts the pod. With
//! `ReadWriteOncePod` it never does. Storage classes that are local or shared by their name are left
//! out, and so is the default class, unless the input has it or shows that the cluster is one of EKS.
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
use super::volumes::{is_block_storage, single_node_mode, stays_on_one_node};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "volume-blocks-rollout",
    kinds: &[Kind::DEPLOYMENT],
    reads: &[
        Kind::PERSISTENT_VOLUME_CLAIM,
        Kind::STORAGE_CLASS,
        Kind::NODE_POOL,
        Kind::HPA,
        Kind::SCALED_OBJECT,
    ],
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
        if stays_on_one_node(&template) {
            continue;
        }
        for volume in template.spec.get("volumes").items() {
            let source = volume.get("persistentVolumeClaim");
            let name = source.get("claimName");
            let Some(claim) = name
                .text()
                .and_then(|name| ctx.cluster().unique(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name))
            else {
                continue;
            };
            if claim.is_partial()
                || !ctx.cluster().likely_pairs(object, claim)
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
