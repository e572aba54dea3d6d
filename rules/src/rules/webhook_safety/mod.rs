//! Admission webhooks that can stop a cluster.

pub(crate) mod webhook_blocks_nodes;
pub(crate) mod webhook_self_dependency;
pub(crate) mod webhook_timeout_long;
