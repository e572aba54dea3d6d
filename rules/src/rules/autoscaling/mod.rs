//! KEDA and HPA.

pub(crate) mod keda_auth_invalid;
pub(crate) mod keda_cannot_wake;
pub(crate) mod keda_fallback_ineffective;
pub(crate) mod keda_hpa_conflict;
pub(crate) mod keda_modifiers_invalid;
pub(crate) mod keda_name_too_long;
pub(crate) mod keda_replica_bounds;
pub(crate) mod keda_target_invalid;
pub(crate) mod keda_trigger_invalid;
pub(crate) mod missing_resource_request;
