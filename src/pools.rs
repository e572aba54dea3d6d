//! `gpulint pools`: what each NodePool admits, costs at most, and takes.

use std::process::ExitCode;

use gpulint_rules::fit::Situation;

use crate::args::{Color, ExplainFormat, PoolsArgs};
use crate::error::CliError;
use crate::files::display_path;
use crate::loaded::Loaded;
use crate::output;
use crate::report::pools;
use crate::terminal::RenderOptions;

/// Prints the overview.
pub(crate) fn run(args: &PoolsArgs, color: Color) -> Result<ExitCode, CliError> {
    let mut loaded = Loaded::read(&args.set, &args.paths)?;
    let settings = loaded.settings(None)?;
    let mut overviews = Vec::new();
    for set in loaded.chosen(args.set.only.as_deref())? {
        let situation = Situation::read(&set.cluster, &settings.platform, None);
        if !situation.is_empty() {
            overviews.push((set.name.clone(), situation.overview(&set.cluster, &settings.platform)));
        }
    }
    if overviews.is_empty() {
        return Err(CliError::Usage(format!(
            "no NodePool found in {}",
            args.paths.iter().map(|path| display_path(path)).collect::<Vec<_>>().join(", ")
        )));
    }
    output::to_stdout(|out| match args.format {
        ExplainFormat::Text => {
            pools::text(out, &overviews, &settings.platform, RenderOptions::for_stdout(color))
        }
        ExplainFormat::Json => pools::json(out, &overviews, &settings.platform),
    })?;
    Ok(ExitCode::SUCCESS)
}
