//! The reader of gpulint: text to documents, documents to trees, and the grammars of the values in them.
//!
//! The lowest layers of the engine, which `gpulint-rules` re-exports. They are a crate of their own because builds for development
//! optimize it: all rules read through [`tree::node::Node`], which without optimizations takes a third of a check.
//!
//! Small functions that all rules call have `#[cfg_attr(not(debug_assertions), inline)]`: an inlined function is
//! compiled in the crate of its caller, in builds for development without optimizations.

pub mod facts;
pub mod platform;
pub mod source;
pub mod steps;
pub mod tree;
