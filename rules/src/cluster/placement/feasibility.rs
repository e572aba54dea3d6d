//! Where pods may go: what the NodePools alone decide. Pods that ask the same are asked for once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cluster::dependencies;
use crate::cluster::dependencies::{Topic, topic};
use crate::cluster::objects::Index;
use crate::karpenter::pod::pod;
use crate::karpenter::requirement::Requirements;
use crate::karpenter::scheduling::{Pod, Scheduler, Settings, Taint, Toleration, Verdict, tolerates};
use crate::kind::Kind;
use crate::object::Object;
use crate::workload::template::Template;

use crate::cluster::placement::pools::{POOL, SITE, Site, Sites, alternatives};

/// The pools that admit a pod, in their order; `None` where too many might.
pub(super) type Row = Option<Arc<[usize]>>;

/// How many rows are remembered; a server is asked for ever new pods.
const MAX_ROWS: usize = 4_096;
/// How many a session remembers, which has to know whose rows change.
const MAX_LIVE_ROWS: usize = 65_536;
/// How many pools a pod is asked about at most. Who has more of them in one input has the pools of
/// several clusters there, and nobody knows which pods meet which.
const MAX_SITES: usize = 500;

/// Which pools admit pods that ask for this.
const ROW: &str = "pools that take a pod";
/// Which pools admit any pods.
const ROWS: &str = "pools that take pods";
/// Whether some pool cannot be read.
const BLIND: &str = "pools that cannot be read";

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
            pod: Pod { doubts: Vec::new(), ..pod.clone() },
            by_name: alternatives.iter().any(pool),
            alternatives,
        }
    }
}

/// A pod for which somebody has asked.
struct Known {
    /// Kept in sessions, where the row changes with the pools.
    asked: Option<Asked>,
    row: Row,
}

/// Who was asked for.
#[derive(Default)]
struct Rows {
    /// By what the pod asks. Nothing in it depends on who asks first.
    known: HashMap<String, Known>,
    /// Whether there were more.
    forgot: bool,
}

/// The pools, and the pods that were asked for.
pub(crate) struct Places {
    pools: Vec<Object>,
    /// Made when the first pod is asked for: many inputs have none of which it matters.
    sites: OnceLock<Sites>,
    rows: Mutex<Rows>,
    settings: Settings,
    /// Whether the pools will change.
    live: bool,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("pools", &self.pools.len()).finish_non_exhaustive()
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
            settings: Settings { eks, ..Settings::default() },
            live: index.is_live(),
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
        dependencies::asked(|| topic(BLIND, ()));
        self.sites().blind
    }

    /// The pools that may start nodes for the pods of a template; `None` where that is not known.
    pub(crate) fn sites_of(&self, template: &Template<'_>) -> Option<Vec<&Site>> {
        let pod = pod(template)?;
        let rows = self.rows(&[(&pod, &key(&pod))]);
        let row = rows.into_iter().next()??;
        Some(row.iter().filter_map(|at| self.sites().get(*at)).collect())
    }

    /// For each pod, that comes with its key, the sites that admit it.
    pub(super) fn rows(&self, pods: &[(&Pod, &str)]) -> Vec<Row> {
        dependencies::asked(|| topic(ROWS, ()));
        if self.pools.is_empty() {
            return vec![Some(Arc::default()); pods.len()];
        }
        let known = || self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<Option<Row>> = {
            let known = known();
            let row = |key: &str| known.known.get(key).map(|known| known.row.clone());
            pods.iter().map(|(_, key)| row(key)).collect()
        };
        for (_, key) in pods {
            dependencies::asked(|| topic(ROW, key));
        }
        let missing: Vec<usize> = (0..pods.len()).filter(|at| out[*at].is_none()).collect();
        let asked: Vec<Asked> = missing.iter().map(|at| Asked::new(pods[*at].0)).collect();
        let made = self.admitting(&asked);
        let rows = &mut *known();
        let most = if self.live { MAX_LIVE_ROWS } else { MAX_ROWS };
        if rows.known.len() + missing.len() > most {
            rows.known.clear();
            rows.forgot = true;
        }
        for ((at, asked), row) in missing.into_iter().zip(asked).zip(made) {
            let asked = self.live.then_some(asked);
            let row = row.map(Arc::from);
            out[at] = Some(Row::clone(&row));
            let key = pods[at].1.to_owned();
            rows.known.insert(key, Known { asked, row });
        }
        out.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// For each pod the sites that admit it, in their order. Pools that differ in name and weight
    /// alone are asked once, but for pods that ask for a pool by name.
    fn admitting(&self, asked: &[Asked]) -> Vec<Option<Vec<usize>>> {
        let mut rows = vec![Some(Vec::new()); asked.len()];
        let sites = self.sites();
        // By kind, who may go there.
        let mut guests: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, asked) in asked.iter().enumerate() {
            match sites.candidates(&asked.alternatives, MAX_SITES) {
                None => rows[at] = None,
                Some(Candidates::Named(named)) => {
                    let admits = |site: &usize| self.admits_at(asked, *site);
                    rows[at] = Some(named.into_iter().filter(admits).collect());
                }
                Some(Candidates::Kinds(kinds)) => {
                    for kind in kinds {
                        guests.entry(kind).or_default().push(at);
                    }
                }
            }
        }
        for (kind, guests) in guests {
            let kind = &sites.kinds[kind];
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
                    row.extend(kind.iter().copied().filter(|s| self.admits_at(asked, *s)));
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
        let mut row: Vec<usize> = (self.sites().iter())
            .filter(|(_, site)| self.admits(&asked, site, &mut None))
            .map(|(at, _)| at)
            .collect();
        self.sites().sort(&mut row);
        row
    }

    fn admits_at(&self, asked: &Asked, site: usize) -> bool {
        let site = self.sites().get(site);
        site.is_some_and(|site| self.admits(asked, site, &mut None))
    }

    /// The scheduler is made when the first pod gets as far.
    fn admits<'s>(&self, asked: &Asked, site: &'s Site, scheduler: &mut Option<Scheduler<'s>>) -> bool {
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
                || pod.tolerations.iter().any(|t: &Toleration| tolerates(t, taint))
        };
        site.pool.taints.iter().all(tolerated)
            && alternatives.iter().any(|asked| site.requirements.compatible(asked).is_ok())
    }
}

impl Places {
    /// Pools have come or are gone: looks at them anew, and adds the topics of what is different.
    /// Says whether pods may go elsewhere than before, or to pools that are others now.
    pub(super) fn renew(&mut self, index: &Index, touched: &mut Vec<Topic>) -> bool {
        let was_empty = self.pools.is_empty();
        self.pools = index.of(Kind::NODE_POOL).cloned().collect();
        if was_empty != self.pools.is_empty() {
            touched.push(topic(ROWS, ()));
        }
        let Some(sites) = self.sites.get_mut() else {
            return true;
        };
        let blind = sites.blind;
        let shift = sites.change(&self.pools);
        if sites.blind != blind {
            touched.push(topic(BLIND, ()));
        }
        let written = shift.rewritten.iter();
        let names = written.chain(shift.gone.iter().map(|(_, name)| name));
        touched.extend(names.map(|name| topic(SITE, name)));
        if shift.come.is_empty() && shift.gone.is_empty() {
            return false;
        }
        let mut rows = std::mem::take(&mut self.rows);
        let all = rows.get_mut().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut all.forgot) {
            all.known.clear();
            touched.push(topic(ROWS, ()));
        }
        #[expect(clippy::iter_over_hash_type, reason = "topics are put in order by who takes them")]
        for (key, known) in &mut all.known {
            let Some(asked) = &known.asked else {
                continue;
            };
            if let Some(row) = self.renewed(asked, &known.row, &shift.come, &shift.gone) {
                known.row = row;
                touched.push(topic(ROW, key.as_str()));
            }
        }
        self.rows = rows;
        true
    }

    /// The row of a pod where it is another one now.
    fn renewed(&self, asked: &Asked, row: &Row, come: &[usize], gone: &[(usize, String)]) -> Option<Row> {
        let sites = self.sites();
        let is_gone = |at: &usize| gone.binary_search_by_key(at, |(gone, _)| *gone).is_ok();
        let concerned: Vec<usize> =
            (come.iter().copied()).filter(|at| sites.concerns(*at, &asked.alternatives)).collect();
        if let Some(row) = row
            && concerned.is_empty()
            && !row.iter().any(is_gone)
        {
            return None;
        }
        let few = sites.len() <= MAX_SITES || sites.candidates(&asked.alternatives, MAX_SITES).is_some();
        let row = match (row, few) {
            (None, false) => return None,
            (Some(_), false) => return Some(None),
            (None, true) => {
                let made = self.admitting(std::slice::from_ref(asked)).into_iter();
                return Some(made.flatten().next().map(Arc::from));
            }
            (Some(row), true) => row,
        };
        let mut new: Vec<usize> = row.iter().copied().filter(|at| !is_gone(at)).collect();
        let left = new.len();
        new.extend((concerned.into_iter()).filter(|at| self.admits_at(asked, *at)));
        if left == row.len() && new.len() == left {
            return None;
        }
        sites.sort(&mut new);
        Some(Some(Arc::from(new)))
    }
}

/// Where a pod has to be asked about.
pub(super) enum Candidates {
    /// Sites, by their names.
    Named(Vec<usize>),
    /// Kinds of them.
    Kinds(Vec<usize>),
}

impl Sites {
    /// The sites to ask about a pod with these alternatives; `None` if there are more than `most`.
    fn candidates(&self, alternatives: &[Requirements], most: usize) -> Option<Candidates> {
        if let Some(named) = self.named(alternatives) {
            let few = named.len() <= most;
            return few.then(|| Candidates::Named(named.into_iter().collect()));
        }
        let kinds: Vec<usize> = match self.kinds_for(alternatives) {
            Some(kinds) => kinds.into_iter().collect(),
            None if self.len() > most => return None,
            None => (0..self.kinds.len()).collect(),
        };
        let sites: usize = kinds.iter().map(|kind| self.kinds[*kind].len()).sum();
        (sites <= most).then_some(Candidates::Kinds(kinds))
    }
}

/// Whether a container names the resource.
fn is_asked_for(pod: &Pod, resource: &str) -> bool {
    let mut containers = pod.containers.iter().chain(&pod.init_containers);
    containers.any(|c| c.requests.contains_key(resource) || c.limits.contains_key(resource))
}
