//! Several pods of a workload share a volume that only one node can attach.
//!
//! # Why
//! A claim with the access mode ReadWriteOnce is a volume of one node: EBS, for example. As soon as the
//! scheduler places a second replica on another node, that pod stays in ContainerCreating with "Multi-Attach
//! error for volume". With ReadWriteOncePod it stays Pending on the same node as well. It works as long as
//! all replicas happen to share a node, and breaks with the first scale-up, rollout or consolidation;
//! `strategy: Recreate` does not change that. The maximum of an autoscaler counts, and so do the pods of a
//! LeaderWorkerSet, of a Ray cluster and of an InferenceService, whose model may be at `pvc://`.
//!
//! # Fix
//! Use a StatefulSet with `volumeClaimTemplates`, or a file system that many nodes can mount
//! (ReadWriteMany: EFS, FSx).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: wiki}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: wiki}}
//!    template:
//!      metadata: {labels: {app: wiki}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/wiki:1.4.0
//!            volumeMounts: [{name: pages, mountPath: /pages}]
//!        volumes:
//!          - name: pages
//!            persistentVolumeClaim:
//!              claimName: pages # <-
//!  ---
//!  apiVersion: v1
//!  kind: PersistentVolumeClaim
//!  metadata: {name: pages}
//!  spec:
//! -  accessModes: [ReadWriteOnce]
//! -  storageClassName: gp3
//! +  accessModes: [ReadWriteMany]
//! +  storageClassName: efs
//!    resources: {requests: {storage: 20Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html>

use super::serving::{is_owned, tell_autoscaler};
use super::volumes::{is_block_storage, single_node_mode, stays_on_one_node};
use crate::rules::prelude::*;
use crate::workload::gang::{Members, component_replicas, members};

pub(crate) static RULE: Rule = Rule {
    id: "volume-shared-by-replicas",
    kinds: &[
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::REPLICA_SET,
        Kind::REPLICATION_CONTROLLER,
        Kind::ROLLOUT,
        Kind::LEADER_WORKER_SET,
        Kind::RAY_CLUSTER,
        Kind::RAY_SERVICE,
        Kind::INFERENCE_SERVICE,
    ],
    reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS, Kind::HPA, Kind::SCALED_OBJECT],
    docs: docs(include_str!("volume_shared_by_replicas.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) {
        return None;
    }
    let templates = templates(object);
    let mounts = templates.iter().flat_map(|template| {
        let volumes = claims(object, template).into_iter();
        volumes.filter(|_| !stays_on_one_node(template)).map(move |name| (template, name))
    });
    let mounts: Vec<(&Template<'_>, Node<'_>)> = mounts.collect();
    for (_, name) in &mounts {
        let text = name.text();
        let namespace = object.namespace_or_default();
        let Some(claim) = text
            .map(claim_of)
            .and_then(|text| ctx.cluster().unique(Kind::PERSISTENT_VOLUME_CLAIM, namespace, text))
        else {
            continue;
        };
        if claim.is_partial() || !ctx.cluster().likely_pairs(object, claim) {
            continue;
        }
        let Some(mode) = single_node_mode(claim) else {
            continue;
        };
        // Every driver enforces the mode of one pod; that of one node only those that attach a disk.
        if mode != "ReadWriteOncePod" && !is_block_storage(claim, ctx) {
            continue;
        }
        let same = mounts.iter().filter(|(_, other)| other.text().map(claim_of) == text.map(claim_of));
        let same: Vec<&Template<'_>> = same.map(|(template, _)| *template).collect();
        if let Some(pods) = most_pods(object, &same, ctx).filter(|pods| pods.number > 1) {
            report(object, claim, mode, name, &pods, ctx);
            return None;
        }
    }
    None
}

/// The places of a template that name a claim of all its pods, for writing.
fn claims<'a>(object: &'a Object, template: &Template<'a>) -> Vec<Node<'a>> {
    // A template of the same name replaces the volume with a claim for each replica.
    let own = object.path(&["spec", "volumeClaimTemplates"]);
    let of_replica =
        |name: &Node<'_>| own.items().any(|one| one.path(&["metadata", "name"]).text() == name.text());
    let volumes = template.spec.get("volumes").items().filter(|volume| !of_replica(&volume.get("name")));
    let sources = volumes.map(|volume| volume.get("persistentVolumeClaim"));
    let mut out: Vec<Node<'a>> = sources
        .filter(|source| !source.get("readOnly").is_set())
        .map(|source| source.get("claimName"))
        .filter(Node::is_set)
        .collect();
    let model = template.spec.path(&["model", "storageUri"]);
    out.extend(model.text().is_some_and(|uri| uri.starts_with(BY_ADDRESS)).then_some(model));
    out
}

/// The beginning of the address of a model in a claim: `pvc://models/fraud/v3`.
const BY_ADDRESS: &str = "pvc://";

/// The name of a claim, written alone or in the address of a model.
fn claim_of(text: &str) -> &str {
    match text.strip_prefix(BY_ADDRESS) {
        Some(path) => path.split('/').next().unwrap_or(path),
        None => text,
    }
}

/// The largest number of pods that use a volume at a time.
struct Pods {
    number: i64,
    autoscaled: bool,
}

fn most_pods(object: &Object, users: &[&Template<'_>], ctx: &Context<'_>) -> Option<Pods> {
    match object.group() {
        "serving.kserve.io" => {
            let (least, most) = component_replicas(users.first()?)?;
            Some(Pods { number: most, autoscaled: most > least })
        }
        "ray.io" | "leaderworkerset.x-k8s.io" => {
            let is_user =
                |member: &Members<'_>| users.iter().any(|user| user.place.1 == member.template.place.1);
            let number = members(object)?.iter().filter(|one| is_user(one)).map(|one| one.pods).sum();
            Some(Pods { number, autoscaled: false })
        }
        _ => {
            let replicas = ctx.cluster().views().replicas(object)?;
            Some(Pods { number: replicas.max, autoscaled: replicas.autoscaled })
        }
    }
}

fn report(
    object: &Object,
    claim: &Object,
    mode: &str,
    name: &Node<'_>,
    pods: &Pods,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let most = if pods.autoscaled { "up to " } else { "" };
    let limit = match mode {
        "ReadWriteOncePod" => "one pod can use it",
        _ => "one node can attach it",
    };
    let what = match object.group() {
        "ray.io" | "leaderworkerset.x-k8s.io" => "pods",
        _ => "replicas",
    };
    let message = format!(
        "{most}{} {what} of `{}` share `{}`, which is {mode}: {limit}",
        pods.number,
        object.display_name(),
        claim.display_name()
    );
    let autoscaler = ctx.cluster().views().autoscaler_of(object).filter(|_| pods.autoscaled);
    let finding = ctx.report(name, message);
    tell_autoscaler(finding, autoscaler);
    finding
        .help(match what {
            "pods" => "use a ReadWriteMany claim of EFS or FSx",
            _ => "use `volumeClaimTemplates` of a StatefulSet, or a ReadWriteMany claim of EFS or FSx",
        })
        .related(claim, &claim.path(&["spec", "accessModes"]), "the volume");
    None
}
