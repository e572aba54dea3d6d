//! Karpenter's controller may run on nodes that it starts itself.
//!
//! # Why
//! Karpenter then consolidates, replaces and expires the node that it runs on, and drains itself. When the last
//! of its pods is evicted, or its node is reclaimed, nothing is left that could start a node for it: all other
//! pods stay Pending as well until a person adds a node. The chart of Karpenter requires nodes without the label
//! `karpenter.sh/nodepool`; own manifests, or own values for `affinity`, often lose that.
//!
//! # Fix
//! Require that the label `karpenter.sh/nodepool` does not exist, as the chart does, and keep a node group or a
//! Fargate profile for Karpenter.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: karpenter, namespace: kube-system}
//!  spec:
//!    replicas: 2
//!    selector: {matchLabels: {app: karpenter}}
//!    template:
//!      metadata: {labels: {app: karpenter}}
//!      spec: # <-
//! +      affinity:
//! +        nodeAffinity:
//! +          requiredDuringSchedulingIgnoredDuringExecution:
//! +            nodeSelectorTerms:
//! +              - matchExpressions:
//! +                  - {key: karpenter.sh/nodepool, operator: DoesNotExist}
//!        containers:
//!          - name: controller
//!            image: public.ecr.aws/karpenter/controller:1.14.1
//!            resources:
//!              requests: {cpu: 1, memory: 1Gi}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/karpenter.html>
//! - <https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/>

use super::PLACEMENT_READS;
use crate::fit::Situation;
use crate::karpenter::installation::{CHART, INSTALLERS, is_controller};
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::workload::charts::{ValuePlace, find_in_values};

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-on-own-nodes",
    depends_on: &[Product::Karpenter],
    kinds: &INSTALLERS,
    reads: PLACEMENT_READS,
    docs: docs(include_str!("karpenter_on_own_nodes.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of NodePools that are tried.
const MAX_TRIED: usize = 8;

const OS: &str = "kubernetes.io/os";

/// The label with which EKS marks pods that run on Fargate.
const FARGATE_PROFILE: &str = "eks.amazonaws.com/fargate-profile";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    if !object.is(Kind::DEPLOYMENT) {
        return by_values(object, ctx);
    }
    let template = templates(object).into_iter().next()?;
    if !template.containers().any(|container| is_controller(&container)) {
        return None;
    }
    let spec = &template.spec;
    let scheduler = spec.get("schedulerName");
    let is_elsewhere = spec.get("nodeName").is_set()
        || scheduler.is_set() && scheduler.text() != Some("default-scheduler")
        || template.labels().iter().any(|(key, _)| *key == FARGATE_PROFILE);
    if is_elsewhere || spec.has_unknown_key() {
        return None;
    }
    let pool = pool_that_takes(object, &template, &[Provider::Aws], ctx)?;
    let message = format!(
        "`{}` may run on nodes of NodePool `{}`, which it starts and drains itself",
        object.display_name(),
        pool.display_name()
    );
    ctx.report(spec, message)
        .help("require that the label `karpenter.sh/nodepool` does not exist, as the chart does")
        .related(&pool, &pool.path(&["metadata", "name"]), "the pods fit nodes of this pool");
    None
}

/// Reports values of the chart that take away what keeps its pods off Karpenter's nodes: its node affinity is replaced, or removed by
/// a null, and no other label is selected.
fn by_values(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let place = find_in_values(object, CHART, |values| {
        let root = values.root;
        let is_known = root.path(&["settings", "clusterName"]).is_set()
            && !values.may_differ
            && !root.has_unknown_key()
            && !object.path(&["spec", "postRenderers"]).is_set();
        let selector = root.get("nodeSelector");
        let is_selected = selector.has_unknown() || selector.entries().iter().any(|(key, _)| *key != OS);
        if !is_known || is_selected {
            return None;
        }
        unpinned(&root.get("affinity")).map(|node| values.place(&node, object))
    })?;
    // A profile of Fargate may take the pods.
    let pool = untainted_pool(ctx).filter(|_| ctx.cluster().other_nodes().is_empty())?;
    report(&place, &pool, ctx);
    None
}

fn report(place: &ValuePlace<'_>, pool: &Object, ctx: &mut Context<'_>) {
    let message =
        format!("Karpenter may run on nodes of NodePool `{}`, which it drains itself", pool.display_name());
    report_place(place, message, ctx)
        .help("require that the label `karpenter.sh/nodepool` does not exist, as the chart does by default")
        .related(pool, &pool.path(&["metadata", "name"]), "the pods fit nodes of this pool");
}

/// The part of an affinity in values that leaves out what the chart requires of nodes.
fn unpinned<'a>(affinity: &Node<'a>) -> Option<Node<'a>> {
    let of_nodes = affinity.get("nodeAffinity");
    let required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution");
    let terms = required.get("nodeSelectorTerms");
    if let Some(removed) = [affinity, &of_nodes, &required, &terms].into_iter().find(|node| node.is_null()) {
        return Some(removed.clone());
    }
    let is_free = |term: Node<'_>| {
        let expressions = term.get("matchExpressions");
        !term.has_unknown()
            && !term.get("matchFields").is_set()
            && expressions.items().all(|one| {
                let key = one.get("key").text();
                let is_negative = matches!(one.get("operator").text(), Some("NotIn" | "DoesNotExist"));
                key == Some(OS) || is_negative && key != Some("karpenter.sh/nodepool")
            })
    };
    terms.items().any(is_free).then_some(terms)
}

/// A NodePool of Karpenter's own nodes that takes pods without tolerations.
fn untainted_pool(ctx: &Context<'_>) -> Option<Object> {
    let mut pools = ctx.cluster().of(Kind::NODE_POOL);
    let is_open = |object: &&Object| {
        let group = object.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
        let taints = object.path(&["spec", "template", "spec", "taints"]);
        Provider::of_group(&group) == Provider::Aws
            && group.text().is_some()
            && !object.may_lack_fields()
            && !taints.is_set()
            && !object.path(&["spec", "replicas"]).is_set()
            && ctx.pairs_with(object)
    };
    pools.find(is_open).cloned()
}

/// A NodePool with a node class of one of `providers` that certainly takes the pods. The nodes of EKS Auto Mode are started by
/// another controller than those of Karpenter.
pub(super) fn pool_that_takes(
    object: &Object,
    template: &Template<'_>,
    providers: &[Provider],
    ctx: &Context<'_>,
) -> Option<Object> {
    let is_own = |pool: &Object| {
        let group = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
        !pool.is_partial() && group.text().is_some() && providers.contains(&Provider::of_group(&group))
    };
    // The values of a chart are no template whose pools are looked up.
    let likely: Vec<Object> = match object.workload() {
        Some(_) => ctx.pools_for(template)?.pools.iter().map(|pool| pool.object().clone()).collect(),
        None => ctx.cluster().of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool)).cloned().collect(),
    };
    likely
        .iter()
        .filter(|pool| is_own(pool))
        .take(MAX_TRIED)
        .find(|pool| {
            let near =
                ctx.cluster().of(Kind::DAEMON_SET).filter(|set| !set.is_partial() && ctx.pairs_with(set));
            let around = (vec![(*pool).clone()], near.cloned().collect());
            let situation = Situation::around(ctx.cluster(), ctx.platform(), Some(object), around);
            situation.sure_pool_of(template).is_some_and(|first| first.ptr_eq(pool))
        })
        .cloned()
}
