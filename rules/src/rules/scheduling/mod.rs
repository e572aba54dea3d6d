//! Does it fit: pods, pools, and what they refer to.

pub(crate) mod node_class_missing;
pub(crate) mod pod_fits_no_pool;
