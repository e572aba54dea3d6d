//! Objects from which an operator may create pods that are not part of a workload in the input.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::{Query, QuerySlot};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::template::{WORKLOAD_KINDS, templates};

pub(crate) struct PodMakers;

/// Such objects, compared by handle.
#[derive(Clone)]
pub(crate) struct PodMakerObjects(pub(crate) Arc<[Object]>);

impl PartialEq for PodMakerObjects {
    fn eq(&self, other: &PodMakerObjects) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(|(a, b)| a.ptr_eq(b))
    }
}

impl Query for PodMakers {
    const SLOT: QuerySlot = QuerySlot::PodMakers;
    const KINDS: &'static [Kind] = WORKLOAD_KINDS;
    type Key = ();
    type Value = PodMakerObjects;

    fn may_read(object: &Object) -> bool {
        makes_pods(object)
    }

    fn compute(cluster: &Cluster, (): &()) -> PodMakerObjects {
        let all = cluster.objects().iter();
        PodMakerObjects(all.filter(|object| makes_pods(object)).cloned().collect())
    }
}

fn makes_pods(object: &Object) -> bool {
    let id = object.id();
    id.group.contains('.')
        && (templates(object).is_empty() || OWN_LABELS.contains(&id.group.as_str()))
        && !makes_no_pods(&id.group, &id.kind)
}

/// Groups whose operators name and label the pods of a template, and run others beside them.
const OWN_LABELS: [&str; 3] = ["serving.kserve.io", "apps.nvidia.com", "serving.knative.dev"];

/// Whether objects of a kind create no pods.
fn makes_no_pods(group: &str, kind: &str) -> bool {
    group.ends_with(".k8s.io")
        || matches!(
            group,
            "keda.sh"
                | "http.keda.sh"
                | "karpenter.sh"
                | "karpenter.k8s.aws"
                | "eks.amazonaws.com"
                | "cert-manager.io"
                | "external-secrets.io"
                | "networking.istio.io"
                | "security.istio.io"
                | "traefik.io"
                | "gateway.envoyproxy.io"
                | "aigateway.envoyproxy.io"
                | "inference.networking.x-k8s.io"
                | "elbv2.k8s.aws"
                | "secrets-store.csi.x-k8s.io"
                | "kyverno.io"
                | "policies.kyverno.io"
                | "mutations.gatekeeper.sh"
        )
        || matches!(
            kind,
            "ServiceMonitor"
                | "PodMonitor"
                | "PrometheusRule"
                | "ScrapeConfig"
                | "Route"
                | "GrafanaDashboard"
        )
}
