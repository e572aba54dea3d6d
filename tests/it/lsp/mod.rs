//! `gpulint lsp` as editors use it: the built binary, over its pipes.

mod actions;
mod client;
mod completion;
mod extension;
mod law;
mod plans;
mod protocol;
mod rendering;
mod session;
mod text;
