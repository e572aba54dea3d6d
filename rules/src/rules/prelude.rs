//! What many rule files need: `use crate::rules::prelude::*;`.

pub(super) use serde_json::{Value, json};

pub(super) use crate::catalog::TypeSet;
pub(super) use crate::facts::quantity::Quantity;
pub(super) use crate::facts::suggest::nearest;
pub(super) use crate::karpenter::node_class::Ec2NodeClass;
pub(super) use crate::karpenter::nodepool::{Hardware, NodePool};
pub(super) use crate::karpenter::requirement::Operator;
pub(super) use crate::karpenter::requirement_list::{RequirementItem, RequirementList};
pub(super) use crate::keda::{Trigger, triggers};
pub(super) use crate::kind::{Kind, REPLICATED_KINDS, SCALABLE_KINDS};
pub(super) use crate::lint::authority::Authority;
pub(super) use crate::lint::context::Context;
pub(super) use crate::lint::finding::{Finding, Severity, ellipsize};
pub(super) use crate::lint::fix::{Fix, Safety};
pub(super) use crate::lint::rule::{
    Aspect, Check, Group, Ownership, Pair, Param, ParamDefault, Rule, Tag, docs, nothing,
};
pub(super) use crate::object::Object;
pub(super) use crate::platform::{Product, Version};
pub(super) use crate::promql::queries;
pub(super) use crate::tree::node::Node;
pub(super) use crate::tree::placeholder::is_placeholder;
pub(super) use crate::workload::class::WorkloadClass;
pub(super) use crate::workload::devices::{requests_device_plugin, uses_accelerators};
pub(super) use crate::workload::diagnostic::is_test;
pub(super) use crate::workload::gpu::{requests_accelerator, uses_device};
pub(super) use crate::workload::template::{Template, WORKLOAD_KINDS, joined, templates, with_workloads};
