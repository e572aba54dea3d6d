//! The pools' side: which take pending pods, as the scheduler reads them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::cluster::dependencies;
use crate::cluster::dependencies::dependency_key;
use crate::karpenter::nodepool::{CAPACITY_TYPE, NodePool};
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::requirement::{Requirement, Requirements, is_well_known};
use crate::karpenter::scheduling::{Pod, Pool, Term, pool_requirements};
use crate::object::Object;
use crate::workload::template::Template;

/// What is asked of a pool as it is written.
pub(super) const POOL_SPEC: &str = "a pool that takes pods";
/// The label by which pods ask for a pool.
pub(super) const NODEPOOL_LABEL: &str = "karpenter.sh/nodepool";

/// A pool that takes pending pods.
pub(crate) struct CandidatePool {
    object: Object,
    pub(super) pool: Pool,
    pub(super) requirements: Requirements,
    /// What it says but for its name and weight.
    equivalence_class: Arc<str>,
}

/// The pools that take pending pods. Each has a number for as long as it is here.
#[derive(Default)]
pub(super) struct CandidatePools {
    slots: Vec<Option<CandidatePool>>,
    /// Numbers that nobody has.
    free_slots: Vec<usize>,
    /// Every pool by its address.
    states: HashMap<usize, PoolState>,
    /// Of each number, where it stands among the others.
    ranks: Vec<usize>,
    by_name: BTreeMap<String, Vec<usize>>,
    /// What the kinds say, each once.
    class_specs: HashSet<Arc<str>>,
    /// Those that differ in name and weight alone stand together.
    pub(super) classes: Vec<Vec<usize>>,
    /// For each label of one's own the kinds that have it: pods that select it can go to no other.
    label_index: BTreeMap<String, LabelIndex>,
    /// Whether some pool is not among them because it cannot be read.
    pub(super) has_unreadable_pools: bool,
}

/// What a pool is to pods.
#[derive(Clone, Copy)]
enum PoolState {
    Candidate(usize),
    /// A static pool, which is asked for no pending pod.
    Static,
    Unreadable,
}

/// The kinds of pools that have a label.
#[derive(Default)]
struct LabelIndex {
    by_value: BTreeMap<String, Vec<usize>>,
    /// Those that do not list its values.
    any_value: Vec<usize>,
}

/// How sites differ from what they were.
#[derive(Default)]
pub(super) struct PoolDelta {
    /// Sites that are new to the scheduler.
    pub(super) added: Vec<usize>,
    /// The numbers of those that are gone, ascending, with their names. None of the new ones has
    /// such a number.
    pub(super) removed: Vec<(usize, String)>,
    /// Names of pools that say the same to the scheduler, and are written anew.
    pub(super) replaced: Vec<String>,
}

impl CandidatePools {
    /// Of pools in their order.
    pub(super) fn new(pools: &[Object]) -> CandidatePools {
        let mut sites = CandidatePools::default();
        sites.update(pools);
        sites
    }

    /// Takes these pools, in their order, in the place of those that are known.
    pub(super) fn update(&mut self, pools: &[Object]) -> PoolDelta {
        let mut shift = PoolDelta::default();
        let mut before = std::mem::take(&mut self.states);
        let mut unread = Vec::new();
        for object in pools {
            match before.remove(&object.ptr_id()) {
                Some(reading) => _ = self.states.insert(object.ptr_id(), reading),
                None => unread.push(object),
            }
        }
        let mut gone: BTreeSet<usize> = before
            .into_values()
            .filter_map(|reading| match reading {
                PoolState::Candidate(at) => Some(at),
                PoolState::Static | PoolState::Unreadable => None,
            })
            .collect();
        for object in unread {
            let reading = match scheduler_pool(object) {
                None => PoolState::Unreadable,
                Some(pool) if pool.replicas => PoolState::Static,
                Some(pool) => PoolState::Candidate(match self.equivalent_predecessor(object, &pool, &gone) {
                    Some(at) => {
                        gone.remove(&at);
                        shift.replaced.push(object.name().to_owned());
                        if let Some(site) = &mut self.slots[at] {
                            site.object = object.clone();
                        }
                        at
                    }
                    None => {
                        let at = self.free_slots.pop().unwrap_or_else(|| {
                            self.slots.push(None);
                            self.slots.len() - 1
                        });
                        let mut site = CandidatePool::new(object, pool);
                        match self.class_specs.get(&site.equivalence_class) {
                            Some(text) => site.equivalence_class = Arc::clone(text),
                            None => _ = self.class_specs.insert(Arc::clone(&site.equivalence_class)),
                        }
                        self.slots[at] = Some(site);
                        shift.added.push(at);
                        at
                    }
                }),
            };
            self.states.insert(object.ptr_id(), reading);
        }
        for at in gone {
            if let Some(site) = self.slots[at].take() {
                self.free_slots.push(at);
                shift.removed.push((at, site.pool.name));
            }
        }
        if !shift.added.is_empty() || !shift.removed.is_empty() {
            self.recompute(pools);
        }
        let unreadable = |reading: &PoolState| matches!(reading, PoolState::Unreadable);
        self.has_unreadable_pools = self.states.values().any(unreadable);
        shift
    }

    /// The site of an earlier version of a pool, if the scheduler cannot tell the two apart.
    fn equivalent_predecessor(&self, object: &Object, pool: &Pool, gone: &BTreeSet<usize>) -> Option<usize> {
        let [at] = self.by_name(object.name()) else {
            return None;
        };
        let site = self.slots[*at].as_ref()?;
        let namespace = |object: &Object| object.id().namespace_or_default().to_owned();
        let same = site.pool == *pool && namespace(&site.object) == namespace(object);
        (same && gone.contains(at)).then_some(*at)
    }

    /// Says who stands where.
    fn recompute(&mut self, pools: &[Object]) {
        self.class_specs.retain(|text| Arc::strong_count(text) > 1);
        self.ranks = vec![0; self.slots.len()];
        self.by_name.clear();
        self.classes.clear();
        self.label_index.clear();
        let mut kinds: HashMap<&str, usize> = HashMap::new();
        for (rank, object) in pools.iter().enumerate() {
            let Some(PoolState::Candidate(at)) = self.states.get(&object.ptr_id()) else {
                continue;
            };
            let Some(site) = &self.slots[*at] else {
                continue;
            };
            self.ranks[*at] = rank;
            let same_name = self.by_name.entry(site.pool.name.clone()).or_default();
            same_name.push(*at);
            let next = kinds.len();
            let kind = *kinds.entry(&site.equivalence_class).or_insert(next);
            if kind == next {
                self.classes.push(Vec::new());
                index_labels(&mut self.label_index, kind, &site.requirements);
            }
            self.classes[kind].push(*at);
        }
    }

    pub(super) fn get(&self, at: usize) -> Option<&CandidatePool> {
        self.slots.get(at)?.as_ref()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// The number and the site of each.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &CandidatePool)> {
        let sites = self.slots.iter().enumerate();
        sites.filter_map(|(at, site)| Some((at, site.as_ref()?)))
    }

    pub(super) fn by_name(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Puts numbers in the order of the sites.
    pub(super) fn sort(&self, sites: &mut [usize]) {
        sites.sort_unstable_by_key(|at| self.ranks.get(*at));
    }

    /// The kinds to which pods can go that ask for one of these; `None` where any may do.
    pub(super) fn classes_for(&self, alternatives: &[Requirements]) -> Option<BTreeSet<usize>> {
        let mut out = BTreeSet::new();
        for asked in alternatives {
            let (key, wanted) = custom_label(asked)?;
            if let Some(labelled) = self.label_index.get(key) {
                let of_value = |value: &String| labelled.by_value.get(value);
                out.extend(wanted.values.iter().filter_map(of_value).flatten());
                out.extend(&labelled.any_value);
            }
        }
        Some(out)
    }

    /// The sites that pods ask for by name; `None` where some of their terms names none.
    pub(super) fn named_pools(&self, alternatives: &[Requirements]) -> Option<BTreeSet<usize>> {
        let mut out = BTreeSet::new();
        for asked in alternatives {
            let wanted = asked.get(NODEPOOL_LABEL).filter(|wanted| !wanted.complement)?;
            let sites = |name: &String| self.by_name.get(name);
            out.extend(wanted.values.iter().filter_map(sites).flatten());
        }
        Some(out)
    }

    /// Whether a site is among those to ask about a pod, as by [`Sites::named`] and
    /// [`Sites::kinds_for`].
    pub(super) fn may_match(&self, at: usize, alternatives: &[Requirements]) -> bool {
        let Some(site) = self.get(at) else {
            return false;
        };
        let name = |asked: &Requirements| asked.get(NODEPOOL_LABEL).is_some_and(|wanted| !wanted.complement);
        let named = alternatives.iter().all(name);
        alternatives.iter().any(|asked| {
            if named {
                let wanted = asked.get(NODEPOOL_LABEL);
                return wanted.is_some_and(|wanted| wanted.values.contains(&site.pool.name));
            }
            custom_label(asked).is_none_or(|(key, wanted)| {
                let has = |own: &Requirement| {
                    own.complement || wanted.values.iter().any(|value| own.values.contains(value))
                };
                site.requirements.get(key).is_some_and(has)
            })
        })
    }

    pub(super) fn weight(&self, site: usize) -> i64 {
        self.get(site).map_or(0, CandidatePool::weight)
    }
}

/// The first label of one's own of which these take some values only.
fn custom_label(asked: &Requirements) -> Option<(&str, &Requirement)> {
    asked.iter().find(|(key, wanted)| !is_well_known(key) && !wanted.complement && !wanted.values.is_empty())
}

fn index_labels(labels: &mut BTreeMap<String, LabelIndex>, kind: usize, requirements: &Requirements) {
    for (key, requirement) in requirements.iter().filter(|(key, _)| !is_well_known(key)) {
        let labelled = labels.entry(key.to_owned()).or_default();
        if requirement.complement {
            labelled.any_value.push(kind);
            continue;
        }
        for value in &requirement.values {
            let kinds = labelled.by_value.entry(value.clone()).or_default();
            kinds.push(kind);
        }
    }
}

impl CandidatePool {
    pub(super) fn new(object: &Object, pool: Pool) -> CandidatePool {
        let nameless = Pool { name: String::new(), weight: None, ..pool.clone() };
        CandidatePool {
            object: object.clone(),
            requirements: pool_requirements(&pool),
            equivalence_class: Arc::from(format!("{nameless:?}")),
            pool,
        }
    }

    /// The NodePool as it is written now.
    pub(crate) fn object(&self) -> &Object {
        dependencies::record_read(|| dependency_key(POOL_SPEC, &self.pool.name));
        &self.object
    }

    pub(super) fn ptr_eq(&self, object: &Object) -> bool {
        self.object.ptr_eq(object)
    }

    pub(super) fn is_same_resource(&self, object: &Object) -> bool {
        self.object.is_same_resource(object)
    }

    pub(super) fn name(&self) -> &str {
        &self.pool.name
    }

    /// `spec.weight`.
    pub(crate) fn weight(&self) -> i64 {
        self.pool.weight.unwrap_or(0)
    }

    /// Whether its nodes have a taint of this key.
    pub(crate) fn has_taint(&self, key: &str) -> bool {
        self.pool.taints.iter().any(|taint| taint.key == key)
    }

    /// The capacity types, but for `reserved`, that pods can get here which ask for `wanted`
    /// ([`wanted_capacity`]).
    pub(crate) fn capacity_types(&self, wanted: Option<&BTreeSet<&'static str>>) -> BTreeSet<&'static str> {
        let own = self.requirements.get(CAPACITY_TYPE);
        // The scheduler is told of none where `reserved` is among them, because no type offers it.
        let written = match own {
            Some(_) => None,
            None => NodePool::new(self.object()).and_then(|pool| pool.capacity_types()),
        };
        ["spot", "on-demand"]
            .into_iter()
            .filter(|t| own.is_none_or(|own| own.has(t)))
            .filter(|t| written.as_ref().is_none_or(|written| written.contains(t)))
            .filter(|t| wanted.is_none_or(|wanted| wanted.contains(t)))
            .collect()
    }
}

/// A pool as the scheduler reads it; `None` where it cannot be read in full.
pub(super) fn scheduler_pool(object: &Object) -> Option<Pool> {
    let pool = NodePool::new(object)?;
    let unknown = pool.is_other_provider()
        || object.is_partial()
        || pool.has_unknown_types()
        || pool.template_spec().get("taints").has_unknown()
        || pool.limits().has_unknown();
    (!unknown).then(|| pool.normalized_pool())
}

/// The capacity types that a template asks for; `None` where it asks for none.
pub(crate) fn requested_capacity_types(template: &Template<'_>) -> Option<BTreeSet<&'static str>> {
    let pod = to_scheduling_pod(template)?;
    let mut out = BTreeSet::new();
    for asked in alternatives(&pod) {
        let wanted = asked.get(CAPACITY_TYPE)?;
        let all = ["reserved", "spot", "on-demand"];
        out.extend(all.into_iter().filter(|t| wanted.has(t)));
    }
    Some(out)
}

/// What the pod asks of nodes: its selector with each of its terms.
pub(super) fn alternatives(pod: &Pod) -> Vec<Requirements> {
    let mut selector = Requirements::new();
    for (key, value) in &pod.node_selector {
        selector.add(key, Requirement::is(value));
    }
    if pod.terms.is_empty() {
        return vec![selector];
    }
    let with = |term: &Term| {
        let mut all = selector.clone();
        for spec in &term.expressions {
            all.add(&spec.key, Requirement::new(spec.op, &spec.values, spec.min_values));
        }
        all
    };
    pod.terms.iter().map(with).collect()
}
