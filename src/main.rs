//! The command line of gpulint: reads files, runs the engine, prints reports.
//!
//! Everything about manifests is in `gpulint-rules`; this crate handles arguments, folders, terminals and
//! exit codes: 0 no findings, 1 findings, 2 the command failed.

#![forbid(unsafe_code)]

mod allow_comment;
mod args;
mod baseline;
mod batch;
mod check;
mod checkout;
mod commands;
mod config;
mod crds;
mod error;
mod files;
mod git;
mod interrupt;
mod judge;
mod lsp;
mod markdown;
mod output;
mod plan;
mod progress;
mod render;
mod report;
mod states;
mod terminal;

use std::process::ExitCode;

use args::{Args, Command};
use error::CliError;
use mimalloc::MiMalloc;

/// The rules allocate on all threads at once, for which the allocators of C libraries are slow: musl's has
/// one lock for all threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match args::parse().map_err(CliError::Usage).and_then(run) {
        Ok(code) => code,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::print_error(&failure.to_string());
            ExitCode::from(2)
        }
    }
}

fn run(args: Args) -> Result<ExitCode, CliError> {
    let color = args.color;
    match args.command {
        Command::Check(args) => check::run(&args, color),
        Command::Why(args) => commands::why::run(&args, color),
        Command::Pools(args) => commands::pools::run(&args, color),
        Command::Plan(args) => plan::run(&args, color),
        Command::Explain(args) => commands::explain::explain(&args, color),
        Command::Lsp(args) => lsp::run(args),
        Command::Mcp => commands::mcp::run(),
        Command::Init(args) => commands::init::run(&args),
        Command::Config(args) => commands::show::run(&args),
        Command::Rules(args) => commands::explain::rules(&args),
        #[cfg(feature = "webhook")]
        Command::Review(args) => commands::review::run(&args),
        #[cfg(feature = "webhook")]
        Command::Webhook(args) => commands::webhook::run(args),
        Command::Schema(args) => commands::schema::schema(&args),
        Command::Completions(args) => commands::schema::completions(&args),
        Command::Man => commands::schema::man(),
        Command::Docs(args) => commands::docs::run(&args),
    }
}
