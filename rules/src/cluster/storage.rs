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

/// Names of classes that managed clusters other than EKS have from the start, as do those that run on one machine: of AKS, GKE,
/// DigitalOcean, Linode, Vultr, Oracle, Hetzner, OVHcloud, Scaleway, Alibaba Cloud and OpenShift; of k3s, MicroK8s, minikube and kind.
const BUILT_IN: [&str; 27] = [
    "default",
    "managed",
    "managed-premium",
    "managed-csi",
    "managed-csi-premium",
    "azurefile",
    "azurefile-premium",
    "azurefile-csi",
    "azurefile-csi-premium",
    "standard",
    "standard-rwo",
    "standard-rwx",
    "premium-rwo",
    "premium-rwx",
    "do-block-storage",
    "linode-block-storage",
    "linode-block-storage-retain",
    "vultr-block-storage",
    "oci-bv",
    "hcloud-volumes",
    "csi-cinder-high-speed",
    "scw-bssd",
    "alicloud-disk-essd",
    "gp2-csi",
    "gp3-csi",
    "local-path",
    "microk8s-hostpath",
];

/// Whether a cluster that is not one of EKS has a class of this name from the start.
pub(crate) fn is_built_in_elsewhere(name: &str) -> bool {
    BUILT_IN.contains(&name)
}
