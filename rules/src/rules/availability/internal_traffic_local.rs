//! A Service leads only to pods of the own node, and its pods are not on every node.
//!
//! # Why
//! With `internalTrafficPolicy: Local` a client reaches the pods of a Service on its own node alone. Without one
//! there its connections fail, although pods are ready elsewhere. It is made for the agents of a DaemonSet. Over
//! a Deployment it works as long as pods happen to be beside their clients: a scale-down, a rollout or a new
//! node ends that.
//!
//! It is reported where a workload of the input names the Service in its variables or arguments and has no
//! required affinity to its pods. Pods that are kept on different nodes may be meant to be on all of them.
//!
//! # Fix
//! Remove it. To prefer pods nearby, write `trafficDistribution: PreferClose` (Kubernetes 1.31 and later).
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: tokens, namespace: models}
//!  spec:
//! -  internalTrafficPolicy: Local # <-
//!    selector: {app: tokens}
//!    ports: [{port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: tokens, namespace: models}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: tokens}}
//!    template:
//!      metadata: {labels: {app: tokens}}
//!      spec:
//!        containers:
//!          - name: tokens
//!            image: example.com/tokens:1.0.0
//!            ports: [{containerPort: 8000}]
//!            resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: client, namespace: models}
//!  spec:
//!    containers:
//!      - name: client
//!        image: example.com/client:1.0.0
//!        env: [{name: TOKENS, value: http://tokens.models.svc}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/service-traffic-policy/>
//! - <https://kubernetes.io/docs/reference/networking/virtual-ips/#internal-traffic-policy>
//! - <https://github.com/kubernetes/kubernetes/issues/121371>

use super::egress_without_dns::named_hosts;
use crate::catalog::HOSTNAME;
use crate::facts::url::service_of;
use crate::rules::prelude::*;
use crate::workload::template::REQUIRED_AFFINITY;

pub(crate) static RULE: Rule = Rule {
    id: "internal-traffic-local",
    kinds: &[Kind::SERVICE],
    reads: WORKLOAD_KINDS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("internal_traffic_local.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Kinds whose pods are on some nodes.
const ON_SOME_NODES: [Kind; 4] = [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::REPLICA_SET, Kind::ROLLOUT];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let policy = spec.get("internalTrafficPolicy");
    let address = spec.get("clusterIP");
    // The name of a headless Service leads to its pods.
    let is_headless = address.is_set() && address.text().is_none_or(|text| text == "None");
    if policy.text() != Some("Local")
        || is_headless
        || object.may_lack_fields()
        || object.is_namespace_unknown()
    {
        return None;
    }
    let cluster = ctx.cluster();
    let (selected, unknown) = cluster.views().selected_by_service(object);
    let is_on_some = |workload: &Object| {
        ON_SOME_NODES.iter().any(|kind| workload.is(*kind))
            && !workload.may_lack_fields()
            && !templates(workload).iter().any(are_kept_apart)
    };
    if unknown || !selected.iter().all(|workload| is_on_some(&workload.object)) {
        return None;
    }
    let server = &selected.first()?.object;
    let of_client = |client: &Object| {
        !client.is_same_resource(server) && !client.may_lack_fields() && ctx.pairs_with(client)
    };
    let mut clients =
        WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)).filter(|client| of_client(client));
    let (client, node) = clients.find_map(|client| Some((client, named_by(client, object)?)))?;
    let name = ellipsize(server.name());
    ctx.report(&policy, format!("clients on a node without a pod of `{name}` reach nothing"))
        .help("remove it; `trafficDistribution: PreferClose` prefers pods nearby")
        .related(client, &node, "a client, on any node")
        .fix(Fix::unsafe_("lead to the pods of all nodes").remove(&policy));
    None
}

/// Where a workload whose pods may be on any node names a Service.
fn named_by<'a>(client: &'a Object, service: &Object) -> Option<Node<'a>> {
    let is_it = |host: &str| {
        service_of(host).is_some_and(|(name, namespace)| {
            name == service.name()
                && namespace.unwrap_or(client.namespace_or_default()) == service.namespace_or_default()
        })
    };
    let all = templates(client).into_iter().filter(|template| !is_beside_others(template));
    let mut hosts =
        all.flat_map(|template| template.containers().flat_map(|one| named_hosts(&one)).collect::<Vec<_>>());
    hosts.find(|(host, _)| is_it(host)).map(|(_, node)| node)
}

fn is_by_host(term: &Node<'_>) -> bool {
    term.get("topologyKey").text().is_none_or(|key| key == HOSTNAME)
}

/// Whether pods are only started beside others.
fn is_beside_others(template: &Template<'_>) -> bool {
    let mut terms = template.spec.path(&["affinity", "podAffinity", REQUIRED_AFFINITY]).items();
    terms.any(|term| is_by_host(&term))
}

/// Whether no two pods of a template are on one node, or they are spread over all nodes.
fn are_kept_apart(template: &Template<'_>) -> bool {
    let mut terms = template.spec.path(&["affinity", "podAntiAffinity", REQUIRED_AFFINITY]).items();
    let mut spread = template.spec.get("topologySpreadConstraints").items();
    terms.any(|term| is_by_host(&term)) || spread.any(|constraint| is_by_host(&constraint))
}
