//! Pods ask for an accelerator and do not tolerate the taint of its nodes.
//!
//! # Why
//! GPU nodes are tainted with the name of their resource, so that other pods stay away. EKS adds the
//! toleration to a pod that asks for a resource, under the name of that very resource: a pod that asks for
//! `nvidia.com/mig-1g.10gb` gets one for that name, while the nodes carry `nvidia.com/gpu`, and stays
//! Pending. A pod that asks for `nvidia.com/gpu` itself gets what it needs on EKS, so nothing is
//! reported there. With `platform: {eks: false}` it is: a warning where a NodePool of the input has
//! the taint, otherwise information. Pods that select pools by name (`karpenter.sh/nodepool`), or by a label
//! of your own, are judged by the taints of those pools alone. Where the input shows neither EKS nor Karpenter,
//! this is information: nodes elsewhere are seldom tainted.
//!
//! # Fix
//! Tolerate the taint by its key with the operator `Exists`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 3
//!    template:
//!      spec: # <-
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//!            resources: {limits: {nvidia.com/mig-1g.10gb: 1}}
//! +      tolerations:
//! +        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use std::collections::BTreeMap;

use crate::catalog::Accelerator;
use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_pods};
use crate::cluster::queues::is_queued;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::Toleration;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-toleration-missing",
    kinds: WORKLOAD_KINDS,
    reads: kinds![[Kind::NODE_POOL, Kind::RUNTIME_CLASS], POD_POLICIES],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_toleration_missing.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // DaemonSet pods run on every node; pods with a controller are checked in its template. The runtime of an
    // InferenceService and the flavors of a queue may add tolerations.
    let is_elsewhere =
        object.is(Kind::INFERENCE_SERVICE) || object.is(Kind::DAEMON_SET) || object.controller().is_some();
    if object.may_lack_fields() || is_elsewhere {
        return None;
    }
    for template in templates(object).iter().filter(|template| !is_queued(template)) {
        inspect(object, template, ctx);
    }
    None
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) {
    let mut wanted = taints(template);
    // EKS adds the toleration for the resource's own name.
    let is_eks = ctx.platform().eks;
    wanted.retain(|key, resource| !(is_eks && key == resource));
    if wanted.is_empty() {
        return;
    }
    let Some(pod) = to_scheduling_pod(template).filter(|_| !template.spec.get("nodeName").is_set()) else {
        return;
    };
    let name = object.display_name();
    if may_change_pods(ctx.cluster(), object.namespace_or_default(), PodPart::Tolerations) {
        return;
    }
    for (key, resource) in wanted {
        let by_runtime = || runtime_tolerations(template, ctx).iter().any(|one| covers(one, key));
        let by_pod = pod.tolerations.iter().any(|one| covers(one, key));
        if by_pod || by_runtime() || is_free(key, template, ctx) {
            continue;
        }
        let is_seen = {
            let pools = ctx.cluster().views().pools_with_taint(key);
            pools.iter().any(|pool| is_tainted(pool, key) && ctx.pairs_with(pool))
        };
        // Nodes may have a taint of the name of the resource instead, as the admission plugin ExtendedResourceToleration expects.
        let by_resource = |t: &Toleration| t.key == resource && t.key != key;
        if !is_seen && pod.tolerations.iter().any(by_resource) {
            continue;
        }
        // Pods that tolerate another taint may be meant for nodes that have that one alone.
        let tolerates_other = pod.tolerations.iter().any(|t| !t.key.contains("kubernetes.io/"));
        let is_usual = is_seen || is_eks && ctx.cluster().shows_eks() && !tolerates_other;
        let severity = if is_usual { Severity::Warning } else { Severity::Info };
        let condition = if is_usual { "" } else { ", if such nodes are tainted" };
        let message =
            format!("`{name}` asks for `{resource}` and does not tolerate the taint `{key}` of such nodes");
        let tolerations = template.spec.get("tolerations");
        let toleration = json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
        ctx.report(&tolerations, message)
            .severity(severity)
            .identified_by(key)
            .help(format!("tolerate `{key}` with the operator `Exists`{condition}"))
            .fix(Fix::new(format!("tolerate `{key}`"), Safety::Unsafe).append(&tolerations, toleration));
    }
}

fn covers(toleration: &Toleration, key: &str) -> bool {
    (toleration.key == key || toleration.key.is_empty())
        && matches!(toleration.effect.as_str(), "" | "NoSchedule")
}

/// Whether the rule may speak of a taint: pods ask for the accelerator of that name, and have no toleration for it, of whatever value.
pub(crate) fn is_spoken_of(key: &str, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let is_own = |resource: &str| ctx.platform().eks && key == resource;
    taints(template).get(key).is_some_and(|resource| !is_own(resource))
        && !template.spec.get("tolerations").items().any(|one| covers(&toleration(&one), key))
}

/// The tolerations that the RuntimeClass of the pods adds, if it is in the input.
fn runtime_tolerations(template: &Template<'_>, ctx: &Context<'_>) -> Vec<Toleration> {
    let kind = Kind::RUNTIME_CLASS;
    let name = template.spec.get("runtimeClassName");
    let classes = name.text().map(|name| ctx.cluster().all(kind.group, kind.kind, "default", name));
    let lists = classes.into_iter().flatten().map(|class| class.path(&["scheduling", "tolerations"]));
    lists.flat_map(|list| list.items().map(|node| toleration(&node)).collect::<Vec<_>>()).collect()
}

/// The usual taints of nodes for the resources that the template requests, each with the first such resource.
fn taints<'a>(template: &Template<'a>) -> BTreeMap<&'static str, &'a str> {
    let mut out = BTreeMap::new();
    for container in template.all_containers() {
        for side in ["limits", "requests"] {
            for (resource, amount) in container.path(&["resources", side]).entries() {
                // HAMi selects its nodes by a label, and the vendor's taint is not usual there.
                let is_usual = is_accelerator(resource) && resource != "nvidia.com/vgpu";
                let wanted = is_usual && Quantity::at(&amount).is_some_and(|q| !q.is_zero());
                if let Some(kind) = Accelerator::of_part(resource).filter(|_| wanted) {
                    out.entry(kind.resource()).or_insert(resource);
                }
            }
        }
    }
    out
}

/// Whether all pools that admit the pods are known, and none has such a taint. If the pods select pools by name or label, only
/// these pools count, even if they do not admit the pods for another reason.
fn is_free(key: &str, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    if let Some(pinned) = feasibility.pinned_pools_of(template) {
        return !pinned.is_empty() && !pinned.iter().any(|pool| pool.has_taint(key));
    }
    if feasibility.has_unreadable_pools() {
        return false;
    }
    let pools = feasibility.feasible_pools_of(template).unwrap_or_default();
    !pools.is_empty() && !pools.iter().any(|pool| pool.has_taint(key))
}

fn is_tainted(pool: &Object, key: &str) -> bool {
    let taints = pool.path(&["spec", "template", "spec", "taints"]);
    let mut taints = taints.items();
    taints.any(|taint| taint.get("key").text() == Some(key))
}
