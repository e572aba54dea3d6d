//! A toleration of pods with accelerators matches no taint of the cluster.
//!
//! # Why
//! A toleration that no node has a taint for does nothing. Mostly it is what is left of nodes that were replaced,
//! or its key is misspelled: the pods then do not come where they were meant to, or the pool that was to be kept
//! for them is open to all. Reported only with `--complete`, for pods that request accelerators, where no
//! NodePool, no user data of a node class, no node and no node group of the input has the key, and no policy or
//! rule of node feature discovery names it. Taints of Kubernetes, of clouds and of vendors, which their
//! components add, are left alone, and so are DaemonSets and what a chart rendered.
//!
//! # Fix
//! Remove the toleration, or add the taint to the NodePool that the pods are meant for.
//!
//! # Example
//! ```yaml,diff
//!  # gpulint check --complete
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: l4}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
//!        requirements:
//!          - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6, g6e]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
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
//!  ---
//!  apiVersion: apps/v1
//!  kind: DaemonSet
//!  metadata: {name: nvidia-device-plugin, namespace: kube-system}
//!  spec:
//!    selector: {matchLabels: {app: nvidia-device-plugin}}
//!    template:
//!      metadata: {labels: {app: nvidia-device-plugin}}
//!      spec:
//!        tolerations: [{key: nvidia.com/gpu, operator: Exists}]
//!        containers:
//!          - name: plugin
//!            image: nvcr.io/nvidia/k8s-device-plugin:v0.18.0
//!            resources: {requests: {cpu: 50m, memory: 64Mi}}
//!  ---
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: label, namespace: vision}
//!  spec:
//!    backoffLimit: 1
//!    activeDeadlineSeconds: 3600
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        tolerations:
//!          - {key: nvidia.com/gpu, operator: Exists}
//! -        - {key: gpu-node, operator: Exists} # <-
//!        containers:
//!          - name: main
//!            image: example.com/label:1.4.0
//!            resources: {requests: {cpu: 3, memory: 12Gi}, limits: {memory: 12Gi, nvidia.com/gpu: 1}}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use crate::fit::label_of_other_nodes;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "toleration-unmatched",
    kinds: WORKLOAD_KINDS,
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS, Kind::NODE, Kind::RESOURCE_FLAVOR],
    tag: Some(Tag::Unnecessary),
    docs: docs(include_str!("toleration_unmatched.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Scheduling)
};

/// The ends of the domains of taints that controllers, clouds and drivers add.
const OF_OTHERS: [&str; 20] = [
    "kubernetes.io",
    "k8s.io",
    "karpenter.sh",
    "nvidia.com",
    "amd.com",
    "intel.com",
    "habana.ai",
    "amazonaws.com",
    "aws.amazon.com",
    "aws.com",
    "k8s.aws",
    "cilium.io",
    "istio.io",
    "x-k8s.io",
    "virtual-kubelet.io",
    "aws-node-termination-handler",
    "google.com",
    "gke.io",
    "azure.com",
    "oraclecloud.com",
];

/// Taints without a domain: of the addons of Kubernetes, of the Cluster Autoscaler, and the one that the
/// documentation of AKS gives to nodes with GPUs.
const PLAIN: [&str; 4] =
    ["CriticalAddonsOnly", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "sku"];

/// The groups of policies that may change nodes, and of the rules of node feature discovery.
const TAINTING: [&str; 6] = [
    "kyverno.io",
    "policies.kyverno.io",
    "mutations.gatekeeper.sh",
    "admissionregistration.k8s.io",
    "nfd.k8s-sigs.io",
    "nfd.openshift.io",
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    let is_rendered = object.path(&["metadata", "labels", "helm.sh/chart"]).is_set();
    if !cluster.is_complete()
        || object.is(Kind::DAEMON_SET)
        || object.may_lack_fields()
        || object.is_owned()
        || object.controller().is_some()
        || is_rendered
        || cluster.views().feasibility(ctx.platform()).has_other_pools()
    {
        return None;
    }
    let pool = cluster.of(Kind::NODE_POOL).next()?;
    for template in templates(object).iter().filter(|template| requests_accelerator(template)) {
        if label_of_other_nodes(template).is_some() {
            continue;
        }
        for toleration in template.spec.get("tolerations").items() {
            let key = toleration.get("key");
            let Some(name) = key.text().filter(|name| !is_of_others(name) && !may_be_tainted(name, ctx))
            else {
                continue;
            };
            ctx.report(&key, format!("no node of the cluster has a taint `{}` to tolerate", ellipsize(name)))
                .identified_by(name)
                .help("remove the toleration, or add the taint to the NodePool that the pods are meant for")
                .related(pool, &taints(pool), "the taints of a pool");
        }
    }
    None
}

/// Whether something other than a manifest of the input adds the taint to nodes.
fn is_of_others(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    key.is_empty()
        || PLAIN.contains(&key)
        || is_accelerator(key)
        || OF_OTHERS.iter().any(|other| domain == *other || domain.ends_with(&format!(".{other}")))
}

/// The taints of a pool, or its name.
fn taints(pool: &Object) -> Node<'_> {
    let taints = pool.path(&["spec", "template", "spec", "taints"]);
    if taints.is_set() { taints } else { pool.path(&["metadata", "name"]) }
}

/// Whether a node may have a taint with this key.
fn may_be_tainted(key: &str, ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let has = |list: &Node<'_>| {
        list.has_unknown() || list.items().any(|taint| taint.get("key").text() == Some(key))
    };
    let by_pool = |pool: &Object| {
        let spec = pool.path(&["spec", "template", "spec"]);
        pool.may_lack_fields()
            || spec.has_unknown_key()
            || ["taints", "startupTaints"].iter().any(|field| has(&spec.get(field)))
    };
    let by_class = |class: &Object| {
        let text = class.path(&["spec", "userData"]);
        class.may_lack_fields() || text.is_set() && text.raw_text().is_none_or(|text| text.contains(key))
    };
    let names_key = |object: &Object| object.root().to_json().to_string().contains(key);
    cluster.of(Kind::NODE_POOL).any(by_pool)
        || cluster.of(Kind::EC2_NODE_CLASS).any(by_class)
        || cluster.of(Kind::NODE).any(|node| has(&node.path(&["spec", "taints"])))
        || cluster.other_nodes().iter().any(|nodes| nodes.may_have_taint(key))
        || TAINTING.iter().any(|group| cluster.of_group(group).any(names_key))
        || cluster.partial().iter().any(|object| TAINTING.contains(&object.group()) && names_key(object))
        || cluster.of(Kind::RESOURCE_FLAVOR).any(|flavor| has(&flavor.path(&["spec", "nodeTaints"])))
}
