//! Pods that Karpenter places say nothing of the CPU and memory that they need.
//!
//! # Why
//! Karpenter sizes nodes by the sum of requests, and by nothing else. Pods without requests need nothing in its
//! eyes: all of them come to one node, the smallest that there is, which runs out of memory and stops
//! answering; and consolidation takes any node with them for empty enough. It is reported for workloads of
//! three replicas and more whose pods go to NodePools of the input, where no container requests CPU or memory
//! and no LimitRange of the namespace adds requests.
//!
//! # Fix
//! Write requests of CPU and memory, and a limit of memory that is equal to its request.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: general}
//!  spec:
//!    limits: {cpu: 100}
//!    disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 10m}
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: api}
//!  spec:
//!    replicas: 6
//!    selector: {matchLabels: {app: api}}
//!    template:
//!      metadata: {labels: {app: api}}
//!      spec:
//!        nodeSelector: {karpenter.sh/nodepool: general}
//!        containers:
//! -        - name: api # <-
//! +        - name: api
//!            image: example.com/api:1.4.0
//! +          resources: {requests: {cpu: 250m, memory: 512Mi}, limits: {memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/karpenter.html>
//! - <https://github.com/aws/karpenter-provider-aws/issues/1759>

use crate::rules::prelude::*;
use crate::workload::node_spread::node_spreads;

pub(crate) static RULE: Rule = Rule {
    id: "requests-missing-on-karpenter",
    kinds: &[Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::ROLLOUT],
    reads: &[Kind::NODE_POOL, Kind::LIMIT_RANGE, Kind::HPA, Kind::SCALED_OBJECT, Kind::VPA],
    docs: docs(include_str!("requests_missing_on_karpenter.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

/// The replicas from which on a node too small is likely.
const MANY: i64 = 3;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let namespace = object.namespace_or_default();
    let replicas = cluster.views().replicas(object)?;
    if replicas.min < MANY
        || object.may_lack_fields()
        || object.is_owned()
        || cluster.in_namespace(Kind::LIMIT_RANGE, namespace).next().is_some()
        || cluster.in_namespace(Kind::VPA, namespace).next().is_some()
    {
        return None;
    }
    let templates = templates(object);
    let [template] = templates.as_slice() else { return None };
    let is_open = template.spec.has_unknown_key() || !template.spec.get("resources").is_absent();
    let is_bare = |container: Node<'_>| {
        let resources = container.get("resources");
        let names = ["requests", "limits"].map(|side| resources.get(side));
        !container.has_unknown_key()
            && (resources.is_absent() || resources.is_mapping() && !resources.has_unknown_key())
            && names.iter().all(|side| side.entries().is_empty() && !side.is_unknown())
    };
    if is_open || template.containers().next().is_none() || !template.all_containers().all(is_bare) {
        return None;
    }
    // Karpenter plans a node for each pod that has to be apart from the others.
    if node_spreads(template).iter().any(|spread| spread.is_required) {
        return None;
    }
    let found = ctx.pools_for(template)?;
    let pool = found.all_known()?.first()?;
    let container = template.containers().next()?;
    let message = format!(
        "Karpenter sizes nodes by requests, and the {} pods of `{}` have none: one small node gets all",
        replicas.min,
        object.display_name()
    );
    ctx.report(&container.get("resources"), message).help("write requests of CPU and memory").related(
        pool.object(),
        &pool.object().path(&["metadata", "name"]),
        "its nodes take the pods",
    );
    None
}
