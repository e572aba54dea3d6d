//! A ResourceQuota is smaller than what the replicas of a workload request.
//!
//! # Why
//! The API server rejects each pod with which a namespace would exceed its quota. The controller of the
//! workload tries again and again, which only its events show: a Deployment has three of four replicas, a
//! Job never all of its pods, and an autoscaler asks for replicas that never come. The Jobs of a ScaledJob
//! beyond the quota are there without pods, while their deadline runs. Accelerators have a quota as
//! `requests.nvidia.com/gpu`. Where a quota is about CPU or memory, pods with a container or an init
//! container that requests none of it are rejected as well, unless a LimitRange has a default.
//!
//! A quota for just the pods that run stops rollouts: up to three replicas, 25 % of which round down to none
//! that may be unavailable, a Deployment starts a pod before it ends another one. For that, the fewest
//! replicas of all Deployments, StatefulSets and Rollouts in the input are added up. Where just the maxima of
//! several autoscalers exceed the quota together, it is information.
//!
//! # Fix
//! Raise the quota, or lower the replicas or the requests. A rollout with `maxSurge: 0` and
//! `maxUnavailable: 1` needs no room.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: embed, namespace: search}
//!  spec:
//!    replicas: 4 # <-
//!    strategy:
//!      rollingUpdate: {maxSurge: 0, maxUnavailable: 1}
//!    selector: {matchLabels: {app: embed}}
//!    template:
//!      metadata: {labels: {app: embed}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources:
//!              requests: {cpu: 3, memory: 12Gi}
//!              limits: {memory: 12Gi, nvidia.com/gpu: 1}
//!  ---
//!  apiVersion: v1
//!  kind: ResourceQuota
//!  metadata: {name: accelerators, namespace: search}
//!  spec:
//! -  hard: {requests.nvidia.com/gpu: 3}
//! +  hard: {requests.nvidia.com/gpu: 4}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/policy/resource-quotas/>

use crate::cluster::queues::{QUEUE_KINDS, may_run_elsewhere, queue_name};
use crate::facts::quantity::amount;
use crate::keda::paused::is_on;
use crate::rules::availability::rollout::rollout;
use crate::rules::availability::serving::tell_autoscaler;
use crate::rules::prelude::*;
use crate::workload::gang::{
    Members, component_replicas, is_inference_service, members, most_of_jobs, request_of,
};
use crate::workload::gpu::is_extended;

pub(super) const QUOTA: Kind = Kind::new("", "ResourceQuota");

/// The kinds whose pods count for a quota all the time: pods of a Job end, and those of a DaemonSet depend on the nodes.
const STEADY: [Kind; 3] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::ROLLOUT];

/// The names with which a quota counts Jobs.
const JOB_COUNTS: [&str; 2] = ["count/jobs.batch", "jobs.batch"];

pub(crate) static RULE: Rule = Rule {
    id: "quota-below-replicas",
    kinds: kinds![[QUOTA], WORKLOAD_KINDS],
    reads: kinds![STEADY, [QUOTA, Kind::LIMIT_RANGE, Kind::HPA, Kind::SCALED_OBJECT, Kind::VPA], QUEUE_KINDS],
    docs: docs(include_str!("quota_below_replicas.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// A resource of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted<'q> {
    Pods,
    /// The side, `requests` or `limits`, and the resource.
    Amount(&'static str, &'q str),
}

impl<'q> Counted<'q> {
    fn parse(name: &'q str) -> Option<Counted<'q>> {
        match name {
            "pods" | "count/pods" => Some(Counted::Pods),
            "cpu" | "memory" | "ephemeral-storage" => Some(Counted::Amount("requests", name)),
            // Claims and objects of other kinds.
            "requests.storage" => None,
            _ => ["requests", "limits"].into_iter().find_map(|side| {
                let resource = name.strip_prefix(side)?.strip_prefix('.')?;
                // Of extended resources just requests count, which quota-key-inert reports.
                let is_inert = side == "limits" && is_extended(resource);
                (!is_inert).then_some(Counted::Amount(side, resource))
            }),
        }
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(QUOTA) {
        return without_room(object, ctx);
    }
    let namespace = object.namespace_or_default();
    if object.may_lack_fields() || object.controller().is_some() {
        return None;
    }
    if object.is(Kind::DAEMON_SET) || ctx.cluster().in_namespace(QUOTA, namespace).next().is_none() {
        return None;
    }
    if may_run_elsewhere(object, ctx.cluster()) {
        return None;
    }
    let members = most_members(object, ctx)?;
    for quota in ctx.cluster().in_namespace(QUOTA, namespace) {
        if !counts_all_pods(quota) || !ctx.pairs_with(quota) {
            continue;
        }
        let (mut exceeded, mut missing) = (Vec::new(), Vec::new());
        for (name, hard) in quota.path(&["spec", "hard"]).entries() {
            let Some((counted, limit)) = Counted::parse(name).zip(Quantity::at(&hard)) else { continue };
            let needed = needed(&members, counted)?;
            if needed.0 > limit.milli() {
                exceeded.push((name, hard, needed));
                continue;
            }
            // The runtime of a model has requests of its own.
            if !is_inference_service(object) {
                missing.extend(without_request(object, &members, counted, hard, ctx));
            }
        }
        report_missing(quota, &missing, ctx);
        if !exceeded.is_empty() {
            report(object, &members, quota, &exceeded, ctx);
            return None;
        }
    }
    None
}

/// Whether a quota counts the pods of its namespace: one with scopes counts some of them.
fn counts_all_pods(quota: &Object) -> bool {
    let spec = quota.get("spec");
    !spec.get("scopes").is_set() && !spec.get("scopeSelector").is_set() && !quota.may_lack_fields()
}

/// A workload whose pods run all the time.
struct Steady<'a> {
    object: &'a Object,
    /// Its pods at least.
    members: Vec<Members<'a>>,
    /// The pod that a rollout starts before another one ends. Empty if it starts none.
    surge: Vec<Members<'a>>,
    /// Its pods at most, with the maximum of its autoscaler.
    most: Vec<Members<'a>>,
}

/// A workload that certainly counts for a quota. `None` if it may not, or its replicas are unknown.
fn steady<'i>(quota: &Object, object: &'i Object, ctx: &Context<'i>) -> Option<Steady<'i>> {
    let cluster = ctx.cluster();
    let kind = STEADY.into_iter().find(|kind| object.is(*kind))?;
    let is_open = object.may_lack_fields() || object.is_namespace_unknown() || object.controller().is_some();
    cluster.unique(kind, object.namespace_or_default(), object.name())?;
    if is_open || may_run_elsewhere(object, cluster) || !cluster.likely_pairs(quota, object) {
        return None;
    }
    let replicas = cluster.views().replicas(object)?;
    let floor = replicas.floor;
    let with = |pods: i64| -> Option<Vec<Members<'i>>> {
        Some(members(object)?.into_iter().map(|member| Members { pods, ..member }).collect())
    };
    let surges = rollout(object, floor).is_some_and(|update| update.surge > 0 && update.unavailable == 0);
    let surge = if floor > 0 && surges && !object.is(Kind::STATEFUL_SET) { with(1)? } else { Vec::new() };
    Some(Steady { object, members: with(floor)?, surge, most: with(replicas.max)? })
}

/// Reports a quota without room for the fewest pods of all workloads, and one more pod of a rollout.
fn without_room(quota: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let (cluster, namespace) = (ctx.cluster(), quota.namespace_or_default());
    // The requests of running pods are those that a VerticalPodAutoscaler sets.
    let is_sized = cluster.in_namespace(Kind::VPA, namespace).next().is_some();
    if is_sized || !counts_all_pods(quota) || quota.is_namespace_unknown() {
        return None;
    }
    let objects = STEADY.into_iter().flat_map(|kind| cluster.in_namespace(kind, namespace));
    let all: Vec<Steady<'_>> = objects.filter_map(|object| steady(quota, object, ctx)).collect();
    for (name, hard) in quota.path(&["spec", "hard"]).entries() {
        let Some((counted, limit)) = Counted::parse(name).zip(Quantity::at(&hard)) else { continue };
        let need = |members: &[Members<'_>]| needed(members, counted).map_or(0, |(need, _)| need);
        let each: Vec<i128> = all.iter().map(|one| need(&one.members)).collect();
        let sum = each.iter().try_fold(0i128, |sum, one| sum.checked_add(*one))?;
        let more = all.iter().map(|one| (need(&one.surge), one)).max_by_key(|(more, _)| *more);
        let (more, largest) = more?;
        let total = sum.checked_add(more)?;
        // One workload that is larger than the quota is reported by itself.
        if total <= limit.milli() || each.iter().any(|one| *one > limit.milli()) {
            if total <= limit.milli() {
                beyond_quota(&all, &need, (name, &hard, limit), ctx);
            }
            continue;
        }
        let allowed = hard.string_or_number()?;
        if sum > limit.milli() {
            let need = amount_of(sum, name);
            let message = format!(
                "the workloads of this namespace need {need} of `{name}` together, and the quota allows {allowed}"
            );
            ctx.report(&hard, message).help("raise the quota, or lower the replicas or the requests");
            return None;
        }
        let (need, whose) = (amount_of(total, name), largest.object.display_name());
        let message = format!(
            "a rollout of `{whose}` needs {need} of `{name}` with all that runs, and the quota allows {allowed}"
        );
        let place = largest.object.path(&["metadata", "name"]);
        ctx.report(&hard, message)
            .help(
                "leave room for one more of the largest pods, or write `maxSurge: 0` and `maxUnavailable: 1`",
            )
            .related(largest.object, &place, "it starts a pod before it ends another one");
        return None;
    }
    None
}

/// Reports a quota that several autoscalers exceed together at their maximum, where none does alone.
fn beyond_quota(
    all: &[Steady<'_>],
    need: &dyn Fn(&[Members<'_>]) -> i128,
    (name, hard, limit): (&str, &Node<'_>, Quantity),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let most: Vec<i128> = all.iter().map(|one| need(&one.most)).collect();
    let sum = most.iter().try_fold(0i128, |sum, one| sum.checked_add(*one))?;
    let is_scaled = |one: &&Steady<'_>| need(&one.most) > need(&one.members);
    let scaled: Vec<&Steady<'_>> = all.iter().filter(is_scaled).collect();
    if sum <= limit.milli() || most.iter().any(|one| *one > limit.milli()) || scaled.len() < 2 {
        return None;
    }
    let (needed, allowed) = (amount_of(sum, name), hard.string_or_number()?);
    let message = format!(
        "at the maximum of their autoscalers the workloads need {needed} of `{name}`, and the quota allows {allowed}"
    );
    let finding = ctx.report(hard, message);
    finding
        .severity(Severity::Info)
        .help("raise the quota, or lower the maxima: pods beyond it are rejected");
    for one in scaled {
        let autoscaler = one.object.path(&["metadata", "name"]);
        let each = amount_of(need(&one.most), name);
        finding.related(one.object, &autoscaler, format!("{each} at its maximum"));
    }
    None
}

/// The pods of a workload at most, by template: with the maximum of its autoscaler.
fn most_members<'a>(object: &'a Object, ctx: &Context<'_>) -> Option<Vec<Members<'a>>> {
    if is_inference_service(object) {
        let most = |template: Template<'a>| {
            let (_, pods) = component_replicas(&template)?;
            Some(Members { pods, field: template.spec.get("maxReplicas"), template })
        };
        return templates(object).into_iter().map(most).collect();
    }
    if object.is(Kind::SCALED_JOB) {
        if is_on(object, "paused") != Some(false) {
            return None;
        }
        // A quota of Jobs bounds their pods as well, and Kueue suspends those that its queue has no room for.
        let is_bounded = queue_name(object).is_set()
            || ctx.cluster().in_namespace(QUOTA, object.namespace_or_default()).any(|quota| {
                let hard = quota.path(&["spec", "hard"]);
                hard.has_unknown_key() || JOB_COUNTS.iter().any(|name| hard.get(name).is_set())
            });
        return most_of_jobs(object).filter(|_| !is_bounded).or_else(|| members(object));
    }
    if !runs_forever(object) || object.group() == "leaderworkerset.x-k8s.io" {
        return members(object);
    }
    let replicas = ctx.cluster().views().replicas(object)?;
    let all = members(object)?;
    Some(all.into_iter().map(|member| Members { pods: replicas.max, ..member }).collect())
}

/// What all pods count for together, in thousandths, with the first node that requests it.
fn needed<'a>(members: &[Members<'a>], counted: Counted<'_>) -> Option<(i128, Option<Node<'a>>)> {
    let (mut sum, mut first) = (0i128, None);
    for member in members {
        let pods = i128::from(member.pods);
        let (each, node) = match counted {
            Counted::Pods => (1000, None),
            Counted::Amount(_, resource) if resource.contains('/') => {
                match pod_devices(&member.template).get(resource) {
                    Some(devices) => (i128::from(devices.count) * 1000, Some(devices.node.clone())),
                    None => (0, None),
                }
            }
            Counted::Amount(side, resource) => match request_of(&member.template, side, resource) {
                Some((amount, node)) => (amount, Some(node)),
                None => (0, None),
            },
        };
        sum = sum.checked_add(each.checked_mul(pods)?)?;
        first = first.or(node);
    }
    Some((sum, first))
}

/// A resource of a quota that the pods exceed: its name, its limit, and what they need, with the first request.
type Exceeded<'q, 'a> = (&'q str, Node<'q>, (i128, Option<Node<'a>>));

fn report(
    object: &Object,
    members: &[Members<'_>],
    quota: &Object,
    exceeded: &[Exceeded<'_, '_>],
    ctx: &mut Context<'_>,
) -> Option<()> {
    let ((counted, hard, (needed, node)), others) = exceeded.split_first()?;
    let autoscaler = ctx.cluster().views().autoscaler_of(object);
    let pods: i64 = members.iter().map(|member| member.pods).sum();
    let name = object.display_name();
    let limit = hard.string_or_number()?;
    let amount = amount_of(*needed, counted);
    let message = format!(
        "{pods} pods of `{name}` need {amount} of `{counted}`, and quota `{}` allows {limit}",
        quota.display_name()
    );
    let field = members
        .first()
        .map(|member| member.field.clone())
        .filter(|field| field.is_set() && autoscaler.is_none());
    let name_node = object.path(&["metadata", "name"]);
    let place = field.as_ref().or(node.as_ref()).unwrap_or(&name_node);
    let finding = ctx.report(place, message);
    let number = field.as_ref().and_then(|field| field.pointer().steps().last().cloned());
    finding.help(match number {
        Some(number) if number == "maxReplicaCount" => {
            "raise the quota, or lower `maxReplicaCount`: Jobs beyond it wait without a pod".to_owned()
        }
        _ => "raise the quota, or lower the replicas or the requests".to_owned(),
    });
    finding.related(quota, hard, "the quota of the namespace");
    for (counted, hard, (needed, _)) in others {
        finding.related(quota, hard, format!("they need {} of `{counted}`", amount_of(*needed, counted)));
    }
    tell_autoscaler(finding, autoscaler);
    None
}

/// An amount of what a quota counts, in its usual unit.
fn amount_of(milli: i128, counted: &str) -> String {
    let resource = ["requests.", "limits."].iter().find_map(|side| counted.strip_prefix(side));
    amount(resource.unwrap_or(counted), milli)
}

/// A container without a request or limit that a quota demands.
struct Missing<'a, 'q> {
    container: Node<'a>,
    side: &'static str,
    resource: String,
    /// The amount in the quota.
    hard: Node<'q>,
}

/// The first container without a request that a quota demands, where no LimitRange can add it.
fn without_request<'a, 'q>(
    object: &Object,
    members: &[Members<'a>],
    counted: Counted<'_>,
    hard: Node<'q>,
    ctx: &Context<'_>,
) -> Option<Missing<'a, 'q>> {
    let Counted::Amount(side, resource) = counted else { return None };
    let namespace = object.namespace_or_default();
    let defaults = ctx.cluster().in_namespace(Kind::LIMIT_RANGE, namespace).next().is_some();
    if !matches!(resource, "cpu" | "memory") || defaults || !ctx.cluster().is_complete_for(Kind::LIMIT_RANGE)
    {
        return None;
    }
    let lacks = |container: &Node<'_>| {
        let resources = container.get("resources");
        let unknown = container.has_unknown_key() || resources.has_unknown() || resources.has_unknown_key();
        let limit = resources.path(&["limits", resource]).is_set();
        !unknown && !limit && (side == "limits" || !resources.path(&["requests", resource]).is_set())
    };
    let own = |template: &Template<'_>| template.spec.path(&["resources", side, resource]).is_set();
    let container = members
        .iter()
        .filter(|member| !own(&member.template))
        .flat_map(|member| member.template.all_containers())
        .find(lacks)?;
    Some(Missing { container, side, resource: resource.to_owned(), hard })
}

/// Reports all that each container lacks at once.
fn report_missing(quota: &Object, missing: &[Missing<'_, '_>], ctx: &mut Context<'_>) {
    let mut containers: Vec<Node<'_>> = Vec::new();
    for one in missing {
        if containers.iter().all(|known| known.pointer() != one.container.pointer()) {
            containers.push(one.container.clone());
        }
    }
    for container in containers {
        let of_it = missing.iter().filter(|one| one.container.pointer() == container.pointer());
        let of_it: Vec<&Missing<'_, '_>> = of_it.collect();
        let Some((first, others)) = of_it.split_first() else { continue };
        let names: Vec<String> = of_it.iter().map(|one| format!("`{}.{}`", one.side, one.resource)).collect();
        let name =
            container.get("name").text().map_or_else(String::new, |name| format!(" `{}`", ellipsize(name)));
        let what = match names.as_slice() {
            [one] => format!("has no {one}"),
            [one, other] => format!("lacks {one} and {other}"),
            all => format!("lacks {} and {} others", all[0], all.len() - 1),
        };
        let resources = container.get("resources");
        let is_of_one_side = others.iter().all(|one| one.side == first.side);
        let place = if is_of_one_side { resources.get(first.side) } else { resources };
        let message = format!(
            "container{name} {what}, which quota `{}` demands: the pods are rejected",
            quota.display_name()
        );
        let finding = ctx.report(&place, message);
        finding
            .identified_by(names.join(" "))
            .help(format!("add {}, or a LimitRange with a default", names.join(", ")))
            .related(quota, &first.hard, "the quota of the namespace");
        for one in others {
            finding.related(quota, &one.hard, format!("it demands `{}.{}` as well", one.side, one.resource));
        }
    }
}
