//! Context: files that are read for their effect on other files, and in which nothing is reported.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::args::CheckArgs;
use crate::batch::{Batch, ScopedInput, Selection, scope};
use crate::config::Scopes;
use crate::files::{self, FoundFiles, Near};
use crate::terminal::{count, print_note};

/// Maximum number of manifests of a checkout that is read as context of a few files.
const MAX_FILES: usize = 20_000;
const NO_CONTEXT: &str = "note: no context: nothing says what the files are applied together with";
/// Maximum number of sets to name.
const MAX_NAMES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// There is no context.
    None,
    /// The flag `--context` names it.
    Given,
    /// Single files are checked, and the folders around them show that they are applied with others.
    Found,
}

pub(crate) fn add(args: &CheckArgs, selection: &mut Selection) -> Origin {
    let Selection { scopes, found, inputs } = selection;
    let (folders, origin) = if !args.context.is_empty() {
        (args.context.clone(), Origin::Given)
    } else {
        (checkouts(args, inputs, scopes), Origin::Found)
    };
    let mut around = FoundFiles::default();
    if !folders.is_empty() {
        around = files::find(&folders, Path::new("<stdin>"));
    }
    replace_by_streams(inputs);
    if folders.is_empty() || origin == Origin::Found && around.inputs.len() > MAX_FILES {
        return Origin::None;
    }
    if origin == Origin::Given {
        found.errors.append(&mut around.errors);
    }
    let here = files::absolute(Path::new("."));
    let own: HashSet<PathBuf> = inputs.iter().map(|one| one.input.absolute.clone()).collect();
    around.inputs.retain(|input| input.stream.is_none() && !own.contains(&input.absolute));
    for input in &mut around.inputs {
        input.named = false;
        if let Ok(short) = input.absolute.strip_prefix(&here) {
            input.display_path = files::display_path(short);
        }
    }
    let context = scope(&mut around, scopes, args.no_default_ignore);
    found.directories.extend(around.directories);
    inputs.extend(context.into_iter().map(|one| ScopedInput { is_context: true, ..one }));
    origin
}

/// A stream under the name of a file replaces that file.
fn replace_by_streams(inputs: &mut Vec<ScopedInput>) {
    let streams = inputs.iter().filter(|one| one.input.stream.is_some());
    let names: HashSet<PathBuf> = streams.map(|one| one.input.absolute.clone()).collect();
    if !names.is_empty() {
        inputs.retain(|one| one.input.stream.is_some() || !names.contains(&one.input.absolute));
    }
}

/// The checkouts to read as context of single files.
fn checkouts(args: &CheckArgs, inputs: &[ScopedInput], scopes: &Scopes) -> Vec<PathBuf> {
    let is_single = |one: &ScopedInput| one.input.named && !one.input.display_path.starts_with('<');
    let is_off = args.no_context || args.show_sets || args.paths.iter().any(|path| path.is_dir());
    if is_off || inputs.is_empty() || !inputs.iter().all(is_single) {
        return Vec::new();
    }
    let mut roots = BTreeSet::new();
    let mut near = Near::default();
    for one in inputs {
        let scope = scopes.get(one.scope);
        let configured = scope.settings.clusters.iter().any(|c| c.cluster_of(&one.path).is_some());
        if configured && let Some(folder) = &scope.folder {
            roots.insert(folder.clone());
        }
        roots.extend(near.claiming_checkout(&one.input.absolute));
        roots.extend(near.claiming_chart(&one.input.absolute));
    }
    let is_inside = |root: &&PathBuf| roots.iter().any(|other| *root != other && root.starts_with(other));
    roots.iter().filter(|root| !is_inside(root)).cloned().collect()
}

/// Prints a note on the context of single files. `names` are the sets that claim them, `rendered` is the
/// output of their charts and kustomizations: the number of files, and the commands.
pub(crate) fn say(
    args: &CheckArgs,
    batch: &Batch<'_>,
    mut names: Vec<String>,
    rendered: (usize, Vec<String>),
) {
    let single = batch.inputs.iter().filter(|one| !one.is_context).all(|one| one.input.named);
    if !args.verbose || args.no_context || !single || !args.context.is_empty() {
        return;
    }
    let (more_files, commands) = rendered;
    let files = more_files + batch.inputs.iter().filter(|one| one.is_context).count();
    if files == 0 {
        print_note(NO_CONTEXT);
        return;
    }
    names.extend(commands);
    let more = names.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    print_note(&format!(
        "note: {} of {}{more} {} context, applied together with what is checked; --no-context leaves them out",
        count(files, "file"),
        names.join(", "),
        if files == 1 { "is" } else { "are" }
    ));
}
