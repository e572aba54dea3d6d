//! The files of one set, with the results of each rule for each object, and the reads of the cluster that each result
//! depends on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::dependencies::{Dependents, Read};
use crate::cluster::sets::Bond;
use crate::file::File;
use crate::lint::engine::{Engine, ObjectResults, RuleResult, STEPS_PER_OBJECT};
use crate::lint::finding::Finding;
use crate::lint::placements::{name_set, name_unjudged};
use crate::lint::report::CheckReport;
use crate::lint::suppress;
use crate::object::Object;

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
        }
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
        let touched = self.cluster.replace(&old_objects, &new_objects);
        let placed = changes.into_iter().filter_map(|(key, new)| Some((key, new?)));
        let added: BTreeSet<usize> = placed.map(|(key, placed)| self.add_file(key, placed)).collect();
        self.check_files(&added);
        if added.len() == self.files.len() { Vec::new() } else { self.recheck_invalidated(&touched, &added) }
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
            let Some(mut kept) = self.file_states[at].take() else {
                continue;
            };
            self.remove_dependencies(at, &std::mem::take(&mut kept.results));
            for (object, value) in kept.placed.objects.iter().enumerate() {
                let results = kept.placed.engine.check_rules(value, &self.cluster);
                for result in &results.rules {
                    self.dependents.insert(&result.reads, &check_id(at, object, result.rule));
                }
                kept.results.push(results);
            }
            kept.assemble(self.name.as_slice());
            self.file_states[at] = Some(kept);
        }
    }

    /// Removes the dependencies of the results of a file.
    fn remove_dependencies(&mut self, file: usize, results: &[ObjectResults]) {
        for (object, results) in results.iter().enumerate() {
            for result in &results.rules {
                self.dependents.remove(&result.reads, &check_id(file, object, result.rule));
            }
        }
    }

    /// Runs the rules again that depend on these reads, except for the files `but`, which were just checked.
    fn recheck_invalidated(&mut self, invalid: &[Read], but: &BTreeSet<usize>) -> Vec<Renewed> {
        let mut checks = self.dependents.dependents_of(invalid);
        checks.retain(|check| !but.contains(&(check.file as usize)));
        let mut all = Vec::new();
        for of_file in checks.chunk_by(|a, b| a.file == b.file) {
            let at = of_file[0].file as usize;
            let Some(mut kept) = self.file_states[at].take() else {
                continue;
            };
            let mut renewed = false;
            for of_object in of_file.chunk_by(|a, b| a.object == b.object) {
                renewed |= self.recheck_rules(&mut kept, of_object);
            }
            if renewed {
                let before = std::mem::take(&mut kept.report);
                kept.assemble(self.name.as_slice());
                let changed = !kept.report.renders_equal(&before);
                all.push(Renewed { key: kept.key.clone(), changed });
            }
            self.file_states[at] = Some(kept);
        }
        all
    }

    /// Runs rules again for one object. Returns whether any findings were replaced, even if they differ only
    /// in object identity.
    fn recheck_rules(&mut self, kept: &mut FileState, checks: &[CheckId]) -> bool {
        let at = checks[0].object as usize;
        let object = kept.placed.objects[at].clone();
        if kept.results[at].steps >= STEPS_PER_OBJECT {
            // Which rules run depends on the number of steps of those before them.
            self.recheck_object(kept, checks[0]);
            return true;
        }
        let mut renewed = false;
        // Whether rules that read the findings of others must run again.
        let mut earlier_changed = false;
        for check in checks {
            let rule = check.rule as usize;
            let Some(place) = kept.results[at].rules.iter().position(|result| result.rule == rule) else {
                continue;
            };
            if kept.results[at].rules[place].reads_earlier_findings {
                earlier_changed = true;
                continue;
            }
            let new = kept.placed.engine.check_rule(rule, &object, &self.cluster, Vec::new());
            earlier_changed |= new.reads_earlier_findings;
            let old = &kept.results[at].rules[place];
            earlier_changed |= !all_render_equal(&new.findings, &old.findings);
            renewed |= self.put_result(kept, *check, place, new);
        }
        let depends = |result: &RuleResult| result.reads_earlier_findings;
        if !earlier_changed || !kept.results[at].rules.iter().any(depends) {
            return renewed | self.recheck_if_exhausted(kept, checks[0]);
        }
        let mut earlier: Vec<Finding> = Vec::new();
        for place in 0..kept.results[at].rules.len() {
            let old = &kept.results[at].rules[place];
            if old.reads_earlier_findings {
                let check = CheckId { rule: number(old.rule), ..checks[0] };
                let new = kept.placed.engine.check_rule(old.rule, &object, &self.cluster, earlier.clone());
                renewed |= self.put_result(kept, check, place, new);
            }
            earlier.extend(kept.results[at].rules[place].findings.iter().cloned());
        }
        renewed | self.recheck_if_exhausted(kept, checks[0])
    }

    /// Runs all rules again for an object if their steps now exceed the limit. Returns whether they do.
    fn recheck_if_exhausted(&mut self, kept: &mut FileState, object: CheckId) -> bool {
        let exhausted = kept.results[object.object as usize].steps >= STEPS_PER_OBJECT;
        if exhausted {
            self.recheck_object(kept, object);
        }
        exhausted
    }

    /// Runs all rules again for an object.
    fn recheck_object(&mut self, kept: &mut FileState, CheckId { file, object, .. }: CheckId) {
        let at = object as usize;
        for result in &std::mem::take(&mut kept.results[at]).rules {
            let check = CheckId { file, object, rule: number(result.rule) };
            self.dependents.remove(&result.reads, &check);
        }
        let results = kept.placed.engine.check_rules(&kept.placed.objects[at], &self.cluster);
        for result in &results.rules {
            let check = CheckId { file, object, rule: number(result.rule) };
            self.dependents.insert(&result.reads, &check);
        }
        kept.results[at] = results;
    }

    /// Replaces a result by a newer one. Returns whether the findings or their object identities differ.
    fn put_result(&mut self, kept: &mut FileState, check: CheckId, place: usize, new: RuleResult) -> bool {
        let results = &mut kept.results[check.object as usize];
        results.steps = results.steps + new.steps - results.rules[place].steps;
        let old = std::mem::replace(&mut results.rules[place], new);
        let new = &results.rules[place];
        self.dependents.update(&old.reads, &new.reads, &check);
        let mut pairs = new.findings.iter().zip(&old.findings);
        !all_render_equal(&new.findings, &old.findings) || !pairs.all(|(new, old)| new.locations_ptr_eq(old))
    }
}

impl FileState {
    /// Assembles the report from the results, the parser's diagnostics and the suppressions.
    fn assemble(&mut self, set: &[Arc<str>]) {
        let mut findings: Vec<Finding> = self
            .results
            .iter()
            .flat_map(|object| &object.rules)
            .flat_map(|rule| rule.findings.iter().cloned())
            .collect();
        name_set(&mut findings, set);
        let PlacedFile { file, engine, .. } = &self.placed;
        self.report = if self.has_suppressions {
            engine.assemble_report(file, findings)
        } else {
            engine.assemble_unsuppressed(file, findings)
        };
        name_unjudged(&mut self.report.findings, std::iter::once(set));
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

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn check_id(file: usize, object: usize, rule: usize) -> CheckId {
    CheckId { file: number(file), object: number(object), rule: number(rule) }
}
