//! Labels in requirements: the keys and values that Karpenter knows, and suggestions for unknown ones.

pub(crate) mod key;
pub(crate) mod typo;
pub(crate) mod value;
