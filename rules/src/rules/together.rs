//! Whether two objects of the input reach one cluster together.

use crate::object::Object;
use crate::source::KustomizeRoute;

/// The kustomizations of the input that reach the file of an object.
pub(super) fn routes(object: &Object) -> &[KustomizeRoute] {
    object.origin().map_or(&[], |origin| origin.source.routes())
}

/// Whether both are applied at once for certain: they are objects of a cluster, or of one file or one kustomization. Of two
/// files in one folder each may belong to a cluster of its own.
pub(super) fn are_applied_together(a: &Object, b: &Object) -> bool {
    let (Some(from), Some(to)) = (a.origin(), b.origin()) else {
        return true;
    };
    let share = |route: &KustomizeRoute| routes(b).iter().any(|other| other.root == route.root);
    from.source.path() == to.source.path() || routes(a).iter().any(share)
}
