//! A pool asks for several zones for each node, and its pods need a node in one.
//!
//! # Why
//! Karpenter narrows the requirements of a new node to what its pods need. A pod with a volume of EBS needs
//! the zone of the volume, and pods that are spread over zones with `DoNotSchedule` get them one by one. With
//! `minValues: 2` on the zone no such node is possible: the pods stay Pending. Before Karpenter 1.14.3 that
//! shows only when the API server rejects the NodeClaim, also with the policy `BestEffort`.
//!
//! With volumes it is easily missed: the first start works, because a volume that does not exist yet is in no
//! zone. It is reported where the pods select such pools alone. Pods that name a zone are those of
//! `pod-fits-no-pool`.
//!
//! # Fix
//! Leave `minValues` out of the zone. What the pool lists lets Karpenter take any of the zones anyway.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: stateful}
//!  spec:
//!    template:
//!      metadata: {labels: {example.com/pool: stateful}}
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - key: topology.kubernetes.io/zone
//!            operator: In
//!            values: [us-east-1a, us-east-1b, us-east-1c]
//! -          minValues: 2 # <-
//!    limits: {cpu: 500}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: search}
//!  spec:
//!    replicas: 3
//!    selector: {matchLabels: {app: search}}
//!    template:
//!      metadata: {labels: {app: search}}
//!      spec:
//!        nodeSelector: {example.com/pool: stateful}
//!        topologySpreadConstraints:
//!          - maxSkew: 1
//!            topologyKey: topology.kubernetes.io/zone
//!            whenUnsatisfiable: DoNotSchedule
//!            labelSelector: {matchLabels: {app: search}}
//!        containers:
//!          - name: search
//!            image: example.com/search:2.17.1
//!            resources: {requests: {cpu: 2, memory: 8Gi}, limits: {memory: 8Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodepools/#min-values>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/2999>
//! - <https://github.com/kubernetes-sigs/karpenter/pull/3170>

use super::access_modes::{class_of, is_of_ebs};
use crate::catalog::ZONE;
use crate::fit::min_values_policy;
use crate::karpenter::pod::rules_of;
use crate::karpenter::scheduling::TopologyKind;
use crate::platform::MinValuesPolicy;
use crate::rules::prelude::*;
use crate::rules::scheduling::{PLACEMENT_READS, is_scheduled, states_its_pods};

pub(crate) static RULE: Rule = Rule {
    id: "min-values-on-zone",
    kinds: &[Kind::NODE_POOL],
    reads: PLACEMENT_READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("min_values_on_zone.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Why a node for some pods is in one zone, and the place in the workload that says so.
struct Narrowed<'a> {
    workload: &'a Object,
    place: Node<'a>,
    is_volume: bool,
}

fn check(pool: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let wanted = several_zones(ctx.requirements()?)?;
    // From 1.14.3 on (pull request 3170) the policy lowers the number also for what pods need.
    let lowers = ctx.platform().karpenter >= Version::new(1, 14);
    let policy = || min_values_policy(ctx.platform(), ctx.cluster());
    if pool.may_lack_fields() || lowers && policy() == MinValuesPolicy::BestEffort {
        return None;
    }
    let workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    let mut near = workloads.filter(|workload| ctx.pairs_with(workload) && states_its_pods(workload));
    let narrowed = near.find_map(|workload| {
        templates(workload).into_iter().filter(is_scheduled).find_map(|template| {
            let narrowed = narrowed(workload, &template, ctx)?;
            goes_only_there(pool, &template, ctx).then_some(narrowed)
        })
    })?;
    let (name, number) = (narrowed.workload.display_name(), wanted.int()?);
    let message =
        format!("a node for pods of `{name}` is in one zone, and `minValues` is {number}: none is started");
    let (why, help) = if narrowed.is_volume {
        (
            "its volume is in one zone",
            "remove `minValues`: only the first start works, before the volume has a zone",
        )
    } else {
        (
            "this rule gives each node one zone",
            "remove `minValues`: the pods are spread over the zones without it",
        )
    };
    ctx.report(&wanted, message)
        .help(help)
        .related(narrowed.workload, &narrowed.place, why)
        .fix(Fix::unsafe_("let nodes be in one zone").remove(&wanted));
    None
}

/// The `minValues` of a pool for its zones, if it is more than one.
fn several_zones<'a>(list: &RequirementList<'a>) -> Option<Node<'a>> {
    let mut wanted =
        list.items().filter(|item| item.key() == Some(ZONE)).map(|item| item.node.get("minValues"));
    wanted.find(|wanted| wanted.int().is_some_and(|number| number > 1))
}

fn narrowed<'a>(workload: &'a Object, template: &Template<'a>, ctx: &Context<'a>) -> Option<Narrowed<'a>> {
    let is_over_zones = |(kind, required, node): &(TopologyKind, bool, Node<'a>)| {
        *kind == TopologyKind::Spread && *required && node.get("topologyKey").text() == Some(ZONE)
    };
    if let Some((_, _, rule)) = rules_of(template).into_iter().find(is_over_zones) {
        return Some(Narrowed { workload, place: rule.get("topologyKey"), is_volume: false });
    }
    // A volume that is made for each pod follows the pod.
    let of_replicas = workload.path(&["spec", "volumeClaimTemplates"]).items();
    let of_replicas = of_replicas.map(|claim| claim.get("spec")).map(|spec| (spec.clone(), spec));
    let named = template.spec.get("volumes").items().filter_map(|volume| {
        let name = volume.path(&["persistentVolumeClaim", "claimName"]);
        let namespace = workload.namespace_or_default();
        let claim = ctx.cluster().unique(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name.text()?)?;
        Some((claim.get("spec"), name))
    });
    let (_, place) = of_replicas.chain(named).find(|(spec, _)| is_in_one_zone(spec, ctx))?;
    Some(Narrowed { workload, place, is_volume: true })
}

/// Whether the volume of a claim is one of EBS, by its class.
fn is_in_one_zone(claim: &Node<'_>, ctx: &Context<'_>) -> bool {
    match class_of(claim, ctx) {
        Some(class) => class.get("provisioner").text().is_some_and(is_of_ebs),
        // The class of EKS, and the name that most give to the other type of EBS.
        None => claim.get("storageClassName").text().is_some_and(|name| matches!(name, "gp2" | "gp3")),
    }
}

/// Whether the pods of a template select a pool, and no other but such that ask for several zones as well.
fn goes_only_there(pool: &Object, template: &Template<'_>, ctx: &Context<'_>) -> bool {
    let feasibility = ctx.cluster().views().feasibility(ctx.platform());
    // The scheduler does not say whether the number of zones admits a pod: it knows neither subnets nor volumes.
    let Some(pinned) = feasibility.pinned_pools_of(template) else { return false };
    pinned.iter().any(|one| one.object().is_same_resource(pool))
        && pinned
            .iter()
            .all(|one| RequirementList::of(one.object()).is_some_and(|list| several_zones(&list).is_some()))
        && !feasibility.has_unreadable_pools()
        && ctx.other_nodes_for(template).is_none()
}
