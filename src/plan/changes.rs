//! What differs between two judged states besides nodes, pods and money: findings, versions, and whether a set differs at all.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use gpulint_rules::lint::preview::{karpenter_changes, karpenter_upgrade};
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, Finding, Product};

use crate::judge::{Judged, Judgement};
use crate::report::{FindingsChange, NewFinding, Step, Upgrades};

use super::pairs::Pair;

/// The texts of the files of a set: their paths and digests.
fn texts_of(cluster: &Cluster) -> HashMap<*const Source, (&str, u64)> {
    let mut texts = HashMap::new();
    for origin in cluster.objects().iter().filter_map(|object| object.origin()) {
        texts.entry(Arc::as_ptr(&origin.source)).or_insert_with(|| {
            let mut hash = DefaultHasher::new();
            origin.source.text().hash(&mut hash);
            (origin.source.path(), hash.finish())
        });
    }
    texts
}

/// Whether two sets have the same objects. Those of files that are equal as text are not looked at, the others are compared by
/// their content.
pub(super) fn is_same(old: &Cluster, new: &Cluster) -> bool {
    let (old_texts, new_texts) = (texts_of(old), texts_of(new));
    let both: HashSet<(&str, u64)> = old_texts.values().copied().collect();
    let both: HashSet<(&str, u64)> = new_texts.values().copied().filter(|text| both.contains(text)).collect();
    let digest = |cluster: &Cluster, texts: &HashMap<*const Source, (&str, u64)>| {
        let mut objects: Vec<u64> = Vec::with_capacity(cluster.objects().len());
        for object in cluster.objects() {
            let mut hash = DefaultHasher::new();
            let id = object.id();
            (&id.group, &id.version, &id.kind, id.namespace(), &id.name).hash(&mut hash);
            let origin = object.origin();
            let text = origin.and_then(|origin| texts.get(&Arc::as_ptr(&origin.source)));
            match (origin, text.filter(|text| both.contains(text))) {
                (Some(origin), Some(text)) => (text, origin.document, origin.span.start).hash(&mut hash),
                _ => object.root().to_json().to_string().hash(&mut hash),
            }
            objects.push(hash.finish());
        }
        objects.sort_unstable();
        (objects, cluster.is_complete())
    };
    digest(old, &old_texts) == digest(new, &new_texts)
}

/// The findings of both sides by fingerprint: each is new, gone, or still there.
pub(super) fn findings(
    before: Vec<Judgement>,
    after: Vec<Judgement>,
    unread: &BTreeMap<String, u32>,
    moved: &impl Fn(&str, &str) -> bool,
) -> FindingsChange {
    let after_count = after.len();
    let old: HashSet<&str> = before.iter().map(|one| one.fingerprint.as_str()).collect();
    let now: HashSet<String> = after.iter().map(|one| one.fingerprint.clone()).collect();
    let mut change = FindingsChange::default();
    for one in after {
        if old.contains(one.fingerprint.as_str()) {
            change.still += 1;
        } else if one.is_baselined {
            change.baselined += 1;
        } else {
            change.new.push(NewFinding {
                finding: one.finding,
                fails: one.fails,
                fingerprint: one.fingerprint,
            });
        }
    }
    // Whether those of a file that cannot be read any more are gone is not known.
    let gone = before.iter().filter(|one| !now.contains(&one.fingerprint) && !unread.contains_key(&one.file));
    let mut gone: Vec<&Judgement> = gone.collect();
    change.new.retain(|new| {
        let is_same = |old: &&Judgement| is_moved(&old.finding, &new.finding, moved);
        let old = gone.iter().position(is_same);
        old.map(|old| gone.remove(old)).is_none()
    });
    // What fails, and what is worse, comes first: reports for people list some.
    change.new.sort_by_key(|one| (!one.fails, std::cmp::Reverse(one.finding.severity)));
    change.still += after_count - change.new.len() - change.still - change.baselined;
    change.gone = gone.into_iter().map(|one| (one.finding.clone(), one.fingerprint.clone())).collect();
    change
}

/// Whether a finding with another name says of something renamed what was said of it before: in one file, or in a file whose
/// path only one side has.
fn is_moved(old: &Finding, new: &Finding, moved: &impl Fn(&str, &str) -> bool) -> bool {
    let places = old.location.path().zip(new.location.path());
    old.rule.id == new.rule.id
        && old.message == new.message
        && places.is_some_and(|(old, new)| old == new || moved(old, new))
}

/// The versions that differ between the configurations of both sides, or between what both versions of a set show, with what
/// they bring.
pub(super) fn upgrades(before: &Judged, after: &Judged, pairs: &[Pair]) -> Upgrades {
    let mut steps: Vec<Step> = Vec::new();
    let configured =
        after.platforms.iter().filter_map(|(name, new)| Some((before.platforms.get(name)?, new)));
    let of_sets = pairs.iter().filter_map(|(old, new)| Some((&before.sets[(*old)?], &after.sets[(*new)?])));
    let of_sets = of_sets.map(|(old, new)| (&old.platform, &new.platform));
    for (old, new) in configured.chain(of_sets) {
        for product in Product::ALL {
            let (from, to) = (old.version(product), new.version(product));
            // A version that is stated for the first time is what was there before.
            if from == to || !old.is_stated(product) || !new.is_stated(product) {
                continue;
            }
            let step = Step { product, from, to };
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
    }
    let karpenter = steps.iter().filter(|step| step.product == Product::Karpenter);
    let mut notes: Vec<_> =
        karpenter.clone().flat_map(|step| karpenter_upgrade(step.from, step.to)).collect();
    notes.sort_by_key(|note| (note.topic != "nodes", note.version));
    notes.dedup();
    let mut changes = BTreeMap::new();
    for set in &after.sets {
        let steps = karpenter.clone().filter(|step| step.to == set.platform.karpenter);
        for (step, object) in steps.flat_map(|step| set.cluster.objects().iter().map(move |one| (step, one)))
        {
            for change in karpenter_changes(object, step.from, step.to) {
                let id = object.id();
                let key = (
                    id.kind.clone(),
                    id.namespace().map(str::to_owned),
                    id.name.clone(),
                    change.pointer.to_string(),
                );
                changes.entry((key, change.text)).or_insert(change);
            }
        }
    }
    Upgrades { steps, notes, changes: changes.into_values().collect() }
}
