//! Whether Karpenter starts the nodes that pods of the input run on.

use crate::cluster::views::KARPENTERS;
use crate::rules::prelude::*;

/// The kinds that [`uses_karpenter`] reads, and Namespaces, which declare classes of workloads.
pub(super) const READS: [Kind; WORKLOAD_KINDS.len() + KARPENTERS.len() + 1] =
    with_workloads(&[Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::EC2_NODE_CLASS, Kind::NAMESPACE]);

/// Whether the input or the configuration shows that Karpenter starts the nodes.
pub(super) fn uses_karpenter(ctx: &Context<'_>) -> bool {
    let index = ctx.cluster();
    ctx.platform().is_stated(Product::Karpenter)
        || KARPENTERS.iter().any(|kind| index.has_any(*kind))
        || index.views().referenced_labels().name_karpenter()
}
