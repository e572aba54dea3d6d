//! Where the pods are that a pod has to join by affinity: Karpenter starts nothing for it before one of them has a place.

use std::collections::BTreeSet;

use crate::catalog::HOSTNAME;
use crate::fit::capacity::counts;
use crate::fit::other_nodes::label_of_other_nodes;
use crate::fit::pools::starts_nodes;
use crate::fit::surroundings::in_reach;
use crate::fit::{Situation, read};
use crate::karpenter::pod::rules_of;
use crate::karpenter::requirement::{Operator, Requirement, Requirements, normalise};
use crate::karpenter::scheduling::{Outcome, Pod, Selected, TopologyKind, Verdict};
use crate::object::Object;
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;
use crate::workload::selector::matches;
use crate::workload::template::{Template, templates};

/// Maximum number of workloads of which each joins the next.
const MAX_JOINED: usize = 8;

/// The values of a label with which pods may have a node.
enum Domains {
    In(BTreeSet<String>),
    Unknown,
}

impl Domains {
    fn with(self, more: Domains) -> Domains {
        match (self, more) {
            (Domains::In(mut all), Domains::In(more)) => {
                all.extend(more);
                Domains::In(all)
            }
            _ => Domains::Unknown,
        }
    }
}

/// The templates that wait for the one that is looked at. Pods that wait for each other never have a place.
type Waiting = Vec<(Object, Pointer)>;

impl Situation<'_> {
    /// Adds to the terms of affinity of a pod the domains in which the pods may be that they name, where all of them are known.
    pub(super) fn find_companions(&self, pod: &mut Pod, template: &Template<'_>) {
        if self.cluster.is_complete() {
            self.find_companions_of(pod, template, &mut Vec::new());
        }
    }

    fn find_companions_of(&self, pod: &mut Pod, template: &Template<'_>, waiting: &mut Waiting) {
        for ((_, _, term), rule) in rules_of(template).into_iter().zip(&mut pod.topology) {
            let joins_others =
                rule.required && rule.kind == TopologyKind::Affinity && rule.selects == Selected::Others;
            if !joins_others {
                continue;
            }
            waiting.push((template.place.0.clone(), template.spec.pointer()));
            let domains = self.domains_of_companions(&term, template, &rule.key, waiting);
            waiting.pop();
            match domains {
                Domains::In(all) if all.is_empty() => rule.selects = Selected::Nothing,
                Domains::In(all) => rule.domains = Some(all.into_iter().collect()),
                Domains::Unknown => {}
            }
        }
    }

    /// The domains of the pods that a term names.
    fn domains_of_companions(
        &self,
        term: &Node<'_>,
        template: &Template<'_>,
        key: &str,
        waiting: &mut Waiting,
    ) -> Domains {
        let depends = ["matchLabelKeys", "mismatchLabelKeys"].iter().any(|name| term.get(name).is_set())
            || !term.get("namespaceSelector").entries().is_empty();
        if depends || waiting.len() > MAX_JOINED {
            return Domains::Unknown;
        }
        let mut domains = Domains::In(BTreeSet::new());
        let others: Vec<&Object> = in_reach(term, template, self.cluster).collect();
        for other in others.iter().flat_map(|object| templates(object)) {
            let object = other.place.0;
            match matches(&term.get("labelSelector"), &other.labels()) {
                Some(false) => continue,
                Some(true) if starts_nodes(object) => {}
                _ => return Domains::Unknown,
            }
            let is_it =
                |(known, spec): &(Object, Pointer)| known.ptr_eq(object) && *spec == other.spec.pointer();
            if !waiting.iter().any(is_it) {
                domains = domains.with(self.domains_of_pods(&other, key, waiting));
            }
        }
        domains
    }

    /// The values of a label on nodes for the pods of a template, or the names of their pools for that of nodes themselves.
    fn domains_of_pods(&self, template: &Template<'_>, key: &str, waiting: &mut Waiting) -> Domains {
        let (object, _) = template.place;
        let is_elsewhere = template.spec.get("nodeName").is_set()
            || label_of_other_nodes(template).is_some()
            || self.for_other_nodes(object, template).is_some();
        let pod = read::pod(template, &self.runtime_classes, self.cluster).filter(|_| !is_elsewhere);
        let (Some(mut pod), Some((_, most))) = (pod, counts(self.cluster, object, template)) else {
            return Domains::Unknown;
        };
        if most == 0 {
            return Domains::In(BTreeSet::new());
        }
        self.find_companions_of(&mut pod, template, waiting);
        let scheduler = self.scheduler();
        match self.decide(&scheduler, &pod) {
            Verdict::DoesNotFit(why) if !why.within_memory_estimate => return Domains::In(BTreeSet::new()),
            Verdict::Fits { .. } => {}
            _ => return Domains::Unknown,
        }
        let own = required(&pod, key);
        let listed = self.listed(&scheduler, key);
        let mut domains = Domains::In(BTreeSet::new());
        for (position, outcome) in self.survey(&scheduler, &pod).iter() {
            let of_pool = match outcome {
                Outcome::Rejects(_) => continue,
                Outcome::Undecided(_) => Domains::Unknown,
                Outcome::Admits(_) if key == HOSTNAME => {
                    Domains::In(BTreeSet::from([self.objects[*position].name().to_owned()]))
                }
                Outcome::Admits(admission) => {
                    match (self.values(*position, &admission.types, key, &listed), &own) {
                        (Some(values), own) => {
                            let is_allowed = |value: &String| own.as_ref().is_none_or(|own| own.has(value));
                            Domains::In(values.into_iter().filter(is_allowed).collect())
                        }
                        // Which values there are need not be known of a pod that asks for some of them.
                        (None, Some(own)) if own.operator() == Operator::In => {
                            Domains::In(own.values.iter().cloned().collect())
                        }
                        (None, _) => Domains::Unknown,
                    }
                }
            };
            domains = domains.with(of_pool);
        }
        domains
    }
}

/// What a pod with one alternative only requires of a label, its volumes included.
fn required(pod: &Pod, key: &str) -> Option<Requirement> {
    let mut all = Requirements::new();
    for (name, value) in &pod.node_selector {
        all.add(name, Requirement::is(value));
    }
    let terms = (pod.terms.len() < 2).then_some(&pod.terms).into_iter().flatten();
    let volumes = (pod.volumes.len() < 2).then_some(&pod.volumes).into_iter().flatten();
    for spec in terms.flat_map(|term| &term.expressions).chain(volumes.flatten()) {
        all.add(&spec.key, Requirement::new(spec.op, &spec.values, None));
    }
    all.get(normalise(key)).cloned()
}
