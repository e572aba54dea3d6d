//! Checks an object in every set of manifests that contains it, and merges equal findings.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::sets::Bond;
use crate::cluster::versions::{OutsideFact, ShownVersions};
use crate::lint::engine::Engine;
use crate::lint::finding::{Finding, SetNames};
use crate::lint::subject::Subject;
use crate::object::{Object, track_namespace};
use crate::platform::{Product, Version};
use crate::tree::Tree;

#[derive(Clone, Copy, Debug)]
pub(crate) struct AppliedObject<'a> {
    pub(crate) object: &'a Object,
    pub(crate) cluster: &'a Cluster,
    /// The name of the set; empty if the whole input is one set.
    pub(crate) set: &'a [Arc<str>],
}

/// The properties of a set that affect rules which read no other objects: whether missing objects do not exist, how
/// certain it is that the objects of the set are in one cluster, the versions that the set shows, what other files show, and
/// the tree of the object, in which the set may have changed images.
type SetKind<'a> = (bool, Bond, Vec<(Product, Version)>, &'a [OutsideFact], *const Tree);

/// The findings of one rule, or of all rules, for each set of an object.
type FindingsPerSet = Vec<Vec<Finding>>;

impl Engine {
    /// The findings for an object in all its sets, each with the names of the sets in which it holds. A finding about
    /// a missing object only holds if no set has that object.
    pub(super) fn check_in_sets(&self, applied: &[AppliedObject<'_>]) -> Vec<Finding> {
        let [only] = applied else {
            return join(self.check_each(applied), applied.iter().map(|only| only.set));
        };
        let mut findings = self.check_object(only.object, only.cluster);
        name_set(&mut findings, only.set);
        findings
    }

    /// The findings for each applied form of the object. Rules that read only the object run once for all sets of an equal
    /// [`SetKind`]; those that read its namespace run once for each namespace.
    fn check_each(&self, applied: &[AppliedObject<'_>]) -> FindingsPerSet {
        let mut known: Vec<(SetKind<'_>, Vec<EarlierResult<'_>>)> = Vec::new();
        let mut out = Vec::with_capacity(applied.len());
        for AppliedObject { object, cluster, .. } in applied {
            let versions = cluster.shown().map(ShownVersions::numbers).unwrap_or_default();
            let tree = Arc::as_ptr(object.tree().0);
            let kind = (cluster.is_complete(), cluster.bond(), versions, cluster.outside_facts(), tree);
            let at = known.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
                known.push((kind, Vec::new()));
                known.len() - 1
            });
            out.push(self.check_object_again(object, cluster, &mut known[at].1));
        }
        out
    }

    /// [`Engine::check_object`] for an object in a further set. `known` has the results of its rules in earlier sets,
    /// in order; new results are added.
    fn check_object_again<'a>(
        &self,
        object: &'a Object,
        cluster: &Cluster,
        known: &mut Vec<EarlierResult<'a>>,
    ) -> Vec<Finding> {
        let own = object.namespace();
        let (subject, mut findings) = (Subject::new(object), Vec::new());
        let mut place = 0..;
        self.for_each_rule(object, |at, left| {
            let place = place.next().unwrap_or_default();
            let from = findings.len();
            match known.get(place) {
                Some(EarlierResult::ObjectOnly { namespace, findings: known, steps })
                    if namespace.is_none_or(|namespace| namespace == own) =>
                {
                    findings.extend(known.iter().cloned());
                    (*steps).min(left)
                }
                Some(EarlierResult::ReadsOthers) => {
                    self.run_rule(at, &subject, cluster, left, &mut findings).steps
                }
                _ => {
                    let run =
                        || self.record(at, || self.run_rule(at, &subject, cluster, left, &mut findings));
                    let ((outcome, reads), reads_namespace) = track_namespace(run);
                    // Most rules that may read other objects return before they read any.
                    let result = if reads.is_empty() && !outcome.reads_earlier_findings {
                        let namespace = reads_namespace.then_some(own);
                        let findings = findings[from..].to_vec();
                        EarlierResult::ObjectOnly { namespace, findings, steps: outcome.steps }
                    } else {
                        EarlierResult::ReadsOthers
                    };
                    match known.get_mut(place) {
                        Some(old) => *old = result,
                        None => known.push(result),
                    }
                    outcome.steps
                }
            }
        });
        findings
    }
}

/// The result of a rule for an object, and in which other sets it is valid.
#[derive(Debug)]
enum EarlierResult<'a> {
    /// The rule read no other object.
    ObjectOnly {
        /// The namespace of the object in that set; `None` if the rule did not read it.
        namespace: Option<Option<&'a str>>,
        findings: Vec<Finding>,
        steps: u64,
    },
    /// The rule read other objects, so it runs again in other sets.
    ReadsOthers,
}

/// Records that findings hold in one set.
pub(crate) fn name_set(findings: &mut [Finding], set: &[Arc<str>]) {
    if findings.is_empty() || set.is_empty() {
        return;
    }
    let names: Arc<[Arc<str>]> = Arc::from(set);
    for finding in findings {
        finding.sets = SetNames { names: Arc::clone(&names), partial: false };
    }
}

/// Records that findings without a check, such as syntax errors, hold in all sets of their file.
pub(crate) fn name_all_sets<'a>(findings: &mut [Finding], sets: impl Iterator<Item = &'a [Arc<str>]>) {
    if findings.iter().any(|finding| finding.sets.names.is_empty()) {
        let names = names_of(&sets.collect::<Vec<_>>(), |_| true);
        for finding in findings.iter_mut().filter(|finding| finding.sets.names.is_empty()) {
            finding.sets.names = Arc::clone(&names);
        }
    }
}

/// Merges the findings of one object in several sets, in the order of the sets.
pub(crate) fn join<'a>(found: FindingsPerSet, sets: impl Iterator<Item = &'a [Arc<str>]>) -> Vec<Finding> {
    if found.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let sets: Vec<&[Arc<str>]> = sets.collect();
    let all = names_of(&sets, |_| true);
    let mut joined: Vec<(Finding, Vec<bool>)> = Vec::new();
    for (at, findings) in found.into_iter().enumerate() {
        let from_earlier = joined.len();
        for finding in findings {
            // A rule may have the same finding in several sets, and several findings in one set.
            let known = joined[..from_earlier].iter_mut().find(|(known, held)| {
                !held[at] && (known.is_equal_in_other_set(&finding) || known.is_same_absence(&finding))
            });
            if let Some((known, held)) = known {
                held[at] = true;
                known.join_related(finding);
                continue;
            }
            let mut held = vec![false; sets.len()];
            held[at] = true;
            joined.push((finding, held));
        }
    }
    let everywhere = |held: &[bool]| held.iter().all(|held| *held);
    joined
        .into_iter()
        .filter(|(finding, held)| !finding.reports_absence || everywhere(held))
        .map(|(mut finding, held)| {
            let names = if everywhere(&held) { Arc::clone(&all) } else { names_of(&sets, |at| held[at]) };
            let partial = names.len() < all.len();
            finding.sets = SetNames { names, partial };
            finding
        })
        .collect()
}

/// The names of the selected sets, without repetition.
fn names_of(sets: &[&[Arc<str>]], is_meant: impl Fn(usize) -> bool) -> Arc<[Arc<str>]> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for (_, set) in sets.iter().enumerate().filter(|(at, _)| is_meant(*at)) {
        for name in *set {
            if !names.contains(name) {
                names.push(Arc::clone(name));
            }
        }
    }
    Arc::from(names)
}
