//! StorageClasses, and the drivers that they name.

use crate::object::Object;

/// The CSI driver of EBS: that of the add-on.
pub(crate) const EBS_DRIVER: &str = "ebs.csi.aws.com";
/// The CSI driver of EBS on nodes of EKS Auto Mode.
pub(crate) const AUTO_MODE_EBS_DRIVER: &str = "ebs.csi.eks.amazonaws.com";
/// The driver of EBS from before CSI.
pub(crate) const IN_TREE_EBS_DRIVER: &str = "kubernetes.io/aws-ebs";
pub(crate) const EFS_DRIVER: &str = "efs.csi.aws.com";
pub(crate) const FSX_DRIVER: &str = "fsx.csi.aws.com";
/// The driver of Mountpoint for Amazon S3.
pub(crate) const S3_DRIVER: &str = "s3.csi.aws.com";

/// The provisioner of a class whose volumes are made by hand.
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

pub(crate) const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Whether pods can only read a PersistentVolume, or through a claim: `ReadOnlyMany` is its only access mode.
pub(crate) fn is_for_reading(object: &Object) -> bool {
    let modes = object.path(&["spec", "accessModes"]);
    modes.is_set() && modes.items().all(|mode| mode.text() == Some("ReadOnlyMany"))
}

/// Whether a StorageClass is the default one of its cluster.
pub(crate) fn is_default(class: &Object) -> bool {
    class.path(&["metadata", "annotations", DEFAULT_CLASS]).text() == Some("true")
}
