//! Paths of configurations that lead nowhere: what they are to add is not checked, and nothing else says so.

use std::fs;
use std::path::Path;

use gpulint_rules::facts::suggest;
use gpulint_rules::lint::config::HelmConfig;
use gpulint_rules::lint::settings::Globs;

use crate::batch::Batch;
use crate::config::Scope;
use crate::files;

use super::run::Run;

/// The paths of `clusters` without a file, if all files below the configuration are in the input.
pub(super) fn clusters(run: &Run<'_>, batch: &Batch<'_>) -> Vec<String> {
    let given: Vec<_> = run.args.paths.iter().map(|path| files::absolute(path)).collect();
    let is_whole = |folder: &Path| given.iter().any(|given| folder.starts_with(given));
    let scopes = run.scopes.all().iter().enumerate();
    let whole = scopes.filter(|(_, scope)| scope.folder.as_deref().is_some_and(is_whole));
    whole.flat_map(|(number, _)| of_scope(batch, number)).collect()
}

fn of_scope(batch: &Batch<'_>, scope: usize) -> Vec<String> {
    let inputs = || batch.inputs.iter().filter(|one| one.scope == scope);
    let mut notes = Vec::new();
    for cluster in &batch.engines[scope].settings().clusters {
        let place = &cluster.place;
        if !inputs().any(|one| cluster.cluster_of(&one.path).is_some()) {
            notes.push(format!("{place}: no file belongs to this cluster"));
            continue;
        }
        let is_dead = |pattern: &&String| {
            let globs = Globs::of_paths(std::slice::from_ref(*pattern));
            globs.is_ok_and(|globs| !inputs().any(|one| globs.matches(&one.path)))
        };
        let dead = cluster.paths.patterns().iter().filter(is_dead);
        notes.extend(dead.map(|pattern| format!("{place}: no file is at `{pattern}` of this cluster")));
    }
    notes
}

/// The charts of `render.helm` that do not exist, where charts are rendered.
pub(super) fn charts(run: &Run<'_>) -> Vec<String> {
    let scopes = run.scopes.all().iter().filter(|scope| run.args.render || scope.render.enabled);
    scopes
        .flat_map(|scope| scope.render.helm.iter().filter_map(|entry| missing_chart(scope, entry)))
        .collect()
}

fn missing_chart(scope: &Scope, entry: &HelmConfig) -> Option<String> {
    let folder = scope.resolve(&entry.chart).filter(|folder| !is_chart(folder))?;
    let beside = folder.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten();
    let charts = beside.filter_map(|one| Some(one.ok()?.path())).filter(|path| is_chart(path));
    let names = charts.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    let names: Vec<String> = names.collect();
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let near = suggest::nearest(name, names.iter().map(String::as_str));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Some(format!("{}: there is no chart `{}`{hint}", entry.place, entry.chart))
}

fn is_chart(folder: &Path) -> bool {
    folder.join("Chart.yaml").is_file()
}
