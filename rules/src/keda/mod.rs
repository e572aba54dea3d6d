//! Typed access to KEDA's triggers: the triggers of a ScaledObject or ScaledJob, the keys that each trigger
//! type reads (`scalers.txt`, `constraints.txt`), and whether a trigger matches its type.
//!
//! Conditions that KEDA's own admission webhook checks are implemented in the rules; this module covers what
//! the scalers check when they are built.

pub mod check;
mod conditions;
mod constraints;
pub(crate) mod cron_window;
pub mod fallback;
mod formats;
pub mod formula;
pub mod meaning;
mod patterns;
pub(crate) mod paused;
pub mod query;
pub mod removed;
pub(crate) mod resource_metrics;
pub mod scalers;
pub mod sources;
pub(crate) mod synonyms;
pub mod value;

use crate::facts::text::ellipsize;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;

/// Namespace, `group/kind` and name of the target of an HPA, ScaledObject or HTTPScaledObject, with KEDA's defaults. `None` if
/// it cannot be read.
pub fn scale_target(object: &Object) -> Option<(String, String, String)> {
    let reference = object.path(&["spec", "scaleTargetRef"]);
    let name = reference.get("name").text()?;
    let field = |name: &str, default: &str| {
        let node: Node<'_> = reference.get(name);
        if node.is_set() { node.text().map(str::to_owned) } else { Some(default.to_owned()) }
    };
    let version = field("apiVersion", "apps/v1")?;
    let kind = field("kind", "Deployment")?;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Some((object.namespace_or_default().to_owned(), [group, "/", kind.as_str()].concat(), name.to_owned()))
}

pub fn triggers(object: &Object) -> impl Iterator<Item = Trigger<'_>> {
    object.path(&["spec", "triggers"]).items().map(|node| Trigger { node })
}

/// The annotation of a ScaledObject that takes over an HPA of another maker.
pub(crate) const TRANSFER: &str = "scaledobject.keda.sh/transfer-hpa-ownership";
/// The annotation of an HPA with which, if it is `false`, KEDA's admission webhook takes no notice of it.
pub(crate) const OWNERSHIP: &str = "validations.keda.sh/hpa-ownership";

/// The defaults of `minReplicaCount` and `maxReplicaCount`, of a ScaledObject and of a ScaledJob.
pub(crate) const MIN_REPLICAS: i64 = 0;
pub(crate) const MAX_REPLICAS: i64 = 100;

/// Whether a trigger type counts entries of a stream in Redis.
pub(crate) fn is_redis_stream(kind: &str) -> bool {
    kind.starts_with("redis") && kind.ends_with("-streams")
}

/// The least number of replicas, or of Jobs. `None` if it is unknown.
pub(crate) fn min_replicas(object: &Object) -> Option<i64> {
    object.path(&["spec", "minReplicaCount"]).int_or(MIN_REPLICAS)
}

/// The largest number of replicas, or of Jobs. `None` if it is unknown.
pub(crate) fn max_replicas(object: &Object) -> Option<i64> {
    object.path(&["spec", "maxReplicaCount"]).int_or(MAX_REPLICAS)
}

/// Whether a formula replaces the external metrics of the ScaledObject: any field of `scalingModifiers`
/// counts. `None` if a placeholder hides it.
pub(crate) fn uses_modifiers(object: &Object) -> Option<bool> {
    let block = object.path(&["spec", "advanced", "scalingModifiers"]);
    if block.is_unknown() || object.path(&["spec", "advanced"]).is_unknown() {
        return None;
    }
    let mut unknown = false;
    for (_, field) in block.entries() {
        if field.is_unknown() {
            unknown = true;
        } else if field.text().is_some_and(|t| !t.is_empty()) {
            return Some(true);
        }
    }
    (!unknown).then_some(false)
}

/// The name of the HPA that KEDA creates for a ScaledObject. `None` if it is not known.
pub(crate) fn hpa_name(object: &Object) -> Option<String> {
    let name = object.path(&["spec", "advanced", "horizontalPodAutoscalerConfig", "name"]);
    if name.is_unknown() {
        return None;
    }
    match name.text() {
        Some(text) if !text.is_empty() => Some(text.to_owned()),
        _ if object.path(&["metadata", "name"]).is_unknown() || object.name().is_empty() => None,
        _ => Some(format!("keda-hpa-{}", object.name())),
    }
}

/// Whether an HPA has the name, the target and the limits that KEDA gives it (`newHPAForScaledObject` of
/// `controllers/keda/hpa.go`, KEDA 2.7 to 2.16). Releases that keep the HPA of a paused ScaledObject fix its limits at
/// `paused-replicas`.
pub fn is_hpa_of(hpa: &Object, scaled_object: &Object) -> bool {
    let limit = |name: &str| hpa.path(&["spec", name]);
    let least = min_replicas(scaled_object).map(|replicas| replicas.max(1));
    let has_limits = limit("minReplicas").int_or(1) == least
        && limit("maxReplicas").int() == max_replicas(scaled_object)
        || scaled_object.annotation("autoscaling.keda.sh/paused-replicas").is_set();
    let target = scale_target(scaled_object);
    hpa_name(scaled_object).is_some_and(|name| name == hpa.name())
        && target.is_some()
        && target == scale_target(hpa)
        && has_limits
}

#[derive(Clone, Debug)]
pub struct Trigger<'a> {
    pub node: Node<'a>,
}

impl<'a> Trigger<'a> {
    pub fn kind(&self) -> Option<&'a str> {
        self.node.get("type").text()
    }

    /// Whether it is a `cpu` or `memory` trigger, which becomes a resource metric of the HPA.
    pub(crate) fn is_resource(&self) -> bool {
        matches!(self.kind(), Some("cpu" | "memory"))
    }

    /// The definition of its type in a version of KEDA. `None` if the version has no such type.
    pub fn scaler(&self, keda: Version) -> Option<&'static scalers::Scaler> {
        scalers::scaler(self.kind()?, keda)
    }

    pub fn metadata(&self) -> Node<'a> {
        self.node.get("metadata")
    }

    /// Whether the trigger names a TriggerAuthentication. A placeholder counts as a name.
    pub(crate) fn has_authentication(&self) -> bool {
        let reference = self.node.get("authenticationRef");
        reference.is_set() || reference.is_unknown()
    }
}

/// A trigger type with its article: "an `aws-sqs-queue`".
pub(crate) fn with_article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} `{}`", if vowel { "an" } else { "a" }, ellipsize(kind))
}

#[cfg(test)]
mod tests;
