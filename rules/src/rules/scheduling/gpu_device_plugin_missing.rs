//! Accelerator nodes have a driver and no device plugin: no devices register.
//!
//! # Why
//! The images of Amazon Linux have the driver of NVIDIA or of Neuron, but no device plugin; those of
//! Bottlerocket have the one of NVIDIA. Without the plugin, from its own DaemonSet or from an operator,
//! a node never has `nvidia.com/gpu` (or `aws.amazon.com/neuron`, `amd.com/gpu`, `habana.ai/gaudi`): the
//! pod that started it stays Pending, and Karpenter, for which the node is never initialized, neither
//! consolidates nor uses it. That a plugin is missing is known only if the input is the whole cluster, so
//! it is reported only with `--complete`. What a kustomization, a helmfile, the dependencies of a chart, or
//! Terraform beside the manifests installs counts by its name.
//!
//! # Fix
//! Install the device plugin of the vendor, or the operator that brings it.
//!
//! # Example
//! ```yaml,diff
//!  # gpulint check --complete
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef:
//!          group: karpenter.k8s.aws
//!          kind: EC2NodeClass
//!          name: gpu # <-
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//!        rootVolume: true
//!        ebs: {volumeSize: 200Gi, volumeType: gp3, encrypted: true}
//! +---
//! +apiVersion: apps/v1
//! +kind: DaemonSet
//! +metadata: {name: nvidia-device-plugin, namespace: kube-system}
//! +spec:
//! +  selector: {matchLabels: {app: nvidia-device-plugin}}
//! +  template:
//! +    metadata: {labels: {app: nvidia-device-plugin}}
//! +    spec:
//! +      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
//! +      containers:
//! +        - name: plugin
//! +          image: nvcr.io/nvidia/k8s-device-plugin:v0.18.0
//! +          resources: {requests: {cpu: 50m, memory: 64Mi}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-k8s-device-plugin.html>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/amazon-eks.html>
//! - <https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html>

use crate::catalog::Accelerator;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;
use crate::rules::scheduling::node_helpers::{INSTALLING_KINDS, has_devices, may_install, pool_noun};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-device-plugin-missing",
    reads: kinds![
        [Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::DAEMON_SET, Kind::CLUSTER_POLICY],
        INSTALLING_KINDS
    ],
    reports_absence: true,
    docs: docs(include_str!("gpu_device_plugin_missing.rs")),
    check: Check::NodePool(check),
    ..Rule::warning(Group::Scheduling)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if ctx.cluster().is_complete() && !pool.object().is_patched_by_kustomize() {
        for device in Accelerator::RESOURCES {
            inspect(pool, device, ctx);
        }
    }
    None
}

fn inspect(pool: &NodePool<'_>, device: &str, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    if !needs_plugin(object, device, ctx) {
        return None;
    }
    // One finding for all pools.
    let first = ctx.cluster().of(Kind::NODE_POOL).find(|other| needs_plugin(other, device, ctx));
    if first.is_some_and(|first| first.name() != object.name()) || may_have_plugin(device, ctx) {
        return None;
    }
    let (name, of) = (object.display_name(), pool_noun(device));
    let reference = pool.template_spec().path(&["nodeClassRef", "name"]);
    ctx.report(
        &reference,
        format!("no device plugin is in the input: nodes of {of} `{name}` never have `{device}`"),
    )
    .identified_by(device)
    .help(match device {
        "nvidia.com/gpu" => "install NVIDIA's device plugin or the GPU Operator",
        "amd.com/gpu" => "install AMD's device plugin or its GPU operator",
        "aws.amazon.com/neuron" => "install the Neuron device plugin",
        _ => "install the device plugin of Intel Gaudi",
    });
    None
}

/// Whether the nodes of a pool have devices of a resource, and an image without the device plugin.
fn needs_plugin(object: &Object, device: &str, ctx: &Context<'_>) -> bool {
    let Some(pool) = NodePool::new(object).filter(|pool| !object.is_partial() && has_devices(pool, device))
    else {
        return false;
    };
    match family(&pool, ctx) {
        Some(AmiFamily::Bottlerocket) => device != "nvidia.com/gpu",
        family => matches!(family, Some(AmiFamily::Al2023 | AmiFamily::Al2 | AmiFamily::Custom)),
    }
}

/// The AMI family of the EC2NodeClass of a pool, if the input has exactly one of its name.
fn family(pool: &NodePool<'_>, ctx: &Context<'_>) -> Option<AmiFamily> {
    let Kind { group, kind } = Kind::EC2_NODE_CLASS;
    let reference = pool.template_spec().get("nodeClassRef");
    if reference.get("group").text() != Some(group) {
        return None;
    }
    match ctx.cluster().all(group, kind, "default", reference.get("name").text()?) {
        [class] => Ec2NodeClass::new(class)?.family(),
        _ => None,
    }
}

/// Whether an object of the input registers the devices of a resource, or may install what does.
fn may_have_plugin(device: &str, ctx: &Context<'_>) -> bool {
    let words: &[&str] = match device {
        "nvidia.com/gpu" => &["nvidia", "gpu", "device-plugin", "hami", "dra-driver"],
        "amd.com/gpu" => &["amd", "rocm", "gpu", "dra-driver"],
        "aws.amazon.com/neuron" => &["neuron", "inferentia", "trainium"],
        _ => &["habana", "gaudi"],
    };
    let mentions_plugin = |text: &str| mentions(text, words);
    let by_image = |object: &Object| {
        let templates = templates(object);
        let mut images = templates.iter().flat_map(Template::containers).map(|one| one.get("image"));
        mentions_plugin(object.name()) || images.any(|image| image.raw_text().is_none_or(mentions_plugin))
    };
    (device == "nvidia.com/gpu" && ctx.cluster().has_any(Kind::CLUSTER_POLICY))
        || ctx.cluster().of(Kind::DAEMON_SET).any(by_image)
        || may_install(words, ctx)
}
