//! The command line of gpulint: reads files, runs the engine, prints reports.
//!
//! Everything about manifests is in `gpulint-rules`; this crate handles arguments, folders, terminals and
//! exit codes: 0 no findings, 1 findings, 2 the command failed.

#![forbid(unsafe_code)]

mod args;
mod baseline;
mod batch;
mod check;
mod config;
mod context;
mod crds;
mod docs;
mod error;
mod explain;
mod files;
mod fix;
mod init;
mod interrupt;
mod known;
mod loaded;
mod lsp;
mod markdown;
mod output;
mod pools;
mod preview;
mod progress;
mod render;
mod report;
#[cfg(feature = "webhook")]
mod review;
mod schema;
mod show;
mod suppressions;
mod terminal;
#[cfg(feature = "webhook")]
mod webhook;
mod why;

use std::process::ExitCode;

use args::{Args, Command};
use error::CliError;
use mimalloc::MiMalloc;

/// All threads allocate at once, for which the allocators of C libraries are slow: musl's has one lock for all.
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
        Command::Why(args) => why::run(&args, color),
        Command::Pools(args) => pools::run(&args, color),
        Command::Explain(args) => explain::explain(&args, color),
        Command::Lsp(args) => lsp::run(args),
        Command::Init(args) => init::run(&args),
        Command::Config(args) => show::run(&args),
        Command::Rules(args) => explain::rules(&args),
        #[cfg(feature = "webhook")]
        Command::Review(args) => review::run(&args),
        #[cfg(feature = "webhook")]
        Command::Webhook(args) => webhook::run(args),
        Command::Schema(args) => schema::schema(&args),
        Command::Completions(args) => schema::completions(&args),
        Command::Man => schema::man(),
        Command::Docs(args) => docs::run(&args),
    }
}
