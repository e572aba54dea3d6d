//! Which nodes Karpenter replaces, NodePool by NodePool.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::Cluster;
use crate::fit::{Offer, PoolLoad, class_object};
use crate::karpenter::drift::{self, Drift};
use crate::kind::Kind;
use crate::object::Object;
use crate::plan::edits::{self, Edit, Effect};
use crate::plan::rollout::{self, Rollout};
use crate::plan::{Side, View, by_name, shown_name};

/// What becomes of the nodes of a NodePool, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The NodePool is no longer there: where it is deleted, Karpenter drains its nodes without asking budgets.
    Removed,
    /// All are replaced.
    All,
    /// The nodes that no longer meet the requirements are replaced.
    Some,
    /// That depends on something that is not in the files.
    Unknown,
    /// The API server rejects all edits, so that nothing happens.
    Refused,
    /// None is replaced.
    None,
    /// The NodePool is new.
    Added,
}

impl Fate {
    /// `removed`, `all`, `some`, `unknown`, `refused`, `none` or `added`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::Removed => "removed",
            Fate::All => "all",
            Fate::Some => "some",
            Fate::Unknown => "unknown",
            Fate::Refused => "refused",
            Fate::None => "none",
            Fate::Added => "added",
        }
    }

    /// What edits do to nodes together, the worst first.
    #[must_use]
    pub fn of(edits: &[Edit]) -> Fate {
        let has = |is: fn(&Effect) -> bool| edits.iter().any(|edit| is(&edit.effect));
        match () {
            () if !edits.is_empty() && edits.iter().all(|edit| edit.effect.is_refused()) => Fate::Refused,
            () if has(Effect::replaces_all) => Fate::All,
            () if has(|effect| matches!(effect, Effect::Unknown | Effect::Selects)) => Fate::Unknown,
            () if has(Effect::costs_nodes) => Fate::Some,
            () => Fate::None,
        }
    }

    /// Whether nodes are replaced or removed, as far as the files show.
    #[must_use]
    pub fn costs_nodes(self) -> bool {
        matches!(self, Fate::Removed | Fate::All | Fate::Some)
    }
}

/// The number of running nodes of a NodePool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// What the user says.
    Stated(u64),
    /// With the fewest and the most replicas of all workloads, as `gpulint pools --capacity` packs them.
    Packed(u64, u64),
    Unknown,
}

/// What a change does to the nodes of a NodePool.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    pub name: String,
    /// The new version, or the old one if the NodePool is removed.
    pub object: Object,
    pub fate: Fate,
    /// The edits of the NodePool and of its EC2NodeClass; those that replace nodes first.
    pub edits: Vec<Edit>,
    pub nodes: NodeCount,
    /// How the replacement goes on; `None` if no node is replaced.
    pub rollout: Option<Rollout>,
    /// The nodes that it starts, if it is new and that is known.
    pub offer: Option<Offer>,
}

/// A changed EC2NodeClass that no NodePool of the set uses, or another changed object that has to do with nodes.
#[derive(Clone, Debug)]
pub struct ClassPlan {
    pub object: Object,
    pub fate: Fate,
    pub edits: Vec<Edit>,
    /// Whether it counts for new nodes alone: the NodePools here that use it are new, or are left by their nodes anyway.
    pub is_for_new_nodes: bool,
}

impl ClassPlan {
    /// The plan of an object with some edits; `None` without any.
    fn of(object: Object, edits: Vec<Edit>) -> Option<ClassPlan> {
        let fate = match Fate::of(&edits) {
            // Before 0.33 a feature gate decides, which is off as released (core 0.31 and 0.32 pkg/apis/settings/settings.go).
            Fate::All | Fate::Some if !object.is(Kind::EC2_NODE_CLASS) => Fate::Unknown,
            fate => fate,
        };
        (!edits.is_empty()).then_some(ClassPlan { edits, ..ClassPlan::whole(object, fate) })
    }

    /// The plan of an object that is new or gone.
    fn whole(object: Object, fate: Fate) -> ClassPlan {
        ClassPlan { object, fate, edits: Vec::new(), is_for_new_nodes: false }
    }
}

/// The NodePools that change, those whose nodes are replaced first.
pub(super) fn pools(before: &View<'_>, after: &View<'_>, counts: &BTreeMap<String, u64>) -> Vec<PoolPlan> {
    let all = fates(before.side, after.side).into_iter();
    all.map(|(old, plan)| with_nodes(plan, old.as_ref(), before, after, counts)).collect()
}

/// The NodePools that change, each with its old version, without their nodes; those whose nodes are replaced first.
pub(super) fn fates(before: Side<'_>, after: Side<'_>) -> Vec<(Option<Object>, PoolPlan)> {
    let pools = |side: Side<'_>| {
        let mut all: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        for pool in side.cluster.of(Kind::NODE_POOL) {
            all.entry(shown_name(pool)).or_default().push(pool.clone());
        }
        all
    };
    let (old, new) = (pools(before), pools(after));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut plans = Vec::new();
    for name in names {
        let (old, new) =
            (old.get(name).map_or(&[][..], Vec::as_slice), new.get(name).map_or(&[][..], Vec::as_slice));
        let [old, new] = [old, new].map(|all| all.iter().collect::<Vec<_>>());
        for (old, new) in versions(&old, &new) {
            let plan = match (old, new) {
                (Some(old), Some(new)) => changed(old, new, before, after),
                (Some(old), None) => Some(of_object(old, Fate::Removed)),
                (None, Some(new)) => Some(of_object(new, Fate::Added)),
                (None, None) => None,
            };
            plans.extend(plan.map(|plan| (old.cloned(), plan)));
        }
    }
    plans.sort_by_key(|(_, plan)| plan.fate);
    plans
}

/// The versions of the objects with one name. Several cannot be applied together: they are alternatives, and the version
/// of each is the one in the same file.
pub(super) fn versions<'o>(
    old: &[&'o Object],
    new: &[&'o Object],
) -> Vec<(Option<&'o Object>, Option<&'o Object>)> {
    if old.len() <= 1 && new.len() <= 1 || old.is_empty() || new.is_empty() {
        return vec![(old.first().copied(), new.first().copied())];
    }
    let before = |new: &Object| old.iter().copied().find(|old| file_of(old) == file_of(new));
    new.iter().filter_map(|new| Some((Some(before(new)?), Some(*new)))).collect()
}

fn file_of(object: &Object) -> Option<&str> {
    object.origin().map(|origin| origin.source.path())
}

fn of_object(object: &Object, fate: Fate) -> PoolPlan {
    PoolPlan {
        name: shown_name(object),
        object: object.clone(),
        fate,
        edits: Vec::new(),
        nodes: NodeCount::Unknown,
        rollout: None,
        offer: None,
    }
}

/// The class of a NodePool. A name that a placeholder hides is the one that has the same text.
fn class_of(pool: &Object, cluster: &Cluster) -> Option<Object> {
    let hidden = || {
        let name = pool.path(&["spec", "template", "spec", "nodeClassRef", "name"]);
        let name = name.is_unknown().then(|| name.raw_text()).flatten()?;
        cluster.of(Kind::EC2_NODE_CLASS).find(|class| shown_name(class) == name).cloned()
    };
    class_object(pool, cluster).or_else(hidden)
}

/// The plan of a NodePool with two versions; `None` if neither it nor its node class differs.
fn changed(old: &Object, new: &Object, before: Side<'_>, after: Side<'_>) -> Option<PoolPlan> {
    let karpenter = after.platform.karpenter;
    let classes = (class_of(old, before.cluster), class_of(new, after.cluster));
    if old.version() != new.version() {
        // The fields of two APIs cannot be compared.
        return Some(of_object(new, Fate::Unknown));
    }
    let values = (classes.0.as_ref().map(json), classes.1.as_ref().map(json));
    let (old_json, new_json) = (json(old), json(new));
    let mut edits = edits::of_pool(old, new, values.0.as_ref(), karpenter);
    let mut of_class = match &classes {
        // Another class is another name in the reference, which is an edit of the pool.
        (Some(old), Some(new)) if shown_name(old) == shown_name(new) => edits::of_class(old, new, karpenter),
        _ => Vec::new(),
    };
    // An object stays as it is where the API server rejects one of its edits.
    let stays = |edits: &[Edit]| edits.iter().any(|edit| edit.effect.is_refused());
    let new_json = if stays(&edits) { &old_json } else { &new_json };
    let new_class = if stays(&of_class) { &values.0 } else { &values.1 };
    let verdict = drift::of_pool((&old_json, values.0.as_ref()), (new_json, new_class.as_ref()), karpenter);
    edits.append(&mut of_class);
    if edits.is_empty() {
        return None;
    }
    let verdict = match verdict {
        Drift::Refused => Fate::Refused,
        Drift::All => Fate::All,
        Drift::Some => Fate::Some,
        Drift::None => Fate::None,
    };
    let hides = edits.iter().any(|edit| edit.effect == Effect::Unknown);
    let fate = match (verdict, Fate::of(&edits)) {
        (_, Fate::Refused) => Fate::Refused,
        (_, Fate::All) => Fate::All,
        // A placeholder may stand for the value that was there.
        (_, Fate::Unknown) if hides => Fate::Unknown,
        (Fate::None, Fate::Unknown) => Fate::Unknown,
        (verdict, _) => verdict,
    };
    edits.sort_by_key(|edit| !edit.effect.costs_nodes() && !edit.effect.is_refused());
    Some(PoolPlan { edits, ..of_object(new, fate) })
}

/// Adds the number of nodes, and how they are replaced.
fn with_nodes(
    mut plan: PoolPlan,
    old: Option<&Object>,
    before: &View<'_>,
    after: &View<'_>,
    counts: &BTreeMap<String, u64>,
) -> PoolPlan {
    if plan.fate == Fate::Added {
        let mut offers = after.situation.offers().into_iter();
        plan.offer = offers.find(|offer| offer.pool == plan.name);
        return plan;
    }
    let Some(old) = old.filter(|_| plan.fate.costs_nodes() || plan.fate == Fate::Unknown) else {
        return plan;
    };
    plan.nodes = match counts.get(&plan.name) {
        Some(stated) => NodeCount::Stated(*stated),
        None => packed(old, before),
    };
    plan.rollout = Some(rollout::of(&plan, old, before, after));
    plan
}

/// The number of nodes that the pods of a side need on a pool; those of a static pool are what it says.
fn packed(pool: &Object, view: &View<'_>) -> NodeCount {
    let replicas = pool.path(&["spec", "replicas"]);
    if replicas.is_set() {
        let stated = replicas.int().and_then(|replicas| u64::try_from(replicas).ok());
        return stated.map_or(NodeCount::Unknown, NodeCount::Stated);
    }
    let capacity = view.capacity();
    let nodes = |pools: &[PoolLoad]| {
        pools.iter().find(|load| load.pool.name() == pool.name()).map_or(0, |load| load.nodes)
    };
    match (nodes(&capacity.floor.pools), nodes(&capacity.ceiling.pools)) {
        (_, 0) => NodeCount::Unknown,
        (least, most) => NodeCount::Packed(least, most),
    }
}

fn json(object: &Object) -> Value {
    object.root().to_json()
}

/// The node classes that change and of which `pools` has no edit, and the Provisioners and NodeOverlays that change.
pub(super) fn classes(before: Side<'_>, after: Side<'_>, pools: &[PoolPlan]) -> Vec<ClassPlan> {
    let karpenter = after.platform.karpenter;
    let mut plans = Vec::new();
    let is_shown = |class: &Object| {
        pools
            .iter()
            .flat_map(|plan| &plan.edits)
            .any(|edit| edit.object.is(Kind::EC2_NODE_CLASS) && shown_name(&edit.object) == shown_name(class))
    };
    for kind in [Kind::EC2_NODE_CLASS, Kind::AWS_NODE_TEMPLATE] {
        for (object, old, new) in pairs(before, after, kind) {
            let (Some(old), Some(new)) = (old, new) else { continue };
            if is_shown(&object) {
                continue;
            }
            let is_for_new_nodes = is_for_new_nodes(&object, before, after);
            let plan = ClassPlan::of(object, edits::of_class(&old, &new, karpenter));
            plans.extend(plan.map(|plan| match is_for_new_nodes && plan.fate != Fate::Refused {
                true => ClassPlan { fate: Fate::None, is_for_new_nodes, ..plan },
                false => plan,
            }));
        }
    }
    for (object, old, new) in pairs(before, after, Kind::PROVISIONER) {
        plans.extend(match (old, new) {
            (Some(old), Some(new)) => ClassPlan::of(object, edits::of_pool(&old, &new, None, karpenter)),
            (None, _) => Some(ClassPlan::whole(object, Fate::Added)),
            (_, None) => Some(ClassPlan::whole(object, Fate::Removed)),
        });
    }
    for (object, old, new) in pairs(before, after, Kind::NODE_OVERLAY) {
        let plan = match (old, new) {
            (Some(old), Some(new)) => ClassPlan::of(object, edits::harmless(&old, &new)),
            (None, _) => Some(ClassPlan::whole(object, Fate::Added)),
            // Nodes that exist keep what they have.
            (Some(_), None) => Some(ClassPlan::whole(object, Fate::None)),
        };
        plans.extend(plan);
    }
    plans.sort_by_key(|plan| plan.fate);
    plans
}

/// Whether NodePools here use a node class, and none of them on both sides.
fn is_for_new_nodes(class: &Object, before: Side<'_>, after: Side<'_>) -> bool {
    let users = |side: Side<'_>| -> BTreeSet<String> {
        let uses = |pool: &&Object| {
            class_of(pool, side.cluster).is_some_and(|used| shown_name(&used) == shown_name(class))
        };
        side.cluster.of(Kind::NODE_POOL).filter(uses).map(shown_name).collect()
    };
    let (old, new) = (users(before), users(after));
    !(old.is_empty() && new.is_empty()) && old.is_disjoint(&new)
}

/// The objects of a kind on both sides, by name, with the new version first.
fn pairs(before: Side<'_>, after: Side<'_>, kind: Kind) -> Vec<(Object, Option<Object>, Option<Object>)> {
    let mut old = by_name(before.cluster, kind);
    let mut new = by_name(after.cluster, kind);
    let names: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let pair = |name: String| {
        let (old, new) = (old.remove(&name), new.remove(&name));
        Some((new.clone().or_else(|| old.clone())?, old, new))
    };
    names.into_iter().filter_map(pair).collect()
}
