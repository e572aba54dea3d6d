//! Requirements, taints and limits of NodePools.

pub(crate) mod gpu_pool_untainted;
