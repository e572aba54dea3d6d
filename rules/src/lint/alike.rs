//! Objects of a file that are equal to the byte but for their names: a rule that found nothing in one of them, and read
//! nothing that tells them apart, finds nothing in the others. What it read of the cluster is the same for all of them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::cluster::Cluster;
use crate::lint::engine::{Engine, STEPS_PER_OBJECT, STEPS_PER_RULE};
use crate::lint::finding::Finding;
use crate::lint::fix::Fix;
use crate::object::Object;
use crate::steps;
use crate::tree::SharedNodes;
use crate::tree::watched::watch;

/// What is known of the objects of one file, in one set, by the nodes that they share.
#[derive(Default)]
pub(super) struct AlikeObjects(RwLock<HashMap<usize, Arc<Silence>>>);

/// What the rules did not find in an object.
#[derive(Debug, Default)]
struct Silence {
    /// The rules that still have to be asked about the others, in their order.
    rest: Vec<usize>,
    /// The number of steps of those that need not.
    steps: u64,
    /// What mends the first one, to be kept once for all that it mends.
    fixes: Vec<Arc<Fix>>,
}

impl Silence {
    /// Keeps a fix that is known only once.
    fn share_fixes(&self, findings: &mut [Finding]) {
        for fix in findings.iter_mut().filter_map(|finding| finding.fix.as_mut()) {
            if let Some(known) = self.fixes.iter().find(|known| *known == fix) {
                *fix = Arc::clone(known);
            }
        }
    }
}

impl AlikeObjects {
    fn of(&self, nodes: &Arc<SharedNodes>) -> Option<Arc<Silence>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&Arc::as_ptr(nodes).addr()).cloned()
    }

    fn add(&self, nodes: &Arc<SharedNodes>, silence: Silence) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(Arc::as_ptr(nodes).addr(), Arc::new(silence));
    }
}

impl Engine {
    /// [`Engine::check_object`] for an object of a file as it is written. `known` is of this file and of this cluster.
    pub(super) fn check_alike(
        &self,
        object: &Object,
        cluster: &Cluster,
        known: &AlikeObjects,
    ) -> Vec<Finding> {
        // One of them is that of the object itself.
        let Some(nodes) = object.alike().filter(|nodes| Arc::strong_count(nodes) > 1) else {
            return self.check_object(object, cluster);
        };
        let Some(silence) = known.of(nodes) else {
            let (findings, silence) = self.check_first_alike(object, cluster);
            if let Some(silence) = silence {
                known.add(nodes, silence);
            }
            return findings;
        };
        let mut findings = Vec::new();
        let mut left = STEPS_PER_OBJECT - silence.steps;
        for at in &silence.rest {
            left -= self.run_rule(*at, object, cluster, left, &mut findings).steps;
            if left == 0 {
                // Which rule was the last may depend on their order.
                return self.check_object(object, cluster);
            }
        }
        steps::stop_if_interrupted();
        silence.share_fixes(&mut findings);
        if cfg!(debug_assertions) {
            let of = |findings: &[Finding]| -> Vec<String> {
                findings.iter().map(|finding| format!("{} {}", finding.rule.id, finding.message)).collect()
            };
            debug_assert_eq!(of(&findings), of(&self.check_object(object, cluster)), "{:?}", object.id());
        }
        findings
    }

    /// The findings for the first of them, and what they say of the others; nothing if a rule is expensive.
    fn check_first_alike(&self, object: &Object, cluster: &Cluster) -> (Vec<Finding>, Option<Silence>) {
        let name = object.name_slot();
        let mut findings = Vec::new();
        let mut left = STEPS_PER_OBJECT;
        let mut silence = Silence::default();
        let mut is_cheap = true;
        for at in self.rules_for(object) {
            let from = findings.len();
            let run = || self.run_rule(at, object, cluster, left, &mut findings);
            let (outcome, is_told_apart) = watch(name, run);
            left -= outcome.steps;
            is_cheap &= outcome.steps < STEPS_PER_RULE / 2;
            let is_silent = findings.len() == from && !outcome.reads_earlier_findings;
            if is_silent && !is_told_apart && !self.is_overridden(at) {
                silence.steps += outcome.steps;
            } else {
                silence.rest.push(at);
            }
            if left == 0 {
                break;
            }
        }
        steps::stop_if_interrupted();
        is_cheap &= left > STEPS_PER_OBJECT / 2;
        silence.fixes = findings.iter().filter_map(|finding| finding.fix.clone()).collect();
        (findings, is_cheap.then_some(silence))
    }
}
