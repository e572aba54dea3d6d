//! The objects of one cluster beside each other: how they are found, and what is derived from them.

pub(crate) mod dependencies;
pub(crate) mod memo;
pub mod objects;
pub(crate) mod placement;
pub(crate) mod relation;
pub mod views;
