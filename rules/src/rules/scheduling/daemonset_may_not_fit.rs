//! A pod of a DaemonSet may find no room on its node.
//!
//! # Why
//! Karpenter makes a new node large enough for the pending pods and its DaemonSets. But the scheduler places
//! pods by priority: where others wait as well, they take the room before the pod of the DaemonSet, which
//! stays Pending on that node, because Karpenter starts none for it. Later the scheduler also evicts a running
//! pod of the DaemonSet for one of higher priority. The node then lacks its agent for logs, volumes or
//! devices. Pods without a class have the priority 0, or that of the class with `globalDefault`.
//!
//! Only classes in the input are compared, and only with workloads of several replicas that surely run on
//! nodes of a NodePool which admits the DaemonSet, where two of their pods fit on one node. A priority below 0
//! is left alone.
//!
//! Before Karpenter 1.14 a node that is planned has neither `karpenter.sh/registered` nor
//! `karpenter.sh/initialized`: a DaemonSet that requires one of these labels is not counted for the node, and
//! where pods fill it, the pod of the DaemonSet does not fit.
//!
//! # Fix
//! Write `priorityClassName: system-node-critical`, or a class with a value above those of the workloads. To run
//! on nodes of Karpenter alone, require `karpenter.sh/nodepool`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: scheduling.k8s.io/v1
//!  kind: PriorityClass
//!  metadata: {name: customer-facing}
//!  value: 50000
//!  description: Services that customers wait for.
//!  ---
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: log-agent, namespace: logging}
//!  spec:
//!    selector: {matchLabels: {app: log-agent}}
//!    template:
//!      metadata: {labels: {app: log-agent}}
//! -    spec: # <-
//! +    spec:
//! +      priorityClassName: system-node-critical
//!        containers:
//!          - name: main
//!            image: example.com/log-agent:2.34.0
//!            resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {memory: 256Mi}}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: orders, namespace: shop}
//!  spec:
//!    replicas: 12
//!    selector: {matchLabels: {app: orders}}
//!    template:
//!      metadata: {labels: {app: orders}}
//!      spec:
//!        priorityClassName: customer-facing
//!        containers:
//!          - name: main
//!            image: example.com/orders:3.9.0
//!            resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2Gi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!          - {key: kubernetes.io/arch, operator: In, values: [amd64]}
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!    limits: {cpu: 400}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>
//! - <https://github.com/aws/karpenter-provider-aws/issues/1649>
//! - <https://github.com/kubernetes-sigs/karpenter/issues/2161>

use super::PLACING;
use super::karpenter_on_own_nodes::pool_that_takes;
use super::priority::{SYSTEM_CLASSES, priority};
use crate::karpenter::requirement::{LIFECYCLE_LABELS, simulates_lifecycle};
use crate::karpenter::scheduling::{pod_requests, types_with_room};
use crate::rules::gpu::selected_types;
use crate::rules::prelude::*;
use crate::workload::gang::request_of;
use crate::workload::node_spread::{NodeSpread, node_spreads};

pub(crate) static RULE: Rule = Rule {
    id: "daemonset-may-not-fit",
    depends_on: &[Product::Karpenter],
    kinds: &[Kind::DAEMON_SET],
    reads: kinds![PLACING, [Kind::SCALED_OBJECT, Kind::HPA, Kind::PRIORITY_CLASS], WORKLOAD_KINDS],
    docs: docs(include_str!("daemonset_may_not_fit.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of workloads that are tried.
const MAX_TRIED: usize = 4;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let template = templates(object).into_iter().next()?;
    if object.may_lack_fields() || !has_requests(&template) {
        return None;
    }
    uncounted(&template, ctx);
    let own = priority(&template, ctx).filter(|own| *own >= 0)?;
    let (workload, theirs, pool) = above(&template, own, ctx)?;
    let message = format!(
        "`{}` (priority {theirs}) may fill nodes of `{}`, on which the pod of this DaemonSet ({own}) then stays Pending",
        workload.display_name(),
        pool.display_name()
    );
    let class = template.spec.get("priorityClassName");
    ctx.report(&class, message)
        .help("write `priorityClassName: system-node-critical`, or a class with a value above theirs")
        .related(workload, &workload.path(&["metadata", "name"]), "its pods come first")
        .related(&pool, &pool.path(&["metadata", "name"]), "both run on nodes of this pool");
    None
}

/// Reports a DaemonSet that requires a label which no planned node has: `isDaemonPodCompatible` of older versions leaves it out.
fn uncounted(template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if simulates_lifecycle(ctx.platform().karpenter) {
        return None;
    }
    let requires_it = |expression: &Node<'_>| {
        expression.get("key").text().is_some_and(|key| LIFECYCLE_LABELS.contains(&key))
            && matches!(expression.get("operator").text(), Some("In" | "Exists"))
    };
    // One of several terms is enough.
    let terms = template.required_terms().items();
    let terms: Option<Vec<Node<'_>>> =
        terms.map(|term| term.get("matchExpressions").items().find(requires_it)).collect();
    let selector = template.spec.get("nodeSelector");
    let selected = LIFECYCLE_LABELS.iter().map(|key| selector.get(key)).find(Node::is_set);
    let node = selected.or_else(|| terms?.into_iter().next())?;
    ctx.report(
        &node,
        "Karpenter before 1.14 does not count this DaemonSet for new nodes: they may be too small",
    )
    .help("require that `karpenter.sh/nodepool` exists, or update Karpenter");
    None
}

/// A workload of a higher priority, that priority, and a NodePool which surely takes its pods and admits those of a DaemonSet.
fn above<'i>(daemonset: &Template<'_>, own: i64, ctx: &Context<'i>) -> Option<(&'i Object, i64, Object)> {
    let cluster = ctx.cluster();
    let most = SYSTEM_CLASSES.iter().map(|(_, value)| *value).min()?;
    // Parts of Kubernetes have few pods.
    let rest = REPLICATED_KINDS.iter().flat_map(|kind| cluster.of(*kind)).filter_map(|workload| {
        let template = templates(workload).into_iter().next()?;
        let theirs = priority(&template, ctx).filter(|theirs| *theirs > own && *theirs < most)?;
        let is_known = !workload.may_lack_fields() && ctx.pairs_with(workload) && has_requests(&template);
        let has_several = is_known && cluster.views().replicas(workload)?.max > 1;
        has_several.then_some((workload, template, theirs))
    });
    let mut rest = rest.peekable();
    rest.peek()?;
    let pools = ctx.pools_for(daemonset)?.pools;
    rest.take(MAX_TRIED).find_map(|(workload, template, theirs)| {
        let pool = pool_that_takes(workload, &template, &[Provider::Aws], ctx)?;
        let is_shared = pools.iter().any(|one| one.object().is_same_resource(&pool));
        let fills = is_shared && share_a_node(&template, &pool, ctx)?;
        fills.then_some((workload, theirs, pool))
    })
}

/// Whether two of the pods fit on one node of a pool. For a single pod Karpenter makes the node large enough for the DaemonSet as
/// well, and no other pod takes that room.
fn share_a_node(template: &Template<'_>, pool: &Object, ctx: &Context<'_>) -> Option<bool> {
    let pod = to_scheduling_pod(template)?;
    let are_apart = node_spreads(template).iter().any(NodeSpread::holds_on_each_node);
    let requests = pod_requests(&pod);
    let needs = requests.iter().filter(|(name, _)| name.as_str() != "ephemeral-storage");
    let room = types_with_room(&needs.map(|(name, amount)| (name.clone(), amount * 2)).collect())?;
    let types = NodePool::new(pool)?.types()?;
    let types = selected_types(template, ctx).map_or(types, |(selected, _)| types.and(&selected));
    Some(!are_apart && !types.is_disjoint(&room))
}

/// Whether pods need room for CPU or memory.
fn has_requests(template: &Template<'_>) -> bool {
    let needs = |resource| request_of(template, "requests", resource).is_some_and(|(need, _)| need > 0);
    needs("cpu") || needs("memory")
}
