//! The files of a run: read, indexed, and judged, whole or in part.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpulint_rules::source::Source;
use gpulint_rules::{CheckReport, Engine, Index};
use rayon::prelude::*;

use crate::files;
use crate::files::{Folders, Input, ReadOutcome};
use crate::progress::Progress;

/// From so many objects on, views are made before anybody asks for them.
const PREBUILD_VIEWS_FROM: usize = 256;

/// An input, the number of its configuration, and its path as that one sees it.
pub(crate) struct ScopedInput {
    pub(crate) input: Input,
    pub(crate) scope: usize,
    pub(crate) path: String,
}

/// What was read, and under which rules it is judged.
pub(crate) struct Batch<'e> {
    pub(crate) inputs: Vec<ScopedInput>,
    /// One for each input.
    pub(crate) reads: Vec<ReadOutcome>,
    engines: &'e [Engine],
    folders: Folders,
}

impl<'e> Batch<'e> {
    /// Reads all inputs.
    pub(crate) fn read(inputs: Vec<ScopedInput>, engines: &'e [Engine], progress: bool) -> Batch<'e> {
        let plain: Vec<Input> = inputs.iter().map(|one| one.input.clone()).collect();
        let folders = Folders::discover(&plain);
        let progress = Progress::start(inputs.len(), progress);
        let reads = inputs
            .par_iter()
            .map(|one| {
                let read = files::read(&one.input, &one.path, &folders);
                progress.step();
                read
            })
            .collect();
        Batch { inputs, reads, engines, folders }
    }

    /// The rules of an input.
    pub(crate) fn engine(&self, at: usize) -> &'e Engine {
        &self.engines[self.inputs[at].scope]
    }

    /// The text of an input that is judged.
    pub(crate) fn source(&self, at: usize) -> Option<&Arc<Source>> {
        self.reads[at].file.as_ref().map(|file| &file.source)
    }

    /// What standard input holds now, if it is one of the inputs.
    pub(crate) fn stdin(&self) -> Option<&[u8]> {
        self.reads.iter().find_map(|read| read.stdin.as_deref())
    }

    /// Puts new text in the place of an input; gives back what was read before.
    pub(crate) fn rewrite(&mut self, at: usize, text: String) -> ReadOutcome {
        let one = &self.inputs[at];
        let stdin = one.input.stdin.then(|| text.clone().into_bytes());
        let read = files::read_bytes(&one.input, &one.path, &self.folders, text.into_bytes());
        let read = ReadOutcome { stdin, ..read };
        std::mem::replace(&mut self.reads[at], read)
    }

    /// Everything that is known.
    pub(crate) fn index(&self) -> Index {
        let complete = self.engines.iter().any(|e| e.settings().complete);
        let mut index = Index::new(complete);
        for file in self.reads.iter().filter_map(|read| read.file.as_ref()) {
            for object in &file.objects {
                index.apply(object.clone());
            }
        }
        if index.objects().len() > PREBUILD_VIEWS_FROM {
            // The first rule to read a table would keep all others waiting.
            Index::table_builders().par_iter().for_each(|build| build(&index));
        }
        index
    }

    /// Judges the inputs, or only some of them; one answer for each input.
    pub(crate) fn check(&self, index: &Index, only: Option<&BTreeSet<usize>>) -> Vec<Option<CheckReport>> {
        self.reads
            .par_iter()
            .enumerate()
            .map(|(at, read)| {
                let file = read.file.as_ref()?;
                if only.is_some_and(|only| !only.contains(&at)) {
                    return None;
                }
                let engine = self.engine(at);
                // One file can hold most of the objects: they are judged side by side as well.
                let findings = file
                    .objects
                    .par_iter()
                    .with_min_len(64)
                    .flat_map_iter(|object| engine.check_object(object, index))
                    .collect();
                let judged = engine.assemble_report(file, findings);
                if !judged.findings.is_empty() {
                    // Reports ask for them, one file after the other.
                    let _ = file.source.lines();
                }
                Some(judged)
            })
            .collect()
    }
}
