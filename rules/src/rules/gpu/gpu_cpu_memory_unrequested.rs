//! A GPU container does not say how much CPU and memory it needs.
//!
//! # Why
//! Karpenter buys the cheapest instance type on which all requests of a pod fit. Without them that is
//! the smallest one with a GPU: 4 vCPU and 16 GiB, in which loading a model ends with the OOM killer.
//! On a larger node such pods are the first to be evicted under memory pressure. This is advice where
//! nothing in the input or in the configuration shows Karpenter, and where the nodes are of one size:
//! the pods use all eight GPUs of a node, or select one instance type. Nothing is said of a pod that uses all
//! accelerators of the only type that it selects: it has the node for itself.
//!
//! # Fix
//! Write requests for `cpu` and `memory`, and a limit for memory.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: embed}
//!  spec:
//!    backoffLimit: 2
//!    activeDeadlineSeconds: 7200
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        nodeSelector: {karpenter.sh/nodepool: gpu}
//!        containers:
//!          - name: main
//!            image: example.com/embed:1.4.0
//! -          resources: # <-
//! +          resources:
//! +            requests: {cpu: 4, memory: 16Gi}
//!              limits: {nvidia.com/gpu: 1}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/>
//! - <https://karpenter.sh/docs/concepts/scheduling/#resource-requests>

use std::collections::BTreeSet;

use crate::catalog::{GPUS_OF_WHOLE_NODE, all};
use crate::rules::gpu::{is_left_alone, pools_by_label, selected_types};
use crate::rules::karpenter_in_use::{READS, is_on_karpenter, is_on_other_platform, may_be_on_karpenter};
use crate::rules::prelude::*;
use crate::workload::diagnostic::only_waits;
use crate::workload::gpu::INSTANCE_RESOURCES;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-cpu-memory-unrequested",
    kinds: WORKLOAD_KINDS,
    reads: kinds![READS, [Kind::LIMIT_RANGE]],
    docs: docs(include_str!("gpu_cpu_memory_unrequested.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // The runtime of an InferenceService has requests of its own.
    let merged = object.is(Kind::INFERENCE_SERVICE) || object.is(Kind::LLM_INFERENCE_SERVICE);
    if !requests_device_plugin(object)
        || is_left_alone(object, ctx)
        || object.may_lack_fields()
        || merged
        || is_test(object)
        || only_waits(object)
    {
        return None;
    }
    if ctx.cluster().in_namespace(Kind::LIMIT_RANGE, object.namespace_or_default()).next().is_some() {
        return None;
    }
    let waits = ctx.class_of(object).class == WorkloadClass::Notebook;
    for template in templates(object) {
        let pod = template.spec.path(&["resources"]);
        let of_pod = |resource: &str| has(&pod, resource);
        let mut nodes = None;
        for container in template.containers() {
            let resources = container.get("resources");
            if resources.has_unknown() || resources.has_unknown_key() || !asks(&resources) {
                continue;
            }
            let lacks = |resource: &str| !has(&resources, resource) && !of_pod(resource);
            let missing = match (lacks("cpu"), lacks("memory")) {
                (true, true) => "neither `cpu` nor `memory`",
                (false, true) => "no `memory`",
                (true, false) => "no `cpu`",
                (false, false) => continue,
            };
            let nodes = *nodes.get_or_insert_with(|| Nodes::of(&template, ctx));
            if nodes == Nodes::Filled {
                break;
            }
            let matters = !waits && nodes == Nodes::Differ && is_on_karpenter(&template, ctx);
            let name = container.get("name").text().unwrap_or("main");
            let owner = object.display_name();
            let message =
                format!("container `{name}` of `{owner}` has an accelerator and requests {missing}");
            // Karpenter starts nodes for no share of a device, such as a MIG device.
            let is_bought =
                pod_devices(&template).keys().any(|resource| INSTANCE_RESOURCES.contains(resource));
            let is_of_karpenter = is_on_karpenter(&template, ctx)
                || may_be_on_karpenter(&template, ctx) && !is_on_other_platform(ctx);
            let help = if is_bought && nodes == Nodes::Differ && is_of_karpenter {
                "request what it needs: Karpenter buys the cheapest instance type that has the accelerator"
            } else {
                "request what it needs: without requests the scheduler puts other pods on what the container uses"
            };
            ctx.report(&resources, message)
                .severity(if matters && lacks("memory") { Severity::Warning } else { Severity::Info })
                .help(help);
        }
    }
    None
}

/// The nodes on which pods may run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// Karpenter may choose between sizes by CPU and memory.
    Differ,
    /// One size, which may have room for other pods.
    OneSize,
    /// One instance type, all of whose accelerators a pod uses: no other pod of this kind comes to its node.
    Filled,
}

impl Nodes {
    fn of(template: &Template<'_>, ctx: &Context<'_>) -> Nodes {
        let devices = pod_devices(template);
        let mut asked: Vec<(&str, i64)> =
            devices.iter().map(|(resource, it)| (*resource, it.count)).collect();
        asked.retain(|(resource, _)| INSTANCE_RESOURCES.contains(resource));
        let named = pools_by_label(template, ctx);
        let of_named: Option<TypeSet> = named
            .iter()
            .try_fold(TypeSet::EMPTY, |types, pool| Some(types.or(&NodePool::new(pool)?.types()?)));
        let of_named = of_named.filter(|types| !types.is_empty());
        let allowed = of_named.or_else(|| selected_types(template, ctx).map(|(types, _)| types));
        let fits = |instance: &InstanceType| {
            asked.iter().all(|(resource, count)| i64::from(instance.devices(resource)) >= *count)
        };
        let types: Vec<&InstanceType> = match &allowed {
            Some(types) => types.iter().filter(|instance| fits(instance)).collect(),
            None => all().iter().filter(|instance| fits(instance)).collect(),
        };
        // A pod that uses all devices of a node has no choice if each family has one such size.
        let is_whole = |instance: &InstanceType| {
            asked.iter().any(|(resource, count)| i64::from(instance.devices(resource)) == *count)
        };
        if let (Some(_), [only]) = (&allowed, types.as_slice())
            && is_whole(only)
        {
            return Nodes::Filled;
        }
        if devices.get("nvidia.com/gpu").is_some_and(|gpus| gpus.count >= i64::from(GPUS_OF_WHOLE_NODE)) {
            return Nodes::OneSize;
        }
        let whole: Vec<&str> =
            types.iter().filter(|instance| is_whole(instance)).map(|instance| instance.family()).collect();
        let families: BTreeSet<&str> = whole.iter().copied().collect();
        let are_several = devices.values().all(|devices| devices.count > 1);
        if !whole.is_empty() && families.len() == whole.len() && are_several {
            return Nodes::OneSize;
        }
        let mut sizes = types.iter().map(|instance| (instance.vcpu, instance.memory_mib));
        let first = sizes.next();
        if sizes.any(|size| Some(size) != first) { Nodes::Differ } else { Nodes::OneSize }
    }
}

fn has(resources: &Node<'_>, resource: &str) -> bool {
    ["requests", "limits"].iter().any(|side| resources.path(&[side, resource]).is_set())
}

fn asks(resources: &Node<'_>) -> bool {
    let sides = ["limits", "requests"].iter().flat_map(|side| resources.get(side).entries());
    let mut accelerators = sides.filter(|(name, _)| is_accelerator(name));
    accelerators.any(|(_, amount)| amount.string_or_number().is_some_and(|text| text != "0"))
}
