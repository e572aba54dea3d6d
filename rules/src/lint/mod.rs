//! Rules and what surrounds them: findings, fixes, configuration, suppressions, and the engine that runs them.

pub mod authority;
pub mod config;
pub mod context;
mod decisions;
pub mod engine;
pub mod finding;
pub mod fix;
pub mod identity;
pub mod message;
pub(crate) mod pairs;
pub mod preview;
pub(crate) mod recorded;
pub mod report;
pub(crate) mod resolved;
pub mod rule;
pub mod run;
pub(crate) mod session;
pub(crate) mod sets;
pub mod settings;
pub(crate) mod subject;
pub mod suppress;
pub mod timings;
pub(crate) mod versions;
