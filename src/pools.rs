//! `gpulint pools`: what each NodePool admits, costs at most, and takes, and whether everything fits at once.

use std::process::ExitCode;

use gpulint_rules::fit::{FitVerdict, Situation};
use gpulint_rules::{Platform, fill_sets};
use serde_json::Value;

use crate::args::{Color, ExplainFormat, PoolsArgs};
use crate::batch::Batch;
use crate::error::CliError;
use crate::files::display_path;
use crate::loaded::Loaded;
use crate::output;
use crate::report::{capacity, pools};
use crate::terminal::{RenderOptions, print_note};

/// Kinds of workloads, which are counted to know how long an overview would take.
const WORKLOADS: [&str; 7] =
    ["CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"];
/// An overview beside a report has no set with more NodePools times workloads: it would take much longer than the report.
const MAX_PAIRS: usize = 100_000;

/// The overview of what a run has read, as `gpulint pools --format json` prints it, without sets that are too large.
pub(crate) fn of_run(batch: &Batch<'_>, platform: &Platform) -> Value {
    let mut overviews = Vec::new();
    for set in fill_sets(&batch.run_inputs(), &batch.sets.partition) {
        let count =
            |is: &dyn Fn(&str) -> bool| set.cluster.objects().iter().filter(|one| is(&one.id().kind)).count();
        if count(&|kind| kind == "NodePool") * count(&|kind| WORKLOADS.contains(&kind)) > MAX_PAIRS {
            print_note("note: too many NodePools and workloads for the page; `gpulint pools` shows them");
            continue;
        }
        let situation = Situation::read(&set.cluster, platform, None);
        if !situation.is_empty() {
            overviews.push((set.name.clone(), situation.overview(&set.cluster, platform)));
        }
    }
    pools::value(&overviews, Vec::new(), platform)
}

/// Prints the overview.
pub(crate) fn run(args: &PoolsArgs, color: Color) -> Result<ExitCode, CliError> {
    let mut loaded = Loaded::read(&args.set, &args.paths)?;
    let settings = loaded.settings(None)?;
    let mut overviews = Vec::new();
    let mut capacities = Vec::new();
    for set in loaded.chosen(args.set.only.as_deref())? {
        let situation = Situation::read(&set.cluster, &settings.platform, None);
        if situation.is_empty() {
            continue;
        }
        overviews.push((set.name.clone(), situation.overview(&set.cluster, &settings.platform)));
        if args.capacity {
            capacities.push((set.name.clone(), situation.capacity(&set.cluster)));
        }
    }
    if overviews.is_empty() {
        return Err(CliError::Usage(format!(
            "no NodePool found in {}",
            args.paths.iter().map(|path| display_path(path)).collect::<Vec<_>>().join(", ")
        )));
    }
    let options = RenderOptions::for_stdout(color);
    output::to_stdout(|out| match args.format {
        ExplainFormat::Text if args.capacity => {
            capacity::text(out, &capacities, &settings.platform, options.width)
        }
        ExplainFormat::Text => pools::text(out, &overviews, &settings.platform, options),
        ExplainFormat::Json => {
            let capacity = capacities.iter().map(capacity::json).collect();
            pools::json(out, &overviews, capacity, &settings.platform)
        }
    })?;
    let fits = |(_, capacity): &capacity::InSet| {
        capacity.floor.verdict == FitVerdict::Fits && capacity.ceiling.verdict == FitVerdict::Fits
    };
    Ok(if capacities.iter().all(fits) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
