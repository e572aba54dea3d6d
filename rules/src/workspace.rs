//! Files that are edited while they are checked: the basis of a language server.
//!
//! A workspace stores the files of a folder with the results of each rule for each object, and the reads of
//! the cluster that each result depends on. When a file changes, its own objects are checked again; for the
//! objects of other files, only those rules run again that recorded a read whose result has changed.
//! Invariant: after any sequence of edits, the findings of every file equal those of a run over all files.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::dependencies::{Dependents, Read};
use crate::file::File;
use crate::lint::engine::{Engine, ObjectResults, RuleResult, STEPS_PER_OBJECT};
use crate::lint::finding::Finding;
use crate::lint::report::CheckReport;
use crate::lint::suppress;

/// Files with the findings of the rules.
#[derive(Debug)]
pub struct Workspace {
    cluster: Cluster,
    files: BTreeMap<Arc<str>, usize>,
    /// By index in `files`; the index of a removed file is reused.
    file_states: Vec<Option<FileState>>,
    dependents: Dependents<CheckId>,
}

/// A file with the results of the rules.
#[derive(Debug)]
struct FileState {
    file: File,
    engine: Arc<Engine>,
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

impl Workspace {
    /// Creates an empty workspace. `complete` is true if the files are the whole cluster, so that an object
    /// that is not in them does not exist.
    #[must_use]
    pub fn new(complete: bool) -> Workspace {
        Workspace {
            cluster: Cluster::incremental(complete),
            files: BTreeMap::new(),
            file_states: Vec::new(),
            dependents: Dependents::default(),
        }
    }

    /// Adds many files at once, each checked by its engine. Faster than adding them one by one.
    pub fn open(&mut self, files: impl IntoIterator<Item = (File, Arc<Engine>)>) {
        let mut added = BTreeSet::new();
        for (file, engine) in files {
            let path = file.source.path().to_owned();
            if self.files.contains_key(path.as_str()) {
                self.set(file, &engine);
                continue;
            }
            self.cluster.replace(&[], &file.objects);
            added.insert(self.add_file(&path, file, engine));
        }
        // Results of existing files may depend on the new ones.
        let before = self.file_ids().filter(|at| !added.contains(at)).collect();
        self.check_files(&added);
        self.check_files(&before);
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(AsRef::as_ref)
    }

    /// A file in its current version.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.file_state(path).map(|kept| &kept.file)
    }

    /// The findings of a file.
    #[must_use]
    pub fn report(&self, path: &str) -> Option<&CheckReport> {
        self.file_state(path).map(|kept| &kept.report)
    }

    /// The objects of all files.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Adds a file, or replaces its text. Returns the paths of the other files whose findings have changed.
    pub fn set(&mut self, file: File, engine: &Arc<Engine>) -> Vec<String> {
        let path = file.source.path().to_owned();
        let old = self.detach(&path);
        let old_objects = old.map_or_else(Vec::new, |kept| kept.file.objects);
        let touched = self.cluster.replace(&old_objects, &file.objects);
        let at = self.add_file(&path, file, Arc::clone(engine));
        self.check_files(&BTreeSet::from([at]));
        self.recheck_invalidated(&touched, Some(at))
    }

    /// Removes a file. Returns the paths of the files whose findings have changed.
    pub fn remove(&mut self, path: &str) -> Vec<String> {
        let Some(old) = self.detach(path) else {
            return Vec::new();
        };
        self.files.remove(path);
        let touched = self.cluster.replace(&old.file.objects, &[]);
        self.recheck_invalidated(&touched, None)
    }

    fn file_state(&self, path: &str) -> Option<&FileState> {
        self.file_states[*self.files.get(path)?].as_ref()
    }

    fn file_ids(&self) -> impl Iterator<Item = usize> {
        self.files.values().copied()
    }

    /// Assigns an index to a file without checking it.
    fn add_file(&mut self, path: &str, file: File, engine: Arc<Engine>) -> usize {
        let kept = Some(FileState {
            has_suppressions: suppress::has_suppressions(&file),
            file,
            engine,
            results: Vec::new(),
            report: CheckReport::default(),
        });
        let at = match self.files.entry(Arc::from(path)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                let place = self.file_states.iter().position(Option::is_none);
                *free.insert(place.unwrap_or(self.file_states.len()))
            }
        };
        if at == self.file_states.len() {
            self.file_states.push(kept);
        } else {
            self.file_states[at] = kept;
        }
        at
    }

    /// Removes the state of a file and its dependencies; its index stays reserved.
    fn detach(&mut self, path: &str) -> Option<FileState> {
        let at = *self.files.get(path)?;
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
            for (object, value) in kept.file.objects.iter().enumerate() {
                let results = kept.engine.check_rules(value, &self.cluster);
                for result in &results.rules {
                    self.dependents.insert(&result.reads, &check_id(at, object, result.rule));
                }
                kept.results.push(results);
            }
            kept.assemble();
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

    /// Runs the rules again that depend on these reads, except for the file `but`, which was just checked.
    fn recheck_invalidated(&mut self, invalid: &[Read], but: Option<usize>) -> Vec<String> {
        let mut checks = self.dependents.dependents_of(invalid);
        checks.retain(|check| Some(check.file as usize) != but);
        let mut changed = Vec::new();
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
                kept.assemble();
                if !kept.report.renders_equal(&before) {
                    changed.push(kept.file.source.path().to_owned());
                }
            }
            self.file_states[at] = Some(kept);
        }
        changed.sort();
        changed
    }

    /// Runs rules again for one object. Returns whether any findings were replaced, even if they differ only
    /// in object identity.
    fn recheck_rules(&mut self, kept: &mut FileState, checks: &[CheckId]) -> bool {
        let at = checks[0].object as usize;
        let object = kept.file.objects[at].clone();
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
            let new = kept.engine.check_rule(rule, &object, &self.cluster, Vec::new());
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
                let new = kept.engine.check_rule(old.rule, &object, &self.cluster, earlier.clone());
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
        let results = kept.engine.check_rules(&kept.file.objects[at], &self.cluster);
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
    fn assemble(&mut self) {
        let findings = self
            .results
            .iter()
            .flat_map(|object| &object.rules)
            .flat_map(|rule| rule.findings.iter().cloned())
            .collect();
        self.report = if self.has_suppressions {
            self.engine.assemble_report(&self.file, findings)
        } else {
            self.engine.assemble_unsuppressed(&self.file, findings)
        };
    }
}

impl CheckReport {
    fn renders_equal(&self, other: &CheckReport) -> bool {
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests read fixtures")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use crate::cluster::Cluster;
    use crate::file::File;
    use crate::lint::engine::Engine;
    use crate::lint::settings::Settings;
    use crate::source::Source;

    fn files_below(folder: &Path, out: &mut Vec<PathBuf>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                files_below(&path, out);
            } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                out.push(path);
            }
        }
    }

    /// The admission server watches only the kinds that rules declare, and a workspace reruns a rule only if
    /// it declares reads: a dependency that is not declared is missed.
    #[test]
    fn rules_read_the_kinds_that_they_declare() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
        let mut files = Vec::new();
        for folder in ["rules", "sets", "practices", "verdicts"] {
            let mut paths = Vec::new();
            files_below(&root.join(folder), &mut paths);
            assert!(!paths.is_empty(), "no fixtures in {folder}");
            files.extend(paths);
        }
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).ok()?;
            Some(File::read(Source::from_text(&path.display().to_string(), &text)))
        };
        let files: Vec<File> = files.iter().filter_map(read).collect();
        let mut undeclared = BTreeSet::new();
        for complete in [false, true] {
            let engine = Engine::new(Settings { complete, ..Settings::default() });
            // Several files together, so that rules meet the objects of other files; but not all at once,
            // because most lookups would then find too many.
            for files in files.chunks(25) {
                let mut cluster = Cluster::new(complete);
                for object in files.iter().flat_map(|file| &file.objects) {
                    cluster.apply(object.clone());
                }
                for object in files.iter().flat_map(|file| &file.objects) {
                    let reads = engine.undeclared_reads(object, &cluster);
                    undeclared.extend(reads.into_iter().map(|(rule, read)| format!("{rule}: {read:?}")));
                }
            }
        }
        let undeclared: Vec<String> = undeclared.into_iter().collect();
        assert!(
            undeclared.is_empty(),
            "reads that `Rule::reads` does not declare:\n{}",
            undeclared.join("\n")
        );
    }
}
