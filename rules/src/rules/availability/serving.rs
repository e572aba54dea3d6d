//! Workloads that serve a model, for the rules on probes, rollouts and shutdown.

use crate::rules::prelude::*;
use crate::workload::class::{Classified, Confidence};
use crate::workload::server::uses_device;
use crate::workload::template::runs_forever;

pub(super) const SERVER_KINDS: &[Kind] = &[
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    Kind::new("argoproj.io", "Rollout"),
];

/// The class of a workload that serves a model: one that declares it or runs a known server, or a server with an
/// accelerator. A web server without one does not serve a model.
pub(super) fn model_server(object: &Object, ctx: &Context<'_>) -> Option<Classified> {
    if object.is_partial() || is_owned(object) || !runs_forever(object) {
        return None;
    }
    let classified = ctx.cluster().views().class_of(object);
    let certain = || classified.confidence == Confidence::High || templates(object).iter().any(uses_device);
    (classified.serves_requests() && certain()).then(|| classified.into_owned())
}

/// Whether a controller creates the object, and will create it again.
pub(super) fn is_owned(object: &Object) -> bool {
    let labels = object.path(&["metadata", "labels"]);
    object.path(&["metadata", "ownerReferences"]).is_set()
        || labels.entries().iter().any(|(key, _)| key.starts_with("serving.kserve.io/"))
}

/// The templates of the pods that answer requests. For a LeaderWorkerSet these are the leaders, if they have their own
/// template.
pub(super) fn serving_templates(object: &Object) -> Vec<Template<'_>> {
    let mut all = templates(object);
    if object.kind() == "LeaderWorkerSet" {
        let leader = object.path(&["spec", "leaderWorkerTemplate", "leaderTemplate"]);
        all.truncate(usize::from(leader.is_set()));
    }
    all
}

/// Adds the autoscaler that sets the number of pods to a finding.
pub(super) fn tell_autoscaler(finding: &mut Finding, autoscaler: Option<&Object>) {
    if let Some(autoscaler) = autoscaler {
        finding.related(
            autoscaler,
            &autoscaler.path(&["metadata", "name"]),
            "it sets the number of replicas",
        );
    }
}
