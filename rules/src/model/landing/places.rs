//! Where pods may go: what the NodePools alone decide. Pods that ask the same are asked for once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::index::Index;
use crate::model::pod::pod;
use crate::model::requirement::Requirements;
use crate::model::scheduling::{Pod, Scheduler, Settings, Taint, Toleration, Verdict, tolerates};
use crate::model::workload::Template;
use crate::object::{Kind, Object};

use super::site::{POOL, Site, Sites, alternatives};

/// The pools that admit a pod, ascending.
pub(super) type Row = Arc<[usize]>;

/// How many rows are remembered; a server is asked for ever new pods.
const MAX_ROWS: usize = 4_096;

/// A pod as it is asked for.
struct Asked {
    /// Without its doubts: volumes and other pods may keep it away, and may not.
    pod: Pod,
    alternatives: Vec<Requirements>,
    /// Whether it asks for a pool by name.
    by_name: bool,
}

impl Asked {
    fn new(pod: &Pod) -> Asked {
        let alternatives = alternatives(pod);
        let pool = |asked: &Requirements| asked.get(POOL).is_some();
        Asked {
            pod: Pod {
                doubts: Vec::new(),
                ..pod.clone()
            },
            by_name: alternatives.iter().any(pool),
            alternatives,
        }
    }
}

/// The pools, and the pods that were asked for.
pub(crate) struct Places {
    pools: Vec<Object>,
    /// Made when the first pod is asked for: many inputs have none of which it matters.
    sites: OnceLock<Sites>,
    /// Rows by what the pod asks. Nothing in it depends on who asks first.
    rows: Mutex<HashMap<String, Row>>,
    settings: Settings,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places")
            .field("pools", &self.pools.len())
            .finish_non_exhaustive()
    }
}

/// What tells pods apart that ask for different things.
pub(super) fn key(pod: &Pod) -> String {
    format!("{pod:?}")
}

impl Places {
    /// Prepares what is asked; `eks` says that EKS adds tolerations to pods that ask for devices.
    pub(crate) fn new(index: &Index, eks: bool) -> Places {
        Places {
            pools: index.of(Kind::NODE_POOL).cloned().collect(),
            sites: OnceLock::new(),
            rows: Mutex::default(),
            settings: Settings {
                eks,
                ..Settings::default()
            },
        }
    }

    pub(super) fn pools(&self) -> &[Object] {
        &self.pools
    }

    pub(super) fn sites(&self) -> &Sites {
        self.sites.get_or_init(|| Sites::new(&self.pools))
    }

    /// Whether some pool cannot be read, so that pods may go where nobody knows.
    pub(crate) fn is_blind(&self) -> bool {
        self.sites().blind
    }

    /// The pools that may start nodes for the pods of a template; `None` where that is not known.
    pub(crate) fn sites_of(&self, template: &Template<'_>) -> Option<Vec<&Site>> {
        let pod = pod(template)?;
        if self.pools.is_empty() {
            return Some(Vec::new());
        }
        let rows = self.rows(std::slice::from_ref(&pod));
        let sites = &self.sites().all;
        let row = rows.first()?;
        Some(row.iter().map(|at| &sites[*at]).collect())
    }

    /// For each pod the sites that admit it.
    pub(super) fn rows(&self, pods: &[Pod]) -> Vec<Row> {
        let keys: Vec<String> = pods.iter().map(key).collect();
        let known = || self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<Option<Row>> = {
            let known = known();
            keys.iter().map(|key| known.get(key).cloned()).collect()
        };
        let missing: Vec<usize> = (0..pods.len()).filter(|at| out[*at].is_none()).collect();
        let asked: Vec<Asked> = missing.iter().map(|at| Asked::new(&pods[*at])).collect();
        let made = self.admitting(&asked);
        let mut known = known();
        if known.len() + missing.len() > MAX_ROWS {
            known.clear();
        }
        for (at, row) in missing.into_iter().zip(made) {
            let row = Row::from(row);
            known.insert(keys[at].clone(), Row::clone(&row));
            out[at] = Some(row);
        }
        out.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// For each pod the sites that admit it, ascending. Pools that differ in name and weight alone
    /// are asked once, but for pods that ask for a pool by name.
    fn admitting(&self, asked: &[Asked]) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); asked.len()];
        let sites = self.sites();
        // By kind, who may go there.
        let mut guests: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, asked) in asked.iter().enumerate() {
            if let Some(named) = sites.named(&asked.alternatives) {
                let admits = |site: &usize| self.admits(asked, &sites.all[*site], &mut None);
                rows[at].extend(named.into_iter().filter(admits));
                continue;
            }
            let kinds = sites.kinds_for(&asked.alternatives);
            for kind in kinds.unwrap_or_else(|| (0..sites.kinds.len()).collect()) {
                guests.entry(kind).or_default().push(at);
            }
        }
        for (kind, guests) in guests {
            let kind = &sites.kinds[kind];
            let Some((first, others)) = kind.split_first() else {
                continue;
            };
            let mut scheduler = None;
            for at in guests {
                let asked = &asked[at];
                let admits = |site: usize| self.admits(asked, &sites.all[site], &mut None);
                if asked.by_name {
                    rows[at].extend(kind.iter().copied().filter(|site| admits(*site)));
                } else if self.admits(asked, &sites.all[*first], &mut scheduler) {
                    rows[at].push(*first);
                    rows[at].extend(others);
                }
            }
        }
        for row in &mut rows {
            row.sort_unstable();
        }
        rows
    }

    /// Whether a site, which need not be one of these, admits a pod; the scheduler is the site's.
    pub(super) fn admits_here<'s>(
        &self,
        pod: &Pod,
        site: &'s Site,
        scheduler: &mut Option<Scheduler<'s>>,
    ) -> bool {
        self.admits(&Asked::new(pod), site, scheduler)
    }

    /// What [`Places::rows`] has to say, each site asked by itself.
    #[cfg(test)]
    pub(super) fn one_by_one(&self, pod: &Pod) -> Vec<usize> {
        let asked = Asked::new(pod);
        let admits = |at: &usize| self.admits(&asked, &self.sites().all[*at], &mut None);
        (0..self.sites().all.len()).filter(admits).collect()
    }

    /// The scheduler is made when the first pod gets as far.
    fn admits<'s>(
        &self,
        asked: &Asked,
        site: &'s Site,
        scheduler: &mut Option<Scheduler<'s>>,
    ) -> bool {
        if !self.may_go(&asked.pod, &asked.alternatives, site) {
            return false;
        }
        let pools = std::slice::from_ref(&site.pool);
        let scheduler = scheduler.get_or_insert_with(|| Scheduler::new(pools, &[], &self.settings));
        matches!(scheduler.decide(&asked.pod), Verdict::Fits { .. })
    }

    /// What is quickly compared: taints and labels.
    fn may_go(&self, pod: &Pod, alternatives: &[Requirements], site: &Site) -> bool {
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule"
                || (self.settings.eks && is_asked_for(pod, &taint.key))
                || pod
                    .tolerations
                    .iter()
                    .any(|t: &Toleration| tolerates(t, taint))
        };
        site.pool.taints.iter().all(tolerated)
            && alternatives
                .iter()
                .any(|asked| site.requirements.compatible(asked).is_ok())
    }
}

/// Whether a container names the resource.
fn is_asked_for(pod: &Pod, resource: &str) -> bool {
    let mut containers = pod.containers.iter().chain(&pod.init_containers);
    containers.any(|c| c.requests.contains_key(resource) || c.limits.contains_key(resource))
}
