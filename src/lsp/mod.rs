//! `gpulint lsp`: the language server, for editors.
//!
//! `server` communicates with the client, `project` maintains the findings of a folder, and each of the
//! others answers one kind of request. Features use byte offsets in texts; `convert` converts them to the
//! positions and URIs of the protocol.

mod actions;
mod answers;
mod buffers;
mod capabilities;
mod client;
mod completion;
mod configuration;
mod convert;
mod diagnostics;
mod features;
mod findings;
mod hover;
mod inlay;
mod links;
mod plans;
mod position;
mod project;
mod rendering;
mod server;
mod session;
mod view;

use std::process::ExitCode;

use lsp_server::Connection;

use crate::args::LspArgs;
use crate::config::Scopes;
use crate::error::CliError;

/// Serves one client until it exits.
pub(crate) fn run(args: LspArgs) -> Result<ExitCode, CliError> {
    // Errors in the flags are reported before a client waits for an answer.
    Scopes::for_server(&args)?;
    let (connection, threads) = Connection::stdio();
    let code = server::serve(with_queue(connection), args)?;
    threads.join()?;
    Ok(code)
}

/// Queues the messages of the client as they arrive. The connection itself hands over one message at a time,
/// so that the loop could see neither pending edits nor the cancellation of a request.
fn with_queue(connection: Connection) -> Connection {
    let Connection { sender, receiver: incoming } = connection;
    let (queue, receiver) = crossbeam_channel::unbounded();
    std::thread::spawn(move || {
        for message in incoming {
            if queue.send(message).is_err() {
                break;
            }
        }
    });
    Connection { sender, receiver }
}
