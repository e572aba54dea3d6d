//! The workloads whose pods go elsewhere after a change.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use serde_json::Value;

use crate::fit::{
    Answer, Explanation, FitVerdict, Ignored, Obstacle, Proposes, VOLUME_KINDS, starts_nodes, workloads,
};
use crate::karpenter::scheduling::{Scheduler, Uncertainty};
use crate::kind::Kind;
use crate::object::{Object, ObjectKey};
use crate::plan::View;
use crate::tree::pointer::Pointer;
use crate::workload::template::{Template, templates};

/// Number of pools whose reasons are computed for pods that fit nowhere.
const NEAREST: usize = 1;

/// The kinds that decide where the pods of an unchanged workload go.
const AROUND: [Kind; 6] = [
    Kind::NODE_POOL,
    Kind::EC2_NODE_CLASS,
    Kind::DAEMON_SET,
    Kind::NODE_OVERLAY,
    Kind::RUNTIME_CLASS,
    Kind::SECURITY_GROUP_POLICY,
];

/// Where the pods of a template go on one side.
#[derive(Clone, Debug)]
pub struct Landing {
    pub verdict: FitVerdict,
    /// Whether there is a NodePool at all.
    pub has_pools: bool,
    /// The pool on which they land first.
    pub pool: Option<Object>,
    /// The names of all pools that admit them, in the order in which Karpenter tries them.
    pub pools: Vec<String>,
    /// The capacity types of the first pool in the order in which Karpenter prefers them.
    pub capacity_types: Vec<&'static str>,
    /// The architectures of the types of the first pool, sorted.
    pub architectures: Vec<&'static str>,
    /// The pool that needs the fewest changes to admit them, with its reasons, if none admits them.
    pub nearest: Option<(Object, Vec<Obstacle>)>,
    pub ignored: Option<Ignored>,
    pub uncertainties: Vec<Uncertainty>,
}

/// What is different about the place of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// No pool admits them any more.
    Lost,
    /// Whether a pool admits them is no longer known.
    Uncertain,
    /// Their first capacity type is another one.
    CapacityType,
    /// They land on another pool first.
    Pool,
    /// They may land on another architecture.
    Architecture,
    /// A pool that is not the first no longer admits them.
    Loses,
    /// Another pool admits them as well.
    Gains,
    /// A pool admits them, which was not so before.
    Found,
    /// That a pool admits them is known now.
    Certain,
    /// The workload is new.
    New,
    /// The workload is no longer there.
    Gone,
}

impl Turn {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Turn::Lost => "fits-nowhere",
            Turn::Uncertain => "uncertain",
            Turn::CapacityType => "capacity-type",
            Turn::Pool => "first-pool",
            Turn::Architecture => "architecture",
            Turn::Loses => "loses-pool",
            Turn::Gains => "gains-pool",
            Turn::Found => "fits-again",
            Turn::Certain => "certain",
            Turn::New => "new",
            Turn::Gone => "gone",
        }
    }
}

/// A workload whose pods go elsewhere.
#[derive(Clone, Debug)]
pub struct Move {
    /// The new version, or the old one if the workload is gone.
    pub workload: Object,
    pub spec: Pointer,
    /// The number of templates of the workload, of both sides together.
    pub templates: usize,
    pub before: Option<Landing>,
    pub after: Option<Landing>,
    /// What is different, the worst first.
    pub turns: Vec<Turn>,
}

impl Move {
    /// Whether the pods fit nowhere after the change, and did before or were not there.
    #[must_use]
    pub fn fits_nowhere(&self) -> bool {
        self.after.as_ref().is_some_and(|landing| landing.verdict == FitVerdict::DoesNotFit)
    }
}

/// The workloads of a side for whose pods Karpenter starts nodes; of several with one identity the first.
pub(super) fn by_key<'v>(view: &View<'v>) -> BTreeMap<ObjectKey, &'v Object> {
    let mut all = BTreeMap::new();
    for workload in workloads(view.side.cluster).filter(|workload| starts_nodes(workload)) {
        all.entry(workload.id().key()).or_insert(workload);
    }
    all
}

/// Like [`by_key`], with all of several workloads with one identity.
fn all_by_key<'v>(view: &View<'v>) -> BTreeMap<ObjectKey, Vec<&'v Object>> {
    let mut all: BTreeMap<ObjectKey, Vec<&'v Object>> = BTreeMap::new();
    for workload in workloads(view.side.cluster).filter(|workload| starts_nodes(workload)) {
        all.entry(workload.id().key()).or_default().push(workload);
    }
    all
}

/// The workloads whose pods go elsewhere, those that fit nowhere first.
pub(super) fn moves(before: &View<'_>, after: &View<'_>) -> Vec<Move> {
    let (old, new) = (all_by_key(before), all_by_key(after));
    let is_around_same = before.side.platform == after.side.platform && around(before) == around(after);
    let keys: BTreeSet<&ObjectKey> = old.keys().chain(new.keys()).collect();
    let schedulers = (before.situation.scheduler(), after.situation.scheduler());
    let versions = |key: &ObjectKey| {
        let of = |side: &BTreeMap<ObjectKey, Vec<_>>| side.get(key).cloned().unwrap_or_default();
        crate::plan::nodes::versions(&of(&old), &of(&new))
    };
    let pairs: Vec<(Option<&Object>, Option<&Object>)> = keys.into_iter().flat_map(versions).collect();
    let is_same = |old: Option<&Object>, new: Option<&Object>| {
        is_around_same && old.zip(new).is_some_and(|(old, new)| spec_of(old) == spec_of(new))
    };
    let changed = pairs.into_par_iter().filter(|(old, new)| !is_same(*old, *new));
    let of_pair = |pair| of_workload(pair, (before, after), (&schedulers.0, &schedulers.1));
    let mut moves: Vec<Move> = changed.flat_map_iter(of_pair).collect();
    moves.sort_by_key(|one| (!one.fits_nowhere(), one.turns.first().copied()));
    moves
}

/// What decides where the pods of all workloads go.
fn around(view: &View<'_>) -> Vec<(ObjectKey, Value)> {
    let kinds = AROUND.iter().chain(&VOLUME_KINDS);
    let objects = kinds.flat_map(|kind| crate::fit::objects(view.side.cluster, *kind, None));
    let mut all: Vec<_> = objects.map(|object| (object.id().key(), object.root().to_json())).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// What decides where the pods of a workload go, if nothing around it changes.
fn spec_of(workload: &Object) -> Value {
    workload.root().to_json()
}

fn of_workload(
    (old, new): (Option<&Object>, Option<&Object>),
    (before, after): (&View<'_>, &View<'_>),
    schedulers: (&Scheduler<'_>, &Scheduler<'_>),
) -> Vec<Move> {
    let explain = |view: &View<'_>,
                   scheduler: &Scheduler<'_>,
                   workload: Option<&Object>|
     -> BTreeMap<String, (Pointer, Landing)> {
        let Some(workload) = workload else { return BTreeMap::new() };
        let explained = view.situation.explain_with(scheduler, workload, NEAREST);
        let landing = |(one, template): (Explanation, Template<'_>)| {
            let (text, spec) = (place_of(workload, &one.spec), one.spec.clone());
            let mut landing = Landing::of(one, view);
            // The same as the rule about it says.
            if landing.verdict == FitVerdict::DoesNotFit
                && landing.ignored.is_none()
                && let Some(miss) = view.situation.nearest_miss(workload, &template, Proposes::Changes)
            {
                landing.nearest = Some((miss.pool, miss.obstacles));
            }
            (text, (spec, landing))
        };
        explained.into_iter().zip(templates(workload)).map(landing).collect()
    };
    let (mut old_landings, mut new_landings) =
        (explain(before, schedulers.0, old), explain(after, schedulers.1, new));
    let specs: BTreeSet<String> = old_landings.keys().chain(new_landings.keys()).cloned().collect();
    let templates = specs.len();
    let one = |spec: String| {
        let (before, after) = (old_landings.remove(&spec), new_landings.remove(&spec));
        let pointer = after.as_ref().or(before.as_ref()).map(|(pointer, _)| pointer.clone())?;
        let (before, after) = (before.map(|(_, one)| one), after.map(|(_, one)| one));
        let turns = turns(before.as_ref(), after.as_ref());
        let workload = if after.is_some() { new.or(old) } else { old.or(new) }?;
        let workload = workload.clone();
        (!turns.is_empty()).then(|| Move { workload, spec: pointer, templates, before, after, turns })
    };
    specs.into_iter().filter_map(one).collect()
}

/// The place of a template in its workload, with the names of the items of lists: an item that comes or goes moves no other.
fn place_of(workload: &Object, spec: &Pointer) -> String {
    let mut node = workload.root();
    let mut place = String::new();
    for step in spec.steps() {
        let item = step.parse().ok().filter(|_| node.is_sequence());
        node = item.map_or_else(|| node.get(step), |at| node.index(at));
        let name = ["groupName", "name"].into_iter().find_map(|name| node.get(name).text());
        place.push('/');
        place.push_str(item.and(name).unwrap_or(step));
    }
    place
}

impl Landing {
    fn of(explained: Explanation, view: &View<'_>) -> Landing {
        let mut landing = Landing {
            verdict: explained.verdict,
            has_pools: !view.situation.is_empty(),
            pool: explained.first_pool().map(|report| report.object.clone()),
            pools: Vec::new(),
            capacity_types: Vec::new(),
            architectures: Vec::new(),
            nearest: None,
            ignored: explained.ignored.clone(),
            uncertainties: explained.uncertainties.clone(),
        };
        for report in &explained.pools {
            if let Answer::Admits { .. } = report.answer {
                landing.pools.push(report.object.name().to_owned());
            }
        }
        if let Some(Answer::Admits { types, capacity_types, .. }) =
            explained.first_pool().map(|report| &report.answer)
        {
            landing.capacity_types.clone_from(capacity_types);
            landing.architectures = types.iter().map(|instance| instance.arch).collect();
            landing.architectures.sort_unstable();
            landing.architectures.dedup();
        }
        if landing.verdict == FitVerdict::DoesNotFit {
            let nearest = explained.nearest().first().map(|at| &explained.pools[*at]);
            if let Some((report, Answer::Rejects { obstacles, .. })) =
                nearest.map(|report| (report, &report.answer))
            {
                landing.nearest = Some((report.object.clone(), obstacles.clone()));
            }
        }
        landing
    }
}

/// What is different between two places of pods, the worst first.
fn turns(before: Option<&Landing>, after: Option<&Landing>) -> Vec<Turn> {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (None, Some(_)) => return vec![Turn::New],
        (Some(_), None) => return vec![Turn::Gone],
        (None, None) => return Vec::new(),
    };
    let mut turns = Vec::new();
    match (before.verdict, after.verdict) {
        (FitVerdict::DoesNotFit, FitVerdict::DoesNotFit) | (FitVerdict::Unknown, FitVerdict::Unknown) => {}
        // Where there is no NodePool, they may have other nodes.
        (FitVerdict::Unknown, FitVerdict::DoesNotFit) if !after.has_pools => {}
        (FitVerdict::DoesNotFit, FitVerdict::Unknown) if !before.has_pools => {}
        (_, FitVerdict::DoesNotFit) => turns.push(Turn::Lost),
        (FitVerdict::DoesNotFit, _) => turns.push(Turn::Found),
        (_, FitVerdict::Unknown) => turns.push(Turn::Uncertain),
        (FitVerdict::Unknown, _) => turns.push(Turn::Certain),
        (FitVerdict::Fits, FitVerdict::Fits) => {
            let name = |landing: &Landing| landing.pool.as_ref().map(|pool| pool.name().to_owned());
            if before.capacity_types.first() != after.capacity_types.first() {
                turns.push(Turn::CapacityType);
            }
            if name(before) != name(after) {
                turns.push(Turn::Pool);
            }
            if before.architectures != after.architectures {
                turns.push(Turn::Architecture);
            }
            if before.pools.iter().any(|pool| !after.pools.contains(pool)) {
                turns.push(Turn::Loses);
            }
            if after.pools.iter().any(|pool| !before.pools.contains(pool)) {
                turns.push(Turn::Gains);
            }
        }
    }
    turns
}
