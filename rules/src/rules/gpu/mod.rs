//! What pods ask of GPUs.

pub(crate) mod gpu_limit_mismatch;
