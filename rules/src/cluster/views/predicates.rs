//! The objects of a cluster that satisfy a predicate, like a partial index of a database. A rule that searches for a
//! few objects need not scan all of a kind.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::{ObjectKey, Query, QuerySlot};
use crate::kind::Kind;
use crate::object::Object;

/// A condition on an object alone.
pub(crate) trait Predicate: 'static {
    const SLOT: QuerySlot;
    const KINDS: &'static [Kind];

    fn is_satisfied(object: &Object) -> bool;
}

struct Satisfying<P>(PhantomData<P>);

impl<P: Predicate> Query for Satisfying<P> {
    const SLOT: QuerySlot = P::SLOT;
    const KINDS: &'static [Kind] = P::KINDS;
    type Key = ();
    type Value = Arc<[ObjectKey]>;

    fn may_read(object: &Object) -> bool {
        P::KINDS.iter().any(|kind| object.is(*kind)) && P::is_satisfied(object)
    }

    fn compute(cluster: &Cluster, (): &()) -> Arc<[ObjectKey]> {
        let objects = P::KINDS.iter().flat_map(|kind| cluster.of(*kind));
        objects.filter(|object| P::is_satisfied(object)).cloned().map(ObjectKey).collect()
    }
}

impl Cluster {
    /// The complete objects that satisfy a predicate, by kind, namespace and name.
    pub(crate) fn satisfying<P: Predicate>(&self) -> Arc<[ObjectKey]> {
        self.query::<Satisfying<P>>(&())
    }
}
