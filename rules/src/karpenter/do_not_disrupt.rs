//! What `karpenter.sh/do-not-disrupt` protects: pods, workloads, whole pools.

use crate::facts::duration::GoDuration;
use crate::object::Object;
use crate::platform::{Platform, Version};
use crate::tree::node::Node;
use crate::workload::template::Template;

/// The annotation.
pub(crate) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// The first Karpenter that reads durations on pods.
pub(crate) const DURATIONS_SINCE: Version = Version::new(1, 12);

/// The annotation in the nodes' template of a NodePool.
pub(crate) fn pool_annotation(object: &Object) -> Node<'_> {
    object.path(&["spec", "template", "metadata", "annotations", DO_NOT_DISRUPT])
}

/// Whether the annotation of a pod protects it; `None` where a placeholder decides.
pub(crate) fn protects(template: &Template<'_>, platform: &Platform) -> Option<bool> {
    if template.metadata.get("annotations").is_unknown() {
        return None;
    }
    let node = template.annotation(DO_NOT_DISRUPT);
    if node.is_unknown() {
        return None;
    }
    Some(node.text().is_some_and(|text| is_active(text, platform)))
}

/// Whether a value on a pod is one that Karpenter acts on.
pub(crate) fn is_active(text: &str, platform: &Platform) -> bool {
    is_active_value(text, reads_durations(platform))
}

/// Whether this Karpenter reads durations on pods.
pub(crate) fn reads_durations(platform: &Platform) -> bool {
    platform.karpenter >= DURATIONS_SINCE
}

/// Whether a value on a pod is one that Karpenter acts on; `durations` says whether it reads them.
pub(crate) fn is_active_value(text: &str, durations: bool) -> bool {
    text == "true" || (durations && GoDuration::parse(text).is_ok_and(GoDuration::is_positive))
}

/// Whether the pool's own template protects its nodes, or may.
pub(crate) fn protects_nodes(object: &Object) -> bool {
    let annotations = object.path(&["spec", "template", "metadata", "annotations"]);
    let node = pool_annotation(object);
    annotations.is_unknown() || node.is_unknown() || node.text() == Some("true")
}
