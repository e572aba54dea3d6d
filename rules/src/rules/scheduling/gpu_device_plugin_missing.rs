//! GPU nodes have a driver but no device plugin, so they register no GPUs.
//!
//! # Why
//! The GPU images of Amazon Linux have the driver and the container toolkit, but no device plugin.
//! Without the plugin, from its own DaemonSet or from the GPU Operator, a node never has
//! `nvidia.com/gpu`: the pod that started it stays Pending, and Karpenter, for which the node is never
//! initialized, neither consolidates nor uses it. That a plugin is missing is known only if the input
//! is the whole cluster, so it is reported only with `--complete`.
//!
//! # Fix
//! Install NVIDIA's device plugin or the GPU Operator.
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

use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;
use crate::rules::scheduling::has_nvidia_gpus;

const CLUSTER_POLICY: Kind = Kind::new("nvidia.com", "ClusterPolicy");

pub(crate) static RULE: Rule = Rule {
    id: "gpu-device-plugin-missing",
    reads: &[
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::DAEMON_SET,
        CLUSTER_POLICY,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
    ],
    reports_absence: true,
    docs: docs(include_str!("gpu_device_plugin_missing.rs")),
    check: Check::NodePool(check),
    ..Rule::info(Group::Scheduling)
};

fn check(pool: &NodePool<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = pool.object();
    if !ctx.cluster().is_complete()
        || !ctx.cluster().has_any(Kind::NODE_POOL)
        || object.is_patched_by_kustomize()
        || !needs_plugin(object, ctx)
    {
        return None;
    }
    // One finding for all pools.
    let first = ctx.cluster().of(Kind::NODE_POOL).find(|other| needs_plugin(other, ctx));
    if first.is_some_and(|first| first.name() != object.name()) || may_have_plugin(ctx) {
        return None;
    }
    let name = object.display_name();
    let reference = pool.template_spec().path(&["nodeClassRef", "name"]);
    ctx.report(
        &reference,
        format!("no device plugin is in the input: nodes of GPU pool `{name}` never have `nvidia.com/gpu`"),
    )
    .help("install NVIDIA's device plugin or the GPU Operator");
    None
}

/// Whether the nodes of a pool have NVIDIA GPUs, and an image with a driver but no device plugin.
fn needs_plugin(object: &Object, ctx: &Context<'_>) -> bool {
    let Some(pool) = NodePool::new(object).filter(|pool| !object.is_partial() && has_nvidia_gpus(pool))
    else {
        return false;
    };
    let family = family(&pool, ctx);
    matches!(family, Some(AmiFamily::Al2023 | AmiFamily::Al2 | AmiFamily::Custom))
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

/// Whether an object of the input registers GPUs, or may install what does.
fn may_have_plugin(ctx: &Context<'_>) -> bool {
    let index = ctx.cluster();
    let mentions_plugin = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["nvidia", "gpu", "device-plugin", "hami", "dra-driver"].iter().any(|word| text.contains(word))
    };
    let by_image = |object: &Object| {
        let templates = templates(object);
        let mut images = templates.iter().flat_map(Template::containers).map(|one| one.get("image"));
        mentions_plugin(object.name()) || images.any(|image| image.raw_text().is_none_or(mentions_plugin))
    };
    // A chart whose name is not written, a folder or a repository may install anything.
    let by_chart = |object: &Object| {
        let spec = object.get("spec");
        let chart = if object.is(Kind::HELM_RELEASE) {
            spec.path(&["chart", "spec", "chart"])
        } else {
            spec.path(&["source", "chart"])
        };
        chart.text().is_none_or(mentions_plugin) || mentions_plugin(object.name())
    };
    index.has_any(CLUSTER_POLICY)
        || index.of(Kind::DAEMON_SET).any(by_image)
        || index.of(Kind::HELM_RELEASE).any(by_chart)
        || index.of(Kind::ARGO_APPLICATION).any(by_chart)
}
