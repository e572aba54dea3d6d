//! What many rule files need: `use crate::rules::prelude::*;`.

pub(super) use serde_json::{Value, json};

pub(super) use crate::catalog::{CAPACITY_TYPE, InstanceType, TypeSet};
pub(super) use crate::cluster::Cluster;
pub(super) use crate::cluster::makers::{
    has_unread_near, is_generated, may_be_made, may_be_unread, may_bring_objects,
};
pub(super) use crate::cluster::query::{ObjectKey, QuerySlot};
pub(super) use crate::cluster::runtimes::RUNTIMES;
pub(super) use crate::cluster::values::chart_installers;
pub(super) use crate::cluster::views::Predicate;
pub(super) use crate::facts::duration::GoDuration;
pub(super) use crate::facts::image::ImageRef;
pub(super) use crate::facts::quantity::Quantity;
pub(super) use crate::facts::suggest::nearest;
pub(super) use crate::facts::text::mentions;
pub(super) use crate::karpenter::do_not_disrupt::DO_NOT_DISRUPT;
pub(super) use crate::karpenter::node_class::Ec2NodeClass;
pub(super) use crate::karpenter::nodepool::{Hardware, NodePool};
pub(super) use crate::karpenter::pod::to_scheduling_pod;
pub(super) use crate::karpenter::provider::Provider;
pub(super) use crate::karpenter::requirement::Operator;
pub(super) use crate::karpenter::requirement_list::{RequirementItem, RequirementList};
pub(super) use crate::keda::{Trigger, max_replicas, min_replicas, triggers, uses_modifiers};
pub(super) use crate::kind::{Kind, REPLICATED_KINDS, SCALABLE_KINDS, kinds};
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
pub(super) use crate::tree::pointer::Pointer;
pub(super) use crate::workload::charts::{CHART_KINDS, for_each_values};
pub(super) use crate::workload::class::{Confidence, WorkloadClass, command_line};
pub(super) use crate::workload::command::{OptionValue, option, words};
pub(super) use crate::workload::devices::{
    devices_of, gpus_of, pod_devices, requests_device_plugin, uses_accelerators,
};
pub(super) use crate::workload::diagnostic::is_test;
pub(super) use crate::workload::gpu::{
    KARPENTER_ACCELERATORS, is_accelerator, requests_accelerator, uses_device,
};
pub(super) use crate::workload::image::{image_of, image_text, images_of};
pub(super) use crate::workload::launcher::Launch;
pub(super) use crate::workload::node_labels::{LabelReference, LabelUse, referenced_labels};
pub(super) use crate::workload::server::{Server, ServerId, server_of};
pub(super) use crate::workload::suspended::is_suspended;
pub(super) use crate::workload::template::{Template, WORKLOAD_KINDS, runs_forever, templates};
