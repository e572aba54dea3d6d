//! The output of `--verbose` on standard error before the report: configurations, sets, skipped files and the
//! reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use crate::batch::Batch;
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{SkipReason, Skipped};
use crate::output;
use crate::render::Renders;
use crate::terminal::{count, printable};

use super::{sets, versions};

/// Maximum number of folders to name; further folders are counted.
const MAX_FOLDERS: usize = 5;

/// Writes the output. `found` are the files that were skipped before they were read.
pub(crate) fn write<'s>(
    set: &'s Batch<'_>,
    scopes: &Scopes,
    renders: &Renders,
    found: impl Iterator<Item = &'s Skipped>,
    ignored: &BTreeMap<String, usize>,
) -> Result<(), CliError> {
    output::to_stderr(|out| {
        configurations(out, set, scopes)?;
        writeln!(out, "\nsets:")?;
        sets::text(out, set)?;
        versions::text(out, set)?;
        rendered(out, renders)?;
        let read = (set.reads.iter().enumerate())
            .filter(|(at, _)| !set.inputs[*at].is_context && !set.covered.contains(at))
            .flat_map(|(_, read)| &read.skipped);
        skipped(out, found.chain(read), ignored)?;
        Ok(writeln!(out)?)
    })
}

/// Writes what was rendered, and with which values.
fn rendered(out: &mut dyn Write, renders: &Renders) -> Result<(), CliError> {
    let mut commands = renders.commands().peekable();
    if commands.peek().is_some() {
        writeln!(out, "\nrendered:")?;
    }
    for (command, values) in commands {
        let values = if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
        writeln!(out, "  {}", printable(&format!("{command}{values}"), false))?;
    }
    Ok(())
}

fn configurations(out: &mut dyn Write, set: &Batch<'_>, scopes: &Scopes) -> Result<(), CliError> {
    writeln!(out, "configurations:")?;
    let shown = |folder: &Path| printable(&sets::short(folder), false).into_owned();
    for (number, scope) in scopes.all().iter().enumerate() {
        let inputs = set.inputs.iter().filter(|one| one.scope == number && !one.is_context);
        let folders: Vec<&Path> = inputs.filter_map(|one| one.input.absolute.parent()).collect();
        if folders.is_empty() {
            continue;
        }
        let files = count(folders.len(), "file");
        let name = if scope.name.is_empty() { "none".into() } else { printable(&scope.name, false) };
        let distinct: BTreeSet<&Path> = folders.iter().copied().collect();
        // The folders that are not below another one of them.
        let tops: Vec<String> = (distinct.iter())
            .filter(|folder| !folder.ancestors().skip(1).any(|above| distinct.contains(above)))
            .map(|folder| shown(folder))
            .collect();
        let more = tops.len().saturating_sub(MAX_FOLDERS);
        let more = if more > 0 { format!(" and {} more", count(more, "folder")) } else { String::new() };
        let tops = tops[..tops.len().min(MAX_FOLDERS)].join(", ");
        writeln!(out, "  {name}: {files} in {tops}{more}")?;
    }
    Ok(())
}

fn skipped<'s>(
    out: &mut dyn Write,
    all: impl Iterator<Item = &'s Skipped>,
    ignored: &BTreeMap<String, usize>,
) -> Result<(), CliError> {
    let mut by_reason: BTreeMap<SkipReason, Vec<&Skipped>> = BTreeMap::new();
    for one in all {
        by_reason.entry(one.reason).or_default().push(one);
    }
    if by_reason.is_empty() && ignored.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nskipped:")?;
    for (config, files) in ignored {
        writeln!(out, "  {}: named by `ignore` of {}", count(*files, "file"), printable(config, false))?;
    }
    for (reason, list) in &mut by_reason {
        list.sort();
        writeln!(out, "  {}, {}: {}", reason.name(), reason.description(), list.len())?;
        for one in list {
            let document = one.document.map(|number| format!(" (document {})", number + 1));
            writeln!(out, "    {}{}", printable(&one.file, false), document.unwrap_or_default())?;
        }
    }
    Ok(())
}
