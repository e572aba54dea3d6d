//! Loads the objects below some paths, by set, for the commands that explain instead of check.

use std::path::{Path, PathBuf};

use gpulint_rules::facts::suggest;
use gpulint_rules::{Cluster, FilledSet, Object, Settings};

use crate::args::SetArgs;
use crate::batch::{Batch, Selection};
use crate::config::Scopes;
use crate::error::CliError;
use crate::files::{self, Disk};
use crate::render::{RenderOptions, Renders};
use crate::terminal::{print_error, print_note};

pub(crate) struct Loaded {
    /// All objects.
    pub(crate) cluster: Cluster,
    /// The objects of each set; one set without a name if the whole input is one.
    pub(crate) sets: Vec<FilledSet>,
    /// The reported path of each file, with its absolute path and the index of its configuration.
    files: Vec<(String, PathBuf, usize)>,
    scopes: Scopes,
}

/// The error that there is no set of a name, with the names that there are.
pub(crate) fn no_set(name: &str, names: &[&str]) -> CliError {
    let hint = match (suggest::nearest(name, names.iter().copied()), names.is_empty()) {
        (Some(meant), _) => format!("; did you mean `{meant}`?"),
        (None, true) => "; the whole input is one".to_owned(),
        (None, false) => format!("; there are {}", names.join(", ")),
    };
    CliError::Usage(format!("there is no set `{name}`{hint}"))
}

impl Loaded {
    /// Reads the files. Prints errors to standard error.
    pub(crate) fn read(args: &SetArgs, paths: &[PathBuf]) -> Result<Loaded, CliError> {
        let found = files::find(paths, Path::new("<stdin>"));
        let mut selection = Selection::of(Scopes::for_set(args)?, found, false);
        let engines = selection.engines()?;
        let Selection { scopes, mut found, inputs } = selection;
        let mut batch = Batch::read(inputs, &mut found, &Disk::default(), &engines, false);
        let options = RenderOptions { requested: args.render, ..RenderOptions::configured(&found.excluded) };
        let renders = Renders::of(&mut batch, &scopes, &options);
        renders.find_written_lines();
        renders.notes().for_each(|note| print_note(&format!("note: {note}")));
        found.errors.extend(renders.failures().cloned());
        let complete = engines.iter().any(|engine| engine.settings().complete);
        let mut cluster = Cluster::new(complete);
        let mut files = Vec::new();
        for (at, (one, read)) in batch.inputs.iter().zip(&batch.reads).enumerate() {
            found.errors.extend(read.error.clone());
            files.push((one.input.display_path.clone(), one.input.absolute.clone(), one.scope));
            let file = read.file.iter().filter(|_| !batch.covered.contains(&at));
            for object in file.flat_map(|file| &file.objects) {
                cluster.apply(object.clone());
            }
        }
        renders.rendered_objects().for_each(|object| cluster.apply(object.clone()));
        let mut sets = renders.filled_sets(&batch);
        if !found.errors.is_empty() && cluster.objects().is_empty() {
            return Err(CliError::Several(found.errors));
        }
        for error in &found.errors {
            print_error(error);
        }
        cluster.complete_workloads();
        sets.iter_mut().for_each(|set| set.cluster.complete_workloads());
        Ok(Loaded { cluster, sets, files, scopes })
    }

    /// The set with a name, or all sets.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Result<Vec<&FilledSet>, CliError> {
        let Some(name) = name else {
            return Ok(self.sets.iter().collect());
        };
        if let Some(set) = self.sets.iter().find(|set| set.name.as_deref() == Some(name)) {
            return Ok(vec![set]);
        }
        let names: Vec<&str> = self.sets.iter().filter_map(|set| set.name.as_deref()).collect();
        Err(no_set(name, &names))
    }

    /// The settings for an object: those of its file, or of the current folder.
    pub(crate) fn settings(&mut self, object: Option<&Object>) -> Result<Settings, CliError> {
        let path = object.and_then(Object::origin).map(|origin| origin.source.path().to_owned());
        let known = path.and_then(|path| self.files.iter().find(|(name, _, _)| *name == path));
        let scope = match known {
            Some((_, _, scope)) => *scope,
            None => self
                .scopes
                .scope_of(&files::absolute(Path::new("gpulint.yaml")), &files::Directories::default()),
        };
        self.scopes.finish()?;
        Ok(self.scopes.get(scope).settings.clone())
    }

    /// The reported path of a file, given the path that the user wrote.
    pub(crate) fn reported(&self, path: &Path) -> Option<&str> {
        let absolute = files::absolute(path);
        self.files.iter().find(|(_, known, _)| *known == absolute).map(|(name, _, _)| name.as_str())
    }
}
