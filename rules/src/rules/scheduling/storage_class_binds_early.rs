//! A StorageClass of EBS makes volumes before their pods have a node.
//!
//! # Why
//! With `volumeBindingMode: Immediate`, which is also the default, a volume of EBS is made as soon as its
//! claim exists, in a zone of the driver's choice. The pod then has to follow: a pod that mounts two such
//! volumes may have them in two zones, and fits no node. One that needs a zone, or a GPU type that only some
//! zones have, waits in the same way.
//!
//! # Fix
//! Write `volumeBindingMode: WaitForFirstConsumer`. The field cannot be changed: make a new class.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: storage.k8s.io/v1
//!  kind: StorageClass
//!  metadata: {name: fast}
//!  provisioner: ebs.csi.aws.com
//! -volumeBindingMode: Immediate # <-
//! +volumeBindingMode: WaitForFirstConsumer
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>
//! - <https://karpenter.sh/docs/concepts/scheduling/#persistent-volume-topology>

use super::access_modes::{is_of_ebs, own_claims};
use crate::catalog::ZONE;
use crate::cluster::storage::is_default;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "storage-class-binds-early",
    kinds: &[Kind::STORAGE_CLASS],
    reads: kinds![[Kind::PERSISTENT_VOLUME_CLAIM, Kind::NODE_POOL], WORKLOAD_KINDS],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("storage_class_binds_early.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

fn check(class: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let mode = class.get("volumeBindingMode");
    let topologies = class.get("allowedTopologies");
    let is_late = mode.is_unknown() || mode.text().is_some_and(|mode| mode != "Immediate");
    if class.may_lack_fields() || is_late || topologies.has_unknown() {
        return None;
    }
    if !class.get("provisioner").text().is_some_and(is_of_ebs) || is_of_one_zone(&topologies) {
        return None;
    }
    if has_pools_of_one_zone(ctx) {
        return None;
    }
    let name = class.display_name();
    let both = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind)).find_map(|workload| {
        let claim = second_claim(class, workload, ctx)?;
        Some((workload.clone(), claim.pointer()))
    });
    let fix = Fix::unsafe_("wait for the first pod; the field of a class that exists cannot be changed");
    let fix = fix.set(&mode, json!("WaitForFirstConsumer"));
    let Some((workload, pointer)) = both else {
        ctx.report(&mode, format!("volumes of `{name}` are made before their pods have a node, in any zone"))
            .help("write `volumeBindingMode: WaitForFirstConsumer`")
            .fix(fix);
        return None;
    };
    let message = format!(
        "`{}` mounts two volumes of `{name}`, which may be made in two zones: no node has both",
        workload.display_name()
    );
    ctx.report(&mode, message)
        .severity(Severity::Warning)
        .help("write `volumeBindingMode: WaitForFirstConsumer`")
        .related(&workload, &workload.root().at(&pointer), "the second volume")
        .fix(fix);
    None
}

/// Whether the topologies of a class leave one zone.
fn is_of_one_zone(topologies: &Node<'_>) -> bool {
    let expressions = topologies.items().flat_map(|term| term.get("matchLabelExpressions").items());
    let mut zones: Vec<&str> = expressions
        .filter(|expression| expression.get("key").text().is_some_and(|key| key.ends_with("/zone")))
        .flat_map(|expression| expression.get("values").items())
        .filter_map(|zone| zone.text())
        .collect();
    zones.sort_unstable();
    zones.dedup();
    zones.len() == 1
}

/// Whether all NodePools that are known start nodes in one zone.
fn has_pools_of_one_zone(ctx: &Context<'_>) -> bool {
    let zone = |pool: &Object| -> Option<String> {
        let zones = NodePool::new(pool)?.requirement(ZONE)?.get("values");
        let mut zones = zones.items();
        let first = zones.next()?.text()?.to_owned();
        zones.next().is_none().then_some(first)
    };
    let mut pools = ctx.cluster().of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool)).map(zone);
    let Some(Some(first)) = pools.next() else { return false };
    pools.all(|zone| zone.as_ref() == Some(&first))
}

/// The second claim of the pods of a workload that gets this class.
fn second_claim<'a>(class: &Object, workload: &'a Object, ctx: &Context<'_>) -> Option<Node<'a>> {
    if workload.is_partial() || !ctx.pairs_with(workload) {
        return None;
    }
    let is_of_class = |spec: &Node<'_>| match spec.get("storageClassName") {
        name if name.is_set() => name.text() == Some(class.name()),
        _ => is_default(class),
    };
    templates(workload).iter().find_map(|template| {
        let own = own_claims(workload, template).into_iter().filter(is_of_class);
        let volumes = template.spec.get("volumes").items();
        let named =
            volumes.map(|volume| volume.path(&["persistentVolumeClaim", "claimName"])).filter(|name| {
                let claim = name.text().and_then(|name| {
                    ctx.cluster().unique(Kind::PERSISTENT_VOLUME_CLAIM, workload.namespace_or_default(), name)
                });
                claim.is_some_and(|claim| {
                    let spec = claim.get("spec");
                    !spec.get("volumeName").is_set() && ctx.pairs_with(claim) && is_of_class(&spec)
                })
            });
        own.chain(named).nth(1)
    })
}
