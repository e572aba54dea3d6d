//! The versions that sets show, in `--verbose` and JSON.

use std::io::Write;

use gpulint_rules::{Object, OutsideFact, ShownVersion, VersionPlace, fill_versions};
use serde::Serialize;

use crate::batch::Batch;
use crate::error::CliError;
use crate::terminal::printable;

use super::place::position;

/// A version that the manifests show, and that counts for a set.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TakenVersion {
    /// The name of the set; `None` if the input is one set, and for files in no set.
    set: Option<String>,
    product: &'static str,
    version: String,
    file: String,
    /// Counted from 1.
    line: u32,
}

/// The versions that the files of a set show.
pub(crate) struct ShownBySet {
    /// The name of the set; `None` if the input is one set, and for files in no set.
    name: Option<String>,
    /// The inputs that the set applies.
    pub(crate) members: Vec<usize>,
    pub(crate) versions: Vec<ShownVersion>,
}

/// The versions that the files of each set show.
pub(crate) fn shown(batch: &Batch<'_>) -> Vec<ShownBySet> {
    let partition = &batch.sets.partition;
    let of_set = |set: usize| {
        let is_member = |at: usize| {
            let members = partition.memberships(at);
            members.iter().any(|one| one.set == set) || members.is_empty() && set == partition.sets.len()
        };
        let members: Vec<usize> = (0..batch.inputs.len()).filter(|at| is_member(*at)).collect();
        let objects = members.iter().filter_map(|at| batch.reads[*at].file.as_ref());
        let objects: Vec<Object> = objects.flat_map(|file| file.objects.iter().cloned()).collect();
        let outside: &[OutsideFact] = partition.sets.get(set).map_or(&partition.facts, |set| &set.facts);
        let name = partition.sets.get(set).map(|set| set.name.to_string());
        let versions = if objects.is_empty() { Vec::new() } else { fill_versions(&objects, outside) };
        ShownBySet { name, members, versions }
    };
    (0..=partition.sets.len()).map(of_set).collect()
}

/// The versions that count for each set: those that no configuration states.
pub(crate) fn taken(batch: &Batch<'_>) -> Vec<TakenVersion> {
    let mut out = Vec::new();
    for set in shown(batch) {
        let is_open = |shown: &&ShownVersion| {
            set.members.iter().any(|at| !batch.engine(*at).settings().platform.is_stated(shown.product))
        };
        let open = set.versions.iter().filter(is_open);
        out.extend(open.filter_map(|shown| row(set.name.clone(), shown)));
    }
    out
}

fn row(set: Option<String>, shown: &ShownVersion) -> Option<TakenVersion> {
    let (file, line) = match &shown.place {
        VersionPlace::Line(file, line) => (file.to_string(), *line),
        VersionPlace::Field(object, pointer) => {
            let (file, line, _) = position(object, pointer)?;
            (file, line)
        }
    };
    Some(TakenVersion { set, product: shown.product.name(), version: shown.version.to_string(), file, line })
}

/// Writes them for `--verbose`.
pub(super) fn text(out: &mut dyn Write, batch: &Batch<'_>) -> Result<(), CliError> {
    let taken = taken(batch);
    if taken.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nversions that the files show:")?;
    for one in taken {
        let set = one.set.map_or_else(String::new, |set| format!(" in {}", printable(&set, false)));
        let file = printable(&one.file, false);
        writeln!(out, "  {} {}{set}: {file}:{}", one.product, one.version, one.line)?;
    }
    Ok(())
}
