//! A DaemonSet that GPU nodes need does not tolerate the taint of a GPU pool.
//!
//! # Why
//! A DaemonSet that does not tolerate the taint of a GPU pool does not run on its nodes: without a
//! device plugin they register no GPUs, without an agent they have no logs or metrics. It is a
//! warning for the device plugin, because the pod that started such a node stays Pending, and
//! information for all others.
//!
//! # Fix
//! Let the DaemonSets of every node tolerate the taints of the GPU pools.
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
//! - <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-k8s-device-plugin.html>

use crate::karpenter::pod::toleration;
use crate::karpenter::scheduling::{Taint, Toleration, tolerates};
use crate::rules::prelude::*;
use crate::rules::scheduling::has_nvidia_gpus;
use crate::workload::class::repository;

pub(crate) static RULE: Rule = Rule {
    id: "gpu-helper-missing",
    kinds: &[Kind::DAEMON_SET],
    reads: &[Kind::NODE_POOL, Kind::DAEMON_SET],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_helper_missing.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

/// A program that every node needs.
#[derive(Clone, Copy, PartialEq)]
struct Agent {
    /// The last part of the repository of its image.
    image: &'static str,
    /// What nodes without it lack, for the message.
    lacking: &'static str,
}

const DEVICE_PLUGIN: &str = "k8s-device-plugin";
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
/// Maximum number of NodePools, and of DaemonSets, that a DaemonSet is compared with.
const MAX_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Tolerations are what kustomizations patch most.
    if object.is_partial() || object.is_patched_by_kustomize() {
        return None;
    }
    let template = templates(object).into_iter().next()?;
    let agent = agents(&template).next()?;
    let list = template.spec.get("tolerations");
    // No cluster has as many DaemonSets: these are the manifests of several clusters.
    let too_many = ctx.cluster().of(Kind::DAEMON_SET).nth(MAX_COMPARED).is_some();
    if !runs_on_every_node(&template, agent) || list.has_unknown() || too_many {
        return None;
    }
    let tolerations: Vec<Toleration> = list.items().map(|item| toleration(&item)).collect();
    let (pool, taint_node, taint) = gpu_pool_not_tolerated(&tolerations, ctx)?;
    // Another DaemonSet of the agent may run on the nodes of the pool.
    let is_other = |other: &Object| (other.namespace(), other.name()) != (object.namespace(), object.name());
    let runs_agent = |other: &Object| {
        is_other(other) && templates(other).iter().any(|template| agents(template).any(|one| one == agent))
    };
    if ctx.cluster().of(Kind::DAEMON_SET).take(MAX_COMPARED).any(runs_agent) {
        return None;
    }
    let (name, pool_name, key) = (object.display_name(), pool.display_name(), taint.key);
    let lacking = agent.lacking;
    let finding = ctx.report(
        &list,
        format!("`{name}` does not tolerate `{key}`: nodes of GPU pool `{pool_name}` have {lacking}"),
    );
    finding
        .help(format!("tolerate `{key}` with `operator: Exists`"))
        .related(pool, &taint_node, "this taint keeps its pods off the nodes")
        .fix(
            Fix::new(format!("tolerate the taint `{key}`"), Safety::Unsafe)
                .append(&list, json!({"key": key, "operator": "Exists"})),
        );
    if agent.image == DEVICE_PLUGIN {
        finding.severity(Severity::Warning);
    }
    None
}

fn agents<'t>(template: &'t Template<'_>) -> impl Iterator<Item = Agent> + 't {
    template.containers().filter_map(|container| {
        let image = container.get("image").text()?;
        let last = repository(image).rsplit('/').next()?;
        let (image, lacking) = AGENTS.into_iter().find(|(name, _)| *name == last)?;
        Some(Agent { image, lacking })
    })
}

/// Whether a DaemonSet is meant for all nodes, as far as its node selector and affinity show.
fn runs_on_every_node(template: &Template<'_>, agent: Agent) -> bool {
    let spec = &template.spec;
    let affinity = spec.path(&["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"]);
    let harmless = ["kubernetes.io/os", "kubernetes.io/arch", "nvidia.com/gpu.present"];
    spec.get("nodeSelector").entries().iter().all(|(key, _)| harmless.contains(key))
        // The manifest of the device plugin selects nodes with GPUs by an affinity.
        && (!affinity.is_set() || agent.image == DEVICE_PLUGIN)
        && !spec.is_unknown()
        && !spec.has_unknown_key()
}

/// The first GPU pool with a taint that keeps pods with these tolerations off its nodes.
fn gpu_pool_not_tolerated<'i>(
    tolerations: &[Toleration],
    ctx: &Context<'i>,
) -> Option<(&'i Object, Node<'i>, Taint)> {
    ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED).find_map(|object| {
        let pool = NodePool::new(object)?;
        if !has_nvidia_gpus(&pool) || pool.is_auto_mode() || !ctx.pairs_with(object) {
            return None;
        }
        let nodes = pool.template_spec().get("taints");
        let (node, taint) = nodes.items().zip(pool.taints()).find(|(_, taint)| {
            matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                && !taint.key.is_empty()
                && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
        })?;
        Some((object, node, taint))
    })
}
