//! Whether the training workloads that select a NodePool are protected from disruption.

use crate::cluster::Cluster;
use crate::cluster::views::Workload;
use crate::karpenter::do_not_disrupt::protects;
use crate::karpenter::nodepool::NodePool;
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::class::WorkloadClass;
use crate::workload::gpu::uses_device;
use crate::workload::template::{Template, templates};

/// Whether every pod of a workload that uses an accelerator is protected.
fn is_protected(object: &Object, platform: &Platform) -> Option<bool> {
    let all = templates(object);
    let mut requesting = all.iter().filter(|t| uses_device(t)).peekable();
    let unsafe_one = |t: &Template<'_>| protects(t, platform);
    let answers: Vec<Option<bool>> = if requesting.peek().is_some() {
        requesting.map(unsafe_one).collect()
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

pub(crate) enum TrainingProtection<'a> {
    /// At least one is not protected.
    Unprotected(&'a Workload),
    /// All are protected, or this is unknown.
    Protected,
    /// No training workload is known.
    None,
}

/// Whether the workloads that select a pool, except servers and helpers, are all protected.
pub(crate) fn training_protection<'a>(
    pool: &NodePool<'_>,
    cluster: &'a Cluster,
    platform: &Platform,
) -> TrainingProtection<'a> {
    let mut found = TrainingProtection::None;
    for workload in cluster.views().selecting(pool) {
        let classified = cluster.views().class_of(&workload.object);
        if classified.serves_requests() || classified.is(WorkloadClass::Infra) {
            continue;
        }
        match is_protected(&workload.object, platform) {
            Some(false) => return TrainingProtection::Unprotected(workload),
            _ => found = TrainingProtection::Protected,
        }
    }
    found
}
