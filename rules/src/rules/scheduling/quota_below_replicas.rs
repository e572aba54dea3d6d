//! A ResourceQuota is smaller than what the replicas of a workload request.
//!
//! # Why
//! The API server rejects each pod with which a namespace would exceed its quota. The controller of the
//! workload tries again and again, which only its events show: a Deployment has three of four replicas, a
//! Job never all of its pods, and an autoscaler asks for replicas that never come. Accelerators have a quota
//! as `requests.nvidia.com/gpu`. Where a quota is about CPU or memory, pods that request none of it are
//! rejected as well, unless a LimitRange has a default.
//!
//! # Fix
//! Raise the quota, or lower the replicas or the requests.
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

use crate::cluster::placement::has_controller;
use crate::cluster::queues::{QUEUE_KINDS, may_run_elsewhere};
use crate::rules::availability::serving::tell_autoscaler;
use crate::rules::prelude::*;
use crate::workload::devices::pod_devices;
use crate::workload::gang::{Members, component_replicas, is_inference_service, members, request_of};
use crate::workload::template::runs_forever;

const QUOTA: Kind = Kind::new("", "ResourceQuota");

const READS: [Kind; 4 + QUEUE_KINDS.len()] =
    joined(&[QUOTA, Kind::LIMIT_RANGE, Kind::HPA, Kind::SCALED_OBJECT], &QUEUE_KINDS);

pub(crate) static RULE: Rule = Rule {
    id: "quota-below-replicas",
    kinds: WORKLOAD_KINDS,
    reads: &READS,
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
                Some(Counted::Amount(side, resource))
            }),
        }
    }
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let namespace = object.namespace_or_default();
    if object.may_lack_fields() || has_controller(object) {
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
        // A quota with scopes counts some pods only.
        let spec = quota.get("spec");
        let scoped = spec.get("scopes").is_set() || spec.get("scopeSelector").is_set();
        if scoped || quota.may_lack_fields() || !ctx.pairs_with(quota) {
            continue;
        }
        let mut exceeded = Vec::new();
        for (name, hard) in spec.get("hard").entries() {
            let Some((counted, limit)) = Counted::parse(name).zip(Quantity::at(&hard)) else {
                continue;
            };
            let needed = needed(&members, counted)?;
            if needed.0 > limit.milli() {
                exceeded.push((name, hard, needed));
                continue;
            }
            // The runtime of a model has requests of its own.
            if !is_inference_service(object) {
                without_request(object, &members, counted, (quota, &hard), ctx);
            }
        }
        if !exceeded.is_empty() {
            report(object, &members, quota, &exceeded, ctx);
            return None;
        }
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
    let amount_text = amount(*needed, counted);
    let message = format!(
        "{pods} pods of `{name}` need {amount_text} of `{counted}`, and quota `{}` allows {limit}",
        quota.display_name()
    );
    let field = members
        .first()
        .map(|member| member.field.clone())
        .filter(|field| field.is_set() && autoscaler.is_none());
    let name_node = object.path(&["metadata", "name"]);
    let place = field.as_ref().or(node.as_ref()).unwrap_or(&name_node);
    let finding = ctx.report(place, message);
    finding.help("raise the quota, or lower the replicas or the requests");
    finding.related(quota, hard, "the quota of the namespace");
    for (counted, hard, (needed, _)) in others {
        finding.related(quota, hard, format!("they need {} of `{counted}`", amount(*needed, counted)));
    }
    tell_autoscaler(finding, autoscaler);
    None
}

/// An amount in the unit that quotas of a resource usually have.
fn amount(milli: i128, counted: &str) -> String {
    const GIB: i128 = 1 << 30;
    let whole = (milli + 999) / 1000;
    if counted.ends_with("memory") || counted.ends_with("storage") {
        return format!("{}Gi", (whole + GIB - 1) / GIB);
    }
    if milli % 1000 == 0 { whole.to_string() } else { format!("{milli}m") }
}

/// Reports a container without a request that a quota demands, where no LimitRange can add it.
fn without_request(
    object: &Object,
    members: &[Members<'_>],
    counted: Counted<'_>,
    (quota, hard): (&Object, &Node<'_>),
    ctx: &mut Context<'_>,
) -> Option<()> {
    let Counted::Amount(side, resource) = counted else {
        return None;
    };
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
        .flat_map(|member| member.template.containers())
        .find(lacks)?;
    let (name, wanted) = (object.display_name(), format!("{side}.{resource}"));
    let message = format!(
        "pods of `{name}` have no `{wanted}`, which quota `{}` demands: they are rejected",
        quota.display_name()
    );
    ctx.report(&container.path(&["resources", side]), message)
        .identified_by(wanted)
        .help(format!("add `{side}.{resource}`, or a LimitRange with a default"))
        .related(quota, hard, "the quota of the namespace");
    None
}
