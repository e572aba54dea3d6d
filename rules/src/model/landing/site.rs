//! The pools' side: which take pending pods, as the scheduler reads them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::nodepool::{CAPACITY_TYPE, NodePool};
use crate::model::pod::pod;
use crate::model::requirement::{Requirement, Requirements, is_well_known};
use crate::model::scheduling::{Pod, Pool, Term, pool_requirements};
use crate::model::workload::Template;
use crate::object::Object;

/// The label by which pods ask for a pool.
pub(super) const POOL: &str = "karpenter.sh/nodepool";

/// A pool that takes pending pods.
pub(crate) struct Site {
    /// The NodePool.
    pub object: Object,
    pub(super) pool: Pool,
    pub(super) requirements: Requirements,
}

/// The pools that take pending pods.
#[derive(Default)]
pub(super) struct Sites {
    pub(super) all: Vec<Site>,
    pub(super) by_name: BTreeMap<String, Vec<usize>>,
    /// Those that differ in name and weight alone stand together.
    pub(super) kinds: Vec<Vec<usize>>,
    /// For each label of one's own the kinds that have it: pods that select it can go to no other.
    labels: BTreeMap<String, Labelled>,
    /// Whether some pool is not among them because it cannot be read.
    pub(super) blind: bool,
}

/// The kinds of pools that have a label.
#[derive(Default)]
struct Labelled {
    by_value: BTreeMap<String, Vec<usize>>,
    /// Those that do not list its values.
    open: Vec<usize>,
}

impl Sites {
    pub(super) fn new(pools: &[Object]) -> Sites {
        let mut sites = Sites::default();
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for object in pools {
            let pool = match read(object) {
                Some(pool) if pool.replicas => continue,
                Some(pool) => pool,
                None => {
                    sites.blind = true;
                    continue;
                }
            };
            let (next, at) = (kinds.len(), sites.all.len());
            let nameless = Pool {
                name: String::new(),
                weight: None,
                ..pool.clone()
            };
            let same_name = sites.by_name.entry(object.name().to_owned()).or_default();
            same_name.push(at);
            let kind = *kinds.entry(format!("{nameless:?}")).or_insert(next);
            if kind == next {
                sites.kinds.push(Vec::new());
            }
            sites.kinds[kind].push(at);
            let site = Site::new(object, pool);
            if kind == next {
                sites.label(kind, &site.requirements);
            }
            sites.all.push(site);
        }
        sites
    }

    fn label(&mut self, kind: usize, requirements: &Requirements) {
        for (key, requirement) in requirements.iter().filter(|(key, _)| !is_well_known(key)) {
            let labelled = self.labels.entry(key.to_owned()).or_default();
            if requirement.complement {
                labelled.open.push(kind);
                continue;
            }
            for value in &requirement.values {
                let kinds = labelled.by_value.entry(value.clone()).or_default();
                kinds.push(kind);
            }
        }
    }

    /// The kinds to which pods can go that ask for one of these; `None` where any may do.
    pub(super) fn kinds_for(&self, alternatives: &[Requirements]) -> Option<BTreeSet<usize>> {
        let mut out = BTreeSet::new();
        for asked in alternatives {
            let mut own = asked.iter().filter(|(key, wanted)| {
                !is_well_known(key) && !wanted.complement && !wanted.values.is_empty()
            });
            let (key, wanted) = own.next()?;
            if let Some(labelled) = self.labels.get(key) {
                let of_value = |value: &String| labelled.by_value.get(value);
                out.extend(wanted.values.iter().filter_map(of_value).flatten());
                out.extend(&labelled.open);
            }
        }
        Some(out)
    }

    /// The sites that pods ask for by name; `None` where some of their terms names none.
    pub(super) fn named(&self, alternatives: &[Requirements]) -> Option<BTreeSet<usize>> {
        let mut out = BTreeSet::new();
        for asked in alternatives {
            let wanted = asked.get(POOL).filter(|wanted| !wanted.complement)?;
            let sites = |name: &String| self.by_name.get(name);
            out.extend(wanted.values.iter().filter_map(sites).flatten());
        }
        Some(out)
    }

    pub(super) fn weight(&self, site: usize) -> i64 {
        self.all[site].pool.weight.unwrap_or(0)
    }
}

impl Site {
    pub(super) fn new(object: &Object, pool: Pool) -> Site {
        Site {
            object: object.clone(),
            requirements: pool_requirements(&pool),
            pool,
        }
    }

    /// The capacity types, but for `reserved`, that pods can get here which ask for `wanted`
    /// ([`wanted_capacity`]).
    pub(crate) fn capacity_types(
        &self,
        wanted: Option<&BTreeSet<&'static str>>,
    ) -> BTreeSet<&'static str> {
        let own = self.requirements.get(CAPACITY_TYPE);
        ["spot", "on-demand"]
            .into_iter()
            .filter(|t| own.is_none_or(|own| own.has(t)))
            .filter(|t| wanted.is_none_or(|wanted| wanted.contains(t)))
            .collect()
    }
}

/// A pool as the scheduler reads it; `None` where it cannot be read in full.
pub(super) fn read(object: &Object) -> Option<Pool> {
    let pool = NodePool::new(object)?;
    let unknown = pool.is_foreign()
        || object.is_partial()
        || pool.has_unknown_types()
        || pool.template_spec().get("taints").has_unknown()
        || pool.limits().has_unknown();
    (!unknown).then(|| pool.catalogue_pool())
}

/// The capacity types that a template asks for; `None` where it asks for none.
pub(crate) fn wanted_capacity(template: &Template<'_>) -> Option<BTreeSet<&'static str>> {
    let pod = pod(template)?;
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
            all.add(
                &spec.key,
                Requirement::new(spec.op, &spec.values, spec.min_values),
            );
        }
        all
    };
    pod.terms.iter().map(with).collect()
}
