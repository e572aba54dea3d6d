//! A policy denies all requests of a namespace, also those that a Service sends.
//!
//! # Why
//! A NetworkPolicy with an empty `podSelector` and no rule for ingress lets nothing connect to any pod of
//! its namespace, except what another policy allows. Pods behind a Service that no policy allows get no
//! request: clients, the Ingress and Prometheus wait until they time out, and the probes of the kubelet,
//! which are let through, stay green. On EKS policies count where the network policy agent of the VPC CNI
//! is on, or another plugin enforces them.
//!
//! It is a warning where both are in one folder, one file or one kustomization, and information where they
//! are farther apart. Input with policies of Cilium, Calico or the administrator, or with Kyverno, which
//! may add policies, is left alone.
//!
//! # Fix
//! Add a policy that allows ingress to the port of the pods, from those who ask.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: networking.k8s.io/v1
//!  kind: NetworkPolicy
//!  metadata: {name: deny-all, namespace: chat}
//!  spec:
//!    podSelector: {}
//!    policyTypes: [Ingress] # <-
//! +---
//! +apiVersion: networking.k8s.io/v1
//! +kind: NetworkPolicy
//! +metadata: {name: web, namespace: chat}
//! +spec:
//! +  podSelector: {matchLabels: {app: web}}
//! +  policyTypes: [Ingress]
//! +  ingress: [{ports: [{port: 8080}]}]
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: web, namespace: chat}
//!  spec:
//!    selector: {app: web}
//!    ports: [{port: 80, targetPort: 8080}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: web, namespace: chat}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: web}}
//!    template:
//!      metadata: {labels: {app: web}}
//!      spec:
//!        containers:
//!          - name: web
//!            image: example.com/web:1.0.0
//!            resources: {requests: {cpu: 1, memory: 1Gi}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-ingress-traffic>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html>

use crate::cluster::views::disruptions::runs_as_job;
use crate::rules::availability::egress_without_dns::POLICY_SOURCES;
use crate::rules::manifest_purpose::is_example;
use crate::rules::prelude::*;
use crate::workload::selector;

pub(crate) static RULE: Rule = Rule {
    id: "default-deny-blocks-service",
    kinds: &[Kind::NETWORK_POLICY],
    reads: kinds![POLICY_SOURCES, [Kind::NETWORK_POLICY, Kind::SERVICE], WORKLOAD_KINDS],
    reports_absence: true,
    docs: docs(include_str!("default_deny_blocks_service.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if !denies_all(object) || is_example(object) || POLICY_SOURCES.iter().any(|kind| cluster.has_any(*kind)) {
        return None;
    }
    let namespace = object.namespace_or_default();
    let policies: Vec<&Object> = cluster.in_namespace(Kind::NETWORK_POLICY, namespace).collect();
    let is_denied = |template: &Template<'_>| {
        let labels = template.pod_labels();
        let allows = |policy: &&Object| {
            let spec = policy.get("spec");
            let is_selected = selector::matches(&spec.get("podSelector"), &labels) != Some(false);
            is_selected && (policy.may_lack_fields() || spec.get("ingress").items().next().is_some())
        };
        template.spec.get("hostNetwork").bool() != Some(true)
            && !template.spec.has_unknown_key()
            && !policies.iter().any(allows)
    };
    let mut blocked: Vec<(&Object, &Object)> = Vec::new();
    for service in cluster.in_namespace(Kind::SERVICE, namespace).filter(|service| ctx.pairs_with(service)) {
        let (workloads, _) = cluster.views().selected_by_service(service);
        let found = workloads.iter().map(|workload| &workload.object).find(|workload| {
            ctx.pairs_with(workload)
                && !workload.may_lack_fields()
                && !runs_as_job(workload)
                && templates(workload).iter().all(is_denied)
        });
        let is_new = |workload: &&Object| blocked.iter().all(|(_, known)| !known.is_same_resource(workload));
        let found = found.filter(is_new);
        blocked.extend(found.map(|workload| (service, workload)));
    }
    let ((service, workload), more) = blocked.split_first()?;
    let name = workload.display_name();
    let message = match more.len() {
        0 => format!(
            "no request reaches the pods of `{name}`: this policy denies all, and no other allows any"
        ),
        n => format!(
            "no request reaches the pods of `{name}` and of {n} more: this policy denies all, and no other allows any"
        ),
    };
    let is_near = cluster.likely_pairs(object, workload);
    let finding = ctx.report(&object.path(&["spec", "policyTypes"]), message);
    finding
        .severity(if is_near { Severity::Warning } else { Severity::Info })
        .help(format!(
            "add a policy that allows ingress to the pods behind Service `{}`",
            service.display_name()
        ))
        .related(workload, &workload.path(&["metadata", "name"]), "its pods get no request");
    for (_, other) in more {
        finding.related(other, &other.path(&["metadata", "name"]), "nor do these");
    }
    None
}

/// Whether a policy selects all pods of its namespace and allows nothing to connect to them.
fn denies_all(policy: &Object) -> bool {
    let spec = policy.get("spec");
    let selector = spec.get("podSelector");
    selector.is_mapping()
        && selector.entries().is_empty()
        && !policy.may_lack_fields()
        && !policy.is_namespace_unknown()
        && !spec.has_unknown()
        && spec.get("policyTypes").items().any(|one| one.text() == Some("Ingress"))
        && spec.get("ingress").items().next().is_none()
}
