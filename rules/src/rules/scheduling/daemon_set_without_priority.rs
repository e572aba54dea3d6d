//! A DaemonSet of GPU nodes has no priority, and may find them full.
//!
//! # Why
//! Karpenter leaves room for DaemonSets when it chooses a type, but reserves none: the scheduler may bind
//! other pods first, or fill the node that a new DaemonSet comes to. A pod of a DaemonSet can run on its
//! own node only. With no more priority than the pods there it evicts none and stays Pending, and Karpenter
//! starts no node for it: logs, metrics or volumes are missing on that node as long as it runs, which for
//! training can be weeks.
//!
//! # Fix
//! Set `priorityClassName: system-node-critical`, or a PriorityClass above those of the workloads.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.2xlarge, g6.4xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: logs, namespace: logging}
//!  spec:
//!    selector: {matchLabels: {app: logs}}
//!    template:
//!      metadata: {labels: {app: logs}}
//! -    spec: # <-
//! +    spec:
//! +      priorityClassName: system-node-critical
//!        tolerations: [{operator: Exists}]
//!        containers:
//!          - name: main
//!            image: example.com/logs:1.4.0
//!            resources: {requests: {cpu: 200m, memory: 256Mi}, limits: {memory: 256Mi}}
//! ```
//!
//! # References
//! - <https://github.com/aws/karpenter-provider-aws/issues/9269>
//! - <https://kubernetes.io/docs/tasks/administer-cluster/guaranteed-scheduling-critical-addon-pods/>

use super::node_helpers::untolerated;
use crate::karpenter::pod::toleration;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "daemon-set-without-priority",
    kinds: &[Kind::DAEMON_SET],
    reads: &[Kind::NODE_POOL, Kind::PRIORITY_CLASS],
    docs: docs(include_str!("daemon_set_without_priority.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let template = templates(object).into_iter().next()?;
    let spec = &template.spec;
    let list = spec.get("tolerations");
    let selects = ["nodeSelector", "affinity", "priority", "priorityClassName", "nodeName"];
    if object.may_lack_fields()
        || object.is_patched_by_kustomize()
        || spec.has_unknown_key()
        || list.has_unknown()
        || selects.iter().any(|field| !spec.get(field).is_absent())
    {
        return None;
    }
    let requests = |container: Node<'_>| {
        let resources = container.get("resources");
        ["cpu", "memory"].iter().any(|name| {
            ["requests", "limits"].iter().any(|side| {
                Quantity::at(&resources.get(side).get(name)).is_some_and(|amount| !amount.is_zero())
            })
        })
    };
    if !template.containers().any(requests) {
        return None;
    }
    // A class may be the default of all pods, which then have the same priority as well or more.
    if ctx.cluster().of(Kind::PRIORITY_CLASS).any(|class| class.get("globalDefault").bool() == Some(true)) {
        return None;
    }
    let tolerations: Vec<_> = list.items().map(|item| toleration(&item)).collect();
    let pool = ctx.cluster().of(Kind::NODE_POOL).find(|pool| {
        NodePool::new(pool).is_some_and(|one| {
            let has_taints = one.template_spec().get("taints").items().next().is_some();
            one.is_gpu_intended() && has_taints && untolerated(&tolerations, &one).is_none()
        }) && ctx.pairs_with(pool)
    })?;
    let message = format!(
        "DaemonSet `{}` has no priority: on a full node of GPU pool `{}` its pods stay Pending",
        object.display_name(),
        pool.display_name()
    );
    ctx.report(spec, message)
        .help("set `priorityClassName: system-node-critical`, or a class above those of the workloads")
        .related(pool, &pool.path(&["metadata", "name"]), "its pods run on nodes of this pool");
    None
}
