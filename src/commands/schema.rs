//! Prints JSON Schemas, shell completions and the manual page.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs, Schema, SchemaArgs};
use crate::error::CliError;
use crate::{output, report};

pub(crate) fn schema(args: &SchemaArgs) -> Result<ExitCode, CliError> {
    let text = match args.of {
        Schema::Diagnostics => report::DIAGNOSTICS_SCHEMA.to_owned(),
        Schema::Why => report::WHY_SCHEMA.to_owned(),
        Schema::Pools => report::POOLS_SCHEMA.to_owned(),
        Schema::Plan => report::PLAN_SCHEMA.to_owned(),
        Schema::Config => config()?,
    };
    print(text.as_bytes())
}

pub(crate) fn config() -> Result<String, CliError> {
    let mut text = serde_json::to_string_pretty(&gpulint_rules::lint::config::Config::schema())?;
    text.push('\n');
    Ok(text)
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "gpulint", &mut script);
    print(&script)
}

/// Runs `gpulint man`: prints the page of gpulint, followed by those of its commands.
pub(crate) fn man() -> Result<ExitCode, CliError> {
    let mut pages = Vec::new();
    let mut command = Args::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        clap_mangen::Man::new(sub.clone()).render(&mut pages)?;
    }
    print(&pages)
}

fn print(bytes: &[u8]) -> Result<ExitCode, CliError> {
    output::to_stdout(|out| Ok(out.write_all(bytes)?))?;
    Ok(ExitCode::SUCCESS)
}
