//! What an autoscaler scales.

use crate::cluster::views::scale_target;
use crate::rules::prelude::*;

/// The kinds of targets that rules look at.
pub(super) const TARGET_KINDS: [Kind; 4] = [
    Kind::DEPLOYMENT,
    Kind::STATEFUL_SET,
    Kind::new("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    Kind::new("argoproj.io", "Rollout"),
];

/// The target of a ScaledObject or HPA, if it is in the input.
pub(super) fn target<'i>(object: &Object, ctx: &Context<'i>) -> Option<&'i Object> {
    let (namespace, kind, name) = scale_target(object)?;
    let kind = TARGET_KINDS.iter().find(|known| kind == format!("{}/{}", known.group, known.kind))?;
    ctx.index().unique(*kind, &namespace, &name)
}
