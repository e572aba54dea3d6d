//! The annotation `karpenter.sh/do-not-disrupt`: on pods, on workloads and in the template of a NodePool.

use crate::facts::duration::{GoDuration, NillableDuration};
use crate::karpenter::budget::{AllowanceState, DisruptionReason};
use crate::karpenter::nodepool::NodePool;
use crate::object::Object;
use crate::platform::{Platform, Version};
use crate::tree::node::Node;
use crate::workload::template::Template;

pub(crate) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// First version of Karpenter that accepts durations as values on pods.
pub(crate) const DURATIONS_SINCE: Version = Version::new(1, 12);

/// The annotation in the node template of a NodePool.
pub(crate) fn pool_annotation(object: &Object) -> Node<'_> {
    object.path(&["spec", "template", "metadata", "annotations", DO_NOT_DISRUPT])
}

/// Whether the annotation of a pod template protects its pods. `None` if a placeholder decides.
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

/// Whether Karpenter acts on this value of the annotation on a pod.
pub(crate) fn is_active(text: &str, platform: &Platform) -> bool {
    is_active_value(text, reads_durations(platform))
}

/// Whether this version of Karpenter accepts durations on pods.
pub(crate) fn reads_durations(platform: &Platform) -> bool {
    platform.karpenter >= DURATIONS_SINCE
}

/// Like [`is_active`]; `durations` is true if Karpenter accepts durations.
pub(crate) fn is_active_value(text: &str, durations: bool) -> bool {
    text == "true" || (durations && GoDuration::parse(text).is_ok_and(GoDuration::is_positive))
}

/// Whether the node template of the pool protects its nodes. A placeholder counts as protection.
pub(crate) fn protects_nodes(object: &Object) -> bool {
    let annotations = object.path(&["spec", "template", "metadata", "annotations"]);
    let node = annotations.get(DO_NOT_DISRUPT);
    annotations.is_unknown() || node.is_unknown() || node.text() == Some("true")
}

/// Whether Karpenter ends no node of a pool by itself while pods run on it: the annotation protects it, or it does not expire, and
/// the budgets are always zero for drift and for consolidation.
pub(crate) fn keeps_busy_nodes(object: &Object) -> bool {
    let by_budgets = |pool: NodePool<'_>| {
        let is_shut = |reason: DisruptionReason| {
            pool.written_budgets()
                .is_some_and(|(_, calendar)| calendar.is_always(reason, AllowanceState::Zero))
        };
        matches!(pool.expire_after(), Some(NillableDuration::Never))
            && [DisruptionReason::Drifted, DisruptionReason::Underutilized]
                .into_iter()
                .all(|reason| !pool.is_disrupted_as(reason) || is_shut(reason))
    };
    protects_nodes(object) || NodePool::new(object).is_some_and(by_budgets)
}
