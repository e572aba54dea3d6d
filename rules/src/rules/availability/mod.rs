//! PodDisruptionBudgets, rollouts, probes, termination.

pub(crate) mod drain_endpoint_unknown;
pub(crate) mod gpu_rollout_needs_surge;
pub(crate) mod graceful_shutdown_missing;
pub(crate) mod image_tag_latest;
mod intended_workload;
pub(crate) mod liveness_kills_model_load;
pub(crate) mod pdb_blocks_evictions;
pub(crate) mod pdb_invalid;
pub(crate) mod pdb_missing;
pub(crate) mod pdb_on_job;
pub(crate) mod pdb_overlap;
pub(crate) mod pdb_selector;
pub(crate) mod pdb_spans_workloads;
pub(crate) mod pdb_unhealthy_policy;
pub(crate) mod probe_missing;
mod rollout;
pub(crate) mod selected_workloads;
pub(crate) mod service_mixes_workloads;
pub(crate) mod service_name_breaks_server;
pub(crate) mod service_selects_nothing;
mod serving;
mod sleep_hook;
pub(crate) mod spot_grace_exceeds_notice;
pub(crate) mod termination_budget;
pub(crate) mod volume_blocks_rollout;
pub(crate) mod zone_spread_missing;
