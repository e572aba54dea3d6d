//! A NetworkPolicy allows a port at which its pods do not listen.
//!
//! # Why
//! The ports of a NetworkPolicy are those of the pods, after a Service has translated its own. A policy that
//! allows the `port` of the Service, and not its `targetPort`, keeps every client away: requests time out,
//! and Prometheus and KEDA read nothing. So does a name that no container port has.
//!
//! A number is reported only if it is the port of a Service that translates it to another one: containers may
//! listen on ports that they do not list.
//!
//! # Fix
//! Write the port at which the container listens, or the name of its container port.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: NetworkPolicy
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    podSelector: {matchLabels: {app: chat}}
//!    policyTypes: [Ingress]
//!    ingress:
//!      - from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gateway}}}]
//! -      ports: [{port: 80}] # <-
//! +      ports: [{port: 8000}]
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    selector: {app: chat}
//!    ports: [{port: 80, targetPort: 8000}]
//!  ---
//!  apiVersion: v1
//!  kind: Pod
//!  metadata: {name: chat, namespace: models, labels: {app: chat}}
//!  spec:
//!    containers:
//!      - name: web
//!        image: example.com/web:1.0.0
//!        ports: [{containerPort: 8000}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/network-policies/>
//! - <https://kubernetes.io/docs/reference/networking/virtual-ips/>

use crate::rules::monitoring::pod_monitor_selects_nothing::are_injected;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "network-policy-port-mismatch",
    kinds: &[Kind::NETWORK_POLICY],
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("network_policy_port_mismatch.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// The pods that a policy selects, and the Services that lead to them.
const READS: &[Kind] = kinds![[Kind::SERVICE], WORKLOAD_KINDS];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let spec = object.get("spec");
    let selector = spec.get("podSelector");
    let types = spec.get("policyTypes");
    let is_open = object.may_lack_fields() || spec.has_unknown();
    let is_for_egress = types.is_set() && !types.items().any(|one| one.text() == Some("Ingress"));
    if is_open || is_for_egress || selector.get("matchLabels").entries().is_empty() {
        return None;
    }
    let views = ctx.cluster().views();
    let (workloads, unknown) = views.selected_by_labels(object, &selector);
    let [workload] = workloads.as_slice() else { return None };
    let templates = templates(&workload.object);
    let ([template], false) = (templates.as_slice(), unknown) else { return None };
    // Containers that webhooks add have ports of their own.
    if workload.object.may_lack_fields() || are_injected(std::slice::from_ref(template)) {
        return None;
    }
    let listening = listening(template)?;
    let rules: Vec<Node<'_>> = spec.get("ingress").items().collect();
    // A rule without ports allows all of them.
    if rules.iter().any(|rule| rule.get("ports").items().next().is_none()) {
        return None;
    }
    let ports: Vec<Node<'_>> =
        rules.iter().flat_map(|rule| rule.get("ports").items().collect::<Vec<_>>()).collect();
    let is_tcp = |port: &&Node<'_>| matches!(port.get("protocol").text(), None | Some("TCP"));
    let allows = |port: &Node<'_>| {
        let node = port.get("port");
        let last = port.get("endPort").int();
        listening.iter().any(|(number, name)| match node.int() {
            Some(first) => (first..=last.unwrap_or(first)).contains(number),
            None => !node.is_set() || node.text().is_some_and(|text| Some(text) == *name),
        })
    };
    if ports.iter().any(allows) {
        return None;
    }
    let owner = &workload.object;
    let numbers: Vec<String> = listening.iter().map(|(number, _)| number.to_string()).collect();
    let own = numbers.join(", ");
    let services = views.services_of(object.namespace_or_default(), template);
    let service_port = |port: &Node<'_>| {
        let number = port.get("port").int()?;
        services.iter().copied().find(|service| {
            service.path(&["spec", "ports"]).items().any(|entry| {
                let target = entry.get("targetPort");
                entry.get("port").int() == Some(number) && target.is_set() && target.int() != Some(number)
            })
        })
    };
    let port = ports.iter().find(is_tcp)?;
    let (node, service) = (port.get("port"), service_port(port));
    if !ctx.pairs_with(owner) || (service.is_none() && node.int().is_some()) {
        return None;
    }
    let message = match service {
        Some(service) => format!(
            "the pods listen on {own}: {} is the port of Service `{}`, which a policy never sees",
            node.int()?,
            ellipsize(service.name())
        ),
        None => format!(
            "no container port of the pods is called `{}`: they listen on {own}",
            ellipsize(&node.string_or_number()?)
        ),
    };
    let finding = ctx.report(&node, message);
    finding.related(owner, &owner.path(&["metadata", "name"]), "the pods");
    match listening.as_slice() {
        [(number, _)] if !port.get("endPort").is_set() => {
            finding
                .help(format!("write `port: {number}`"))
                .fix(Fix::unsafe_(format!("allow port {number}")).set(&node, json!(number)));
        }
        _ => {
            finding.help("write the port of the pods that clients ask");
        }
    }
    None
}

/// The TCP ports of the pods, with their names. `None` if a container may listen on others.
fn listening<'a>(template: &Template<'a>) -> Option<Vec<(i64, Option<&'a str>)>> {
    let mut found = Vec::new();
    for container in template.lasting_containers() {
        let ports = container.get("ports");
        let served = server_of(&container).and_then(|server| server.listens_on(&container));
        if ports.has_unknown() || (ports.items().next().is_none() && served.is_none()) {
            return None;
        }
        for port in ports.items() {
            found.push((port.get("containerPort").int()?, port.get("name").text()));
        }
        if let Some((port, _)) = served
            && !found.iter().any(|(known, _)| *known == port)
        {
            found.push((port, None));
        }
    }
    Some(found)
}
