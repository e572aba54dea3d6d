//! NodePools by the properties that rules search for.

use crate::catalog::ZONE;
use crate::cluster::table::{View, ViewSlot};
use crate::facts::region::of_zone;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::requirement::normalise;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

pub(crate) struct NodePools;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NodePoolKey {
    Label(String, String),
    /// By the key of a taint or startup taint.
    Taint(String),
    Static,
}

impl View for NodePools {
    const SLOT: ViewSlot = ViewSlot::NodePools;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = NodePoolKey;

    fn keys(object: &Object) -> Vec<NodePoolKey> {
        let spec = object.path(&["spec", "template", "spec"]);
        let lists = ["taints", "startupTaints"].map(|list| spec.get(list));
        let taints = lists.iter().flat_map(Node::items);
        let mut keys: Vec<NodePoolKey> = taints
            .filter_map(|taint| Some(NodePoolKey::Taint(taint.get("key").text()?.to_owned())))
            .collect();
        if let Some(pool) = NodePool::new(object) {
            let labels = pool.labels().entries().into_iter();
            let label = |(key, value): (&str, Node<'_>)| {
                Some(NodePoolKey::Label(key.to_owned(), value.text()?.to_owned()))
            };
            keys.extend(labels.filter_map(label));
            keys.extend(pool.is_static().then_some(NodePoolKey::Static));
        }
        keys
    }
}

/// The pools by the region of the first zone that they list.
pub(crate) struct PoolsByRegion;

impl View for PoolsByRegion {
    const SLOT: ViewSlot = ViewSlot::PoolsByRegion;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = String;

    fn keys(object: &Object) -> Vec<String> {
        let pool = NodePool::new(object);
        let zones = pool.iter().flat_map(listed_zones);
        zones.take(1).map(|(_, region)| region.to_owned()).collect()
    }
}

/// The zones that a pool lists in its requirements and its label, with their regions.
pub(crate) fn listed_zones<'a>(pool: &NodePool<'a>) -> impl Iterator<Item = (Node<'a>, &'a str)> + use<'a> {
    let label = pool.labels().get(ZONE);
    let listed = pool.requirements().items().filter(|item| {
        item.get("key").text().is_some_and(|key| normalise(key) == ZONE)
            && item.get("operator").text() == Some("In")
    });
    let values = listed.flat_map(|item| item.get("values").items()).chain(std::iter::once(label));
    values.filter_map(|node| {
        let region = of_zone(node.text()?)?;
        Some((node, region))
    })
}
