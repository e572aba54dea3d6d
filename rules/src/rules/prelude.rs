//! What nearly every rule file needs: `use crate::rules::prelude::*;`.

pub(super) use serde_json::{Value, json};

pub(super) use crate::karpenter::node_class::Ec2NodeClass;
pub(super) use crate::karpenter::nodepool::{Hardware, NodePool};
pub(super) use crate::karpenter::requirement_list::RequirementList;
pub(super) use crate::keda::Trigger;
pub(super) use crate::kind::Kind;
pub(super) use crate::lint::authority::Authority;
pub(super) use crate::lint::context::Context;
pub(super) use crate::lint::finding::{Finding, Severity};
pub(super) use crate::lint::fix::{Fix, Safety};
pub(super) use crate::lint::rule::{Aspect, Check, Group, Ownership, Param, ParamDefault, Rule, Tag, docs};
pub(super) use crate::object::Object;
pub(super) use crate::platform::Product;
pub(super) use crate::tree::node::Node;
pub(super) use crate::workload::template::{Template, templates};
