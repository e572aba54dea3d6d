//! Several pods of a workload share a volume that only one node can attach.
//!
//! # Why
//! A claim with the access mode ReadWriteOnce is a volume of one node: EBS, for example. As soon as the
//! scheduler places a second replica on another node, that pod stays in ContainerCreating with "Multi-Attach
//! error for volume". With ReadWriteOncePod it stays Pending on the same node as well. It works as long as
//! all replicas happen to share a node, and breaks with the first scale-up, rollout or consolidation;
//! `strategy: Recreate` does not change that. The maximum of an autoscaler counts, and so do the pods of a
//! LeaderWorkerSet, of a Ray cluster and of an InferenceService, whose model may be at `pvc://`. Two workloads
//! with one claim have the same trouble; a Job is left out, as it may end before the other one starts. A Pod that
//! only sleeps, through which people copy files, holds the volume until it is deleted: that is information.
//!
//! A claim without a class has the default one of the cluster: that of the input, or else what EKS clusters have
//! most often, EBS, which is information as well.
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
use super::volumes::{
    has_unknown_default, is_block_class, is_block_storage, single_node_mode, stays_on_one_node,
};
use crate::cluster::views::{claim_of, claims};
use crate::rules::prelude::*;
use crate::workload::gang::{Members, component_replicas, members};
use crate::workload::template::REQUIRED_AFFINITY;

pub(crate) static RULE: Rule = Rule {
    id: "volume-shared-by-replicas",
    kinds: &[
        Kind::DEPLOYMENT,
        Kind::STATEFUL_SET,
        Kind::REPLICA_SET,
        Kind::CRON_JOB,
        Kind::REPLICATION_CONTROLLER,
        Kind::ROLLOUT,
        Kind::LEADER_WORKER_SET,
        Kind::RAY_CLUSTER,
        Kind::RAY_SERVICE,
        Kind::INFERENCE_SERVICE,
        Kind::NIM_SERVICE,
    ],
    reads: kinds![
        [Kind::PERSISTENT_VOLUME_CLAIM, Kind::STORAGE_CLASS, Kind::NODE_POOL],
        [Kind::HPA, Kind::SCALED_OBJECT, Kind::NIM_CACHE],
        WORKLOAD_KINDS
    ],
    docs: docs(include_str!("volume_shared_by_replicas.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() || is_owned(object) {
        return None;
    }
    if object.is(Kind::NIM_SERVICE) {
        return of_nim(object, ctx);
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
        let Some(mode) = single_node_mode(claim) else { continue };
        // Every driver enforces the mode of one pod; that of one node only those that attach a disk.
        let is_enforced = mode == "ReadWriteOncePod" || is_block_storage(claim, ctx);
        let is_by_default = !is_enforced && has_unknown_default(claim, ctx);
        if !is_enforced && !is_by_default {
            continue;
        }
        let same = mounts.iter().filter(|(_, other)| other.text().map(claim_of) == text.map(claim_of));
        let same: Vec<&Template<'_>> = same.map(|(template, _)| *template).collect();
        if let Some(pods) = most_pods(object, &same, ctx).filter(|pods| pods.number > 1) {
            report(object, claim, mode, name, &pods, is_by_default, ctx);
            return None;
        }
        if is_by_default {
            continue;
        }
        if let Some(other) = other_user(object, claim, ctx) {
            let (own, others) = (object.display_name(), other.display_name());
            let message =
                format!("`{own}` and `{others}` share `{}`, which is {mode}: {}", claim.name(), limit(mode));
            let finding = ctx.report(name, message);
            if other.is(Kind::POD) {
                finding
                    .severity(Severity::Info)
                    .help(format!("delete the Pod once the files are there, or use a {WIDE_CLAIM}"));
            } else {
                finding.help(format!("use a {WIDE_CLAIM}, or a claim for each of them"));
            }
            finding.related(claim, &claim.path(&["spec", "accessModes"]), "the volume").related(
                other,
                &other.path(&["metadata", "name"]),
                "it uses the volume as well",
            );
            return None;
        }
    }
    None
}

/// Reports a NIMService of several pods whose model is on a volume of one node: that of its NIMCache, or its own
/// (`api/apps/v1alpha1` of k8s-nim-operator 1.0 to 3.0).
fn of_nim(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let scale = spec.get("scale");
    let autoscaled = scale.get("enabled").bool() == Some(true);
    let replicas = if autoscaled { scale.path(&["hpa", "maxReplicas"]) } else { spec.get("replicas") };
    let number = replicas.int().filter(|number| *number > 1)?;
    let stays = nim_stays_on_one_node(&spec);
    let cache = spec.path(&["storage", "nimCache", "name"]);
    let (owner, what) = match cache.text() {
        Some(name) => {
            let owner = ctx.cluster().unique(Kind::NIM_CACHE, object.namespace_or_default(), name)?;
            (owner, format!("the volume of NIMCache `{}`", ellipsize(name)))
        }
        None if cache.is_set() => return None,
        None => (object, "one volume".to_owned()),
    };
    let volume = owner.path(&["spec", "storage", "pvc"]);
    let place = volume.get("volumeAccessMode");
    let mode = place.text().filter(|mode| ["ReadWriteOnce", "ReadWriteOncePod"].contains(mode))?;
    let is_enforced = mode != "ReadWriteOnce"
        || volume.get("storageClass").text().is_some_and(|class| is_block_class(class, ctx));
    let is_made = volume.get("create").bool() == Some(true);
    let is_unsure = owner.may_lack_fields() || !ctx.cluster().likely_pairs(object, owner);
    if stays || !is_enforced || !is_made || is_unsure {
        return None;
    }
    let most = if autoscaled { "up to " } else { "" };
    let message = format!(
        "{most}{number} replicas of `{}` share {what}, which is {mode}: {}",
        object.display_name(),
        limit(mode)
    );
    ctx.report(&replicas, message)
        .help("write `volumeAccessMode: ReadWriteMany` with a class of EFS or FSx")
        .related(owner, &place, "the volume");
    None
}

/// Whether the pods of a NIMService are required to run on one node. `podAffinity` is a field of the early versions.
fn nim_stays_on_one_node(spec: &Node<'_>) -> bool {
    const HOST: &str = "kubernetes.io/hostname";
    let affinity = spec.get("affinity");
    let of_pods = [affinity.get("podAffinity"), spec.get("podAffinity")];
    let is_unclear = [&affinity, &of_pods[0], &of_pods[1]].iter().any(|node| node.has_unknown());
    let is_together = |pods: &Node<'_>| {
        pods.get(REQUIRED_AFFINITY).items().any(|term| term.get("topologyKey").text() == Some(HOST))
    };
    let terms = affinity.path(&["nodeAffinity", REQUIRED_AFFINITY, "nodeSelectorTerms"]);
    let mut expressions = terms.items().flat_map(|term| term.get("matchExpressions").items());
    is_unclear
        || spec.path(&["nodeSelector", HOST]).is_set()
        || of_pods.iter().any(is_together)
        || expressions.any(|expression| expression.get("key").text() == Some(HOST))
}

/// Another workload that uses a claim at the same time. Each pair has one finding, at the workload whose kind and name are
/// the later ones: a cluster has no order of its own. Pods have none.
fn other_user<'a>(object: &Object, claim: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let users = ctx.cluster().views().users_of_claim(claim.namespace_or_default(), claim.name());
    let is_before =
        |user: &Object| user.is(Kind::POD) || (user.kind(), user.name()) < (object.kind(), object.name());
    users.iter().find(|user| {
        is_before(user)
            && ctx.cluster().likely_pairs(object, user)
            && !is_owned(user)
            && !user.is_patched_by_kustomize()
            && runs_beside(object, user, ctx)
            && templates(user).iter().any(|template| {
                let names = claims(user, template);
                !stays_on_one_node(template)
                    && names.iter().any(|name| name.text().map(claim_of) == Some(claim.name()))
            })
    })
}

/// Whether pods of both workloads run at a time: a Job may have ended before the other one begins.
fn runs_beside(a: &Object, b: &Object, ctx: &Context<'_>) -> bool {
    let stays = |object: &Object| {
        let templates = templates(object);
        if object.is(Kind::POD) {
            return templates.iter().any(runs_until_deleted);
        }
        if object.is(Kind::INFERENCE_SERVICE) {
            return templates.iter().filter_map(component_replicas).any(|(_, most)| most > 0);
        }
        runs_forever(object)
            && ctx.cluster().views().replicas(object).is_some_and(|replicas| replicas.max > 0)
    };
    let comes_back = |object: &Object| object.is(Kind::CRON_JOB) && is_suspended(object) == Some(false);
    stays(a) && (stays(b) || comes_back(b)) || comes_back(a) && stays(b)
}

/// Whether a pod runs until it is deleted, because a container waits for nothing.
fn runs_until_deleted(pod: &Template<'_>) -> bool {
    /// Seconds for which nobody waits for a program to end.
    const LONG: i64 = 3600;
    let restarts = pod.spec.get("restartPolicy");
    let waits = |container: Node<'_>| {
        let words = words(&container);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        texts.windows(2).any(|pair| match pair {
            ["sleep", time] => {
                matches!(*time, "infinity" | "inf") || time.parse::<i64>().is_ok_and(|time| time >= LONG)
            }
            ["-f", "/dev/null"] => true,
            _ => false,
        })
    };
    (!restarts.is_set() || restarts.text() == Some("Always")) && pod.containers().any(waits)
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

/// What several nodes can mount.
const WIDE_CLAIM: &str = "ReadWriteMany claim of EFS or FSx";

fn limit(mode: &str) -> &'static str {
    match mode {
        "ReadWriteOncePod" => "one pod can use it",
        _ => "one node can attach it",
    }
}

fn report(
    object: &Object,
    claim: &Object,
    mode: &str,
    name: &Node<'_>,
    pods: &Pods,
    is_by_default: bool,
    ctx: &mut Context<'_>,
) -> Option<()> {
    let most = if pods.autoscaled { "up to " } else { "" };
    let what = match object.group() {
        "ray.io" | "leaderworkerset.x-k8s.io" => "pods",
        _ => "replicas",
    };
    let message = format!(
        "{most}{} {what} of `{}` share `{}`, which is {mode}: {}{}",
        pods.number,
        object.display_name(),
        claim.display_name(),
        limit(mode),
        if is_by_default { ", if it is EBS" } else { "" }
    );
    let autoscaler = ctx.cluster().views().autoscaler_of(object).filter(|_| pods.autoscaled);
    let finding = ctx.report(name, message);
    tell_autoscaler(finding, autoscaler);
    if is_by_default {
        finding.severity(Severity::Info);
    }
    finding
        .help(match what {
            "pods" => format!("use a {WIDE_CLAIM}"),
            _ => format!("use `volumeClaimTemplates` of a StatefulSet, or a {WIDE_CLAIM}"),
        })
        .related(claim, &claim.path(&["spec", "accessModes"]), "the volume");
    None
}
