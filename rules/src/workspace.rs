//! Files that are edited while they are judged: what a language server stands on.
//!
//! A workspace holds the files of a folder with what each rule said of each object, and on which
//! questions to the index that rests. When a file changes, its own objects are judged, and of the
//! others only what rests on something that the change touches. The law: whatever was edited, the
//! findings of every file are those that a run over all files would give.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::dependencies::{DependencyKey, Dependents};
use crate::cluster::objects::Index;
use crate::file::File;
use crate::lint::engine::{Engine, RuleResult};
use crate::lint::finding::Finding;
use crate::lint::report::CheckReport;
use crate::object::Object;

/// Files, judged, and kept so.
#[derive(Debug)]
pub struct Workspace {
    index: Index,
    files: BTreeMap<Arc<str>, usize>,
    /// By the numbers in `files`; the place of a file that is gone is used again.
    file_states: Vec<Option<FileState>>,
    dependents: Dependents<CheckId>,
}

/// A file with what is known of it.
#[derive(Debug)]
struct FileState {
    file: File,
    engine: Arc<Engine>,
    /// Of each object of the file.
    results: Vec<Vec<RuleResult>>,
    report: CheckReport,
}

/// A rule that asked something, about an object of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CheckId {
    file: u32,
    object: u32,
    rule: u32,
}

impl Workspace {
    /// Reads and judges nothing yet. `complete` says that the files are the whole cluster: what
    /// is not in them does not exist.
    #[must_use]
    pub fn new(complete: bool) -> Workspace {
        Workspace {
            index: Index::incremental(complete),
            files: BTreeMap::new(),
            file_states: Vec::new(),
            dependents: Dependents::default(),
        }
    }

    /// Puts many files in at once, each judged by its engine: cheaper than one after the other.
    pub fn open(&mut self, files: impl IntoIterator<Item = (File, Arc<Engine>)>) {
        let mut added = BTreeSet::new();
        for (file, engine) in files {
            let path = file.source.path().to_owned();
            if self.files.contains_key(path.as_str()) {
                self.set(file, &engine);
                continue;
            }
            self.index.replace(&[], &file.objects);
            added.insert(self.add_file(&path, file, engine));
        }
        // Who was here before may ask for what has come.
        let before = self.file_ids().filter(|at| !added.contains(at)).collect();
        self.check_files(&added);
        self.check_files(&before);
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(AsRef::as_ref)
    }

    /// A file as it was last set.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.file_state(path).map(|kept| &kept.file)
    }

    /// What is to be said of a file now.
    #[must_use]
    pub fn report(&self, path: &str) -> Option<&CheckReport> {
        self.file_state(path).map(|kept| &kept.report)
    }

    /// The objects of all files.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Puts a file in, or a new text in its place. Gives the paths of the other files whose
    /// findings are different now.
    pub fn set(&mut self, file: File, engine: &Arc<Engine>) -> Vec<String> {
        let path = file.source.path().to_owned();
        let old = self.detach(&path);
        let old_objects = old.map_or_else(Vec::new, |kept| kept.file.objects);
        let touched = self.index.replace(&old_objects, &file.objects);
        let at = self.add_file(&path, file, Arc::clone(engine));
        self.check_files(&BTreeSet::from([at]));
        self.recheck_invalidated(&touched, Some(at))
    }

    /// Takes a file out. Gives the paths of the files whose findings are different now.
    pub fn remove(&mut self, path: &str) -> Vec<String> {
        let Some(old) = self.detach(path) else {
            return Vec::new();
        };
        self.files.remove(path);
        let touched = self.index.replace(&old.file.objects, &[]);
        self.recheck_invalidated(&touched, None)
    }

    fn file_state(&self, path: &str) -> Option<&FileState> {
        self.file_states[*self.files.get(path)?].as_ref()
    }

    fn file_ids(&self) -> impl Iterator<Item = usize> {
        self.files.values().copied()
    }

    /// Gives a file its number; it is not judged yet.
    fn add_file(&mut self, path: &str, file: File, engine: Arc<Engine>) -> usize {
        let kept = Some(FileState { file, engine, results: Vec::new(), report: CheckReport::default() });
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

    /// Takes what is known of a file, and forgets what it asked; its number stays.
    fn detach(&mut self, path: &str) -> Option<FileState> {
        let at = *self.files.get(path)?;
        let old = self.file_states[at].take()?;
        let topics: BTreeSet<DependencyKey> =
            old.results.iter().flatten().flat_map(|opinion| opinion.reads.iter().copied()).collect();
        let of_file = |asker: &CheckId| asker.file as usize == at;
        self.dependents.remove(&topics, of_file);
        Some(old)
    }

    /// Judges files from the ground up.
    fn check_files(&mut self, files: &BTreeSet<usize>) {
        for &at in files {
            let Some(mut kept) = self.file_states[at].take() else {
                continue;
            };
            let old = std::mem::take(&mut kept.results);
            for (object, opinions) in old.into_iter().enumerate() {
                for opinion in &opinions {
                    self.remove_dependencies(opinion, check_id(at, object, opinion.rule));
                }
            }
            for (number, object) in kept.file.objects.iter().enumerate() {
                let opinions = kept.engine.check_rules(object, &self.index);
                for opinion in &opinions {
                    self.add_dependencies(opinion, check_id(at, number, opinion.rule));
                }
                kept.results.push(opinions);
            }
            kept.assemble();
            self.file_states[at] = Some(kept);
        }
    }

    fn add_dependencies(&mut self, opinion: &RuleResult, asker: CheckId) {
        self.dependents.insert(&opinion.reads, asker);
    }

    fn remove_dependencies(&mut self, opinion: &RuleResult, asker: CheckId) {
        self.dependents.remove(&opinion.reads, |other| *other == asker);
    }

    /// Judges again what rests on these topics, but for the file that was judged just now.
    fn recheck_invalidated(&mut self, touched: &[DependencyKey], but: Option<usize>) -> Vec<String> {
        let mut askers = self.dependents.dependents_of(touched);
        askers.retain(|asker| Some(asker.file as usize) != but);
        let mut changed = Vec::new();
        for of_file in askers.chunk_by(|a, b| a.file == b.file) {
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

    /// Asks rules again about one object; says whether there are findings to put in the place of
    /// others, be they only newer handles of the same.
    fn recheck_rules(&mut self, kept: &mut FileState, askers: &[CheckId]) -> bool {
        let number = askers[0].object as usize;
        let at = askers[0].file as usize;
        let object = kept.file.objects[number].clone();
        let mut renewed = false;
        let mut whole = false;
        for one in askers {
            let rule = one.rule as usize;
            let opinions = &mut kept.results[number];
            let Some(place) = opinions.iter().position(|o| o.rule == rule) else {
                continue;
            };
            let new = match opinions[place].reads_earlier_findings {
                true => None,
                false => kept.engine.check_rule(rule, &object, &self.index),
            };
            // Who leans on what others found has to be asked after them.
            let Some(new) = new.filter(|new| all_render_equal(&new.findings, &opinions[place].findings))
            else {
                whole = true;
                break;
            };
            let mut pairs = new.findings.iter().zip(&opinions[place].findings);
            renewed |= !pairs.all(|(new, old)| new.locations_ptr_eq(old));
            let old = std::mem::replace(&mut opinions[place], new);
            let new = &opinions[place];
            if old.reads != new.reads {
                self.dependents.remove(&old.reads, |other| other == one);
                self.dependents.insert(&new.reads, *one);
            }
        }
        if whole {
            self.recheck_object(kept, at, number, &object);
        }
        renewed || whole
    }

    /// Asks every rule again about one object.
    fn recheck_object(&mut self, kept: &mut FileState, at: usize, number: usize, object: &Object) {
        let old = std::mem::take(&mut kept.results[number]);
        for opinion in &old {
            self.remove_dependencies(opinion, check_id(at, number, opinion.rule));
        }
        let new = kept.engine.check_rules(object, &self.index);
        for opinion in &new {
            self.add_dependencies(opinion, check_id(at, number, opinion.rule));
        }
        kept.results[number] = new;
    }
}

impl FileState {
    /// Puts together what the rules said, the reader has to say, and suppressions take away.
    fn assemble(&mut self) {
        let findings =
            self.results.iter().flatten().flat_map(|opinion| opinion.findings.iter().cloned()).collect();
        self.report = self.engine.assemble_report(&self.file, findings);
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

fn check_id(file: usize, object: usize, rule: usize) -> CheckId {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    CheckId { file: number(file), object: number(object), rule: number(rule) }
}
