//! StorageClasses.

use crate::object::Object;

pub(crate) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Whether a StorageClass is the default one of its cluster.
pub(crate) fn is_default(class: &Object) -> bool {
    class.path(&["metadata", "annotations", DEFAULT_CLASS]).text() == Some("true")
}
