//! The files of one set, with the results of each rule for each object, and the reads of the cluster that each result
//! depends on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use crate::cluster::dependencies::{Dependents, Read};
use crate::cluster::sets::Bond;
use crate::cluster::versions::OutsideFact;
use crate::cluster::{Cluster, Replaced};
use crate::file::File;
use crate::lint::engine::Engine;
use crate::lint::finding::{Finding, all_render_equal};
use crate::lint::recorded::{EarlierResults, ObjectResults, RulePanic};
use crate::lint::report::CheckReport;
use crate::lint::session::{PREBUILD_VIEWS_ABOVE, build_views};
use crate::lint::sets::name_set;
use crate::lint::suppress;
use crate::object::Object;

/// Minimum number of objects that are checked in parallel: an edit of a small file stays on its thread.
const PARALLEL_ABOVE: usize = 16;
/// Minimum number of objects of a parallel task.
const OBJECTS_PER_TASK: usize = 4;

/// Maximum number of panics that are kept until they are taken.
const MOST_PANICS: usize = 256;

/// A role of a file in a set. A file may have several, in several namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlaceKey {
    pub(super) path: Arc<str>,
    /// The number of the role among those of the file in this set.
    pub(super) role: usize,
}

/// A file in one of its roles.
#[derive(Debug)]
pub(super) struct PlacedFile {
    pub(super) file: File,
    /// The objects as the set applies them.
    pub(super) objects: Vec<Object>,
    pub(super) engine: Arc<Engine>,
}

/// A file whose results were computed again.
#[derive(Debug)]
pub(super) struct Renewed {
    pub(super) key: PlaceKey,
    /// Whether its report renders differently. If not, only the object handles are new.
    pub(super) changed: bool,
}

/// The files of a set with the findings of the rules.
#[derive(Debug)]
pub(super) struct SetWorkspace {
    /// The name; `None` if the whole input is one set.
    name: Option<Arc<str>>,
    cluster: Cluster,
    files: BTreeMap<PlaceKey, usize>,
    /// By index in `files`.
    file_states: Vec<Option<FileState>>,
    /// The indices of removed files, which are reused.
    free: Vec<usize>,
    dependents: Dependents<CheckId>,
    panics: Vec<RulePanic>,
}

#[derive(Debug)]
struct FileState {
    key: PlaceKey,
    placed: PlacedFile,
    /// Whether suppressions may apply to its findings.
    has_suppressions: bool,
    results: Vec<ObjectResults>,
    report: CheckReport,
}

/// A check of an object.
struct Task<'a> {
    file: usize,
    /// The number of the object in the file.
    object: usize,
    /// The checks that run again; `None` for all.
    invalid: Option<&'a [CheckId]>,
}

/// A rule and the object of a file that it ran for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CheckId {
    file: u32,
    object: u32,
    rule: u32,
}

impl SetWorkspace {
    /// An empty set. `complete`: an object that is not in the set does not exist.
    pub(super) fn new(
        name: Option<Arc<str>>,
        complete: bool,
        bond: Bond,
        facts: &Arc<[OutsideFact]>,
    ) -> SetWorkspace {
        SetWorkspace {
            name,
            cluster: Cluster::incremental(complete).with_bond(bond).with_facts(Arc::clone(facts)),
            files: BTreeMap::new(),
            file_states: Vec::new(),
            free: Vec::new(),
            dependents: Dependents::default(),
            panics: Vec::new(),
        }
    }

    pub(super) fn take_panics(&mut self) -> Vec<RulePanic> {
        std::mem::take(&mut self.panics)
    }

    pub(super) fn name(&self) -> &[Arc<str>] {
        self.name.as_slice()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The objects of all files.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The findings of a file in one of its roles.
    pub(super) fn report(&self, key: &PlaceKey) -> Option<&CheckReport> {
        self.file_state(key).map(|kept| &kept.report)
    }

    /// The findings of the rules for one object of a file, by its number among those that the set applies.
    pub(super) fn findings(&self, key: &PlaceKey, object: usize) -> Vec<Finding> {
        let results = self.file_state(key).and_then(|kept| kept.results.get(object));
        let rules = results.into_iter().flat_map(|results| &results.rules);
        rules.flat_map(|rule| rule.findings.iter().cloned()).collect()
    }

    /// Adds, replaces and removes files. Returns the other files whose results were computed again.
    pub(super) fn replace(&mut self, changes: Vec<(PlaceKey, Option<PlacedFile>)>) -> Vec<Renewed> {
        let mut old_objects = Vec::new();
        for (key, new) in &changes {
            old_objects.extend(self.detach(key).into_iter().flat_map(|kept| kept.placed.objects));
            if new.is_none() {
                self.free.extend(self.files.remove(key));
            }
        }
        let mut new_objects: Vec<Object> =
            changes.iter().filter_map(|(_, new)| new.as_ref()).flat_map(|new| new.objects.clone()).collect();
        // A file that only changes its role has the same objects.
        let ids = |objects: &[Object]| objects.iter().map(Object::ptr_id).collect::<BTreeSet<_>>();
        let kept: BTreeSet<usize> = ids(&old_objects).intersection(&ids(&new_objects)).copied().collect();
        old_objects.retain(|object| !kept.contains(&object.ptr_id()));
        new_objects.retain(|object| !kept.contains(&object.ptr_id()));
        let replaced = self.cluster.replace(&old_objects, &new_objects);
        let placed = changes.into_iter().filter_map(|(key, new)| Some((key, new?)));
        let added: BTreeSet<usize> = placed.map(|(key, placed)| self.add_file(key, placed)).collect();
        if added.len() == self.files.len() {
            self.check_files(&added);
            return Vec::new();
        }
        match replaced {
            Replaced::Reads(reads) => {
                self.check_files(&added);
                self.recheck_invalidated(&reads, &added)
            }
            Replaced::Everything => self.check_all(&added),
        }
    }

    fn file_state(&self, key: &PlaceKey) -> Option<&FileState> {
        self.file_states[*self.files.get(key)?].as_ref()
    }

    /// Assigns an index to a file without checking it.
    fn add_file(&mut self, key: PlaceKey, placed: PlacedFile) -> usize {
        let kept = Some(FileState {
            key: key.clone(),
            has_suppressions: suppress::has_suppressions(&placed.file),
            results: placed.objects.iter().map(|_| ObjectResults::default()).collect(),
            placed,
            report: CheckReport::default(),
        });
        let at = match self.files.entry(key) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(vacant) => *vacant.insert(self.free.pop().unwrap_or(self.file_states.len())),
        };
        if at == self.file_states.len() {
            self.file_states.push(kept);
        } else {
            self.file_states[at] = kept;
        }
        at
    }

    /// Removes the state of a file and its dependencies; its index stays reserved.
    fn detach(&mut self, key: &PlaceKey) -> Option<FileState> {
        let at = *self.files.get(key)?;
        let old = self.file_states[at].take()?;
        self.remove_dependencies(at, &old.results);
        Some(old)
    }

    /// Runs every rule for the objects of some files.
    fn check_files(&mut self, files: &BTreeSet<usize>) {
        let kept = files.iter().filter_map(|at| Some((*at, self.file_states[*at].as_ref()?)));
        let tasks: Vec<Task<'_>> = kept
            .flat_map(|(file, kept)| {
                (0..kept.placed.objects.len()).map(move |object| Task { file, object, invalid: None })
            })
            .collect();
        if tasks.len() > PREBUILD_VIEWS_ABOVE {
            build_views(&[&self.cluster]);
        }
        self.check(&tasks);
        self.assemble(files);
    }

    /// Checks some objects. Returns the files with findings that were replaced, even if they differ only in the object
    /// handle.
    fn check(&mut self, tasks: &[Task<'_>]) -> BTreeSet<usize> {
        let (states, cluster) = (&self.file_states, &self.cluster);
        let check = |task: &Task<'_>| {
            let state = states[task.file].as_ref()?;
            let PlacedFile { engine, objects, .. } = &state.placed;
            let is_invalid =
                |rule| task.invalid.is_none_or(|checks| checks.iter().any(|check| check.rule == rule));
            let results = &state.results[task.object];
            let earlier = task.invalid.map(|_| EarlierResults { results, is_invalid: &is_invalid });
            Some(engine.check_rules(&objects[task.object], cluster, earlier))
        };
        let checked: Vec<Option<ObjectResults>> = match tasks.len() > PARALLEL_ABOVE {
            true => tasks.par_iter().with_min_len(OBJECTS_PER_TASK).map(check).collect(),
            false => tasks.iter().map(check).collect(),
        };
        let mut renewed = BTreeSet::new();
        for (task, results) in tasks.iter().zip(checked) {
            let Some((state, new)) = self.file_states[task.file].as_mut().zip(results) else { continue };
            let old = std::mem::replace(&mut state.results[task.object], new);
            let new = &state.results[task.object];
            if old.are_replaced_by(new) {
                renewed.insert(task.file);
            }
            for result in &old.rules {
                let check = check_id(task.file, task.object, result.rule);
                let reads = new.of_rule(result.rule).map_or(&[][..], |result| &result.reads);
                self.dependents.update(&result.reads, reads, &check);
            }
            for result in new.rules.iter().filter(|result| old.of_rule(result.rule).is_none()) {
                let check = check_id(task.file, task.object, result.rule);
                self.dependents.insert(result.reads.iter(), &check);
            }
        }
        renewed
    }

    /// Assembles the reports of some files.
    fn assemble(&mut self, files: &BTreeSet<usize>) {
        let set = self.name.as_slice();
        let states = self.file_states.iter_mut().enumerate().filter(|(at, _)| files.contains(at));
        let mut states: Vec<&mut FileState> = states.filter_map(|(_, kept)| kept.as_mut()).collect();
        let assemble = |kept: &mut &mut FileState| kept.assemble(set);
        let panics: Vec<Vec<RulePanic>> = match states.len() > OBJECTS_PER_TASK {
            true => states.par_iter_mut().with_min_len(OBJECTS_PER_TASK).map(assemble).collect(),
            false => states.iter_mut().map(assemble).collect(),
        };
        for panic in panics.into_iter().flatten() {
            if self.panics.len() < MOST_PANICS && !self.panics.contains(&panic) {
                self.panics.push(panic);
            }
        }
    }

    /// Checks all files. Returns those that are not in `added`.
    fn check_all(&mut self, added: &BTreeSet<usize>) -> Vec<Renewed> {
        let all: BTreeSet<usize> = self.files.values().copied().collect();
        let mut before = Vec::new();
        for &at in all.difference(added) {
            let report = self.file_states[at].as_mut().map(|kept| std::mem::take(&mut kept.report));
            before.push((at, report.unwrap_or_default()));
        }
        self.check_files(&all);
        self.renewed(before)
    }

    /// Files whose reports were assembled again, with their previous reports.
    fn renewed(&self, before: Vec<(usize, CheckReport)>) -> Vec<Renewed> {
        let renewed = before.into_iter().filter_map(|(at, before)| {
            let kept = self.file_states[at].as_ref()?;
            Some(Renewed { key: kept.key.clone(), changed: !kept.report.renders_equal(&before) })
        });
        renewed.collect()
    }

    fn remove_dependencies(&mut self, file: usize, results: &[ObjectResults]) {
        for (object, results) in results.iter().enumerate() {
            for result in &results.rules {
                self.dependents.remove(result.reads.iter(), &check_id(file, object, result.rule));
            }
        }
    }

    /// Runs the rules again that depend on these reads, except for the files in `but`, which were just checked.
    fn recheck_invalidated(&mut self, invalid: &[Read], but: &BTreeSet<usize>) -> Vec<Renewed> {
        let mut checks = self.dependents.dependents_of(invalid);
        checks.retain(|check| !but.contains(&(check.file as usize)));
        let tasks: Vec<Task<'_>> = checks
            .chunk_by(|a, b| (a.file, a.object) == (b.file, b.object))
            .map(|checks| {
                let CheckId { file, object, .. } = checks[0];
                Task { file: file as usize, object: object as usize, invalid: Some(checks) }
            })
            .collect();
        let renewed = self.check(&tasks);
        let mut before = Vec::new();
        for &at in &renewed {
            let report = self.file_states[at].as_mut().map(|kept| std::mem::take(&mut kept.report));
            before.push((at, report.unwrap_or_default()));
        }
        self.assemble(&renewed);
        self.renewed(before)
    }
}

impl FileState {
    /// Assembles the report from the results, the parser's diagnostics and the suppressions. Returns the new panics of
    /// rules.
    fn assemble(&mut self, set: &[Arc<str>]) -> Vec<RulePanic> {
        let PlacedFile { file, engine, objects } = &self.placed;
        let path = file.source.path();
        let mut panics = Vec::new();
        for (results, object) in self.results.iter_mut().zip(objects) {
            for result in &mut results.rules {
                if let Some(message) = result.panicked.take() {
                    panics.push(RulePanic {
                        rule: Some(engine.rule(result.rule as usize).id),
                        path: path.to_owned(),
                        object: Some(object.id().clone()),
                        message: message.into_string(),
                    });
                }
            }
        }
        let findings = || {
            let rules = self.results.iter().flat_map(|object| &object.rules);
            let mut findings: Vec<Finding> = rules.flat_map(|rule| rule.findings.iter().cloned()).collect();
            name_set(&mut findings, set);
            findings
        };
        let sets = std::iter::once(set);
        let (report, panicked) = engine.assemble_isolated(file, self.has_suppressions, &findings, sets);
        panics.extend(panicked.map(|message| RulePanic {
            rule: None,
            path: path.to_owned(),
            object: None,
            message,
        }));
        self.report = report;
        panics
    }
}

impl CheckReport {
    pub(super) fn renders_equal(&self, other: &CheckReport) -> bool {
        self.suppressed == other.suppressed && all_render_equal(&self.findings, &other.findings)
    }
}

fn check_id(file: usize, object: usize, rule: u32) -> CheckId {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    CheckId { file: number(file), object: number(object), rule }
}
