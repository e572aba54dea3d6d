//! One run over files: the objects of each set form a cluster, its views are built, each file is checked under its own
//! configuration in every set that it belongs to, suppressions are applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::cluster::sets::{self, AppliedObjects, Bond, Partition};
use crate::file::File;
use crate::lint::engine::Engine;
use crate::lint::finding::Finding;
use crate::lint::placements::{Placement, name_unjudged};
use crate::lint::report::CheckReport;
use crate::lint::session::{PREBUILD_VIEWS_ABOVE, build_views, complete_sets};

/// Number of objects of a parallel task.
const OBJECTS_PER_TASK: usize = 64;

/// A file of a run, and the engine of its configuration.
#[derive(Clone, Copy, Debug)]
pub struct RunInput<'a> {
    /// The rules under the file's configuration.
    pub engine: &'a Engine,
    /// The file.
    pub file: &'a File,
}

/// Checks the files of a run, on all threads of the current rayon pool. Every file is part of the clusters of its sets;
/// `only` names the inputs that are checked, by their numbers, and `None` means all. The reports have the order of the
/// inputs, with `None` for each input that has no file or is not checked.
#[must_use]
pub fn check_run(
    inputs: &[Option<RunInput<'_>>],
    partition: &Partition,
    only: Option<&BTreeSet<usize>>,
) -> Vec<Option<CheckReport>> {
    let roles = all_roles(inputs, partition);
    let sets = fill(inputs, &roles, partition);
    let checked: Vec<Checked<'_>> = (0..)
        .zip(inputs.iter().zip(&roles))
        .filter(|(number, _)| only.is_none_or(|only| only.contains(number)))
        .filter_map(|(number, (input, roles))| Some(Checked { number, input: (*input)?, roles }))
        .collect();
    let groups: Vec<&[Checked<'_>]> = in_groups(&checked).collect();
    let found: Vec<Vec<CheckReport>> =
        groups.into_par_iter().map(|files| check_files(files, &sets)).collect();
    let mut reports: Vec<Option<CheckReport>> = Vec::new();
    reports.resize_with(inputs.len(), || None);
    for (file, report) in checked.iter().zip(found.into_iter().flatten()) {
        reports[file.number] = Some(report);
    }
    drop(checked);
    // Freeing millions of nodes takes a while, and no report waits for it.
    rayon::spawn(move || drop((sets, roles)));
    reports
}

/// A set with its objects.
#[derive(Debug)]
pub struct FilledSet {
    /// Its name; none where the whole input is one, and for what no set has.
    pub name: Option<Arc<str>>,
    /// Its objects as it applies them.
    pub cluster: Cluster,
}

/// The sets of an input with their objects, those that have any.
#[must_use]
pub fn fill_sets(inputs: &[Option<RunInput<'_>>], partition: &Partition) -> Vec<FilledSet> {
    let roles = all_roles(inputs, partition);
    let mut sets = fill(inputs, &roles, partition);
    sets.retain(|set| !set.cluster.objects().is_empty());
    sets
}

/// How a file takes part in a set.
struct Role {
    /// The number of the set.
    set: usize,
    /// Its objects as the set applies them.
    objects: AppliedObjects,
}

/// The roles of each input.
fn all_roles(inputs: &[Option<RunInput<'_>>], partition: &Partition) -> Vec<Vec<Role>> {
    let roles_of = |(number, input): (usize, &Option<RunInput<'_>>)| {
        input.map_or_else(Vec::new, |input| roles(input.file, number, partition))
    };
    inputs.par_iter().enumerate().map(roles_of).collect()
}

/// The roles of a file. Files that no set has are a set of their own, after all others.
fn roles(file: &File, number: usize, partition: &Partition) -> Vec<Role> {
    let memberships = partition.memberships(number);
    let sets =
        memberships.iter().map(|one| one.set).chain(memberships.is_empty().then_some(partition.sets.len()));
    let applied = sets::apply(memberships, &file.objects);
    sets.zip(applied).map(|(set, objects)| Role { set, objects }).collect()
}

/// Fills the cluster of each set, and builds the views of those with many objects.
fn fill(inputs: &[Option<RunInput<'_>>], roles: &[Vec<Role>], partition: &Partition) -> Vec<FilledSet> {
    let mut members: Vec<Vec<(&RunInput<'_>, &Role)>> = Vec::new();
    members.resize_with(partition.sets.len() + 1, Vec::new);
    for (input, roles) in inputs.iter().zip(roles) {
        let Some(input) = input else { continue };
        for role in roles {
            members[role.set].push((input, role));
        }
    }
    let files = inputs.iter().enumerate();
    let files =
        files.filter_map(|(number, input)| Some((partition.memberships(number), input.as_ref()?.engine)));
    let complete = complete_sets(&partition.sets, files);
    let first = Cluster::new(false);
    let fill_set = |(number, members): (usize, &Vec<(&RunInput<'_>, &Role)>)| {
        let set = partition.sets.get(number);
        let bond = set.map_or(Bond::Folders, |set| set.bond);
        let mut cluster = first.successor(complete[number]).with_bond(bond);
        for (input, role) in members {
            for object in role.objects.iter(&input.file.objects) {
                cluster.apply(object.clone());
            }
        }
        FilledSet { name: set.map(|set| Arc::clone(&set.name)), cluster }
    };
    let sets: Vec<FilledSet> = members.par_iter().enumerate().map(fill_set).collect();
    let is_large = |(set, _): &(&FilledSet, _)| set.cluster.objects().len() > PREBUILD_VIEWS_ABOVE;
    let large = sets.iter().zip(&members).filter(is_large);
    let large: Vec<(&Cluster, &RunInput<'_>)> =
        large.filter_map(|(set, members)| Some((&set.cluster, members.first()?.0))).collect();
    build_views(&large.iter().map(|(cluster, _)| *cluster).collect::<Vec<_>>());
    for (cluster, input) in large {
        cluster.place_pods(&input.engine.settings().platform);
    }
    sets
}

/// A file that is checked.
struct Checked<'a> {
    /// The number of its input.
    number: usize,
    input: RunInput<'a>,
    roles: &'a [Role],
}

impl<'a> Checked<'a> {
    fn objects(&self) -> usize {
        self.input.file.objects.len()
    }

    /// An object of the file as its sets apply it.
    fn placements(&self, at: usize, sets: &'a [FilledSet]) -> Vec<Placement<'a>> {
        let placed = self.roles.iter().filter_map(|role| {
            let FilledSet { name, cluster } = &sets[role.set];
            let object = role.objects.get(&self.input.file.objects, at)?;
            Some(Placement { object, cluster, set: name.as_slice() })
        });
        placed.collect()
    }

    /// The report with what rules found in the objects, in their order.
    fn report(&self, findings: Vec<Finding>, sets: &[FilledSet]) -> CheckReport {
        let RunInput { engine, file } = self.input;
        let mut report = engine.assemble_report(file, findings);
        let names = self.roles.iter().map(|role| sets[role.set].name.as_slice());
        name_unjudged(&mut report.findings, names);
        if !report.findings.is_empty() {
            // Reports read the line index, one file after the other.
            let _ = file.source.lines();
        }
        report
    }
}

/// Files that follow each other, with as many objects together as one thread checks at a time. A file with more of them is
/// a group of its own.
fn in_groups<'c, 'a>(files: &'c [Checked<'a>]) -> impl Iterator<Item = &'c [Checked<'a>]> {
    let total: usize = files.iter().map(Checked::objects).sum();
    // Every thread has several groups, so that none is left with a long one at the end.
    let most = (total / (8 * rayon::current_num_threads())).clamp(1, OBJECTS_PER_TASK);
    let mut size = 0;
    files.chunk_by(move |file, next| {
        size += file.objects().max(1);
        let is_full = size >= most || next.objects() > OBJECTS_PER_TASK;
        size = if is_full { 0 } else { size };
        !is_full
    })
}

/// Checks the files of a group.
fn check_files(files: &[Checked<'_>], sets: &[FilledSet]) -> Vec<CheckReport> {
    let objects: Vec<CheckedObject<'_>> = (0..)
        .zip(files)
        .flat_map(|(number, file)| (0..file.objects()).map(move |at| CheckedObject { number, file, at }))
        .collect();
    // One file can hold most of the objects, so they are checked in parallel as well.
    let tasks = objects.par_chunks(2 * OBJECTS_PER_TASK);
    let found: Vec<(usize, Vec<Finding>)> = tasks.flat_map_iter(|some| by_file(some, sets)).collect();
    let mut sizes = vec![0; files.len()];
    for (number, findings) in &found {
        sizes[*number] += findings.len();
    }
    let mut of_files: Vec<Vec<Finding>> = sizes.into_iter().map(Vec::with_capacity).collect();
    for (number, findings) in found {
        of_files[number].extend(findings);
    }
    files.iter().zip(of_files).map(|(file, findings)| file.report(findings, sets)).collect()
}

/// The findings of some objects in one list for each file, with its number in the group: a list for each of many objects
/// takes much more memory.
fn by_file(objects: &[CheckedObject<'_>], sets: &[FilledSet]) -> Vec<(usize, Vec<Finding>)> {
    let mut out: Vec<(usize, Vec<Finding>)> = Vec::new();
    for (object, findings) in objects.iter().zip(check_objects(objects, sets)) {
        match out.last_mut() {
            Some((number, all)) if *number == object.number => all.extend(findings),
            _ => out.push((object.number, findings)),
        }
    }
    out.iter_mut().for_each(|(_, findings)| findings.shrink_to_fit());
    out
}

/// An object of a file that is checked.
struct CheckedObject<'a> {
    /// The number of its file in the group.
    number: usize,
    file: &'a Checked<'a>,
    /// Its number in the file.
    at: usize,
}

/// The findings of each object. Those of one kind that are in one set each are checked together.
fn check_objects(objects: &[CheckedObject<'_>], sets: &[FilledSet]) -> Vec<Vec<Finding>> {
    let placed: Vec<Vec<Placement<'_>>> =
        objects.iter().map(|one| one.file.placements(one.at, sets)).collect();
    let mut found: Vec<Vec<Finding>> = Vec::with_capacity(objects.len());
    // By configuration and kind, with their numbers.
    let mut together: BTreeMap<_, Vec<(usize, Placement<'_>)>> = BTreeMap::new();
    for (number, (one, placed)) in objects.iter().zip(&placed).enumerate() {
        let engine = one.file.input.engine;
        found.push(match placed.as_slice() {
            [only] => {
                let id = only.object.id();
                let group = (std::ptr::from_ref(engine).addr(), id.kind.as_str(), id.group.as_str());
                together.entry(group).or_default().push((number, *only));
                Vec::new()
            }
            placed => engine.check_placements(placed),
        });
    }
    for some in together.into_values() {
        let (numbers, placements): (Vec<usize>, Vec<Placement<'_>>) = some.into_iter().unzip();
        let engine = objects[numbers[0]].file.input.engine;
        for (number, findings) in numbers.into_iter().zip(engine.check_placed_once(&placements)) {
            found[number] = findings;
        }
    }
    found
}
