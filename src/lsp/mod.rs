//! `gpulint lsp`: the language server, for editors.
//!
//! `server` speaks with the client, `project` keeps the findings of a folder, the others answer a request each. Features know
//! byte offsets in texts; `convert` makes positions and URIs of the protocol of them.

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
mod position;
mod project;
mod server;
mod session;
mod view;

use std::process::ExitCode;

use lsp_server::Connection;

use crate::args::LspArgs;
use crate::config::Scopes;
use crate::error::CliError;

/// Serves one client, until it says that it exits.
pub(crate) fn run(args: LspArgs) -> Result<ExitCode, CliError> {
    // What is wrong with the flags is said before a client waits for an answer.
    Scopes::for_server(&args)?;
    let (connection, threads) = Connection::stdio();
    let code = server::serve(with_queue(connection), args)?;
    threads.join()?;
    Ok(code)
}

/// Queues the messages of the client as they come. The connection alone hands over one at a time, so that the loop would see neither
/// the edits that wait nor that a request was cancelled.
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
