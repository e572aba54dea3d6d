//! PodDisruptionBudgets, rollouts, probes, termination.

pub(crate) mod pdb_blocks_evictions;
pub(crate) mod pdb_invalid;
pub(crate) mod pdb_missing;
pub(crate) mod pdb_on_job;
pub(crate) mod pdb_selector;
