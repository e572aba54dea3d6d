//! Inlay hints: the number of instance types that a NodePool admits, and the number of replicas of a workload
//! that fit its NodePools.

use gpulint_rules::cluster::views::scale_target;
use gpulint_rules::fit::{Room, Situation, admitted_by, gpu_name};
use gpulint_rules::tree::Span;
use gpulint_rules::{Cluster, Kind, Node, Object};

use crate::lsp::view::{SetView, View};

/// Maximum number of GPU models in a label.
const MAX_MODELS: usize = 3;
/// Maximum number of pools in a tooltip.
const MAX_POOLS: usize = 6;

/// Maximum number of workloads with hints in a part of a file: a file with hundreds is meant for programs.
const MAX_WORKLOADS: usize = 32;

/// Label and tooltip.
type Text = (String, String);

/// A text after a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The offset of the byte that the hint follows.
    pub(crate) offset: u32,
    pub(crate) label: String,
    pub(crate) tooltip: String,
}

/// The hints of a part of a file. If the file is in several sets, only those that are equal in all of them.
pub(crate) fn hints(view: &View<'_>, within: Span) -> Vec<Hint> {
    let is_within = |node: &Node<'_>| {
        node.span().is_some_and(|span| within.start <= span.end && span.start <= within.end)
    };
    let mut workloads = 0;
    let places: Vec<(&Object, Node<'_>)> = view
        .file
        .objects
        .iter()
        .filter(|object| !object.is_partial())
        .filter_map(|object| Some((object, place_of(object)?)))
        .filter(|(_, node)| is_within(node) && !node.is_unknown())
        .filter(|(object, _)| {
            workloads += usize::from(!object.is(Kind::NODE_POOL));
            object.is(Kind::NODE_POOL) || workloads <= MAX_WORKLOADS
        })
        .collect();
    if places.is_empty() {
        return Vec::new();
    }
    let mut agreed: Option<Vec<Option<Text>>> = None;
    for set in &view.sets {
        let texts = in_set(view, set, &places);
        agreed = Some(match agreed {
            None => texts,
            Some(known) => known.into_iter().zip(texts).map(|(a, b)| if a == b { a } else { None }).collect(),
        });
    }
    let agreed = agreed.unwrap_or_default().into_iter();
    let hint = |((_, node), text): (&(&Object, Node<'_>), Option<Text>)| {
        let (label, tooltip) = text?;
        Some(Hint { offset: node.span()?.end, label, tooltip })
    };
    places.iter().zip(agreed).filter_map(hint).collect()
}

/// The node that the hint of an object follows: the name of a NodePool, or the maximum of replicas of a
/// workload.
fn place_of(object: &Object) -> Option<Node<'_>> {
    let spec = object.get("spec");
    let node = match object {
        _ if object.is(Kind::NODE_POOL) => object.path(&["metadata", "name"]),
        _ if object.is(Kind::HPA) => spec.get("maxReplicas"),
        _ if object.is(Kind::SCALED_OBJECT) => spec.get("maxReplicaCount"),
        _ if matches!(object.id().kind.as_str(), "Deployment" | "StatefulSet" | "ReplicaSet" | "Rollout") => {
            let replicas = spec.get("replicas");
            if replicas.is_set() { replicas } else { object.path(&["metadata", "name"]) }
        }
        _ => return None,
    };
    node.is_set().then_some(node)
}

fn in_set(view: &View<'_>, set: &SetView<'_>, places: &[(&Object, Node<'_>)]) -> Vec<Option<Text>> {
    let platform = &view.engine.settings().platform;
    let applied: Vec<Option<&Object>> = places
        .iter()
        .map(|(written, _)| set.cluster.objects().iter().find(|other| other.is_same_manifest(written)))
        .collect();
    let targets: Vec<Option<&Object>> =
        applied.iter().map(|object| target(set.cluster, (*object)?)).collect();
    let known: Vec<&Object> = targets.iter().flatten().copied().collect();
    let mut rooms = match known.first() {
        Some(first) if set.cluster.has_any(Kind::NODE_POOL) => {
            Situation::read(set.cluster, platform, Some(first)).rooms_of(&known)
        }
        _ => vec![None; known.len()],
    }
    .into_iter();
    applied
        .iter()
        .zip(targets)
        .map(|(object, target)| match target {
            Some(_) => rooms.next().flatten().as_ref().map(of_room),
            None => object
                .filter(|object| object.is(Kind::NODE_POOL))
                .and_then(|pool| of_pool(set.cluster, view, pool)),
        })
        .collect()
}

/// The workload whose replicas an object sets.
fn target<'c>(cluster: &'c Cluster, object: &'c Object) -> Option<&'c Object> {
    if object.is(Kind::NODE_POOL) {
        return None;
    }
    if !object.is(Kind::HPA) && !object.is(Kind::SCALED_OBJECT) {
        return Some(object);
    }
    let (namespace, kind, name) = scale_target(object)?;
    let (group, kind) = kind.split_once('/')?;
    match cluster.all(group, kind, &namespace, &name) {
        [one] => Some(one),
        _ => None,
    }
}

fn of_pool(cluster: &Cluster, view: &View<'_>, pool: &Object) -> Option<Text> {
    let types = admitted_by(pool, cluster, &view.engine.settings().platform)?;
    let mut models: Vec<&str> = types.iter().filter_map(|instance| gpu_name(instance)).collect();
    models.sort_unstable();
    models.dedup();
    let noun = if types.len() == 1 { "type" } else { "types" };
    let mut label = format!("{} {noun}", types.len());
    match models.len() {
        0 => {}
        few if few <= MAX_MODELS => label.push_str(&format!(": {}", models.join(", "))),
        many => label.push_str(&format!(": {many} GPU models")),
    }
    let cheapest: Vec<&str> = types.iter().take(MAX_POOLS).map(|instance| instance.name).collect();
    let more = if types.len() > cheapest.len() { ", …" } else { "" };
    let tooltip =
        format!("Instance types that this NodePool admits, cheapest first: {}{more}", cheapest.join(", "));
    Some((label, tooltip))
}

fn of_room(room: &Room) -> Text {
    let pools: Vec<String> =
        room.pools.iter().take(MAX_POOLS).map(|pool| pool.display_name().to_string()).collect();
    let more = if room.pools.len() > pools.len() { ", …" } else { "" };
    let whose = if room.pools.len() == 1 { "NodePool" } else { "NodePools" };
    let label = format!("room for {}", room.pods);
    let tooltip = format!(
        "The limits of {whose} {}{more} have room for {} of these pods, if no other pods run there",
        pools.join(", "),
        room.pods
    );
    (label, tooltip)
}

#[cfg(test)]
mod tests;
