//! Makes the two sides of a set comparable: objects of files that cannot be read on one side are taken for unchanged, and so are
//! those that a chart or Terraform may give there; objects of old APIs are taken for what they become, and of several workloads
//! with one name those count whose files both sides have.

use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::fit::workloads;
use gpulint_rules::{Cluster, Object, ObjectKey, migration};

use crate::judge::{Judged, JudgedSet, Unrendered};
use crate::report::UnreadFile;

use super::pairs::{Pair, pairs};

fn file_of(object: &Object) -> Option<&str> {
    object.origin().map(|origin| origin.source.path())
}

/// Gives each side the objects that only the other side can read, and returns the files that cannot be read. A set that only one
/// side has, and that has objects of such a file, is left out: what becomes of it is not known.
pub(super) fn complete(before: &mut Judged, after: &mut Judged) -> Vec<UnreadFile> {
    let pairs = pairs(&before.sets, &after.sets);
    let hidden = |judged: &Judged, other: &Judged| -> Vec<Vec<Object>> {
        let given = Given::of(judged, other);
        let is_hidden = |object: &&Object| {
            let file = file_of(object).and_then(|file| judged.files.get(file));
            file.is_some_and(|file| other.unread.contains_key(file)) || given.may_have(object)
        };
        let of = |set: &JudgedSet| set.cluster.objects().iter().filter(is_hidden).cloned().collect();
        judged.sets.iter().map(of).collect()
    };
    let (from_before, from_after) = (hidden(before, after), hidden(after, before));
    let give = |hidden: &[Vec<Object>], to: &mut Judged, pairs: &[Pair]| -> Vec<bool> {
        let mut kept = Vec::new();
        for (at, hidden) in hidden.iter().enumerate() {
            let there = pairs.iter().find(|(own, _)| *own == Some(at)).and_then(|(_, there)| *there);
            let there = there.map(|there| &mut to.sets[there]);
            kept.push(there.is_some() || hidden.is_empty());
            let Some(there) = there else { continue };
            let known: BTreeSet<ObjectKey> =
                there.cluster.objects().iter().map(|object| object.id().key()).collect();
            let lacking = hidden.iter().filter(|object| !known.contains(&object.id().key()));
            lacking.for_each(|object| there.cluster.apply(object.clone()));
        }
        kept
    };
    let retain = |judged: &mut Judged, kept: Vec<bool>| {
        let mut kept = kept.into_iter();
        judged.sets.retain(|_| kept.next().unwrap_or(true));
    };
    let back: Vec<Pair> = pairs.iter().map(|(old, new)| (*new, *old)).collect();
    let kept_after = give(&from_after, before, &back);
    let kept_before = give(&from_before, after, &pairs);
    retain(after, kept_after);
    retain(before, kept_before);
    // What only one side has, or neither can read, is not compared.
    let files = |judged: &Judged, other: &Judged, is_after: bool| -> Vec<UnreadFile> {
        let is_told =
            |(file, _): &(&String, &u32)| other.inventory.has(file) && !other.unread.contains_key(*file);
        let of = |(file, line): (&String, &u32)| UnreadFile { file: file.clone(), line: *line, is_after };
        judged.unread.iter().filter(is_told).map(of).collect()
    };
    [files(before, after, false), files(after, before, true)].concat()
}

/// What programs make of files that another state does not have in this form.
struct Given<'j> {
    /// The texts, each with whether the other state lacks the file.
    texts: Vec<(&'j str, bool)>,
    /// The objects that can be read.
    known: BTreeSet<ObjectKey>,
}

impl<'j> Given<'j> {
    /// What `side` gives, and `other` does not.
    fn of(other: &Judged, side: &'j Judged) -> Given<'j> {
        let differs = |(path, one): &(&String, &Unrendered)| {
            one.gives_objects && other.unrendered.get(*path) != Some(*one)
        };
        let all = side.unrendered.iter().filter(differs);
        let texts: Vec<_> =
            all.map(|(path, one)| (one.text.as_str(), !other.unrendered.contains_key(path))).collect();
        let objects = side.sets.iter().flat_map(|set| set.cluster.objects()).filter(|_| !texts.is_empty());
        let known = objects.map(|object| object.id().key()).collect();
        Given { texts, known }
    }

    /// Whether an object of the other state may be among it: a new file has the kind, or a changed one the kind and the name.
    fn may_have(&self, object: &Object) -> bool {
        let (kind, name) = (&*object.id().kind, object.name());
        let has = |(text, is_new): &(&str, bool)| has_word(text, kind) && (*is_new || text.contains(name));
        !self.texts.is_empty() && !self.known.contains(&object.id().key()) && self.texts.iter().any(has)
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric();
    let mut found = text.match_indices(word).map(|(at, _)| (&text[..at], &text[at + word.len()..]));
    found.any(|(before, after)| !before.ends_with(is_part) && !after.starts_with(is_part))
}

/// The clusters to compare instead of those of a set; `None` for one that stays as it is.
pub(super) fn alike(old: &Cluster, new: &Cluster) -> (Option<Cluster>, Option<Cluster>) {
    let (current_old, current_new) = current(old, new);
    let kept = |own: &Cluster, other: &Cluster| {
        let extra = extra(own, other);
        let is_kept = |object: &&Object| !extra.iter().any(|one| one.is_same_manifest(object));
        (!extra.is_empty()).then(|| own.with_objects(own.objects().iter().filter(is_kept).cloned()))
    };
    let (old, new) = (current_old.as_ref().unwrap_or(old), current_new.as_ref().unwrap_or(new));
    let (kept_old, kept_new) = (kept(old, new), kept(new, old));
    (kept_old.or(current_old), kept_new.or(current_new))
}

/// Both sides with the objects of old APIs as what they become, if an object has another API on one side.
fn current(old: &Cluster, new: &Cluster) -> (Option<Cluster>, Option<Cluster>) {
    let successors = |cluster: &Cluster| -> Vec<Option<Object>> {
        cluster.objects().iter().map(migration::successor).collect()
    };
    let (old_successors, new_successors) = (successors(old), successors(new));
    let migrates = |own: &Cluster, successors: &[Option<Object>], other: &Cluster| {
        let old = own.objects().iter().zip(successors).filter(|(_, successor)| successor.is_some());
        let ids: BTreeSet<_> =
            other.objects().iter().map(|one| (one.id().key(), one.id().api_version())).collect();
        old.into_iter().any(|(object, _)| !ids.contains(&(object.id().key(), object.id().api_version())))
    };
    if !migrates(old, &old_successors, new) && !migrates(new, &new_successors, old) {
        return (None, None);
    }
    let with = |cluster: &Cluster, successors: Vec<Option<Object>>| {
        let objects = cluster.objects().iter().zip(successors);
        successors_differ(objects).map(|objects| cluster.with_objects(objects))
    };
    (with(old, old_successors), with(new, new_successors))
}

/// The objects, each replaced by its successor if it has one; `None` if none has.
fn successors_differ<'o>(all: impl Iterator<Item = (&'o Object, Option<Object>)>) -> Option<Vec<Object>> {
    let mut is_any = false;
    let objects = all.map(|(object, successor)| {
        is_any |= successor.is_some();
        successor.unwrap_or_else(|| object.clone())
    });
    let objects: Vec<Object> = objects.collect();
    is_any.then_some(objects)
}

/// The workloads of a side beside others with the same name whose files the other side has as well.
fn extra(own: &Cluster, other: &Cluster) -> Vec<Object> {
    let mut by_key: BTreeMap<ObjectKey, Vec<&Object>> = BTreeMap::new();
    for workload in workloads(own) {
        by_key.entry(workload.id().key()).or_default().push(workload);
    }
    by_key.retain(|_, same| same.len() > 1);
    if by_key.is_empty() {
        return Vec::new();
    }
    let files: BTreeSet<(ObjectKey, Option<&str>)> =
        workloads(other).map(|workload| (workload.id().key(), file_of(workload))).collect();
    let mut extra = Vec::new();
    for (key, same) in by_key {
        let (paired, alone): (Vec<&Object>, Vec<&Object>) =
            same.into_iter().partition(|one| files.contains(&(key.clone(), file_of(one))));
        if !paired.is_empty() {
            extra.extend(alone.into_iter().cloned());
        }
    }
    extra
}
