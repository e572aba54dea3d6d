//! Objects that show that Karpenter runs in a cluster.

use crate::cluster::Cluster;
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::cluster::together::Around;
use crate::kind::Kind;
use crate::object::Object;

/// Karpenter's own kinds, all cluster-scoped.
pub(crate) const KARPENTERS: [Kind; 3] = [Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::EC2_NODE_CLASS];

/// The first object of these kinds that pairs with a given object.
pub(crate) struct KarpenterObject;

impl Query for KarpenterObject {
    const SLOT: QuerySlot = QuerySlot::KarpenterObject;
    const KINDS: &'static [Kind] = &KARPENTERS;
    type Key = Around;
    type Value = Option<ObjectKey>;

    fn compute(cluster: &Cluster, around: &Around) -> Option<ObjectKey> {
        let first = |kind: &Kind| cluster.of(*kind).find(|object| around.pairs(cluster, object)).cloned();
        KARPENTERS.iter().find_map(first).map(ObjectKey)
    }

    fn keys_of(object: &Object) -> Vec<Around> {
        vec![Around::Object(ObjectKey(object.clone()))]
    }
}
