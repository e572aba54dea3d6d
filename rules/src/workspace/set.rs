//! The files of one set, with the results of each rule for each object, and the reads of the cluster that each result
//! depends on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use crate::cluster::dependencies::{Dependents, Read, ReadId};
use crate::cluster::sets::Bond;
use crate::cluster::{Cluster, Replaced};
use crate::file::File;
use crate::lint::engine::{Engine, STEPS_PER_OBJECT};
use crate::lint::finding::Finding;
use crate::lint::placements::{name_set, name_unjudged};
use crate::lint::recorded::{ObjectResults, RulePanic, RuleResult};
use crate::lint::report::CheckReport;
use crate::lint::suppress;
use crate::object::Object;
use crate::steps::isolate;

/// From so many objects on, views are built before a rule reads them.
const PREBUILD_VIEWS_FROM: usize = 256;
/// So many objects are checked by one thread at a time: an edit of a small file stays on its own.
const OBJECTS_PER_TASK: usize = 16;

/// How many panics are kept until somebody asks for them.
const MOST_PANICS: usize = 256;

/// How a file takes part in a set. A file may do so several times, in several namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlaceKey {
    /// The path.
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
    /// Whether its report reads otherwise. If not, it refers to newer objects.
    pub(super) changed: bool,
}

/// The files of a set with the findings of the rules.
#[derive(Debug)]
pub(super) struct SetWorkspace {
    /// Its name; none where the whole input is one.
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

/// A file with the results of the rules.
#[derive(Debug)]
struct FileState {
    key: PlaceKey,
    placed: PlacedFile,
    /// Whether suppressions may apply to its findings.
    has_suppressions: bool,
    /// Results for each object of the file.
    results: Vec<ObjectResults>,
    report: CheckReport,
}

/// A rule and the object of a file that it ran for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CheckId {
    file: u32,
    object: u32,
    rule: u32,
}

impl SetWorkspace {
    /// An empty set. `complete` is true if an object that is not in it does not exist.
    pub(super) fn new(name: Option<Arc<str>>, complete: bool, bond: Bond) -> SetWorkspace {
        SetWorkspace {
            name,
            cluster: Cluster::incremental(complete).with_bond(bond),
            files: BTreeMap::new(),
            file_states: Vec::new(),
            free: Vec::new(),
            dependents: Dependents::default(),
            panics: Vec::new(),
        }
    }

    /// The panics of rules since the last call.
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

    /// What the rules found for one object of a file, by its number among those that the set applies.
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
        // A file that has another role has the same objects.
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
            placed,
            results: Vec::new(),
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
        for &at in files {
            let old = self.file_states[at].as_mut().map(|kept| std::mem::take(&mut kept.results));
            self.remove_dependencies(at, &old.unwrap_or_default());
        }
        let states = &self.file_states;
        let kept = files.iter().filter_map(|at| Some((*at, states[*at].as_ref()?)));
        let tasks: Vec<(usize, &Engine, &Object)> = kept
            .flat_map(|(at, kept)| {
                kept.placed.objects.iter().map(move |object| (at, &*kept.placed.engine, object))
            })
            .collect();
        let cluster = &self.cluster;
        if tasks.len() > PREBUILD_VIEWS_FROM {
            // The first rule to read a view would keep all others waiting. Where one panics, the rules that read it do so, too.
            Cluster::table_builders().par_iter().for_each(|build| _ = isolate(|| build(cluster)));
        }
        let check =
            |(at, engine, object): &(usize, &Engine, &Object)| (*at, engine.check_rules(object, cluster));
        let results: Vec<(usize, ObjectResults)> = match tasks.len() > OBJECTS_PER_TASK {
            true => tasks.par_iter().with_min_len(OBJECTS_PER_TASK).map(check).collect(),
            false => tasks.iter().map(check).collect(),
        };
        for (at, results) in results {
            let Some(kept) = self.file_states[at].as_mut() else { continue };
            for result in &results.rules {
                self.dependents.insert(result.reads.iter(), &check_id(at, kept.results.len(), result.rule));
            }
            kept.results.push(results);
        }
        self.assemble(files);
    }

    /// Puts the reports of some files together.
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

    /// Checks all files. Returns those that are not among `added`.
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

    /// Files whose reports were put together again, with what they were before.
    fn renewed(&self, before: Vec<(usize, CheckReport)>) -> Vec<Renewed> {
        let renewed = before.into_iter().filter_map(|(at, before)| {
            let kept = self.file_states[at].as_ref()?;
            Some(Renewed { key: kept.key.clone(), changed: !kept.report.renders_equal(&before) })
        });
        renewed.collect()
    }

    /// Removes the dependencies of the results of a file.
    fn remove_dependencies(&mut self, file: usize, results: &[ObjectResults]) {
        for (object, results) in results.iter().enumerate() {
            for result in &results.rules {
                self.dependents.remove(result.reads.iter(), &check_id(file, object, result.rule));
            }
        }
    }

    /// Runs the rules again that depend on these reads, except for the files `but`, which were just checked.
    fn recheck_invalidated(&mut self, invalid: &[Read], but: &BTreeSet<usize>) -> Vec<Renewed> {
        let mut checks = self.dependents.dependents_of(invalid);
        checks.retain(|check| !but.contains(&(check.file as usize)));
        let mut tasks = Vec::new();
        for checks in checks.chunk_by(|a, b| (a.file, a.object) == (b.file, b.object)) {
            let (file, object) = (checks[0].file as usize, checks[0].object as usize);
            if let Some(kept) = self.file_states[file].as_mut() {
                let results = std::mem::take(&mut kept.results[object]);
                tasks.push((checks, results));
            }
        }
        let (states, cluster) = (&self.file_states, &self.cluster);
        let recheck = |(checks, results): (&[CheckId], ObjectResults)| {
            let (file, object) = (checks[0].file as usize, checks[0].object as usize);
            let placed = states[file].as_ref().map(|kept| &kept.placed);
            let placed = placed.expect("its results were taken from it");
            let mut object = Recheck {
                engine: &placed.engine,
                object: &placed.objects[object],
                cluster,
                results,
                before: BTreeMap::new(),
                renewed: false,
            };
            object.run(checks);
            (checks[0], object.results, object.before, object.renewed)
        };
        let rechecked: Vec<_> = match tasks.len() > OBJECTS_PER_TASK {
            true => tasks.into_par_iter().with_min_len(OBJECTS_PER_TASK / 4).map(recheck).collect(),
            false => tasks.into_iter().map(recheck).collect(),
        };
        let mut renewed = BTreeSet::new();
        for (CheckId { file, object, .. }, results, before, is_renewed) in rechecked {
            for (rule, before) in before {
                let now = results.rules.iter().find(|result| result.rule == rule);
                let now = now.map_or(&[][..], |result| &result.reads);
                self.dependents.update(&before, now, &CheckId { file, object, rule });
            }
            if let Some(kept) = self.file_states[file as usize].as_mut() {
                kept.results[object as usize] = results;
            }
            if is_renewed {
                renewed.insert(file as usize);
            }
        }
        let mut before = Vec::new();
        for &at in &renewed {
            let report = self.file_states[at].as_mut().map(|kept| std::mem::take(&mut kept.report));
            before.push((at, report.unwrap_or_default()));
        }
        self.assemble(&renewed);
        self.renewed(before)
    }
}

/// An object some of whose rules run again.
struct Recheck<'a> {
    engine: &'a Engine,
    object: &'a Object,
    cluster: &'a Cluster,
    results: ObjectResults,
    /// What rules read before, by their indices, where they read something else now.
    before: BTreeMap<u32, Box<[ReadId]>>,
    /// Whether any findings were replaced, even if they differ only in object identity.
    renewed: bool,
}

impl Recheck<'_> {
    fn run(&mut self, checks: &[CheckId]) {
        if self.results.steps >= STEPS_PER_OBJECT {
            // Which rules run depends on the number of steps of those before them.
            self.run_all();
            return;
        }
        // Whether rules that read the findings of others must run again.
        let mut earlier_changed = false;
        for check in checks {
            let Some(place) = self.results.rules.iter().position(|result| result.rule == check.rule) else {
                continue;
            };
            if self.results.rules[place].reads_earlier_findings {
                earlier_changed = true;
                continue;
            }
            let new = self.run_rule(check.rule, Vec::new());
            earlier_changed |= new.reads_earlier_findings;
            let old = &self.results.rules[place];
            earlier_changed |= !all_render_equal(&new.findings, &old.findings);
            self.put_result(place, new);
        }
        let depends = |result: &RuleResult| result.reads_earlier_findings;
        if earlier_changed && self.results.rules.iter().any(depends) {
            let mut earlier: Vec<Finding> = Vec::new();
            for place in 0..self.results.rules.len() {
                let old = &self.results.rules[place];
                if old.reads_earlier_findings {
                    let new = self.run_rule(old.rule, earlier.clone());
                    self.put_result(place, new);
                }
                earlier.extend(self.results.rules[place].findings.iter().cloned());
            }
        }
        if self.results.steps >= STEPS_PER_OBJECT {
            self.run_all();
        }
    }

    fn run_rule(&self, rule: u32, earlier: Vec<Finding>) -> RuleResult {
        self.engine.check_rule(rule as usize, self.object, self.cluster, earlier)
    }

    /// Runs all rules again.
    fn run_all(&mut self) {
        let new = self.engine.check_rules(self.object, self.cluster);
        for old in std::mem::replace(&mut self.results, new).rules {
            self.before.entry(old.rule).or_insert(old.reads);
        }
        for new in &self.results.rules {
            self.before.entry(new.rule).or_default();
        }
        self.renewed = true;
    }

    /// Replaces a result by a newer one.
    fn put_result(&mut self, place: usize, new: RuleResult) {
        let steps = self.results.steps + u64::from(new.steps);
        let old = std::mem::replace(&mut self.results.rules[place], new);
        self.results.steps = steps - u64::from(old.steps);
        let new = &self.results.rules[place];
        let mut pairs = new.findings.iter().zip(&old.findings);
        self.renewed |= !all_render_equal(&new.findings, &old.findings)
            || !pairs.all(|(new, old)| new.locations_ptr_eq(old))
            || new.panicked.is_some();
        if new.reads != old.reads {
            self.before.entry(new.rule).or_insert(old.reads);
        }
    }
}

impl FileState {
    /// Assembles the report from the results, the parser's diagnostics and the suppressions. Returns the panics of rules since
    /// the last time.
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
        let (mut report, panicked) = engine.assemble_isolated(file, self.has_suppressions, &findings);
        panics.extend(panicked.map(|message| RulePanic {
            rule: None,
            path: path.to_owned(),
            object: None,
            message,
        }));
        name_unjudged(&mut report.findings, std::iter::once(set));
        self.report = report;
        panics
    }
}

impl CheckReport {
    pub(super) fn renders_equal(&self, other: &CheckReport) -> bool {
        self.suppressed == other.suppressed && all_render_equal(&self.findings, &other.findings)
    }
}

fn all_render_equal(a: &[Finding], b: &[Finding]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.renders_equal(b))
}

fn check_id(file: usize, object: usize, rule: u32) -> CheckId {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    CheckId { file: number(file), object: number(object), rule }
}
