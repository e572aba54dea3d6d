//! Karpenter's objects and behaviour: NodePools, node classes, requirements, budgets, scheduling.

pub(crate) mod ami_name;
pub mod auto_mode;
pub mod budget;
pub(crate) mod do_not_disrupt;
pub mod drift;
pub(crate) mod empty_range;
pub(crate) mod installation;
pub(crate) mod kubelet;
pub(crate) mod labels;
pub mod meaning;
pub(crate) mod minors;
pub mod node_class;
pub mod nodepool;
pub mod pod;
pub(crate) mod pool_facts;
pub mod provider;
pub mod requirement;
pub(crate) mod requirement_list;
pub mod scheduling;
pub(crate) mod undecodable;

/// The names of Karpenter's feature gates, of all versions.
pub fn feature_gate_names() -> impl Iterator<Item = &'static str> {
    minors::gates().iter().map(|gate| gate.name)
}
