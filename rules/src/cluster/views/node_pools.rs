//! NodePools by the properties that rules search for.

use crate::cluster::table::{View, ViewSlot};
use crate::karpenter::nodepool::NodePool;
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
