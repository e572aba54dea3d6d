//! The target of an autoscaler: its object, its accelerators, and whether it serves a model.

use std::borrow::Cow;

use crate::cluster::views::scale_target;
use crate::keda::query::reads;
use crate::rules::prelude::*;
use crate::workload::class::WORKLOAD_CLASS_KEY;

/// The target of a ScaledObject or HPA, if the whole input has one object of its name.
pub(super) fn unique_target<'i>(object: &Object, ctx: &Context<'i>) -> Option<&'i Object> {
    let (namespace, kind, name) = scale_target(object)?;
    let kind = REPLICATED_KINDS.iter().find(|known| kind == format!("{}/{}", known.group, known.kind))?;
    ctx.cluster().unique(*kind, &namespace, &name)
}

/// The target of an HPA or ScaledObject, if exactly one object that may be in its cluster has its name.
pub(super) fn target<'a>(object: &Object, ctx: &Context<'a>) -> Option<&'a Object> {
    let (namespace, kind, name) = scale_target(object)?;
    let (group, kind) = kind.split_once('/')?;
    let kind = SCALABLE_KINDS.iter().find(|known| known.group == group && known.kind == kind)?;
    ctx.partner(*kind, &namespace, &name)
}

/// The name of the target; empty if it cannot be read.
pub(super) fn target_name(object: &Object) -> Cow<'_, str> {
    ellipsize(object.path(&["spec", "scaleTargetRef", "name"]).text().unwrap_or_default())
}

/// The accelerator that a replica of one pod requests, with its count. `None` if there is none or several, or
/// if it is not known.
pub(super) fn accelerators_of_replica(workload: &Object) -> Option<(&'static str, i64)> {
    let templates = templates(workload);
    let [template] = templates.as_slice() else { return None };
    let mut found: Option<(&'static str, i64)> = None;
    for resource in KARPENTER_ACCELERATORS {
        let mut count = 0;
        for container in template.containers() {
            let amount = container.path(&["resources", "limits", resource]);
            if amount.is_unknown() {
                return None;
            }
            let amount = Quantity::at(&amount);
            count += amount.and_then(|amount| i64::try_from(amount.value()).ok()).unwrap_or(0);
        }
        if count > 0 && found.replace((resource, count)).is_some() {
            return None;
        }
    }
    found
}

/// A scale target that serves a model on accelerators.
pub(super) struct ModelServer<'a> {
    pub target: Option<&'a Object>,
    /// The evidence: "its command is `vllm serve`".
    pub reason: String,
    pub confidence: Confidence,
}

/// The target of an autoscaler, if clients wait for its responses and it runs on accelerators: by its class if it is in
/// the input, otherwise by the model server whose metrics the triggers read.
pub(super) fn model_server<'a>(object: &Object, ctx: &Context<'a>) -> Option<ModelServer<'a>> {
    if let Some(target) = target(object, ctx) {
        let classified = ctx.class_of(target);
        let serves = matches!(classified.class, WorkloadClass::Realtime | WorkloadClass::Interactive);
        return (serves && uses_accelerators(target)).then(|| ModelServer {
            target: Some(target),
            reason: classified.evidence.to_string(),
            confidence: classified.confidence,
        });
    }
    let metadata = object.get("metadata");
    let declared = [metadata.get("labels"), metadata.get("annotations")]
        .iter()
        .any(|map| map.get(WORKLOAD_CLASS_KEY).is_set());
    if declared {
        return None;
    }
    let metric = triggers(object).find_map(|trigger| {
        let reads = reads(trigger.metadata().get("query").text()?)?;
        reads.series.iter().find(|series| Server::of_metric(series.name).is_some()).map(|series| series.name)
    })?;
    let reason = format!("its trigger reads `{}`", ellipsize(metric));
    Some(ModelServer { target: None, reason, confidence: Confidence::Medium })
}

impl ModelServer<'_> {
    pub(super) fn explain(&self, finding: &mut Finding) {
        if let Some(target) = self.target {
            let name = target.path(&["metadata", "name"]);
            finding.related(target, &name, format!("it serves requests: {}", self.reason));
        }
    }
}

/// Whether a ScaledObject may rest at zero: its minimum is 0, which is the default. `None` if that is not known.
pub(super) fn rests_at_zero(object: &Object) -> Option<bool> {
    Some(min_replicas(object)? == 0)
}
