//! The commands other than `gpulint check` and `gpulint lsp`, each in a file or folder.

pub(crate) mod docs;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod loaded;
pub(crate) mod mcp;
pub(crate) mod pools;
#[cfg(feature = "webhook")]
pub(crate) mod review;
pub(crate) mod schema;
pub(crate) mod show;
#[cfg(feature = "webhook")]
pub(crate) mod webhook;
pub(crate) mod why;
