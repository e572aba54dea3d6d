//! A rule of spread or anti-affinity leaves pods without a node.
//!
//! # Why
//! Karpenter counts every value of the topology key that any NodePool lists, also of pools that the pods cannot
//! enter and of zones without a subnet. With `DoNotSchedule`, a value that no pod reaches keeps all others at
//! `maxSkew` pods: the rest stay Pending, and no new node helps. Required anti-affinity allows one pod for each
//! value. It is reported where the input is the whole cluster (`--complete`).
//!
//! Karpenter knows three keys for a spread: the zone, the host name and the capacity type. A required spread over
//! the instance type, or another property of instances (`karpenter.k8s.aws/instance-family`), is reported
//! without `--complete` too. Each type that any NodePool may start counts as a domain, hundreds with most
//! pools: a second pod of one type waits until each has one, whether or not that type can be had. To have
//! several types for Spot, allow them in the NodePool: Karpenter chooses among those with enough capacity.
//!
//! # Fix
//! Give the other pools a taint, and the rule `nodeTaintsPolicy: Honor`; let pools list the values that they
//! can have alone; or name the values that the pods may have in their node affinity.
//!
//! # Example
//! ```yaml,diff
//!  # gpulint check --complete
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: web}
//!  spec:
//!    limits: {cpu: 100}
//!    template:
//!      metadata: {labels: {tier: web}}
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//!          - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1b]}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: reports}
//!  spec:
//!    limits: {cpu: 100}
//!    template:
//!      metadata: {labels: {tier: reports}}
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: general}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
//! -        - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1c]}
//! +        - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a, us-east-1b]}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: api}
//!  spec:
//!    replicas: 4
//!    selector: {matchLabels: {app: api}}
//!    template:
//!      metadata: {labels: {app: api}}
//!      spec:
//!        nodeSelector: {tier: web}
//!        terminationGracePeriodSeconds: 60
//!        topologySpreadConstraints:
//!          - maxSkew: 1
//!            topologyKey: topology.kubernetes.io/zone # <-
//!            whenUnsatisfiable: DoNotSchedule
//!            labelSelector: {matchLabels: {app: api}}
//!        containers:
//!          - name: main
//!            image: example.com/api:1.4.0
//!            resources: {requests: {cpu: 500m, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/scheduling/#topology-spread>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>

use crate::catalog::{HOSTNAME, INSTANCE_TYPE};
use crate::fit::Situation;
use crate::karpenter::pod::rules_of;
use crate::karpenter::scheduling::TopologyKind;
use crate::rules::prelude::*;
use crate::rules::scheduling::pod_fits_no_pool::pinned_pools;
use crate::rules::scheduling::{AROUND_PODS, MAX_POOLS, all_pools, is_scheduled, states_its_pods};

pub(crate) static RULE: Rule = Rule {
    id: "spread-exceeds-domains",
    kinds: WORKLOAD_KINDS,
    reads: AROUND_PODS,
    reports_absence: true,
    docs: docs(include_str!("spread_exceeds_domains.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// Maximum number of values to name.
const MAX_NAMED: usize = 3;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if !states_its_pods(object) || !ctx.cluster().has_any(Kind::NODE_POOL) {
        return None;
    }
    for template in templates(object).iter().filter(|template| keeps_apart(template)) {
        if over_properties(object, template, ctx).is_none() {
            inspect(object, template, ctx);
        }
    }
    None
}

/// What the labels of Karpenter for properties of instances begin with.
const PROPERTIES: &str = "karpenter.k8s.aws/";

/// Reports a required spread over a property of instances. Each value that a type of any pool has counts as a domain, and no node of
/// another type helps where one cannot be had.
fn over_properties(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let is_property = |key: &str| key == INSTANCE_TYPE || key.starts_with(PROPERTIES);
    let constraints = template.spec.get("topologySpreadConstraints");
    let mut required = constraints.items().filter(|one| {
        one.get("whenUnsatisfiable").text() == Some("DoNotSchedule")
            && one.get("topologyKey").text().is_some_and(is_property)
    });
    let node = required.next()?.get("topologyKey");
    if !is_scheduled(template) || ctx.other_nodes_for(template).is_some() {
        return None;
    }
    let found = ctx.pools_for(template)?;
    let pool = found.pools.first()?;
    let message = format!(
        "Karpenter does not support a spread of `{}` over `{}`: pods may stay Pending",
        object.display_name(),
        ellipsize(node.text()?)
    );
    ctx.report(&node, message)
        .reports_absence(false)
        .help("spread over zones, `kubernetes.io/hostname` or `karpenter.sh/capacity-type`")
        .related(
            pool.object(),
            &pool.object().path(&["metadata", "name"]),
            "it may start nodes for the pods",
        );
    Some(())
}

/// Whether pods must be in several domains, which are not nodes.
fn keeps_apart(template: &Template<'_>) -> bool {
    rules_of(template).iter().any(|(kind, required, node)| {
        *required && *kind != TopologyKind::Affinity && node.get("topologyKey").text() != Some(HOSTNAME)
    })
}

fn inspect(object: &Object, template: &Template<'_>, ctx: &mut Context<'_>) -> Option<()> {
    // Other nodes may be in other domains.
    if !is_scheduled(template) || ctx.other_nodes_for(template).is_some() {
        return None;
    }
    let pools = pools_of(template, ctx)?;
    let situation = Situation::around(ctx.cluster(), ctx.platform(), Some(object), (pools, Vec::new()));
    let (pods, limit) = situation.beyond_domains(ctx.cluster(), object, template)?;
    let (name, most) = (object.display_name(), limit.most);
    let key = ellipsize(&limit.key);
    let message =
        format!("`{name}` has {pods} pods, and this rule leaves room for {most}: the others stay Pending");
    let node = object.root().at(&limit.rule).get("topologyKey");
    let mut named: Vec<String> =
        limit.unreached.iter().take(MAX_NAMED).map(|value| format!("`{value}`")).collect();
    if limit.unreached.len() > MAX_NAMED {
        named.push(format!("{} more", limit.unreached.len() - MAX_NAMED));
    }
    ctx.report(&node, message).help(match named.as_slice() {
        [] => format!("with fewer pods, or more values of `{key}`, all of them have a place"),
        named => format!(
            "no pod of it reaches {} of `{key}`, which pools list: each counts as empty",
            named.join(", ")
        ),
    });
    None
}

/// The pools whose values count: all of a whole cluster, or those that the pods name. Another pool takes no such pod, and the values
/// that it lists only count as empty.
fn pools_of(template: &Template<'_>, ctx: &Context<'_>) -> Option<Vec<Object>> {
    if ctx.cluster().is_complete_for(Kind::NODE_POOL) {
        return all_pools(MAX_POOLS, ctx);
    }
    let named = |name: &String| ctx.partner(Kind::NODE_POOL, "default", name).cloned();
    pinned_pools(template)?.iter().map(named).collect()
}
