//! One object in several sets of manifests: it is checked in each, and what is the same is said once.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::sets::Bond;
use crate::lint::engine::Engine;
use crate::lint::finding::{Finding, SetNames};
use crate::object::{Object, track_namespace};

/// An object as a set applies it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement<'a> {
    /// The object.
    pub(crate) object: &'a Object,
    /// The objects of the set.
    pub(crate) cluster: &'a Cluster,
    /// The name of the set; none where the whole input is one.
    pub(crate) set: &'a [Arc<str>],
}

/// What of a set decides what rules say without reading other objects: whether what is missing does not exist, and how
/// surely the objects of the set meet.
type SetKind = (bool, Bond);

/// The findings of one rule, or of all, for each placement of an object.
type PerPlacement = Vec<Vec<Finding>>;

impl Engine {
    /// The findings for an object in all its sets, each with the names of the sets that it holds in. What rests on an
    /// absence holds only where no set has what is missing.
    pub(super) fn check_placements(&self, placements: &[Placement<'_>]) -> Vec<Finding> {
        let [placement] = placements else {
            return join(self.check_each(placements), placements.iter().map(|placement| placement.set));
        };
        let mut findings = self.check_object(placement.object, placement.cluster);
        name_set(&mut findings, placement.set);
        findings
    }

    /// The findings for each placement. Rules that read nothing but the object run once for all placements in sets that
    /// say as much about what they lack; those that read its namespace once for each.
    fn check_each(&self, placements: &[Placement<'_>]) -> PerPlacement {
        let mut known: Vec<(SetKind, Vec<Judged<'_>>)> = Vec::new();
        let mut out = Vec::with_capacity(placements.len());
        for Placement { object, cluster, .. } in placements {
            let kind = (cluster.is_complete(), cluster.bond());
            let at = known.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
                known.push((kind, Vec::new()));
                known.len() - 1
            });
            out.push(self.check_object_again(object, cluster, &mut known[at].1));
        }
        out
    }

    /// [`Engine::check_object`] for an object in one more set. `known` has what its rules said in earlier sets, in their
    /// order; what is new is added.
    fn check_object_again<'a>(
        &self,
        object: &'a Object,
        cluster: &Cluster,
        known: &mut Vec<Judged<'a>>,
    ) -> Vec<Finding> {
        let own = object.namespace();
        let mut findings = Vec::new();
        let mut place = 0..;
        self.for_each_rule(object, |at, left| {
            let place = place.next().unwrap_or_default();
            let from = findings.len();
            match known.get(place) {
                Some(Judged::Alone { namespace, findings: said, steps })
                    if namespace.is_none_or(|namespace| namespace == own) =>
                {
                    findings.extend(said.iter().cloned());
                    (*steps).min(left)
                }
                Some(Judged::BesideOthers) => self.run_rule(at, object, cluster, left, &mut findings).steps,
                _ => {
                    let run = || self.record(at, || self.run_rule(at, object, cluster, left, &mut findings));
                    let ((outcome, reads), reads_namespace) = track_namespace(run);
                    // Most rules that may read other objects find that the object is none of those that they are about.
                    let judged = if reads.is_empty() && !outcome.reads_earlier_findings {
                        let namespace = reads_namespace.then_some(own);
                        let findings = findings[from..].to_vec();
                        Judged::Alone { namespace, findings, steps: outcome.steps }
                    } else {
                        Judged::BesideOthers
                    };
                    match known.get_mut(place) {
                        Some(old) => *old = judged,
                        None => known.push(judged),
                    }
                    outcome.steps
                }
            }
        });
        findings
    }
}

/// What a rule said of an object, as far as it holds in other sets.
#[derive(Debug)]
enum Judged<'a> {
    /// It asked for no other object.
    Alone {
        /// The namespace of the object at that time; `None` where the rule did not read it.
        namespace: Option<Option<&'a str>>,
        findings: Vec<Finding>,
        steps: u64,
    },
    /// It asked for others, so that it is asked again.
    BesideOthers,
}

/// Says of findings that they hold in one set.
pub(crate) fn name_set(findings: &mut [Finding], set: &[Arc<str>]) {
    if findings.is_empty() || set.is_empty() {
        return;
    }
    let names: Arc<[Arc<str>]> = Arc::from(set);
    for finding in findings {
        finding.sets = SetNames { names: Arc::clone(&names), partial: false };
    }
}

/// Says of what no rule found, such as broken syntax, that it holds in all sets of its file.
pub(crate) fn name_unjudged<'a>(findings: &mut [Finding], sets: impl Iterator<Item = &'a [Arc<str>]>) {
    if findings.iter().any(|finding| finding.sets.names.is_empty()) {
        let names = names_of(&sets.collect::<Vec<_>>(), |_| true);
        for finding in findings.iter_mut().filter(|finding| finding.sets.names.is_empty()) {
            finding.sets.names = Arc::clone(&names);
        }
    }
}

/// Joins what was found of one object in several sets, in the order of the sets.
pub(crate) fn join<'a>(found: PerPlacement, sets: impl Iterator<Item = &'a [Arc<str>]>) -> Vec<Finding> {
    if found.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let sets: Vec<&[Arc<str>]> = sets.collect();
    let all = names_of(&sets, |_| true);
    let mut joined: Vec<(Finding, Vec<bool>)> = Vec::new();
    for (at, findings) in found.into_iter().enumerate() {
        let from_earlier = joined.len();
        for finding in findings {
            // A rule may say one thing of several sets, and several things of one.
            let known = joined[..from_earlier].iter_mut().find(|(known, held)| {
                !held[at] && (known.is_same_judgement(&finding) || known.is_same_absence(&finding))
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

/// The names of some sets, each once.
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
