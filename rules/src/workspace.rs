//! Files that are edited while they are judged: what a language server stands on.
//!
//! A workspace holds the files of a folder with what each rule said of each object, and on which
//! questions to the index that rests. When a file changes, its own objects are judged, and of the
//! others only what rests on something that the change touches. The law: whatever was edited, the
//! findings of every file are those that a run over all files would give.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::dependencies::{Askers, Topic};
use crate::cluster::objects::Index;
use crate::file::File;
use crate::lint::engine::{Engine, Judged, Opinion};
use crate::lint::finding::Finding;
use crate::object::Object;

/// Files, judged, and kept so.
#[derive(Debug)]
pub struct Workspace {
    index: Index,
    files: BTreeMap<Arc<str>, usize>,
    /// By the numbers in `files`; the place of a file that is gone is used again.
    kept: Vec<Option<Kept>>,
    asked: Askers<Asker>,
}

/// A file with what is known of it.
#[derive(Debug)]
struct Kept {
    file: File,
    engine: Arc<Engine>,
    /// Of each object of the file.
    opinions: Vec<Vec<Opinion>>,
    judged: Judged,
}

/// A rule that asked something, about an object of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asker {
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
            index: Index::live(complete),
            files: BTreeMap::new(),
            kept: Vec::new(),
            asked: Askers::default(),
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
            added.insert(self.put(&path, file, engine));
        }
        // Who was here before may ask for what has come.
        let before = self.numbers().filter(|at| !added.contains(at)).collect();
        self.judge(&added);
        self.judge(&before);
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(AsRef::as_ref)
    }

    /// A file as it was last set.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.kept_of(path).map(|kept| &kept.file)
    }

    /// What is to be said of a file now.
    #[must_use]
    pub fn judged(&self, path: &str) -> Option<&Judged> {
        self.kept_of(path).map(|kept| &kept.judged)
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
        let old = self.take(&path);
        let old_objects = old.map_or_else(Vec::new, |kept| kept.file.objects);
        let touched = self.index.replace(&old_objects, &file.objects);
        let at = self.put(&path, file, Arc::clone(engine));
        self.judge(&BTreeSet::from([at]));
        self.judge_touched(&touched, Some(at))
    }

    /// Takes a file out. Gives the paths of the files whose findings are different now.
    pub fn remove(&mut self, path: &str) -> Vec<String> {
        let Some(old) = self.take(path) else {
            return Vec::new();
        };
        self.files.remove(path);
        let touched = self.index.replace(&old.file.objects, &[]);
        self.judge_touched(&touched, None)
    }

    fn kept_of(&self, path: &str) -> Option<&Kept> {
        self.kept[*self.files.get(path)?].as_ref()
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        self.files.values().copied()
    }

    /// Gives a file its number; it is not judged yet.
    fn put(&mut self, path: &str, file: File, engine: Arc<Engine>) -> usize {
        let kept = Some(Kept { file, engine, opinions: Vec::new(), judged: Judged::default() });
        let at = match self.files.entry(Arc::from(path)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                let place = self.kept.iter().position(Option::is_none);
                *free.insert(place.unwrap_or(self.kept.len()))
            }
        };
        if at == self.kept.len() {
            self.kept.push(kept);
        } else {
            self.kept[at] = kept;
        }
        at
    }

    /// Takes what is known of a file, and forgets what it asked; its number stays.
    fn take(&mut self, path: &str) -> Option<Kept> {
        let at = *self.files.get(path)?;
        let old = self.kept[at].take()?;
        let topics: BTreeSet<Topic> =
            old.opinions.iter().flatten().flat_map(|opinion| opinion.topics.iter().copied()).collect();
        let of_file = |asker: &Asker| asker.file as usize == at;
        self.asked.forget(&topics, of_file);
        Some(old)
    }

    /// Judges files from the ground up.
    fn judge(&mut self, files: &BTreeSet<usize>) {
        for &at in files {
            let Some(mut kept) = self.kept[at].take() else {
                continue;
            };
            let old = std::mem::take(&mut kept.opinions);
            for (object, opinions) in old.into_iter().enumerate() {
                for opinion in &opinions {
                    self.forget(opinion, asker(at, object, opinion.rule));
                }
            }
            for (number, object) in kept.file.objects.iter().enumerate() {
                let opinions = kept.engine.opinions(object, &self.index);
                for opinion in &opinions {
                    self.remember(opinion, asker(at, number, opinion.rule));
                }
                kept.opinions.push(opinions);
            }
            kept.finish();
            self.kept[at] = Some(kept);
        }
    }

    fn remember(&mut self, opinion: &Opinion, asker: Asker) {
        self.asked.note(&opinion.topics, asker);
    }

    fn forget(&mut self, opinion: &Opinion, asker: Asker) {
        self.asked.forget(&opinion.topics, |other| *other == asker);
    }

    /// Judges again what rests on these topics, but for the file that was judged just now.
    fn judge_touched(&mut self, touched: &[Topic], but: Option<usize>) -> Vec<String> {
        let mut askers = self.asked.of(touched);
        askers.retain(|asker| Some(asker.file as usize) != but);
        let mut changed = Vec::new();
        for of_file in askers.chunk_by(|a, b| a.file == b.file) {
            let at = of_file[0].file as usize;
            let Some(mut kept) = self.kept[at].take() else {
                continue;
            };
            let mut renewed = false;
            for of_object in of_file.chunk_by(|a, b| a.object == b.object) {
                renewed |= self.judge_object(&mut kept, of_object);
            }
            if renewed {
                let before = std::mem::take(&mut kept.judged);
                kept.finish();
                if !kept.judged.reads_as(&before) {
                    changed.push(kept.file.source.path().to_owned());
                }
            }
            self.kept[at] = Some(kept);
        }
        changed.sort();
        changed
    }

    /// Asks rules again about one object; says whether there are findings to put in the place of
    /// others, be they only newer handles of the same.
    fn judge_object(&mut self, kept: &mut Kept, askers: &[Asker]) -> bool {
        let number = askers[0].object as usize;
        let at = askers[0].file as usize;
        let object = kept.file.objects[number].clone();
        let mut renewed = false;
        let mut whole = false;
        for one in askers {
            let rule = one.rule as usize;
            let opinions = &mut kept.opinions[number];
            let Some(place) = opinions.iter().position(|o| o.rule == rule) else {
                continue;
            };
            let new = match opinions[place].leans {
                true => None,
                false => kept.engine.opinion(rule, &object, &self.index),
            };
            // Who leans on what others found has to be asked after them.
            let Some(new) = new.filter(|new| same(&new.findings, &opinions[place].findings)) else {
                whole = true;
                break;
            };
            let mut pairs = new.findings.iter().zip(&opinions[place].findings);
            renewed |= !pairs.all(|(new, old)| new.is_as_good_as(old));
            let old = std::mem::replace(&mut opinions[place], new);
            let new = &opinions[place];
            if old.topics != new.topics {
                self.asked.forget(&old.topics, |other| other == one);
                self.asked.note(&new.topics, *one);
            }
        }
        if whole {
            self.judge_whole(kept, at, number, &object);
        }
        renewed || whole
    }

    /// Asks every rule again about one object.
    fn judge_whole(&mut self, kept: &mut Kept, at: usize, number: usize, object: &Object) {
        let old = std::mem::take(&mut kept.opinions[number]);
        for opinion in &old {
            self.forget(opinion, asker(at, number, opinion.rule));
        }
        let new = kept.engine.opinions(object, &self.index);
        for opinion in &new {
            self.remember(opinion, asker(at, number, opinion.rule));
        }
        kept.opinions[number] = new;
    }
}

impl Kept {
    /// Puts together what the rules said, the reader has to say, and suppressions take away.
    fn finish(&mut self) {
        let findings =
            self.opinions.iter().flatten().flat_map(|opinion| opinion.findings.iter().cloned()).collect();
        self.judged = self.engine.finish_file(&self.file, findings);
    }
}

impl Judged {
    fn reads_as(&self, other: &Judged) -> bool {
        self.suppressed == other.suppressed && same(&self.findings, &other.findings)
    }
}

fn same(a: &[Finding], b: &[Finding]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.reads_as(b))
}

fn asker(file: usize, object: usize, rule: usize) -> Asker {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Asker { file: number(file), object: number(object), rule: number(rule) }
}
