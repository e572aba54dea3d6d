//! Rules and what surrounds them: findings, fixes, configuration, suppressions, and the engine that runs them.

pub mod config;
pub mod engine;
pub mod finding;
pub mod fix;
pub mod message;
pub mod rule;
pub mod settings;
pub mod suppress;
