//! The requirements of a NodePool, NodeClaim or NodeOverlay: location of the list, and provider of the
//! labels.

use crate::karpenter::labels::key::KeyLocation;
use crate::karpenter::nodepool::NodePool;
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::{Operator, Requirement};
use crate::kind::{Kind, kinds};
use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::template::WORKLOAD_KINDS;

pub(crate) const KINDS: [Kind; 3] = [Kind::NODE_POOL, Kind::NODE_CLAIM, Kind::NODE_OVERLAY];

/// The kinds that have requirements, and those whose pods have expressions of the same form.
pub(crate) const KINDS_AND_WORKLOADS: &[Kind] = kinds![KINDS, WORKLOAD_KINDS];

#[derive(Clone, Debug)]
pub struct RequirementList<'a> {
    pub(crate) location: KeyLocation,
    pub(crate) list: Node<'a>,
    pub(crate) provider: Provider,
    items: Vec<RequirementItem<'a>>,
}

impl<'a> RequirementList<'a> {
    /// The list of an object of a current API version. `None` for any other object.
    pub(crate) fn of(object: &'a Object) -> Option<RequirementList<'a>> {
        if let Some(pool) = NodePool::new(object) {
            let provider = Provider::of_group(&pool.template_spec().path(&["nodeClassRef", "group"]));
            return Some(RequirementList::new(KeyLocation::Pool, pool.requirements(), provider));
        }
        let version = object.version();
        let location = if object.is(Kind::NODE_CLAIM) && version == "v1" {
            KeyLocation::Claim
        } else if object.is(Kind::NODE_OVERLAY) && version == "v1alpha1" {
            KeyLocation::Overlay
        } else {
            return None;
        };
        let spec = object.get("spec");
        let provider = Provider::of_group(&spec.path(&["nodeClassRef", "group"]));
        Some(RequirementList::new(location, spec.get("requirements"), provider))
    }

    fn new(location: KeyLocation, list: Node<'a>, provider: Provider) -> RequirementList<'a> {
        let items = list.items().filter(Node::is_mapping).map(RequirementItem::new).collect();
        RequirementList { location, list, provider, items }
    }

    /// The entries that are mappings.
    pub(crate) fn items(&self) -> std::slice::Iter<'_, RequirementItem<'a>> {
        self.items.iter()
    }
}

/// A requirement of a list, or an expression of a pod that has the same form.
#[derive(Clone, Debug)]
pub(crate) struct RequirementItem<'a> {
    pub(crate) node: Node<'a>,
    key: Option<&'a str>,
    operator: Option<Operator>,
}

impl<'a> RequirementItem<'a> {
    pub(crate) fn new(node: Node<'a>) -> RequirementItem<'a> {
        let key = node.get("key").text();
        let operator = node.get("operator").text().and_then(|text| text.parse().ok());
        RequirementItem { node, key, operator }
    }

    pub(crate) fn key(&self) -> Option<&'a str> {
        self.key
    }

    /// `operator`, if it is a valid one.
    pub(crate) fn operator(&self) -> Option<Operator> {
        self.operator
    }

    pub(crate) fn values(&self) -> Node<'a> {
        self.node.get("values")
    }

    /// The requirement without its key. `None` if the operator is not a valid one. Values that cannot be read are omitted.
    pub(crate) fn requirement(&self) -> Option<Requirement> {
        let values: Vec<_> = self.values().items().filter_map(|value| value.string_or_number()).collect();
        let min_values = self.node.get("minValues").int().and_then(|number| u32::try_from(number).ok());
        Some(Requirement::new(self.operator?, &values, min_values))
    }

    /// The number of values. `None` if a placeholder decides, or if the values have the wrong type, which the
    /// API server rejects.
    pub(crate) fn count(&self) -> Option<usize> {
        let values = self.values();
        if !values.is_set() {
            return Some(0);
        }
        if !values.is_sequence() {
            return None;
        }
        values.items().try_fold(0, |count, v| v.text().map(|_| count + 1))
    }

    /// The values. `None` if one of them is not known text.
    pub(crate) fn texts(&self) -> Option<Vec<&'a str>> {
        let values = self.values();
        if !values.is_set() {
            return Some(Vec::new());
        }
        values.is_sequence().then(|| values.items().map(|v| v.text()).collect())?
    }
}

pub(crate) fn is_comparison(operator: Operator) -> bool {
    matches!(operator, Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte)
}
