//! Whether the training workloads that select a NodePool are protected from disruption.

use crate::cluster::Cluster;
use crate::cluster::views::Workload;
use crate::karpenter::do_not_disrupt::protects;
use crate::karpenter::nodepool::NodePool;
use crate::kind::{Kind, kinds};
use crate::object::Object;
use crate::platform::Platform;
use crate::workload::class::WorkloadClass;
use crate::workload::gpu::uses_device;
use crate::workload::template::{Template, WORKLOAD_KINDS, templates};

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

/// What [`training_protection`] reads.
pub(crate) const TRAINING_PROTECTION: &[Kind] = kinds![[Kind::NODE_POOL, Kind::NAMESPACE], WORKLOAD_KINDS];

/// Whether the workloads that select a pool, except servers and helpers, are all protected. Where none selects it, those with
/// accelerators that it admits decide.
pub(crate) fn training_protection<'a>(
    pool: &NodePool<'_>,
    cluster: &'a Cluster,
    platform: &Platform,
) -> TrainingProtection<'a> {
    let views = cluster.views();
    let may_train = |object: &Object| {
        let classified = views.class_of(object);
        !classified.serves_requests() && !classified.is(WorkloadClass::Infra)
    };
    let mut found = TrainingProtection::None;
    for workload in views.selecting(pool).into_iter().filter(|workload| may_train(&workload.object)) {
        match is_protected(&workload.object, platform) {
            Some(false) => return TrainingProtection::Unprotected(workload),
            _ => found = TrainingProtection::Protected,
        }
    }
    if matches!(found, TrainingProtection::None) {
        let mut admitted = views.accelerators_on(pool.object(), platform).admitted;
        admitted.retain(|object| cluster.pairs(pool.object(), object) && may_train(object));
        if !admitted.is_empty() && admitted.iter().all(|object| is_protected(object, platform) == Some(true))
        {
            return TrainingProtection::Protected;
        }
    }
    found
}
