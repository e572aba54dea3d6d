//! Does it fit: pods, pools, and what they refer to.

pub(crate) mod node_class_missing;
