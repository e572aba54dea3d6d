//! A pool and its class do not agree on reserved capacity.
//!
//! # Why
//! Reserved capacity takes two: the class selects reservations with
//! `capacityReservationSelectorTerms`, and the pool allows the capacity type `reserved`. A pool that
//! allows nothing else, of a class that selects nothing, never starts a node; where it allows others
//! as well, the reservation that somebody pays for stays unused and nodes are bought beside it. The
//! same goes for a class that selects reservations which none of its pools allows.
//!
//! # Fix
//! Select the reservations in the class, or take `reserved` out of the pool.
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
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p5]}
//! -        - key: karpenter.sh/capacity-type
//! -          operator: In
//! -          values: [reserved] # <-
//! +        - {key: karpenter.sh/capacity-type, operator: In, values: [reserved]}
//!        taints:
//!          - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: nodes
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! +  capacityReservationSelectorTerms: [{tags: {team: training}}]
//! +  blockDeviceMappings:
//! +    - deviceName: /dev/xvda
//! +      ebs: {volumeSize: 200Gi, volumeType: gp3, encrypted: true}
//! +  instanceStorePolicy: RAID0
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speccapacityreservationselectorterms>
//! - <https://karpenter.sh/docs/tasks/odcrs/>

use crate::rules::partners::pools_of_class;
use crate::rules::prelude::*;

/// The classes of pools, and the workloads that determine the purpose of a pool.
const READS: &[Kind] = kinds![
    [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS, Kind::NAMESPACE],
    WORKLOAD_KINDS
];

pub(crate) static RULE: Rule = Rule {
    id: "reserved-capacity-mismatch",
    kinds: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    reads: READS,
    pairs: &[Pair { with: &[Kind::EC2_NODE_CLASS], partners: pools_of_class, beside: nothing }],
    reports_absence: true,
    docs: docs(include_str!("reserved_capacity_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::NodePool)
};

const RESERVED: &str = "reserved";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::EC2_NODE_CLASS) {
        unused(object, ctx);
        return None;
    }
    let pool = NodePool::new(object)?;
    if object.may_lack_fields() || pool.has_unknown_types() {
        return None;
    }
    // Only explicit capacity types count: without them a pool allows all.
    let types = pool.capacity_types().filter(|types| types.contains(&RESERVED))?;
    let only = types == [RESERVED];
    let node = word(&pool).or_else(|| only.then(|| pool.requirements()))?;
    let reference = pool.template_spec().get("nodeClassRef");
    let of_aws = reference.get("group").text() == Some(Kind::EC2_NODE_CLASS.group)
        && reference.get("kind").text() == Some(Kind::EC2_NODE_CLASS.kind);
    let name = reference.get("name").text().filter(|_| of_aws)?;
    let index = ctx.cluster();
    let found = index.unique(Kind::EC2_NODE_CLASS, "default", name)?;
    let class = Ec2NodeClass::new(found)?;
    let several = index.all(Kind::EC2_NODE_CLASS.group, Kind::EC2_NODE_CLASS.kind, "default", name);
    // Another class of the same name, or a patch, may set what this one lacks.
    if several.len() > 1 || found.may_lack_fields() || index.views().node_classes().is_patched(name) {
        return None;
    }
    let terms = class.get("capacityReservationSelectorTerms");
    if terms.is_set() && (!terms.is_sequence() || terms.items().next().is_some()) {
        if only {
            alone(object, &pool, &node, ctx);
        }
        return None;
    }
    let shown = ellipsize(name);
    let finding = if only {
        ctx.report(&node, format!("the pool allows only reserved capacity, and class `{shown}` selects none"))
    } else {
        ctx.report(&node, format!("`reserved` is without effect: class `{shown}` selects no reservations"))
            .severity(Severity::Warning)
    };
    finding
        .reports_absence(false)
        .help("write `capacityReservationSelectorTerms` in the class, or take `reserved` out")
        .related(found, &class.spec(), "the class");
    None
}

/// Reports a class that selects reservations which none of its pools can use.
fn unused(object: &Object, ctx: &mut Context<'_>) {
    let Some(class) = Ec2NodeClass::new(object) else { return };
    let terms = class.get("capacityReservationSelectorTerms");
    if terms.items().next().is_none() {
        return;
    }
    let users = ctx.cluster().views().class_pools().pools_of(object);
    // A pool without capacity types allows reserved capacity.
    let refuses = |one: &Object| {
        NodePool::new(one).is_some_and(|pool| {
            let types = pool.capacity_types();
            !one.may_lack_fields()
                && !pool.has_unknown_types()
                && types.is_some_and(|types| !types.contains(&RESERVED))
        })
    };
    if users.incomplete || users.pools.is_empty() || !users.pools.iter().all(refuses) {
        return;
    }
    let finding =
        ctx.report(&terms, "no pool of this class allows `reserved`, so the reservations stay unused");
    finding
        .severity(Severity::Warning)
        .help("add `reserved` to the capacity types of a pool, or take the terms out");
    for user in users.pools.iter().take(3) {
        let name = NodePool::new(user)
            .and_then(|pool| pool.requirement(CAPACITY_TYPE))
            .unwrap_or_else(|| user.path(&["metadata", "name"]));
        finding.related(user, &name, "one of its pools");
    }
}

/// The node of the value, if the pool contains it.
fn word<'a>(pool: &NodePool<'a>) -> Option<Node<'a>> {
    let label = pool.labels().get(CAPACITY_TYPE);
    let listed = pool
        .requirements()
        .items()
        .filter(|r| r.get("key").text() == Some(CAPACITY_TYPE))
        .filter(|r| r.get("operator").text() == Some("In"))
        .flat_map(|r| r.get("values").items())
        .find(|value| value.text() == Some(RESERVED));
    listed.or_else(|| (label.text() == Some(RESERVED)).then_some(label))
}

/// Reports a pool without a fallback for its pods once its reservations are used up. Training waits for its
/// capacity block on purpose, and so does every pool that requires capacity blocks.
fn alone(object: &Object, pool: &NodePool<'_>, node: &Node<'_>, ctx: &mut Context<'_>) {
    let index = ctx.cluster();
    let by_reservation = (pool.requirements().items())
        .filter_map(|r| r.get("key").text())
        .any(|key| key.starts_with("karpenter.k8s.aws/capacity-reservation-"));
    let purpose = index.views().purpose(pool);
    if by_reservation
        || pool.is_static()
        || !index.is_complete_for(Kind::NODE_POOL)
        || purpose.is_some_and(|(class, _)| class == WorkloadClass::Training)
        || super::fallback(object, pool, index).is_some()
    {
        return;
    }
    ctx.report(node, "once its reservations are used up, no other pool admits the pods of this one")
        .severity(Severity::Info)
        .help("add a pool of lower weight, with the same taints and labels, that buys on demand");
}
