//! KEDA and HPA.

pub(crate) mod keda_hpa_conflict;
pub(crate) mod keda_replica_bounds;
