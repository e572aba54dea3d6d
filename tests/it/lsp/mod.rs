//! `gpulint lsp` as editors use it: the built binary, over its pipes.

#![allow(dead_code, reason = "the server's tests come after their client")]

mod actions;
mod client;
mod completion;
mod extension;
mod law;
mod protocol;
mod session;
mod text;
