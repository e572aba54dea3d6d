//! What a change of manifests does to a cluster: which nodes Karpenter replaces and how long that takes, where pods go
//! then, and what it costs. `gpulint plan`.
//!
//! ```text
//! before: Cluster ─┐                ┌─► edits ─► drift ─► PoolPlan ─► Rollout (budgets, drains)
//!                  ├─► plan(…) ─────┼─► placement on both sides ─► Move
//! after:  Cluster ─┘                └─► capacity on both sides ─► Money, by pool, with causes
//! ```
//!
//! Both sides are whole sets of manifests. Everything follows from them alone: no running node is known.

mod edits;
mod money;
mod nodes;
mod pods;
mod replicas;
mod rollout;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::cluster::Cluster;
use crate::fit::{Capacity, Situation};
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Platform;

pub use crate::fit::shown_name;
pub use edits::{Edit, Effect};
pub use money::{Bill, Money, MoneyCause, PoolMoney, left_out};
pub use nodes::{ClassPlan, Fate, NodeCount, PoolPlan};
pub use pods::{Landing, Move, Turn};
pub use replicas::{PodCount, Range, Resized};
pub use rollout::{ASSUMED_START_MINUTES, BudgetText, Holder, Rollout};

/// One side of a change: the objects of a set, and the versions that they are for.
#[derive(Clone, Copy)]
pub struct Side<'c> {
    pub cluster: &'c Cluster,
    pub platform: &'c Platform,
}

/// What a change does to the cluster of a set.
#[derive(Clone, Debug)]
pub struct SetPlan {
    /// The NodePools that change themselves or by their EC2NodeClass, those whose nodes are replaced first.
    pub pools: Vec<PoolPlan>,
    /// The EC2NodeClasses and other objects beside NodePools that change, and that no NodePool of the set shows.
    pub classes: Vec<ClassPlan>,
    /// The workloads whose pods go elsewhere, those that no longer fit first.
    pub moves: Vec<Move>,
    /// The workloads that are new or gone, or run another number of pods.
    pub resized: Vec<Resized>,
    /// What nodes cost before and after; `None` if that does not change, or there are no NodePools.
    pub money: Option<Money>,
}

impl SetPlan {
    /// Whether the change does nothing that is reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
            && self.classes.is_empty()
            && self.moves.is_empty()
            && self.resized.is_empty()
            && self.money.is_none()
    }

    /// Whether nodes that exist are replaced or removed, or may be.
    #[must_use]
    pub fn replaces_nodes(&self) -> bool {
        self.pools.iter().any(|pool| pool.fate.costs_nodes())
            || self.classes.iter().any(|class| class.fate.costs_nodes())
    }
}

/// The scheduler's view of a side, and the capacity that its pods need; both are computed only if they are asked for.
pub(crate) struct View<'c> {
    side: Side<'c>,
    situation: Situation<'c>,
    capacity: OnceLock<Capacity>,
    tenants: OnceLock<BTreeMap<String, Vec<Object>>>,
}

impl<'c> View<'c> {
    fn of(side: Side<'c>) -> View<'c> {
        let situation = Situation::read(side.cluster, side.platform, None);
        View { side, situation, capacity: OnceLock::new(), tenants: OnceLock::new() }
    }

    fn capacity(&self) -> &Capacity {
        self.capacity.get_or_init(|| self.situation.capacity(self.side.cluster))
    }

    /// The workloads whose pods land on a pool first.
    fn tenants(&self, pool: &str) -> &[Object] {
        let all = self.tenants.get_or_init(|| {
            let mut all: BTreeMap<String, Vec<Object>> = BTreeMap::new();
            for (pool, workload) in self.situation.first_choices(self.side.cluster) {
                all.entry(pool.name().to_owned()).or_default().push(workload.clone());
            }
            all
        });
        all.get(pool).map_or(&[], Vec::as_slice)
    }
}

/// Compares the two sides of a change to one set. `counts` has the number of running nodes of NodePools, by name, as
/// far as the caller knows them.
#[must_use]
pub fn plan(before: Side<'_>, after: Side<'_>, counts: &BTreeMap<String, u64>) -> SetPlan {
    let (before, mut after) = (View::of(before), View::of(after));
    after.situation.take_known(&before.situation);
    let has_pools = !before.situation.is_empty() || !after.situation.is_empty();
    if has_pools {
        // Placing all pods takes most of the time: 44 s, and not 56, in the dev profile with 3,000 files and two cores.
        rayon::join(|| before.capacity(), || after.capacity());
    }
    let mut pools = nodes::pools(&before, &after, counts);
    let classes = nodes::classes(before.side, after.side, &pools);
    let counts = (replicas::of(&before), replicas::of(&after));
    let resized = replicas::resized(&counts.0, &counts.1);
    if !has_pools {
        return SetPlan { pools, classes, moves: Vec::new(), resized, money: None };
    }
    let moves = pods::moves(&before, &after);
    rollout::hold(&mut pools, &moves, &before);
    let money = money::compare(&before, &after, &counts, &moves);
    SetPlan { pools, classes, moves, resized, money }
}

/// What becomes of the nodes of the NodePools that a change touches, as [`plan`] says it, and what the edits of each class and
/// NodeOverlay do to nodes; without the number of nodes, pods and dollars. No pod is placed, so that an editor can ask after
/// each edit.
#[must_use]
pub fn fates(before: Side<'_>, after: Side<'_>) -> (Vec<PoolPlan>, Vec<ClassPlan>) {
    let pools: Vec<PoolPlan> = nodes::fates(before, after).into_iter().map(|(_, plan)| plan).collect();
    (pools, nodes::classes(before, after, &[]))
}

/// The objects of a kind by name; of several with one name, which cannot be applied together, the first.
fn by_name(cluster: &Cluster, kind: Kind) -> BTreeMap<String, Object> {
    let mut all = BTreeMap::new();
    for object in crate::fit::objects(cluster, kind, None) {
        all.entry(shown_name(&object)).or_insert(object);
    }
    all
}
