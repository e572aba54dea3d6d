//! Each start of a pod changes the group of every file of a large volume.
//!
//! # Why
//! With `fsGroup` the kubelet walks through all files of an EBS volume and changes their group before it starts
//! the containers. It does so at each start of a pod, also where nothing has to be changed: a volume with
//! millions of files keeps a pod in ContainerCreating for minutes, after every rollout and every move to another
//! node. With `fsGroupChangePolicy: OnRootMismatch` it looks at the root folder alone if that has the group
//! already. It is reported for volumes of 500Gi and more, unless a model server uses them, whose files are few.
//!
//! # Fix
//! Write `fsGroupChangePolicy: OnRootMismatch`. The files that the pod itself writes have the group already.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: StatefulSet
//!  metadata: {name: pages}
//!  spec:
//!    serviceName: pages
//!    selector: {matchLabels: {app: pages}}
//!    template:
//!      metadata: {labels: {app: pages}}
//!      spec:
//!        securityContext:
//!          fsGroup: 1000 # <-
//! +        fsGroupChangePolicy: OnRootMismatch
//!        containers:
//!          - name: main
//!            image: example.com/pages:1.4.0
//!            volumeMounts: [{name: data, mountPath: /data}]
//!    volumeClaimTemplates:
//!      - metadata: {name: data}
//!        spec:
//!          accessModes: [ReadWriteOnce]
//!          storageClassName: gp3
//!          resources: {requests: {storage: 2Ti}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods>

use super::volumes::{claim_behind, is_block_class};
use crate::rules::prelude::*;
use crate::workload::server::likely_server_of;

pub(crate) static RULE: Rule = Rule {
    id: "group-changed-at-each-start",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS],
    docs: docs(include_str!("group_changed_at_each_start.rs")),
    check: Check::PodTemplate(check),
    ..Rule::info(Group::Availability)
};

/// The size in bytes from which a walk through the files of a volume may take minutes.
const LARGE: i128 = 500 << 30;

/// The spec of a large claim that the pods of a template write to, if its volume is of EBS, with the object that has it.
fn large_claim<'i>(
    object: &'i Object,
    template: &Template<'i>,
    name: &str,
    ctx: &Context<'i>,
) -> Option<(&'i Object, Node<'i>)> {
    let (owner, spec) = claim_behind(object, template, name, ctx)?;
    let size = Quantity::at(&spec.path(&["resources", "requests", "storage"]))?;
    let is_of_ebs = spec.get("volumeName").is_absent()
        && spec.get("storageClassName").text().is_some_and(|class| is_block_class(class, ctx));
    (is_of_ebs && !owner.may_lack_fields() && size.nano() >= LARGE * 1_000_000_000).then_some((owner, spec))
}

/// Kubernetes 1.37: `SetVolumeOwnership` of `pkg/volume/volume_linux.go`; the driver of EBS leaves it to the kubelet
/// (`fsGroupPolicy: File` of its CSIDriver).
fn check(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = ctx.object();
    let context = template.spec.get("securityContext");
    let (group, policy) = (context.get("fsGroup"), context.get("fsGroupChangePolicy"));
    group.int()?;
    let is_always = policy.is_absent() || policy.text() == Some("Always");
    if object.may_lack_fields() || context.has_unknown_key() || !is_always {
        return None;
    }
    if template.containers().any(|container| likely_server_of(&container).is_some()) {
        return None;
    }
    let mounts: Vec<Node<'_>> = template
        .containers()
        .flat_map(|container| container.get("volumeMounts").items().collect::<Vec<_>>())
        .collect();
    let (owner, claim, name) = mounts.iter().find_map(|mount| {
        let name = mount.get("name").text()?;
        let (owner, claim) = large_claim(object, template, name, ctx)?;
        Some((owner, claim, name))
    })?;
    let size = claim.path(&["resources", "requests", "storage"]);
    let message = format!(
        "each start changes the group of every file of `{}`, {}",
        ellipsize(name),
        size.string_or_number()?
    );
    let place = if policy.is_set() { policy } else { group };
    ctx.report(&place, message).help("write `fsGroupChangePolicy: OnRootMismatch`").related(
        owner,
        &size,
        "the size of the volume",
    );
    None
}
