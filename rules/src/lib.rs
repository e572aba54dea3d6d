//! The engine of gpulint: reads manifests, judges them, reports findings.
//!
//! ```text
//! bytes ─► Source ─► Document (Tree: values + spans) ─► Object ─► Index
//!                                                          │        │
//!                                                          ▼        ▼
//!                                         Engine::check_object(object, index)
//!                                                          │
//!                                                          ▼
//!                                  Vec<Finding>   object + pointer + message + fix
//! ```
//!
//! It does no I/O, asks no clock and no environment, and never panics on any input. The command
//! line and the webhook are its two callers; both give the same findings for the same objects.

pub mod catalog;
pub mod config;
pub mod date;
pub mod engine;
pub mod finding;
pub mod fix;
pub mod index;
mod line;
pub mod model;
pub mod node;
pub mod object;
pub mod pointer;
pub mod rule;
pub mod rules;
mod schema;
pub mod settings;
pub mod source;
pub mod suggest;
pub mod suppress;
mod trace;
pub mod workspace;

pub use engine::{Engine, File, Judged};
pub use finding::{Finding, Place, Related, Severity};
pub use fix::{Fix, Operation, Refused, Safety};
pub use index::{Index, Lookup};
pub use node::{Node, Shape};
pub use object::{Kind, Object, ObjectId, Origin};
pub use pointer::Pointer;
pub use rule::{Authority, Check, Context, Group, Param, ParamDefault, Rule, docs};
pub use rules::RULES;
pub use settings::{Platform, Settings, Version, find_rule};
pub use workspace::Workspace;
