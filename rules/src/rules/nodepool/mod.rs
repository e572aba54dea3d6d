//! Requirements, taints and limits of NodePools.

use crate::cluster::Cluster;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::requirement::Operator;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use crate::lint::fix::{Fix, Safety};

use crate::workload::template::Template;

use serde_json::json;

pub(crate) mod auto_mode_lifetime;
pub(crate) mod capacity_type_invalid;
pub(crate) mod capacity_type_unspecified;
pub(crate) mod consolidate_after_missing;
pub(crate) mod crashes_karpenter;
pub(crate) mod duration_undecodable;
pub(crate) mod gfd_label_declared;
pub(crate) mod gpu_memory_boundary;
pub(crate) mod gpu_pool_arch_unpinned;
pub(crate) mod gpu_pool_fractional_gpus;
pub(crate) mod gpu_pool_mixed_vendors;
pub(crate) mod gpu_pool_single_instance_type;
pub(crate) mod gpu_pool_untainted;
pub(crate) mod gpu_pool_without_limit;
pub(crate) mod instance_label_other_provider;
pub(crate) mod limit_below_any_instance;
pub(crate) mod limit_key_unknown;
pub(crate) mod limits_inconsistent;
pub(crate) mod min_values_unsatisfiable;
pub(crate) mod node_claim_too_small;
pub(crate) mod node_class_ref_incomplete;
pub(crate) mod node_class_ref_unserved;
pub(crate) mod object_name_too_long;
pub(crate) mod pool_admits_other_architecture;
pub(crate) mod pool_without_limits;
mod requested_values;
pub(crate) mod requirement_admits_cpu_nodes;
pub(crate) mod requirement_arity;
pub(crate) mod requirement_bound_invalid;
pub(crate) mod requirement_contradiction;
pub(crate) mod requirement_excludes_nothing;
pub(crate) mod requirement_key_lookalike;
pub(crate) mod requirement_key_restricted;
pub(crate) mod requirement_order_ignored;
pub(crate) mod requirement_range_empty;
pub(crate) mod requirement_value_dead;
pub(crate) mod requirement_value_not_offered;
pub(crate) mod requirement_value_syntax;
pub(crate) mod requirement_value_unknown;
pub(crate) mod requirements_match_nothing;
pub(crate) mod reserved_capacity_mismatch;
mod selected_labels;
pub(crate) mod spot_pool_low_diversity;
pub(crate) mod startup_taint_kept;
pub(crate) mod static_pool_conflict;
pub(crate) mod static_pool_without_spare;
pub(crate) mod taint_duplicate;
pub(crate) mod taint_invalid;
pub(crate) mod taint_operator_as_value;
pub(crate) mod training_pool_on_spot;
pub(crate) mod windows_pool_untainted;
pub(crate) mod zones_of_two_regions;

/// A pool of lower weight that admits the same pods when this one has no capacity.
fn fallback(object: &Object, pool: &NodePool<'_>, cluster: &Cluster) -> Option<Object> {
    cluster.views().fallback(object, pool)
}

/// Whether a requirement names one of the types or its family.
fn names_one_of(pool: &NodePool<'_>, types: &crate::catalog::TypeSet) -> bool {
    pool.normalized_pool().requirements.iter().filter(|r| r.op == Operator::In).any(|r| {
        match &*pool.provider().catalogue_key(&r.key) {
            "node.kubernetes.io/instance-type" => {
                types.names().any(|name| r.values.iter().any(|v| v == name))
            }
            "karpenter.k8s.aws/instance-family" => {
                types.iter().any(|t| r.values.iter().any(|v| v == t.family()))
            }
            _ => false,
        }
    })
}

/// The reference to the node class in a NodePool or NodeClaim of v1.
fn node_class_ref(object: &Object) -> Option<Node<'_>> {
    if let Some(pool) = NodePool::new(object) {
        return Some(pool.template_spec().get("nodeClassRef"));
    }
    let claim = object.is(Kind::NODE_CLAIM) && object.version() == "v1";
    claim.then(|| object.path(&["spec", "nodeClassRef"]))
}

/// The taints and startup taints of a NodePool or NodeClaim of v1.
fn written_taints(object: &Object) -> Vec<Node<'_>> {
    if object.version() != "v1" {
        return Vec::new();
    }
    let pool = object.is(Kind::NODE_POOL);
    let spec = if pool { object.path(&["spec", "template", "spec"]) } else { object.get("spec") };
    [spec.get("taints"), spec.get("startupTaints")].iter().flat_map(Node::items).collect()
}

/// Replaces the key of a requirement, which changes the nodes of the pool.
fn rename_key(node: &Node<'_>, key: &str) -> Fix {
    let title = format!("write `{key}`; check which nodes the pool then gets");
    Fix::new(title, Safety::Unsafe).replaces_nodes().set(node, json!(key))
}

/// Whether a part of a key is longer than labels may be.
fn is_too_long(key: &str) -> bool {
    match key.split_once('/') {
        Some((domain, name)) => domain.len() > 253 || name.len() > 63,
        None => key.len() > 63,
    }
}

/// The label keys that each required term of a pod's node affinity requires to be present. A requirement that
/// a label is absent is met by any node without the label.
pub(in crate::rules) fn required_keys<'a>(template: &Template<'a>) -> Vec<Vec<(&'a str, Node<'a>)>> {
    let terms = template.required_terms();
    let key = |expression: Node<'a>| {
        let operator: Operator = expression.get("operator").text()?.parse().ok()?;
        let node = expression.get("key");
        let absent = matches!(operator, Operator::NotIn | Operator::DoesNotExist);
        node.text().filter(|_| !absent).map(|key| (key, node))
    };
    terms.items().map(|term| term.get("matchExpressions").items().filter_map(key).collect()).collect()
}
