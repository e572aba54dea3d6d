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
use crate::karpenter::installation::is_controller;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "karpenter-on-own-nodes",
    depends_on: &[Product::Karpenter],
    kinds: &[Kind::DEPLOYMENT],
    reads: PLACEMENT_READS,
    docs: docs(include_str!("karpenter_on_own_nodes.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of NodePools that are tried.
const MAX_TRIED: usize = 8;

/// The label with which EKS marks pods that run on Fargate.
const FARGATE_PROFILE: &str = "eks.amazonaws.com/fargate-profile";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
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
