//! Where pods may go: what the NodePools alone decide. Pods that ask the same are asked for once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{DependencyKey, dependency_key};
use crate::cluster::objects::Index;
use crate::karpenter::pod::to_scheduling_pod;
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::{Pod, Scheduler, SchedulerOptions, Taint, Toleration, Verdict, tolerates};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::template::Template;

use crate::cluster::placement::pools::{
    CandidatePool, CandidatePools, NODEPOOL_LABEL, POOL_SPEC, alternatives,
};

/// The pools that admit a pod, in their order; `None` where too many might.
pub(super) type FeasiblePools = Option<Arc<[usize]>>;

/// How many rows are remembered; a server is asked for ever new pods.
const MAX_CACHED_RESULTS: usize = 4_096;
/// How many a session remembers, which has to know whose rows change.
const MAX_LIVE_CACHED_RESULTS: usize = 65_536;
/// How many pools a pod is asked about at most. Who has more of them in one input has the pools of
/// several clusters there, and nobody knows which pods meet which.
const MAX_CANDIDATES: usize = 500;

/// Which pools admit pods that ask for this.
const FEASIBLE_POOLS: &str = "pools that take a pod";
/// Which pools admit any pods.
const ALL_RESULTS: &str = "pools that take pods";
/// Whether some pool cannot be read.
const UNREADABLE_POOLS: &str = "pools that cannot be read";

/// A pod as it is asked for.
struct FeasibilityQuery {
    /// Without its doubts: volumes and other pods may keep it away, and may not.
    pod: Pod,
    alternatives: Vec<Requirements>,
    /// Whether it asks for a pool by name.
    by_name: bool,
}

impl FeasibilityQuery {
    fn new(pod: &Pod) -> FeasibilityQuery {
        let alternatives = alternatives(pod);
        let pool = |asked: &Requirements| asked.get(NODEPOOL_LABEL).is_some();
        FeasibilityQuery {
            pod: Pod { uncertainties: Vec::new(), ..pod.clone() },
            by_name: alternatives.iter().any(pool),
            alternatives,
        }
    }
}

/// A pod for which somebody has asked.
struct CachedResult {
    /// Kept in sessions, where the row changes with the pools.
    query: Option<FeasibilityQuery>,
    pools: FeasiblePools,
}

/// Who was asked for.
#[derive(Default)]
struct ResultCache {
    /// By what the pod asks. Nothing in it depends on who asks first.
    results: HashMap<String, CachedResult>,
    /// Whether there were more.
    evicted: bool,
}

/// The pools, and the pods that were asked for.
pub(crate) struct Feasibility {
    pools: Vec<Object>,
    /// Made when the first pod is asked for: many inputs have none of which it matters.
    candidates: OnceLock<CandidatePools>,
    cache: Mutex<ResultCache>,
    settings: SchedulerOptions,
    /// Whether the pools will change.
    live: bool,
}

impl std::fmt::Debug for Feasibility {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("pools", &self.pools.len()).finish_non_exhaustive()
    }
}

/// What tells pods apart that ask for different things.
pub(super) fn pod_key(pod: &Pod) -> String {
    format!("{pod:?}")
}

impl Feasibility {
    /// Prepares what is asked; `eks` says that EKS adds tolerations to pods that ask for devices.
    pub(crate) fn new(index: &Index, eks: bool) -> Feasibility {
        Feasibility {
            pools: index.of(Kind::NODE_POOL).cloned().collect(),
            candidates: OnceLock::new(),
            cache: Mutex::default(),
            settings: SchedulerOptions { eks, ..SchedulerOptions::default() },
            live: index.is_incremental(),
        }
    }

    pub(super) fn pools(&self) -> &[Object] {
        &self.pools
    }

    pub(super) fn candidates(&self) -> &CandidatePools {
        self.candidates.get_or_init(|| CandidatePools::new(&self.pools))
    }

    /// Whether some pool cannot be read, so that pods may go where nobody knows.
    pub(crate) fn has_unreadable_pools(&self) -> bool {
        dependencies::record_read(|| dependency_key(UNREADABLE_POOLS, ()));
        self.candidates().has_unreadable_pools
    }

    /// The pools that may start nodes for the pods of a template; `None` where that is not known.
    pub(crate) fn feasible_pools_of(&self, template: &Template<'_>) -> Option<Vec<&CandidatePool>> {
        let pod = to_scheduling_pod(template)?;
        let rows = self.feasible_pools(&[(&pod, &pod_key(&pod))]);
        let row = rows.into_iter().next()??;
        Some(row.iter().filter_map(|at| self.candidates().get(*at)).collect())
    }

    /// For each pod, that comes with its key, the sites that admit it.
    pub(super) fn feasible_pools(&self, pods: &[(&Pod, &str)]) -> Vec<FeasiblePools> {
        dependencies::record_read(|| dependency_key(ALL_RESULTS, ()));
        if self.pools.is_empty() {
            return vec![Some(Arc::default()); pods.len()];
        }
        let known = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<Option<FeasiblePools>> = {
            let known = known();
            let row = |key: &str| known.results.get(key).map(|known| known.pools.clone());
            pods.iter().map(|(_, key)| row(key)).collect()
        };
        for (_, key) in pods {
            dependencies::record_read(|| dependency_key(FEASIBLE_POOLS, key));
        }
        let missing: Vec<usize> = (0..pods.len()).filter(|at| out[*at].is_none()).collect();
        let asked: Vec<FeasibilityQuery> =
            missing.iter().map(|at| FeasibilityQuery::new(pods[*at].0)).collect();
        let made = self.evaluate(&asked);
        let rows = &mut *known();
        let most = if self.live { MAX_LIVE_CACHED_RESULTS } else { MAX_CACHED_RESULTS };
        if rows.results.len() + missing.len() > most {
            rows.results.clear();
            rows.evicted = true;
        }
        for ((at, asked), row) in missing.into_iter().zip(asked).zip(made) {
            let asked = self.live.then_some(asked);
            let row = row.map(Arc::from);
            out[at] = Some(FeasiblePools::clone(&row));
            let key = pods[at].1.to_owned();
            rows.results.insert(key, CachedResult { query: asked, pools: row });
        }
        out.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// For each pod the sites that admit it, in their order. Pools that differ in name and weight
    /// alone are asked once, but for pods that ask for a pool by name.
    fn evaluate(&self, asked: &[FeasibilityQuery]) -> Vec<Option<Vec<usize>>> {
        let mut rows = vec![Some(Vec::new()); asked.len()];
        let sites = self.candidates();
        // By kind, who may go there.
        let mut guests: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, asked) in asked.iter().enumerate() {
            match sites.select(&asked.alternatives, MAX_CANDIDATES) {
                None => rows[at] = None,
                Some(Selection::Pools(named)) => {
                    let admits = |site: &usize| self.candidate_admits(asked, *site);
                    rows[at] = Some(named.into_iter().filter(admits).collect());
                }
                Some(Selection::Classes(kinds)) => {
                    for kind in kinds {
                        guests.entry(kind).or_default().push(at);
                    }
                }
            }
        }
        for (kind, guests) in guests {
            let kind = &sites.classes[kind];
            let Some(first) = kind.first().and_then(|at| sites.get(*at)) else {
                continue;
            };
            let mut scheduler = None;
            for at in guests {
                let asked = &asked[at];
                let Some(row) = &mut rows[at] else {
                    continue;
                };
                if asked.by_name {
                    row.extend(kind.iter().copied().filter(|s| self.candidate_admits(asked, *s)));
                } else if self.admits(asked, first, &mut scheduler) {
                    row.extend(kind);
                }
            }
        }
        for row in rows.iter_mut().flatten() {
            sites.sort(row);
        }
        rows
    }

    /// Whether a site, which need not be one of these, admits a pod; the scheduler is the site's.
    pub(super) fn pool_admits<'s>(
        &self,
        pod: &Pod,
        site: &'s CandidatePool,
        scheduler: &mut Option<Scheduler<'s>>,
    ) -> bool {
        self.admits(&FeasibilityQuery::new(pod), site, scheduler)
    }

    /// What [`Places::rows`] has to say, each site asked by itself.
    #[cfg(test)]
    pub(super) fn brute_force(&self, pod: &Pod) -> Vec<usize> {
        let asked = FeasibilityQuery::new(pod);
        let mut row: Vec<usize> = (self.candidates().iter())
            .filter(|(_, site)| self.admits(&asked, site, &mut None))
            .map(|(at, _)| at)
            .collect();
        self.candidates().sort(&mut row);
        row
    }

    fn candidate_admits(&self, asked: &FeasibilityQuery, site: usize) -> bool {
        let site = self.candidates().get(site);
        site.is_some_and(|site| self.admits(asked, site, &mut None))
    }

    /// The scheduler is made when the first pod gets as far.
    fn admits<'s>(
        &self,
        asked: &FeasibilityQuery,
        site: &'s CandidatePool,
        scheduler: &mut Option<Scheduler<'s>>,
    ) -> bool {
        if !self.passes_prefilter(&asked.pod, &asked.alternatives, site) {
            return false;
        }
        let pools = std::slice::from_ref(&site.pool);
        let scheduler = scheduler.get_or_insert_with(|| Scheduler::new(pools, &[], &self.settings));
        matches!(scheduler.decide(&asked.pod), Verdict::Fits { .. })
    }

    /// What is quickly compared: taints and labels.
    fn passes_prefilter(&self, pod: &Pod, alternatives: &[Requirements], site: &CandidatePool) -> bool {
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule"
                || (self.settings.eks && is_requested(pod, &taint.key))
                || pod.tolerations.iter().any(|t: &Toleration| tolerates(t, taint))
        };
        site.pool.taints.iter().all(tolerated)
            && alternatives.iter().any(|asked| site.requirements.compatible(asked).is_ok())
    }
}

impl Feasibility {
    /// Pools have come or are gone: looks at them anew, and adds the topics of what is different.
    /// Says whether pods may go elsewhere than before, or to pools that are others now.
    pub(super) fn update(&mut self, index: &Index, touched: &mut Vec<DependencyKey>) -> bool {
        let was_empty = self.pools.is_empty();
        self.pools = index.of(Kind::NODE_POOL).cloned().collect();
        if was_empty != self.pools.is_empty() {
            touched.push(dependency_key(ALL_RESULTS, ()));
        }
        let Some(sites) = self.candidates.get_mut() else {
            return true;
        };
        let blind = sites.has_unreadable_pools;
        let shift = sites.update(&self.pools);
        if sites.has_unreadable_pools != blind {
            touched.push(dependency_key(UNREADABLE_POOLS, ()));
        }
        let written = shift.replaced.iter();
        let names = written.chain(shift.removed.iter().map(|(_, name)| name));
        touched.extend(names.map(|name| dependency_key(POOL_SPEC, name)));
        if shift.added.is_empty() && shift.removed.is_empty() {
            return false;
        }
        let mut rows = std::mem::take(&mut self.cache);
        let all = rows.get_mut().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut all.evicted) {
            all.results.clear();
            touched.push(dependency_key(ALL_RESULTS, ()));
        }
        #[expect(clippy::iter_over_hash_type, reason = "topics are put in order by who takes them")]
        for (key, known) in &mut all.results {
            let Some(asked) = &known.query else {
                continue;
            };
            if let Some(row) = self.updated_result(asked, &known.pools, &shift.added, &shift.removed) {
                known.pools = row;
                touched.push(dependency_key(FEASIBLE_POOLS, key.as_str()));
            }
        }
        self.cache = rows;
        true
    }

    /// The row of a pod where it is another one now.
    fn updated_result(
        &self,
        asked: &FeasibilityQuery,
        row: &FeasiblePools,
        come: &[usize],
        gone: &[(usize, String)],
    ) -> Option<FeasiblePools> {
        let sites = self.candidates();
        let is_gone = |at: &usize| gone.binary_search_by_key(at, |(gone, _)| *gone).is_ok();
        let concerned: Vec<usize> =
            (come.iter().copied()).filter(|at| sites.may_match(*at, &asked.alternatives)).collect();
        if let Some(row) = row
            && concerned.is_empty()
            && !row.iter().any(is_gone)
        {
            return None;
        }
        let few =
            sites.len() <= MAX_CANDIDATES || sites.select(&asked.alternatives, MAX_CANDIDATES).is_some();
        let row = match (row, few) {
            (None, false) => return None,
            (Some(_), false) => return Some(None),
            (None, true) => {
                let made = self.evaluate(std::slice::from_ref(asked)).into_iter();
                return Some(made.flatten().next().map(Arc::from));
            }
            (Some(row), true) => row,
        };
        let mut new: Vec<usize> = row.iter().copied().filter(|at| !is_gone(at)).collect();
        let left = new.len();
        new.extend((concerned.into_iter()).filter(|at| self.candidate_admits(asked, *at)));
        if left == row.len() && new.len() == left {
            return None;
        }
        sites.sort(&mut new);
        Some(Some(Arc::from(new)))
    }
}

/// Where a pod has to be asked about.
pub(super) enum Selection {
    /// Sites, by their names.
    Pools(Vec<usize>),
    /// Kinds of them.
    Classes(Vec<usize>),
}

impl CandidatePools {
    /// The sites to ask about a pod with these alternatives; `None` if there are more than `most`.
    fn select(&self, alternatives: &[Requirements], most: usize) -> Option<Selection> {
        if let Some(named) = self.named_pools(alternatives) {
            let few = named.len() <= most;
            return few.then(|| Selection::Pools(named.into_iter().collect()));
        }
        let kinds: Vec<usize> = match self.classes_for(alternatives) {
            Some(kinds) => kinds.into_iter().collect(),
            None if self.len() > most => return None,
            None => (0..self.classes.len()).collect(),
        };
        let sites: usize = kinds.iter().map(|kind| self.classes[*kind].len()).sum();
        (sites <= most).then_some(Selection::Classes(kinds))
    }
}

/// Whether a container names the resource.
fn is_requested(pod: &Pod, resource: &str) -> bool {
    let mut containers = pod.containers.iter().chain(&pod.init_containers);
    containers.any(|c| c.requests.contains_key(resource) || c.limits.contains_key(resource))
}
