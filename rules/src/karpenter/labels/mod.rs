//! Labels in requirements: which keys and values Karpenter knows, and which one was meant.

pub(crate) mod key;
pub(crate) mod typo;
pub(crate) mod value;
