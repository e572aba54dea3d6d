//! Two Services ask for one port of the nodes.
//!
//! # Why
//! Ports of nodes are shared by all namespaces of a cluster, and each belongs to one Service: the API
//! server rejects the second one with "provided port is already allocated". Which of the two gets it
//! depends on the order in which they are applied. TCP and UDP have ports of their own.
//!
//! Reported are Services of one file, of one kustomization and of one folder, since others may be for different
//! clusters. In a folder that is a warning.
//!
//! # Fix
//! Write another number from 30000 to 32767, or leave `nodePort` out: the API server then chooses one.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: chat, namespace: models}
//!  spec:
//!    type: NodePort
//!    selector: {app: chat}
//!    ports: [{name: http, port: 80, targetPort: 8000, nodePort: 30800}]
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: embeddings, namespace: search}
//!  spec:
//!    type: NodePort
//!    selector: {app: embeddings}
//!    ports:
//!      - name: http
//!        port: 80
//!        targetPort: 8000
//! -      nodePort: 30800 # <-
//! +      nodePort: 30801
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/service/#type-nodeport>

use crate::cluster::together::is_renamed;
use crate::rules::manifest::duplicate_object::{file, position};
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "node-port-claimed-twice",
    kinds: &[Kind::SERVICE],
    reads: &[Kind::SERVICE],
    rejected_by: &[Authority::ApiServer],
    pairs: &[Pair { with: &[Kind::SERVICE], partners: rivals, beside: nothing }],
    docs: docs(include_str!("node_port_claimed_twice.rs")),
    check: Check::Object(check),
    ..Rule::error(Group::Availability)
};

/// The ports of the nodes that a Service asks for, with their protocols.
fn node_ports(service: &Object) -> Vec<(i64, String, Node<'_>)> {
    let ports = service.path(&["spec", "ports"]);
    let claimed = ports.items().filter_map(|port| {
        let node = port.get("nodePort");
        let protocol = port.get("protocol");
        let protocol = if protocol.is_absent() { "TCP" } else { protocol.text()? };
        Some((node.int().filter(|number| *number > 0)?, protocol.to_owned(), node))
    });
    claimed.collect()
}

/// The other Services that ask for a port of this one.
fn rivals(service: &Object, cluster: &Cluster) -> Vec<Object> {
    let own = node_ports(service);
    let claims = |other: &&Object| {
        !other.ptr_eq(service)
            && node_ports(other)
                .iter()
                .any(|(number, protocol, _)| own.iter().any(|(n, p, _)| n == number && p == protocol))
    };
    cluster.of(Kind::SERVICE).filter(claims).cloned().collect()
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let own = node_ports(object);
    // Overlays change names and namespaces, and a Service that a template makes may be one of several variants.
    if own.is_empty() || object.may_lack_fields() || is_renamed(object) || is_example(object) {
        return None;
    }
    let cluster = ctx.cluster();
    for (number, protocol, node) in &own {
        let claims = |other: &&Object| {
            // The same Service in another version is reported by duplicate-object.
            let is_same = other.name() == object.name()
                && (other.namespace() == object.namespace()
                    || other.namespace().is_none()
                    || object.namespace().is_none());
            !is_same
                && position(other) < position(object)
                && !other.may_lack_fields()
                && !is_renamed(other)
                && node_ports(other).iter().any(|(n, p, _)| n == number && p == protocol)
                && cluster.likely_pairs(object, other)
        };
        let Some(other) = cluster.of(Kind::SERVICE).find(claims) else { continue };
        let is_sure = cluster.surely_pairs(object, other) || file(other) == file(object);
        let message = format!(
            "node port {number} is also claimed by Service `{}`, and only one Service can have it",
            other.display_name()
        );
        let ports = node_ports(other);
        let at = ports.iter().find(|(n, p, _)| n == number && p == protocol).map(|(_, _, at)| at);
        let finding = ctx.report(node, message);
        finding.help("write another number, or leave `nodePort` out: the API server chooses one");
        if let Some(at) = at {
            finding.related(other, at, "the same port");
        }
        if !is_sure {
            finding.severity(Severity::Warning).rejected_by(None);
        }
    }
    None
}
