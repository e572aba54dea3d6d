//! No workload tolerates the taints of a NodePool.
//!
//! # Why
//! A pod runs on the nodes of a pool only if it tolerates every `NoSchedule` and `NoExecute` taint of
//! them. Where no workload tolerates all of them, Karpenter never starts a node of the pool, and the
//! pods that were meant for it wait or land elsewhere: nothing says so. It is a warning where a
//! workload selects the pool and fits no other one, and information where such a workload tolerates
//! some of the taints, or where the input is the whole cluster (`--complete`) and installs no charts.
//! On EKS a pod tolerates the taint of each extended resource that it requests.
//!
//! # Fix
//! Add the missing toleration to the workloads that are meant for the pool, or remove the taint. Taints
//! that an agent removes when the node is ready belong under `startupTaints`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu-spot}
//!  spec:
//!    template:
//!      metadata: {labels: {tier: spot}}
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints:
//!          - {key: nvidia.com/gpu, effect: NoSchedule}
//! -        - {key: example.com/spot, value: "true", effect: NoSchedule} # <-
//!    limits: {nvidia.com/gpu: 32}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: embeddings}
//!  spec:
//!    strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
//!    selector: {matchLabels: {app: embeddings}}
//!    template:
//!      metadata: {labels: {app: embeddings}}
//!      spec:
//!        nodeSelector: {tier: spot}
//!        terminationGracePeriodSeconds: 90
//!        containers:
//!          - name: server
//!            image: vllm/vllm-openai:v0.11.0
//!            args: [--model, mistralai/Mistral-7B-v0.3]
//!            startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 90}
//!            readinessProbe: {httpGet: {path: /health, port: 8000}}
//!            lifecycle: {preStop: {sleep: {seconds: 15}}}
//!            resources:
//!              requests: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}
//!              limits: {memory: 24Gi, nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#spectemplatespectaints>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use crate::cluster::pod_policies::{POD_POLICIES, PodPart, may_change_some_pods};
use crate::cluster::views::Tolerance;
use crate::fit::covers;
use crate::karpenter::nodepool::NODEPOOL_LABEL;
use crate::karpenter::scheduling::Taint;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "pool-unreachable",
    reads: kinds![
        [Kind::NODE_POOL, Kind::RUNTIME_CLASS, Kind::RESOURCE_FLAVOR],
        CHART_KINDS,
        POD_POLICIES,
        WORKLOAD_KINDS
    ],
    reports_absence: true,
    docs: docs(include_str!("pool_unreachable.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of different lists of tolerations to compare with a pool; with more, nothing is reported.
const MOST_COMPARED: usize = 512;
/// Maximum number of workloads that are tried on the other pools.
const MOST_ASKED: usize = 16;

/// The evidence that a pool is meant to have pods.
enum Evidence<'a> {
    /// A workload selects it.
    Selected(&'a Object),
    /// A workload tolerates some of its taints.
    Tolerated(&'a Object),
    /// The input is the whole cluster.
    Whole,
}

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    let list = pool.template_spec().get("taints");
    if object.may_lack_fields() || list.has_unknown() {
        return None;
    }
    let hard = |taint: &Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let taints: Vec<(Node<'_>, Taint)> =
        list.items().zip(pool.taints()).filter(|(_, taint)| hard(taint) && !taint.key.is_empty()).collect();
    if taints.is_empty() {
        return None;
    }
    let views = ctx.cluster().views();
    let known = views.tolerances()?;
    if known.is_empty() || known.len() > MOST_COMPARED {
        return None;
    }
    let covers = |tolerance: &Tolerance, taint: &Taint| {
        covers(ctx.cluster(), tolerance, taint, ctx.platform().eks) != Some(false)
    };
    if known.iter().any(|tolerance| taints.iter().all(|(_, taint)| covers(tolerance, taint))) {
        return None;
    }
    if may_change_some_pods(ctx.cluster(), PodPart::Tolerations) {
        return None;
    }
    let tolerated = |taint: &Taint| known.iter().any(|tolerance| covers(tolerance, taint));
    let first = taints.iter().find(|(_, taint)| !tolerated(taint));
    let evidence = selecting(pool, ctx)
        .map(Evidence::Selected)
        .or_else(|| near_miss(&known, &taints, ctx).map(Evidence::Tolerated))
        .or_else(|| is_whole(ctx).then_some(Evidence::Whole))?;
    if let Evidence::Selected(workload) | Evidence::Tolerated(workload) = evidence
        && is_of_another_rule(workload, object, ctx)
    {
        return None;
    }
    let name = object.display_name();
    let message = match first {
        Some((_, Taint { key, .. })) => {
            format!(
                "no workload here tolerates the taint `{key}` of NodePool `{name}`, so no pod runs on its nodes"
            )
        }
        None => {
            let all = if taints.len() == 2 { "both".to_owned() } else { format!("all {}", taints.len()) };
            format!(
                "no workload here tolerates {all} taints of NodePool `{name}`, so no pod runs on its nodes"
            )
        }
    };
    let (node, key) = match first {
        Some((node, taint)) => (node.clone(), taint.key.clone()),
        None => {
            (list.clone(), taints.iter().map(|(_, taint)| taint.key.as_str()).collect::<Vec<_>>().join(" "))
        }
    };
    let help = match &evidence {
        Evidence::Selected(workload) | Evidence::Tolerated(workload) => {
            format!("add the missing toleration to `{}`, or remove the taint", workload.display_name())
        }
        Evidence::Whole => {
            "remove the taint, or add the toleration to the workloads that are meant for it".to_owned()
        }
    };
    let finding = ctx.report(&node, message).help(help).identified_by(&key);
    match evidence {
        Evidence::Selected(workload) => {
            finding.related(workload, &workload.path(&["metadata", "name"]), "selects the pool");
        }
        Evidence::Tolerated(workload) => {
            finding.severity(Severity::Info).related(
                workload,
                &workload.path(&["metadata", "name"]),
                "tolerates some of its taints",
            );
        }
        Evidence::Whole => _ = finding.severity(Severity::Info),
    }
    None
}

/// Whether the input has all workloads of the cluster.
fn is_whole(ctx: &Context<'_>) -> bool {
    ctx.cluster().is_complete() && !may_bring_objects(ctx.cluster())
}

/// A workload that selects the pool by name or by a custom label, and fits no other pool.
fn selecting<'i>(pool: &NodePool<'_>, ctx: &Context<'i>) -> Option<&'i Object> {
    let all = ctx.cluster().views().selecting(pool);
    all.into_iter().map(|workload| &workload.object).take(MOST_ASKED).find(|object| fits_nowhere(object, ctx))
}

/// A workload that names some of the taints in its tolerations, and fits no other pool.
fn near_miss<'i>(
    known: &[&'i Tolerance],
    taints: &[(Node<'_>, Taint)],
    ctx: &Context<'i>,
) -> Option<&'i Object> {
    let named = known.iter().filter(|tolerance| taints.iter().any(|(_, taint)| tolerance.names(taint)));
    let workloads = named.flat_map(|tolerance| ctx.cluster().views().tolerating(tolerance));
    let mut near = workloads.take(MOST_COMPARED).filter(|workload| ctx.pairs_with(workload)).take(MOST_ASKED);
    near.find(|workload| fits_nowhere(workload, ctx))
}

/// Whether no pool admits the pods of a workload, as far as the pools are known.
fn fits_nowhere(workload: &Object, ctx: &Context<'_>) -> bool {
    let templates = templates(workload);
    let fits_none = |template: &Template<'_>| {
        ctx.pools_for(template).is_some_and(|found| found.all_nodes().is_some_and(<[_]>::is_empty))
    };
    !workload.is(Kind::DAEMON_SET) && !templates.is_empty() && templates.iter().all(fits_none)
}

/// Whether pod-fits-no-pool reports the workload, which then fits no pool.
fn is_of_another_rule(workload: &Object, pool: &Object, ctx: &Context<'_>) -> bool {
    let templates = templates(workload);
    let by_name = |template: &Template<'_>| {
        template.spec.get("nodeSelector").get(NODEPOOL_LABEL).text() == Some(pool.name())
    };
    let whole = ctx.cluster().is_complete_for(Kind::NODE_POOL);
    ctx.is_rule_enabled("pod-fits-no-pool")
        && templates.iter().any(|template| by_name(template) || whole && requests_accelerator(template))
}
