//! What pods ask of GPUs.

pub(crate) mod dra_allocation_invalid;
pub(crate) mod dra_device_class_name;
pub(crate) mod dra_request_shape;
pub(crate) mod gpu_limit_mismatch;
pub(crate) mod gpu_toleration_missing;
