//! One run over files: all their objects form the cluster, its views are built, each file is checked under its own
//! configuration, suppressions are applied.

use std::collections::BTreeSet;

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::file::File;
use crate::lint::engine::Engine;
use crate::lint::report::CheckReport;
use crate::object::Object;

/// From so many objects on, views are built before a rule reads them.
const PREBUILD_VIEWS_FROM: usize = 256;
/// So many objects of one file are checked by one thread at a time.
const OBJECTS_PER_TASK: usize = 64;

/// A file of a run, and the engine of its configuration.
#[derive(Clone, Copy, Debug)]
pub struct RunInput<'a> {
    /// The rules under the file's configuration.
    pub engine: &'a Engine,
    /// The file.
    pub file: &'a File,
}

/// Checks the files of a run, on all threads of the current rayon pool. Every file is part of the cluster; `only` names
/// the inputs that are checked, by their numbers, and `None` means all. The reports have the order of the inputs, with
/// `None` for each input that has no file or is not checked.
#[must_use]
pub fn check_run(
    inputs: &[Option<RunInput<'_>>],
    only: Option<&BTreeSet<usize>>,
) -> Vec<Option<CheckReport>> {
    let cluster = cluster(inputs);
    let reports = inputs
        .par_iter()
        .enumerate()
        .map(|(number, input)| {
            let RunInput { engine, file } = (*input)?;
            only.is_none_or(|only| only.contains(&number)).then(|| check_file(engine, file, &cluster))
        })
        .collect();
    // Freeing millions of nodes takes a while, and no report waits for it.
    rayon::spawn(move || drop(cluster));
    reports
}

/// The objects of all files. They count as the whole cluster where a configuration says so.
fn cluster(inputs: &[Option<RunInput<'_>>]) -> Cluster {
    let files = || inputs.iter().flatten();
    let mut cluster = Cluster::new(files().any(|input| input.engine.settings().complete));
    for object in files().flat_map(|input| &input.file.objects) {
        cluster.apply(object.clone());
    }
    if cluster.objects().len() > PREBUILD_VIEWS_FROM {
        // The first rule to read a view would keep all others waiting.
        Cluster::table_builders().par_iter().for_each(|build| build(&cluster));
    }
    cluster
}

fn check_file(engine: &Engine, file: &File, cluster: &Cluster) -> CheckReport {
    // One file can hold most of the objects, so they are checked in parallel as well.
    let objects: &[Object] = &file.objects;
    let findings = objects
        .par_iter()
        .with_min_len(OBJECTS_PER_TASK)
        .flat_map_iter(|object| engine.check_object(object, cluster))
        .collect();
    let report = engine.assemble_report(file, findings);
    if !report.findings.is_empty() {
        // Reports read the line index, one file after the other.
        let _ = file.source.lines();
    }
    report
}
