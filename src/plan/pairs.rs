//! Which set before a change is which set after it: the one of the name, otherwise the one that has its objects. A folder or a
//! file that gives a set its name is often renamed, a second set gives a name to the first, and one set becomes two.

use std::collections::{BTreeMap, BTreeSet};

use gpulint_rules::{Cluster, Object, ObjectKey};

use crate::judge::JudgedSet;

/// The places of the two versions of a set.
pub(super) type Pair = (Option<usize>, Option<usize>);

/// The identities of the objects of a set, each with its file.
type Contents = BTreeSet<(ObjectKey, Option<String>)>;

fn contents(cluster: &Cluster) -> Contents {
    let file = |object: &Object| Some(object.origin()?.source.path().to_owned());
    cluster.objects().iter().map(|object| (object.id().key(), file(object))).collect()
}

/// How much two sets have in common: the objects, and those of them in one file. `None` if that is less than half of the
/// smaller one.
fn common(one: &Contents, other: &Contents) -> Option<(usize, usize)> {
    let keys = |of: &Contents| of.iter().map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
    let (ours, theirs) = (keys(one), keys(other));
    let shared = ours.intersection(&theirs).count();
    let is_like = shared > 0 && 2 * shared >= ours.len().min(theirs.len());
    is_like.then(|| (shared, one.intersection(other).count()))
}

/// The sets of both sides, those after the change first. Of each pair that is not known by name the one with the most in common
/// is taken.
pub(super) fn pairs(before: &[JudgedSet], after: &[JudgedSet]) -> Vec<Pair> {
    // The only set of each side is one set, whatever it is called.
    if before.len() == 1 && after.len() == 1 {
        return vec![(Some(0), Some(0))];
    }
    let is_open = |olds: &[Option<usize>], at: usize| !olds.contains(&Some(at));
    let mut olds: Vec<Option<usize>> = Vec::with_capacity(after.len());
    for new in after {
        let named = (0..before.len()).find(|at| before[*at].name == new.name && is_open(&olds, *at));
        olds.push(named);
    }
    let left: Vec<usize> = (0..before.len()).filter(|at| is_open(&olds, *at)).collect();
    let come: Vec<usize> = (0..after.len()).filter(|at| olds[*at].is_none()).collect();
    if !left.is_empty() && !come.is_empty() {
        let of = |sets: &[JudgedSet], all: &[usize]| -> BTreeMap<usize, Contents> {
            all.iter().map(|at| (*at, contents(&sets[*at].cluster))).collect()
        };
        let (left, come) = (of(before, &left), of(after, &come));
        let mut likes = Vec::new();
        for (old, had) in &left {
            let like = come.iter().filter_map(|(new, has)| Some((common(had, has)?, *old, *new)));
            likes.extend(like);
        }
        likes.sort_by_key(|(shared, old, new)| (std::cmp::Reverse(*shared), *old, *new));
        for (_, old, new) in likes {
            if olds[new].is_none() && is_open(&olds, old) {
                olds[new] = Some(old);
            }
        }
    }
    let gone = (0..before.len()).filter(|at| is_open(&olds, *at)).map(|at| (Some(at), None));
    let both = olds.iter().enumerate().map(|(new, old)| (*old, Some(new)));
    both.chain(gone).collect()
}

/// Gives the sets that only one side has what left another set of it, where the files are still in their places: a set that
/// is split, or two that become one. Objects whose files move as well go from one cluster to another.
pub(super) fn share(before: &mut Vec<JudgedSet>, after: &mut Vec<JudgedSet>, pairs: &mut [Pair]) {
    split(before, after, pairs, |pair| pair);
    split(after, before, pairs, |(old, new)| (new, old));
}

/// Splits sets of `wholes` as those of `parts` are split. `turn` gives a pair with the whole first, and back.
fn split(wholes: &mut Vec<JudgedSet>, parts: &[JudgedSet], pairs: &mut [Pair], turn: fn(Pair) -> Pair) {
    for at in 0..pairs.len() {
        let (None, Some(part)) = turn(pairs[at]) else { continue };
        let sources = pairs.iter().filter_map(|pair| {
            let (Some(from), Some(rest)) = turn(*pair) else { return None };
            let (own, had, kept) = (
                contents(&parts[part].cluster),
                contents(&wholes[from].cluster),
                contents(&parts[rest].cluster),
            );
            let moved: Contents =
                own.into_iter().filter(|one| had.contains(one) && !kept.contains(one)).collect();
            (!moved.is_empty()).then_some((from, moved))
        });
        let Some((from, moved)) = sources.max_by_key(|(_, moved)| moved.len()) else { continue };
        let moved: BTreeSet<ObjectKey> = moved.into_iter().map(|(key, _)| key).collect();
        let whole = &mut wholes[from];
        let is_moved = |object: &Object| moved.contains(&object.id().key());
        let (left, stays): (Vec<Object>, Vec<Object>) =
            whole.cluster.objects().iter().cloned().partition(is_moved);
        let (cluster, rest) = (whole.cluster.with_objects(left), whole.cluster.with_objects(stays));
        whole.cluster = rest;
        let platform = whole.platform.clone();
        wholes.push(JudgedSet { name: parts[part].name.clone(), cluster, platform });
        pairs[at] = turn((Some(wholes.len() - 1), Some(part)));
    }
}
