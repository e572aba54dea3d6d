//! Labels in requirements: the keys and values that Karpenter knows, and suggestions for unknown ones.

/// The label of the nodes of a Provisioner, which no node has any more.
pub(crate) const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";

pub(crate) mod key;
pub(crate) mod typo;
pub(crate) mod value;
