//! NodePools by the properties that rules search for.

use crate::catalog::{self, ZONE, ZONE_ID};
use crate::cluster::table::{View, ViewSlot};
use crate::facts::region::{of_zone, of_zone_id};
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
    AutoMode,
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
            keys.extend(pool.is_auto_mode().then_some(NodePoolKey::AutoMode));
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

/// The zones that a pool lists in its requirements and its labels, with their regions.
pub(crate) fn listed_zones<'a>(pool: &NodePool<'a>) -> impl Iterator<Item = (Node<'a>, &'a str)> + use<'a> {
    let listed = pool.requirements().items().filter_map(|item| {
        let key = normalise(item.get("key").text()?);
        let is_zone = matches!(key, ZONE | ZONE_ID) && item.get("operator").text() == Some("In");
        is_zone.then(|| (key, item.get("values").items()))
    });
    let values = listed.flat_map(|(key, values)| values.map(move |value| (key, value)));
    let labels = pool.labels();
    let labels = [ZONE, ZONE_ID].into_iter().map(move |key| (key, labels.get(key)));
    values.chain(labels).filter_map(|(key, node)| {
        let region = match key {
            ZONE => of_zone(node.text()?),
            _ => of_zone_id(node.text()?, catalog::regions().iter().copied()),
        };
        region.map(|region| (node, region))
    })
}
