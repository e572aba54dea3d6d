//! A run over files: fills a cluster for each set, builds its views, checks each file under its own configuration in
//! every set that it belongs to, and applies suppressions.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use crate::cluster::Cluster;
use crate::cluster::sets::{self, AppliedObjects, Partition};
use crate::file::File;
use crate::lint::engine::Engine;
use crate::lint::report::CheckReport;
use crate::lint::session::{PREBUILD_VIEWS_ABOVE, build_views, complete_sets};
use crate::lint::sets::{AppliedObject, name_all_sets};

/// Minimum number of objects of a parallel task.
const OBJECTS_PER_TASK: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct RunInput<'a> {
    pub engine: &'a Engine,
    pub file: &'a File,
}

/// Checks the files of a run, on all threads of the current rayon pool. Every file is part of the clusters of its sets;
/// `only` names the inputs that are checked, by their numbers, and `None` means all. The reports have the order of the
/// inputs, with `None` for each input that has no file or is not checked.
pub fn check_run(
    inputs: &[Option<RunInput<'_>>],
    partition: &Partition,
    only: Option<&BTreeSet<usize>>,
) -> Vec<Option<CheckReport>> {
    let roles = all_roles(inputs, partition);
    let sets = fill(inputs, &roles, partition);
    let reports = inputs
        .par_iter()
        .zip(&roles)
        .enumerate()
        .map(|(number, (input, roles))| {
            let is_checked = only.is_none_or(|only| only.contains(&number));
            input.filter(|_| is_checked).map(|input| check_file(input, roles, &sets))
        })
        .collect();
    // Freeing millions of nodes takes a while, so it does not delay the reports.
    rayon::spawn(move || drop((sets, roles)));
    reports
}

#[derive(Debug)]
pub struct FilledSet {
    /// The name; `None` if the input is a single set, and for files in no set.
    pub name: Option<Arc<str>>,
    /// The objects as the set applies them.
    pub cluster: Cluster,
}

/// All non-empty sets of an input, with their objects.
pub fn fill_sets(inputs: &[Option<RunInput<'_>>], partition: &Partition) -> Vec<FilledSet> {
    let roles = all_roles(inputs, partition);
    let mut sets = fill(inputs, &roles, partition);
    sets.retain(|set| !set.cluster.objects().is_empty());
    sets
}

/// The part of a file in a set.
struct Role {
    set: usize,
    objects: AppliedObjects,
}

fn all_roles(inputs: &[Option<RunInput<'_>>], partition: &Partition) -> Vec<Vec<Role>> {
    let roles_of = |(number, input): (usize, &Option<RunInput<'_>>)| {
        input.map_or_else(Vec::new, |input| roles(input.file, number, partition))
    };
    inputs.par_iter().enumerate().map(roles_of).collect()
}

/// The roles of a file. Files in no set form a set of their own, after all others.
fn roles(file: &File, number: usize, partition: &Partition) -> Vec<Role> {
    let memberships = partition.memberships(number);
    let sets =
        memberships.iter().map(|one| one.set).chain(memberships.is_empty().then_some(partition.sets.len()));
    let applied = sets::apply(memberships, &file.objects);
    sets.zip(applied).map(|(set, objects)| Role { set, objects }).collect()
}

/// Fills the cluster of each set, and builds the views of large ones.
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
        let cluster = first.successor(complete[number]).with_bond(partition.bond_of(number));
        let mut cluster = cluster.with_facts(partition.facts_of(number));
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
        cluster.place_pods(&cluster.platform(&input.engine.settings().platform));
    }
    sets
}

fn check_file(RunInput { engine, file }: RunInput<'_>, roles: &[Role], sets: &[FilledSet]) -> CheckReport {
    let check = |at: usize| {
        let placed = roles.iter().filter_map(|role| {
            let FilledSet { name, cluster } = &sets[role.set];
            let object = role.objects.get(&file.objects, at)?;
            Some(AppliedObject { object, cluster, set: name.as_slice() })
        });
        engine.check_in_sets(&placed.collect::<Vec<_>>())
    };
    // One file can contain most of the objects, so objects are also checked in parallel.
    let objects = (0..file.objects.len()).into_par_iter().with_min_len(OBJECTS_PER_TASK);
    let mut report = engine.assemble_report(file, objects.flat_map_iter(check).collect());
    let names = roles.iter().map(|role| sets[role.set].name.as_slice());
    name_all_sets(&mut report.findings, names);
    if !report.findings.is_empty() {
        // Computes the line index here in parallel, because reports are written sequentially.
        let _ = file.source.lines();
    }
    report
}
