//! A webhook blocks the creation of the pods that serve it.
//!
//! # Why
//! A webhook with `failurePolicy: Fail` that is asked about pods, or about what nodes need, is
//! asked about its own pods as well. If its one replica is evicted, the new one is rejected because
//! the old one does not answer; if it runs only on nodes that Karpenter starts, it waits for a
//! node that its absence keeps away. Both end with somebody deleting the webhook by hand.
//!
//! # Fix
//! Run two replicas with a PodDisruptionBudget, on nodes that are there without Karpenter, and
//! leave the webhook's own namespace out with a `namespaceSelector`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: admissionregistration.k8s.io/v1
//!  kind: ValidatingWebhookConfiguration
//!  metadata: {name: policy}
//!  webhooks:
//!    - name: policy.example.com
//!      failurePolicy: Fail
//!      timeoutSeconds: 5
//!      sideEffects: None
//!      admissionReviewVersions: [v1]
//!      clientConfig:
//!        service: # <-
//!          namespace: policy
//!          name: policy
//!      namespaceSelector:
//!        matchExpressions:
//! -        - key: kubernetes.io/metadata.name
//! -          operator: NotIn
//! -          values: [kube-system, karpenter]
//! +        - key: kubernetes.io/metadata.name
//! +          operator: NotIn
//! +          values: [kube-system, karpenter, policy]
//!      rules:
//!        - apiGroups: [""]
//!          apiVersions: [v1]
//!          operations: [CREATE]
//!          resources: [pods]
//!  ---
//!  apiVersion: v1
//!  kind: Service
//!  metadata: {name: policy, namespace: policy}
//!  spec:
//!    selector: {app: policy}
//!    ports: [{port: 443}]
//!  ---
//!  apiVersion: apps/v1
//!  kind: Deployment
//!  metadata: {name: policy, namespace: policy}
//!  spec:
//!    replicas: 1
//!    selector: {matchLabels: {app: policy}}
//!    template:
//!      metadata: {labels: {app: policy}}
//!      spec:
//!        containers: [{name: main, image: example.com/policy:1.0.0}]
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/>
//! - <https://karpenter.sh/docs/concepts/nodepools/>

use crate::rules::prelude::*;
use crate::workload::admission_webhook::{KINDS, NODE_RESOURCES, PODS, Resource, Webhook};

pub(crate) static RULE: Rule = Rule {
    id: "webhook-self-dependency",
    kinds: &KINDS,
    reads: &[Kind::SERVICE, Kind::DEPLOYMENT, Kind::HPA, Kind::SCALED_OBJECT, Kind::PDB],
    reports_absence: true,
    docs: docs(include_str!("webhook_self_dependency.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::WebhookSafety)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // A patch may add the selector.
    if object.is_patched_by_kustomize() {
        return None;
    }
    let index = ctx.cluster();
    for webhook in Webhook::of(object) {
        if !webhook.fails_closed(object.is_partial()) || webhook.has_unevaluated_conditions() {
            continue;
        }
        let service = webhook.get("clientConfig").get("service");
        let (Some(namespace), Some(name)) = (service.get("namespace").text(), service.get("name").text())
        else {
            continue;
        };
        let pods = webhook.intercepts(PODS) && webhook.covers_namespace(namespace) == Some(true);
        let nodes = NODE_RESOURCES.iter().any(|r: &Resource| webhook.blocks(*r, &[]));
        if !pods && !nodes {
            continue;
        }
        let Some(found) = ctx.partner(Kind::SERVICE, namespace, name) else { continue };
        for backend in backends(found, namespace, index).filter(|backend| index.pairs(object, backend)) {
            if let Some(weakness) = weakness(backend, index) {
                let whose = backend.display_name();
                let what = if pods { "its own new pods" } else { "new nodes" };
                let message = format!(
                    "while Deployment `{whose}` is down, its webhook rejects {what}: it {}",
                    weakness.describe()
                );
                ctx.report(&service, message)
                    .at_key()
                    .reports_absence(weakness == Weakness::NoBudget)
                    .help(if pods {
                        "leave its own namespace out with a `namespaceSelector`, or run two replicas with a budget"
                    } else {
                        "run two replicas with a budget, on nodes that do not come from Karpenter"
                    })
                    .related(backend, &backend.path(&["metadata", "name"]), "answers for it");
                break;
            }
        }
    }
    None
}

fn backends<'i>(
    service: &Object,
    namespace: &'i str,
    cluster: &'i Cluster,
) -> impl Iterator<Item = &'i Object> {
    let selector: Vec<(String, Option<String>)> = service
        .path(&["spec", "selector"])
        .entries()
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.text().map(str::to_owned)))
        .collect();
    let behind = move |template: &Template<'_>| {
        let labels = template.labels();
        !selector.is_empty()
            && selector.iter().all(|(key, value)| {
                let found = labels.iter().find(|(k, _)| k == key);
                value.is_some() && found.and_then(|(_, v)| v.text()) == value.as_deref()
            })
    };
    cluster
        .in_namespace(Kind::DEPLOYMENT, namespace)
        .filter(move |deployment| templates(deployment).iter().any(&behind))
}

/// Why a Deployment may be unavailable when it is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weakness {
    KarpenterNodes,
    OneReplica,
    NoBudget,
}

impl Weakness {
    fn describe(self) -> &'static str {
        match self {
            Weakness::KarpenterNodes => "runs on Karpenter's nodes alone",
            Weakness::OneReplica => "has one replica",
            Weakness::NoBudget => "has no PodDisruptionBudget",
        }
    }
}

/// The weakness of a Deployment that a webhook needs.
fn weakness(deployment: &Object, cluster: &Cluster) -> Option<Weakness> {
    let views = cluster.views();
    let all = templates(deployment);
    let on_karpenter = all.iter().any(|template| {
        referenced_labels(template).iter().any(|m| {
            m.usage == LabelUse::Required
                && matches!(m.key, "karpenter.sh/nodepool" | "karpenter.sh/capacity-type")
        })
    });
    if on_karpenter {
        return Some(Weakness::KarpenterNodes);
    }
    let floor = views.replicas(deployment)?.min;
    if floor <= 1 {
        // If `replicas` is not set, an autoscaler outside the input may run more.
        let said = deployment.path(&["spec", "replicas"]).is_set();
        return (said || cluster.is_complete()).then_some(Weakness::OneReplica);
    }
    let namespace = deployment.namespace_or_default();
    let uncovered = all.iter().all(|template| {
        let (found, unknown) = views.pdbs_of(namespace, template);
        found.is_empty() && !unknown
    });
    (uncovered && cluster.is_complete()).then_some(Weakness::NoBudget)
}
