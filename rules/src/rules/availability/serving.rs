//! Workloads that serve a model, for the rules on probes, rollouts and shutdown.

use crate::rules::prelude::*;
use crate::workload::class::Classified;

/// Servers, and those that an operator of model servers runs. KServe and Knative wait for the port of a container without
/// a readiness probe, and drain requests by themselves: rules about these leave them out.
pub(super) const ALL_SERVER_KINDS: &[Kind] =
    kinds![REPLICATED_KINDS, [Kind::INFERENCE_SERVICE, Kind::KNATIVE_SERVICE]];

/// The class of a workload that serves a model: one that declares it or runs a known server, or a server with an
/// accelerator. A web server without one does not serve a model.
pub(super) fn model_server(object: &Object, ctx: &Context<'_>) -> Option<Classified> {
    if object.is_partial() || is_owned(object) || !serves_until_stopped(object) {
        return None;
    }
    let classified = ctx.class_of(object);
    let certain = || classified.confidence == Confidence::High || templates(object).iter().any(uses_device);
    (classified.serves_requests() && certain()).then(|| classified.into_owned())
}

/// Whether the pods run until they are stopped: those of a workload with replicas, and of an operator's server.
fn serves_until_stopped(object: &Object) -> bool {
    runs_forever(object) || ALL_SERVER_KINDS.iter().any(|kind| object.is(*kind))
}

/// Whether a controller creates the object, and will create it again.
pub(super) fn is_owned(object: &Object) -> bool {
    let labels = object.path(&["metadata", "labels"]);
    object.is_owned() || labels.entries().iter().any(|(key, _)| key.starts_with("serving.kserve.io/"))
}

/// The templates of the pods that answer requests. For a LeaderWorkerSet these are the leaders, by their own template or
/// by that of the workers.
pub(super) fn serving_templates(object: &Object) -> Vec<Template<'_>> {
    let mut all = templates(object);
    if object.is(Kind::LEADER_WORKER_SET) {
        let leader = object.path(&["spec", "leaderWorkerTemplate", "leaderTemplate"]);
        all.truncate(if leader.is_set() { 1 } else { all.len() });
    }
    all
}

/// Whether the pods of a template are those of a group in which only the first one answers requests.
pub(super) fn has_silent_pods(object: &Object) -> bool {
    let group = object.path(&["spec", "leaderWorkerTemplate"]);
    object.is(Kind::LEADER_WORKER_SET)
        && !group.get("leaderTemplate").is_set()
        && group.get("size").int_or(1) != Some(1)
}

/// Adds the autoscaler that sets the number of pods to a finding.
pub(in crate::rules) fn tell_autoscaler(finding: &mut Finding, autoscaler: Option<&Object>) {
    if let Some(autoscaler) = autoscaler {
        finding.related(
            autoscaler,
            &autoscaler.path(&["metadata", "name"]),
            "it sets the number of replicas",
        );
    }
}
