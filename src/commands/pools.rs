//! `gpulint pools`: the types that each NodePool admits, its maximum cost, its workloads, and whether
//! everything fits at once.

use std::process::ExitCode;

use gpulint_rules::fit::{Capacity, FitVerdict, Situation};

use crate::args::{Color, PoolsArgs};
use crate::error::CliError;
use crate::files::display_path;
use crate::output;
use crate::report::PoolsAnswer;
use crate::terminal::RenderOptions;

use super::loaded::Loaded;

pub(crate) fn run(args: &PoolsArgs, color: Color) -> Result<ExitCode, CliError> {
    let mut loaded = Loaded::read(&args.set, &args.paths)?;
    let platform = loaded.settings(None)?.platform;
    let mut overviews = Vec::new();
    let mut capacities = args.capacity.then(Vec::new);
    for set in loaded.chosen(args.set.only.as_deref())? {
        let of_set = set.cluster.platform(&platform);
        let situation = Situation::read(&set.cluster, &of_set, None);
        if situation.is_empty() {
            continue;
        }
        overviews.push((set.name.clone(), situation.overview(&set.cluster, &of_set)));
        if let Some(capacities) = &mut capacities {
            capacities.push((set.name.clone(), situation.capacity(&set.cluster)));
        }
    }
    if overviews.is_empty() {
        return Err(CliError::Usage(format!(
            "no NodePool found in {}",
            args.paths.iter().map(|path| display_path(path)).collect::<Vec<_>>().join(", ")
        )));
    }
    let fits = |capacity: &Capacity| {
        capacity.floor.verdict == FitVerdict::Fits && capacity.ceiling.verdict == FitVerdict::Fits
    };
    let all_fit = capacities.iter().flatten().all(|(_, capacity)| fits(capacity));
    let answer = PoolsAnswer { overviews, capacities, platform: &platform };
    output::to_stdout(|out| answer.write(out, args.format, RenderOptions::for_stdout(color)))?;
    Ok(if all_fit { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
