//! A pool of Windows nodes has no taint that keeps other pods off.
//!
//! # Why
//! Karpenter and the scheduler look at labels and taints, not at the image: a pod without
//! `kubernetes.io/os` goes to a Windows node as well as to a Linux one, and an image of the other system ends
//! there with "no match for platform". Charts seldom select Linux, so most clusters taint their Windows nodes.
//! Whichever system an image is for, a pod that fits pools of both may land on the wrong one.
//!
//! # Fix
//! Give the pool a taint such as `os=windows:NoSchedule`, tolerate it in the Windows pods, and let these select
//! `kubernetes.io/os: windows`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: windows}
//!  spec:
//!    template:
//!      spec: # <-
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: windows}
//! +      taints: [{key: os, value: windows, effect: NoSchedule}]
//!        requirements:
//!          - {key: kubernetes.io/os, operator: In, values: [windows]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}
//!    limits: {cpu: 100}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: windows}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: windows2022@latest}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: kubernetes.io/os, operator: In, values: [linux]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}
//!    limits: {cpu: 100}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: front}
//!  spec:
//!    selector: {matchLabels: {app: front}}
//!    template:
//!      metadata: {labels: {app: front}}
//!      spec:
//!        containers:
//!          - name: main
//!            image: example.com/front:1.4.0
//!            resources: {requests: {cpu: 1, memory: 2Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#windows2019>
//! - <https://kubernetes.io/docs/concepts/windows/user-guide/#taints-and-tolerations>

use super::gpu_pool_untainted::may_keep_pods_away;
use crate::catalog::OS;
use crate::karpenter::requirement::normalise;
use crate::karpenter::scheduling::{AmiFamily, Scheduler, SchedulerOptions, Verdict};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "windows-pool-untainted",
    reads: kinds![[Kind::NODE_POOL, Kind::EC2_NODE_CLASS], WORKLOAD_KINDS],
    docs: docs(include_str!("windows_pool_untainted.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::NodePool)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let taints = pool.template_spec().get("taints");
    let may_have_taint = taints.is_unknown() || taints.items().any(|taint| may_keep_pods_away(&taint));
    if may_have_taint || pool.object().may_lack_fields() || !is_windows(pool, ctx) {
        return None;
    }
    let workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    let mut workloads = workloads.filter(|one| !one.is(Kind::DAEMON_SET) && ctx.pairs_with(one));
    let workload =
        workloads.find(|one| templates(one).iter().any(|template| fits_both(template, pool, ctx)))?;
    let message = format!(
        "pool `{}` has no taint: pods of `{}`, which select no system, may go to its Windows nodes",
        pool.object().display_name(),
        workload.display_name()
    );
    ctx.report(&taints, message)
        .help("add a taint such as `os=windows:NoSchedule`, which Windows pods tolerate")
        .related(workload, &workload.path(&["metadata", "name"]), "its pods fit Linux and Windows nodes");
    None
}

/// Whether the nodes of a pool run Windows: its requirements or its class say so.
fn is_windows(pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    if let Some(os) = pool.requirement(OS) {
        let mut values = os.get("values").items();
        return os.get("operator").text() == Some("In")
            && os.get("values").items().next().is_some()
            && values.all(|value| value.text() == Some("windows"));
    }
    let reference = pool.template_spec().get("nodeClassRef");
    let class =
        reference.get("name").text().and_then(|name| ctx.partner(Kind::EC2_NODE_CLASS, "default", name));
    let class = class.filter(|_| pool.provider() == Provider::Aws).and_then(Ec2NodeClass::new);
    class.is_some_and(|class| class.family() == Some(AmiFamily::Windows))
}

/// Whether pods select no operating system, and fit the nodes of the pool and of one of Linux.
fn fits_both(template: &Template<'_>, pool: &NodePool<'_>, ctx: &Context<'_>) -> bool {
    let selects = |key: &str| key.ends_with("kubernetes.io/os") || key.ends_with("windows-build");
    // Images of Microsoft may be for both.
    let may_be_both = |container: Node<'_>| {
        container
            .get("image")
            .text()
            .is_none_or(|image| mentions(image, &["mcr.microsoft.com", "windows", "pause"]))
    };
    if referenced_labels(template).iter().any(|label| selects(label.key))
        || template.spec.get("affinity").is_unknown()
        || template.spec.path(&["os", "name"]).text() == Some("windows")
        || template.all_containers().any(may_be_both)
    {
        return false;
    }
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    let Some(pools) = feasibility.feasible_pools_of(template) else { return false };
    let is_linux = |other: &Object| {
        let other = NodePool::new(other).filter(|other| !other.is_other_provider());
        other.is_some_and(|other| ctx.pairs_with(other.object()) && !is_windows(&other, ctx))
    };
    pools.iter().any(|one| is_linux(one.object())) && fits_apart_from_system(template, pool)
}

/// Whether pods fit a pool but for the operating system: of a pool alone it is not known that its class has Windows.
fn fits_apart_from_system(template: &Template<'_>, pool: &NodePool<'_>) -> bool {
    let Some(pod) = to_scheduling_pod(template) else { return false };
    let mut own = pool.to_pool();
    own.requirements.retain(|spec| normalise(&spec.key) != OS);
    let options = SchedulerOptions::default();
    matches!(Scheduler::new(&[own], &[], &options).decide(&pod), Verdict::Fits { .. })
}
