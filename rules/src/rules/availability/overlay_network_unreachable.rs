//! The API server of EKS asks pods on an overlay network, which it does not reach.
//!
//! # Why
//! The control plane of EKS is in the VPC and runs no agent of a network plugin. With the VPC CNI pods have
//! addresses of the VPC. On an overlay network, of Cilium with its own pools of addresses or of Calico, they
//! have addresses that only the nodes know: `Address is not allowed`, or a timeout. An API that pods serve
//! stays unavailable, such as that of external metrics, and so do webhooks.
//!
//! # Fix
//! Run these pods on the network of their node, with the value that the finding names.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: cilium, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: cilium, version: 1.18.2, sourceRef: {kind: HelmRepository, name: cilium}}
//!    values:
//!      ipam: {mode: cluster-pool}
//!      agentNotReadyTaintKey: ignore-taint.cluster-autoscaler.kubernetes.io/cilium
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: keda, namespace: keda}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: keda, version: 2.20.2, sourceRef: {kind: HelmRepository, name: keda}}
//!    values: # <-
//!      operator: {replicaCount: 2}
//! +    metricsServer: {useHostNetwork: true}
//!  ---
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    role: KarpenterNodeRole-prod
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//!        ebs: {volumeSize: 60Gi, volumeType: gp3, encrypted: true}
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/troubleshooting/>
//! - <https://docs.cilium.io/en/stable/installation/k8s-install-helm/>
//! - <https://docs.tigera.io/calico/latest/getting-started/kubernetes/managed-public-cloud/eks>

use crate::cluster::values::VERSIONED_CHARTS;
use crate::rules::gpu::report_place;
use crate::rules::prelude::*;
use crate::workload::charts::find_in_values;

pub(crate) static RULE: Rule = Rule {
    id: "overlay-network-unreachable",
    kinds: &CHART_KINDS,
    reads: kinds![VERSIONED_CHARTS, [Kind::NODE_POOL, Kind::EC2_NODE_CLASS]],
    docs: docs(include_str!("overlay_network_unreachable.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Availability)
};

/// Charts whose pods the API server asks: the value that puts them on the network of their node, and what else happens. Read in the
/// values of keda 2.20, metrics-server 3.13, prometheus-adapter 5.1, cert-manager 1.19 and aws-load-balancer-controller 1.14.
const ASKED: [(&str, &[&str], &str); 5] = [
    ("keda", &["metricsServer", "useHostNetwork"], "no HPA of KEDA gets a value"),
    ("metrics-server", &["hostNetwork", "enabled"], "no HPA gets a value for CPU or memory"),
    ("prometheus-adapter", &["hostNetwork", "enabled"], "no HPA gets its metrics"),
    ("cert-manager", &["webhook", "hostNetwork"], "its webhook rejects all its objects"),
    ("aws-load-balancer-controller", &["hostNetwork"], "its webhook rejects Services and Ingresses"),
];

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.may_lack_fields() {
        return None;
    }
    let (place, path, effect) = ASKED.iter().find_map(|(chart, path, effect)| {
        let place = find_in_values(object, chart, |values| {
            let node = values.root.path(path);
            let is_known = !values.may_differ && !values.root.has_unknown_key() && !node.is_unknown();
            (is_known && node.bool() != Some(true)).then(|| values.place(&node, object))
        })?;
        Some((place, path.join("."), effect))
    })?;
    let (plugin, name) = overlay(ctx)?;
    if !is_on_eks(ctx) {
        return None;
    }
    let message = format!("the API server of EKS does not reach pods on the network of {name}: {effect}");
    report_place(&place, message, ctx)
        .help(format!("set `{path}: true`: it reaches pods on the network of their node"))
        .related(plugin, &plugin.path(&["metadata", "name"]), "pods have addresses outside of the VPC");
    None
}

/// What installs a network plugin that gives pods addresses which are not of the VPC, and its name.
fn overlay<'i>(ctx: &Context<'i>) -> Option<(&'i Object, &'static str)> {
    chart_installers(ctx.cluster()).filter(|one| ctx.pairs_with(one)).find_map(|one| {
        let by_cilium = find_in_values(one, "cilium", |values| {
            let root = values.root;
            let mode = root.path(&["ipam", "mode"]);
            let chaining = root.path(&["cni", "chainingMode"]);
            // The default is `cluster-pool`.
            let is_own =
                !mode.is_set() || matches!(mode.text(), Some("cluster-pool" | "multi-pool" | "kubernetes"));
            let is_chained = chaining.is_set() && chaining.text() != Some("none");
            let is_eni = root.path(&["eni", "enabled"]);
            let is_known = !values.may_differ && !root.has_unknown_key() && !is_eni.is_unknown();
            (is_known && is_own && !is_chained && is_eni.bool() != Some(true)).then_some("Cilium")
        });
        let by_calico = || {
            find_in_values(one, "tigera-operator", |values| {
                let kind = values.root.path(&["installation", "cni", "type"]);
                (!values.may_differ && kind.text() == Some("Calico")).then_some("Calico")
            })
        };
        Some((one, by_cilium.or_else(by_calico)?))
    })
}

/// Whether the nodes are Karpenter's on AWS, and the cluster is so most likely of EKS.
fn is_on_eks(ctx: &Context<'_>) -> bool {
    let cluster = ctx.cluster();
    let is_of_pool = |pool: &Object| {
        let group = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]);
        group.text().is_some() && Provider::of_group(&group) == Provider::Aws
    };
    ctx.platform().eks
        && (cluster.of(Kind::EC2_NODE_CLASS).any(|class| ctx.pairs_with(class))
            || cluster.of(Kind::NODE_POOL).any(|pool| is_of_pool(pool) && ctx.pairs_with(pool)))
}
