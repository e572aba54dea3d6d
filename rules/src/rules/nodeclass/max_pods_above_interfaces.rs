//! `maxPods` is above the addresses of the network interfaces of a pool's types.
//!
//! # Why
//! Each pod gets an address of its node's network interfaces, whose number is fixed by the instance type. With
//! prefix delegation the plugin assigns sixteen addresses where it else assigns one. Where it is off, and
//! `maxPods` is above the addresses of the type, the scheduler places pods that stay in ContainerCreating with
//! "failed to assign an IP address". Whether it is off is known only where the input has the DaemonSet
//! `aws-node`, or installs the chart aws-vpc-cni.
//!
//! # Fix
//! Set `ENABLE_PREFIX_DELEGATION` to `"true"`, or leave `maxPods` out: Karpenter then counts the addresses of
//! each type.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: embed}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! -  kubelet: {maxPods: 110} # <-
//! +  kubelet: {maxPods: 50}
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//!        ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}
//!  ---
//!  apiVersion: karpenter.sh/v1
//!  kind: NodePool
//!  metadata: {name: embed}
//!  spec:
//!    template:
//!      spec:
//!        nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: embed}
//!        requirements:
//!          - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge, g6.2xlarge]}
//!          - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
//!        taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
//!    limits: {nvidia.com/gpu: 8}
//!    disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: aws-vpc-cni, namespace: kube-system}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec: {chart: aws-vpc-cni, version: 1.22.4, sourceRef: {kind: HelmRepository, name: eks}}
//!    values:
//!      env: {ENABLE_PREFIX_DELEGATION: "false"}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html>
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>

use crate::rules::prelude::*;
use crate::workload::environment::known;

pub(crate) static RULE: Rule = Rule {
    id: "max-pods-above-interfaces",
    reads: &[
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::DAEMON_SET,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
    ],
    docs: docs(include_str!("max_pods_above_interfaces.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// Pods in the network of the node need no address; more of them than this run on no usual node.
const IN_HOST_NETWORK: i64 = 10;
/// The variables of the plugin with which nodes have other numbers of addresses, or may: IPv6 always uses prefixes.
const CHANGES_ADDRESSES: [&str; 4] =
    ["ENABLE_PREFIX_DELEGATION", "ENABLE_IPv6", "ENABLE_POD_ENI", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG"];

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let node = class.get("kubelet").get("maxPods");
    let most = node.int()?;
    if class.get("networkInterfaces").is_set() || class.get("ipPrefixCount").is_set() {
        return None;
    }
    let pools = ctx.cluster().views().class_pools().pools_of(class.object());
    let addresses = |types: &TypeSet| types.iter().map(|one| i64::from(one.eni_pods(0))).max();
    let (pool, addresses) = pools.with_types().find_map(|(pool, types)| {
        let addresses = addresses(&types).filter(|most_of_type| *most_of_type > 0)?;
        (most > addresses + IN_HOST_NETWORK).then(|| (pool.clone(), addresses))
    })?;
    let plugin = without_prefixes(ctx)?;
    let message = format!(
        "`maxPods: {most}` is more than the {addresses} pods for which nodes of pool `{}` have addresses",
        pool.display_name()
    );
    ctx.report(&node, message)
        .help("leave it out, or set `ENABLE_PREFIX_DELEGATION` of the network plugin to `\"true\"`")
        .related(&pool, &pool.path(&["metadata", "name"]), "the pool")
        .related(
            plugin,
            &plugin.path(&["metadata", "name"]),
            "the network plugin, without prefix delegation",
        );
    None
}

/// The DaemonSet of the network plugin, or what installs its chart (whose defaults, in 1.22.4, are `"false"`), if all that the
/// input has leave prefix delegation off.
fn without_prefixes<'i>(ctx: &Context<'i>) -> Option<&'i Object> {
    let cluster = ctx.cluster();
    let is_plugin = |object: &&Object| object.name() == "aws-node" && ctx.pairs_with(object);
    let sets: Vec<&Object> = cluster.of(Kind::DAEMON_SET).filter(is_plugin).collect();
    let installed = chart_installers(cluster);
    let installed: Vec<(&Object, bool)> = installed
        .filter(|object| ctx.pairs_with(object))
        .filter_map(|object| chart_is_off(object).map(|is_off| (object, is_off)))
        .collect();
    let all_off = sets.iter().all(|set| is_off(set)) && installed.iter().all(|(_, is_off)| *is_off);
    let first = sets.into_iter().chain(installed.into_iter().map(|(object, _)| object)).next();
    first.filter(|_| all_off)
}

/// Whether the variables of the plugin's DaemonSet leave the addresses as they are.
fn is_off(set: &Object) -> bool {
    let templates = templates(set);
    let mut containers = templates.iter().flat_map(Template::containers);
    let Some(container) = containers.find(|container| container.get("name").text() == Some("aws-node"))
    else {
        return false;
    };
    !set.may_lack_fields()
        && known(&container).is_some_and(|env| {
            let is_false = |name: &&str| env.get(*name).is_none_or(|value| value.text() == Some("false"));
            CHANGES_ADDRESSES.iter().all(is_false)
        })
}

/// Whether the values of the plugin's chart leave the addresses as they are. `None` for other charts.
fn chart_is_off(object: &Object) -> Option<bool> {
    let mut found = None;
    for_each_values(object, "aws-vpc-cni", |values| {
        let env = values.root.get("env");
        let is_off = CHANGES_ADDRESSES.iter().all(|name| {
            let value = env.get(name);
            !value.is_set() || value.raw_text() == Some("false")
        });
        let is_known = !values.may_differ && !env.has_unknown() && !values.root.has_unknown_key();
        found = Some(found.unwrap_or(true) && is_off && is_known);
    });
    found
}
