//! Tests of the built binary from outside: the command line, the admission server, and comparisons with a
//! real API server.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod baseline;
mod cli;
mod cluster;
mod config;
mod context;
mod docs;
mod evidence;
mod fix;
mod fixtures;
mod formats;
mod html;
mod layers;
mod lsp;
mod mcp;
mod noise;
mod packages;
mod plan;
mod pools;
mod preview;
mod readme;
mod render;
mod screen;
mod sets;
mod support;
mod suppressions;
#[cfg(feature = "webhook")]
mod webhook;
mod why;
