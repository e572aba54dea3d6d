//! A device plugin runs on nodes of EKS Auto Mode, which have one.
//!
//! # Why
//! Nodes of EKS Auto Mode come with the drivers and the device plugins for NVIDIA GPUs and for Neuron; no
//! DaemonSet shows them. A second plugin on such a node registers the same resource anew: pods get devices
//! that others use, or none. In a cluster with other nodes beside those of Auto Mode, its DaemonSet has to
//! keep off the latter.
//!
//! # Fix
//! Require `eks.amazonaws.com/compute-type` NotIn `auto`, or remove the DaemonSet where all nodes are of
//! Auto Mode.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: nvidia-device-plugin, namespace: kube-system}
//!  spec:
//!    selector: {matchLabels: {app: nvidia-device-plugin}}
//!    template:
//!      metadata: {labels: {app: nvidia-device-plugin}}
//!      spec: # <-
//! +      affinity:
//! +        nodeAffinity:
//! +          requiredDuringSchedulingIgnoredDuringExecution:
//! +            nodeSelectorTerms:
//! +              - matchExpressions:
//! +                  - key: eks.amazonaws.com/compute-type
//! +                    operator: NotIn
//! +                    values: [auto]
//!        priorityClassName: system-node-critical
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists}]
//!        containers:
//!          - name: plugin
//!            image: nvcr.io/nvidia/k8s-device-plugin:v0.17.4
//!            resources: {requests: {cpu: 20m, memory: 64Mi}}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: gpu}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}
//!        requirements:
//!          - {key: eks.amazonaws.com/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/auto-accelerated.html>

use crate::karpenter::requirement::{Requirement, Requirements};
use crate::karpenter::scheduling::{Pod, Taint, tolerates};
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "auto-mode-device-plugin",
    kinds: &[Kind::DAEMON_SET],
    reads: &[Kind::NODE_POOL],
    docs: docs(include_str!("auto_mode_device_plugin.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Scheduling)
};

/// The last part of the repository of a plugin's image, and the resource that it registers.
const PLUGINS: [(&str, &str); 2] =
    [("k8s-device-plugin", "nvidia.com/gpu"), ("neuron-device-plugin", "aws.amazon.com/neuron")];

/// Maximum number of NodePools that a DaemonSet is compared with.
const MAX_COMPARED: usize = 256;

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // What keeps a DaemonSet off nodes is what kustomizations patch most.
    if object.may_lack_fields() {
        return None;
    }
    let template = templates(object).into_iter().next()?;
    let resource = template.containers().find_map(|container| plugin(container.get("image").text()?))?;
    let pod = to_scheduling_pod(&template)?;
    let pools = ctx.cluster().of(Kind::NODE_POOL).take(MAX_COMPARED);
    let pool = pools.into_iter().find(|pool| {
        NodePool::new(pool).is_some_and(|pool| runs_on(&pod, &pool, resource)) && ctx.pairs_with(pool)
    })?;
    let (name, pool_name) = (object.display_name(), pool.display_name());
    let message = format!(
        "`{name}` runs on nodes of EKS Auto Mode, such as those of `{pool_name}`, which have the plugin"
    );
    ctx.report(&template.spec, message)
        .help("require `eks.amazonaws.com/compute-type` NotIn `auto` of its nodes")
        .related(pool, &pool.path(&["metadata", "name"]), "a pool of EKS Auto Mode with accelerators");
    None
}

/// The resource that the plugin of an image registers.
fn plugin(image: &str) -> Option<&'static str> {
    let last = ImageRef::parse(image).last();
    PLUGINS.into_iter().find(|(name, _)| *name == last).map(|(_, resource)| resource)
}

/// Whether pods of a DaemonSet certainly run on nodes of a pool of EKS Auto Mode whose types all have a resource.
fn runs_on(pod: &Pod, pool: &NodePool<'_>, resource: &str) -> bool {
    let types = pool.types().filter(|types| !types.is_empty());
    let has_devices = || types.is_some_and(|types| types.iter().all(|one| one.devices(resource) > 0));
    let tolerated = |taint: &Taint| {
        taint.effect == "PreferNoSchedule" || pod.tolerations.iter().any(|given| tolerates(given, taint))
    };
    if !pool.is_auto_mode() || !has_devices() || !pool.taints().iter().all(tolerated) {
        return false;
    }
    // A label that the pool does not set may be absent, and NFD sets others.
    let mut nodes = Requirements::new();
    for (key, value) in pool.label_pairs() {
        nodes.add(&key, Requirement::is(&value));
    }
    for (key, value) in [("eks.amazonaws.com/compute-type", "auto"), ("kubernetes.io/os", "linux")] {
        nodes.add(key, Requirement::is(value));
    }
    let meets = |key: &str, wanted: &Requirement| match nodes.get(key) {
        Some(has) => has.meets(wanted),
        None => key == "kubernetes.io/arch",
    };
    let selected = pod.node_selector.iter().all(|(key, value)| meets(key, &Requirement::is(value)));
    let mut terms = pod.terms.iter().map(|term| {
        let mut expressions = term.expressions.iter();
        expressions.all(|spec| meets(&spec.key, &Requirement::new(spec.op, &spec.values, None)))
    });
    selected && (pod.terms.is_empty() || terms.any(|term| term))
}
