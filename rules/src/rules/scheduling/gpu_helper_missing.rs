//! GPU nodes lack their device plugin, an agent of every node, or a label.
//!
//! # Why
//! The GPU images of Amazon Linux have the driver and the container toolkit, but no device plugin.
//! Without the plugin, from its own DaemonSet or from the GPU Operator, a node never has
//! `nvidia.com/gpu`: the pod that started it stays Pending, and Karpenter, for which the node is never
//! initialized, neither consolidates nor uses it. That a plugin is missing is reported only with
//! `--complete`. A DaemonSet that does not tolerate the taint of a GPU pool does not run on its nodes:
//! without a device plugin they register no GPUs, without an agent they have no logs or metrics. And
//! a label such as `nvidia.com/gpu.product` is written by GPU feature discovery after the node has
//! joined, so Karpenter starts no node for a pod that selects it.
//!
//! # Fix
//! Install NVIDIA's device plugin or the GPU Operator. Let the DaemonSets of every node tolerate
//! the taints of the GPU pools. Select GPUs by Karpenter's own labels, such as
//! `karpenter.k8s.aws/instance-gpu-name`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: fluent-bit, namespace: logging}
//!  spec:
//!    selector: {matchLabels: {app: fluent-bit}}
//!    template:
//!      metadata: {labels: {app: fluent-bit}}
//!      spec: # <-
//! +      tolerations:
//! +        - key: nvidia.com/gpu
//! +          operator: Exists
//!        containers:
//!          - name: fluent-bit
//!            image: cr.fluentbit.io/fluent/fluent-bit:4.0.3
//!            resources: {requests: {cpu: 50m, memory: 64Mi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-k8s-device-plugin.html>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/amazon-eks.html>
//! - <https://karpenter.sh/docs/concepts/scheduling/#acceleratorsgpu-resources>

use crate::cluster::placement::has_controller;
use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::{AmiFamily, Taint, Toleration, tolerates};
use crate::rules::prelude::*;
use crate::workload::class::repository;
use crate::workload::gpu::requests_accelerator;
use crate::workload::node_labels::{LabelReference, LabelUse, referenced_labels};
use crate::workload::template::{WORKLOAD_KINDS, with_workloads};

const POLICY: Kind = Kind::new("nvidia.com", "ClusterPolicy");
const RESOURCE: &str = "nvidia.com/gpu";

const KINDS: [Kind; WORKLOAD_KINDS.len() + 1] = with_workloads(&[Kind::NODE_POOL]);

pub(crate) static RULE: Rule = Rule {
    id: "gpu-helper-missing",
    kinds: &KINDS,
    reads: &[
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::DAEMON_SET,
        POLICY,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
    ],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_helper_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

/// Agents of every node: the last part of their image, or the start of it, and what a node has not without them.
const AGENTS: [(&str, &str); 19] = [
    ("fluent-bit", "no logs"),
    ("aws-for-fluent-bit", "no logs"),
    ("fluentd", "no logs"),
    ("promtail", "no logs"),
    ("filebeat", "no logs"),
    ("vector", "no logs"),
    ("node-exporter", "no metrics"),
    ("cloudwatch-agent", "no metrics"),
    ("dcgm-exporter", "no GPU metrics"),
    ("aws-ebs-csi-driver", "no EBS volumes"),
    ("aws-efs-csi-driver", "no EFS volumes"),
    ("aws-fsx-csi-driver", "no FSx volumes"),
    ("amazon-k8s-cni", "no pod network"),
    ("kube-proxy", "no Service network"),
    ("k8s-device-plugin", "no `nvidia.com/gpu`"),
    ("gpu-feature-discovery", "no labels of GPUs"),
    ("k8s-dra-driver-gpu", "no GPUs for claims"),
    ("aws-efa-k8s-device-plugin", "no EFA devices"),
    ("eks-pod-identity-agent", "no credentials"),
];
/// So many pools, and so many other DaemonSets, are compared with a DaemonSet.
const MOST_COMPARED: usize = 256;
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const DEVICE_PLUGIN: &str = "k8s-device-plugin";

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Tolerations are what kustomizations patch most.
    if object.is_partial() || object.is_patched_by_kustomize() || !ctx.index().has_any(Kind::NODE_POOL) {
        return None;
    }
    match object {
        _ if object.is(Kind::DAEMON_SET) => skips_gpu_pool(object, ctx),
        _ if object.is(Kind::NODE_POOL) => registers_nothing(object, ctx),
        _ => selects_found_label(object, ctx),
    }
}

/// A DaemonSet of every node that the taint of a GPU pool keeps away.
fn skips_gpu_pool(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let template = templates(object).into_iter().next()?;
    let (agent, lacking) = template.containers().find_map(|container| agent(&container))?;
    let spec = &template.spec;
    // A DaemonSet of some nodes is not meant for all.
    let affinity = spec.path(&["affinity", "nodeAffinity", REQUIRED]);
    let list = spec.get("tolerations");
    let of_all = ["kubernetes.io/os", "kubernetes.io/arch", "nvidia.com/gpu.present"];
    if spec.get("nodeSelector").entries().iter().any(|(key, _)| !of_all.contains(key))
        || affinity.is_set() && agent != DEVICE_PLUGIN
        || spec.is_unknown()
        || spec.has_unknown_key()
        || list.has_unknown()
    {
        return None;
    }
    // More than any cluster has: these are the files of many.
    if ctx.index().of(Kind::DAEMON_SET).nth(MOST_COMPARED).is_some() {
        return None;
    }
    let tolerations: Vec<Toleration> = list.items().map(|one| toleration(&one)).collect();
    let index = ctx.index();
    let mut found: Option<(&Object, Node<'_>, Taint)> = None;
    for pool in index.of(Kind::NODE_POOL).take(MOST_COMPARED) {
        let Some(spec) = NodePool::new(pool) else { continue };
        let gpu = spec.hardware() == Hardware::Accelerated && is_nvidia(&spec);
        if !gpu || spec.is_auto_mode() || !ctx.pairs_with(pool) {
            continue;
        }
        let taints = spec.template_spec().get("taints");
        let hard = taints.items().zip(spec.taints()).find(|(_, taint)| {
            matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                && !taint.key.is_empty()
                && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
        });
        if let Some((node, taint)) = hard {
            found = Some((pool, node, taint));
            break;
        }
    }
    let (pool, place, taint) = found?;
    // Another DaemonSet of the same agent may run there.
    let same = |other: &Object| {
        let templates = templates(other);
        let containers = templates.iter().flat_map(Template::containers);
        let mut agents = containers.into_iter().filter_map(|container| self::agent(&container));
        let is_other = (other.namespace(), other.name()) != (object.namespace(), object.name());
        is_other && agents.any(|(other, _)| other == agent)
    };
    if index.of(Kind::DAEMON_SET).take(MOST_COMPARED).any(same) {
        return None;
    }
    let (name, host, key) = (object.display_name(), pool.display_name(), taint.key);
    let is_plugin = agent == DEVICE_PLUGIN;
    let finding = ctx.report(
        &list,
        format!("`{name}` does not tolerate `{key}`: nodes of GPU pool `{host}` have {lacking}"),
    );
    finding
        .help(format!("tolerate `{key}` with `operator: Exists`"))
        .reports_absence(false)
        .related(pool, &place, "this taint keeps its pods off the nodes")
        .fix(
            Fix::new(format!("tolerate the taint `{key}`"), Safety::Unsafe)
                .append(&list, json!({"key": key, "operator": "Exists"})),
        );
    if is_plugin {
        finding.severity(Severity::Warning);
    }
    None
}

/// A GPU pod that selects a label which a node has only some time after it has joined.
fn selects_found_label(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Where all pools are known, `pod-fits-no-pool` says that the pod fits none.
    let whole = ctx.index().is_complete_for(Kind::NODE_POOL) && ctx.is_rule_enabled("pod-fits-no-pool");
    if whole || has_controller(object) {
        return None;
    }
    for template in templates(object) {
        let required = referenced_labels(&template);
        // A label of a managed node group says whose node it is.
        let elsewhere = |one: &LabelReference<'_>| one.key.starts_with("eks.amazonaws.com/");
        if !requests_accelerator(&template) || required.iter().any(elsewhere) {
            continue;
        }
        // One of several terms is an alternative.
        let terms = template.spec.path(&["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"]);
        let alone = terms.items().nth(1).is_none();
        let found = required.into_iter().find(|one| {
            matches!(one.usage, LabelUse::Required)
                && (alone || one.selector.is_some())
                && ["nvidia.com/", "feature.node.kubernetes.io/"]
                    .iter()
                    .any(|start| one.key.starts_with(start))
        });
        let Some(LabelReference { key, node, .. }) = found else { continue };
        let places = ctx.index().views().feasibility(ctx.platform());
        if places.has_other_pools() || places.declares(key) {
            return None;
        }
        let is_host = |pool: &&Object| {
            let gpu = NodePool::new(pool).is_some_and(|pool| pool.hardware() == Hardware::Accelerated);
            gpu && ctx.pairs_with(pool)
        };
        let Some(pool) = ctx.index().of(Kind::NODE_POOL).take(MOST_COMPARED).find(is_host) else { continue };
        let name = object.display_name();
        ctx.report(
            &node,
            format!("nodes get `{key}` after they join, so Karpenter starts none for `{name}`"),
        )
        .help("select `karpenter.k8s.aws/instance-gpu-name` or another label of Karpenter")
        .reports_absence(false)
        .related(
            pool,
            &pool.path(&["metadata", "name"]),
            "a GPU pool, which does not declare the label",
        );
    }
    None
}

/// The agent that a container is.
fn agent(container: &Node<'_>) -> Option<(&'static str, &'static str)> {
    let image = container.get("image").text()?;
    let last = repository(image).rsplit('/').next()?;
    AGENTS.into_iter().find(|(name, _)| *name == last)
}

/// A pool whose nodes get a driver and no device plugin, in an input that is the whole cluster.
fn registers_nothing(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let index = ctx.index();
    if !index.is_complete() {
        return None;
    }
    let pool = lacks_plugin(object, ctx).then(|| NodePool::new(object))??;
    // One finding for all pools.
    let first = index.of(Kind::NODE_POOL).find(|other| lacks_plugin(other, ctx));
    if first.is_some_and(|first| first.name() != object.name()) || has_plugin(ctx) {
        return None;
    }
    let name = object.display_name();
    let reference = pool.template_spec().path(&["nodeClassRef", "name"]);
    ctx.report(
        &reference,
        format!("no device plugin is in the input: nodes of GPU pool `{name}` never have `{RESOURCE}`"),
    )
    .help("install NVIDIA's device plugin or the GPU Operator");
    None
}

/// Whether the nodes of a pool have NVIDIA GPUs and an image without a device plugin.
fn lacks_plugin(object: &Object, ctx: &Context<'_>) -> bool {
    let judge = || {
        let pool = NodePool::new(object).filter(|pool| pool.hardware() == Hardware::Accelerated)?;
        let reference = pool.template_spec().get("nodeClassRef");
        let ours = reference.get("group").text() == Some(Kind::EC2_NODE_CLASS.group);
        if !ours || object.is_partial() || !is_nvidia(&pool) {
            return None;
        }
        let kind = Kind::EC2_NODE_CLASS;
        let classes = ctx.index().all(kind.group, kind.kind, "default", reference.get("name").text()?);
        let [class] = classes else { return None };
        let family = Ec2NodeClass::new(class)?.family()?;
        matches!(family, AmiFamily::Al2023 | AmiFamily::Al2 | AmiFamily::Custom).then_some(())
    };
    judge().is_some()
}

fn is_nvidia(pool: &NodePool<'_>) -> bool {
    pool.types().is_some_and(|types| types.iter().any(|one| one.devices(RESOURCE) > 0))
}

/// Whether something of the input may register GPUs.
fn has_plugin(ctx: &Context<'_>) -> bool {
    let index = ctx.index();
    let says = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["nvidia", "gpu", "device-plugin", "hami", "dra-driver"].iter().any(|word| text.contains(word))
    };
    let by_image = |object: &Object| {
        let templates = templates(object);
        let mut images = templates.iter().flat_map(Template::containers).map(|one| one.get("image"));
        says(object.name()) || images.any(|image| image.raw_text().is_none_or(says))
    };
    // A chart, a folder or a repository that says nothing may bring everything.
    let charts = [Kind::HELM_RELEASE, Kind::ARGO_APPLICATION].into_iter().flat_map(|kind| index.of(kind));
    let opaque = |object: &Object| {
        let spec = object.get("spec");
        let chart = spec.path(&["chart", "spec", "chart"]);
        let chart = if object.is(Kind::HELM_RELEASE) { chart } else { spec.path(&["source", "chart"]) };
        chart.text().is_none_or(says)
    };
    index.has_any(POLICY)
        || index.of(Kind::DAEMON_SET).any(by_image)
        || charts.into_iter().any(|object| opaque(object) || says(object.name()))
}
