//! What `karpenter.sh/do-not-disrupt` protects: pods, workloads, whole pools.

use crate::cluster::objects::Index;
use crate::cluster::views::Workload;
use crate::facts::duration::GoDuration;
use crate::karpenter::nodepool::NodePool;
use crate::object::Object;
use crate::platform::{Platform, Version};
use crate::tree::node::Node;
use crate::workload::class::WorkloadClass;
use crate::workload::gpu::requests_accelerator;
use crate::workload::template::{Template, templates};

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
    text == "true"
        || (platform.karpenter >= DURATIONS_SINCE
            && GoDuration::parse(text).is_ok_and(GoDuration::is_positive))
}

/// Whether every pod of a workload that holds an accelerator is protected.
fn is_protected(object: &Object, platform: &Platform) -> Option<bool> {
    let all = templates(object);
    let mut asked = all.iter().filter(|t| requests_accelerator(t)).peekable();
    let unsafe_one = |t: &Template<'_>| protects(t, platform);
    let answers: Vec<Option<bool>> = if asked.peek().is_some() {
        asked.map(unsafe_one).collect()
    } else {
        all.iter().map(unsafe_one).collect()
    };
    if answers.contains(&Some(false)) {
        Some(false)
    } else if answers.is_empty() || answers.contains(&None) {
        None
    } else {
        Some(true)
    }
}

/// What is known of the workloads that train on a pool.
pub(crate) enum TrainingProtection<'a> {
    /// At least one is not protected.
    Unprotected(&'a Workload),
    /// All are, or that cannot be said.
    Protected,
    /// None is known.
    None,
}

/// Whether the workloads that choose a pool, servers and helpers aside, are all protected.
pub(crate) fn training_protection<'a>(
    pool: &NodePool<'_>,
    name: &str,
    index: &'a Index,
    platform: &Platform,
) -> TrainingProtection<'a> {
    let mut found = TrainingProtection::None;
    for workload in index.views().selecting(pool, name) {
        if workload.classified.serves_requests() || workload.classified.is(WorkloadClass::Infra) {
            continue;
        }
        match is_protected(&workload.object, platform) {
            Some(false) => return TrainingProtection::Unprotected(workload),
            _ => found = TrainingProtection::Protected,
        }
    }
    found
}

/// Whether the pool's own template protects its nodes, or may.
pub(crate) fn protects_nodes(object: &Object) -> bool {
    let annotations = object.path(&["spec", "template", "metadata", "annotations"]);
    let node = pool_annotation(object);
    annotations.is_unknown() || node.is_unknown() || node.text() == Some("true")
}
