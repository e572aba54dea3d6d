//! The GPU Operator installs a driver on nodes whose image has one.
//!
//! # Why
//! The accelerated images of Amazon Linux 2023 and Bottlerocket for EKS already have NVIDIA's driver
//! and container toolkit. On a node with a driver the operator's driver pod finds it and leaves again, which
//! delays the first pods of each node. The toolkit writes the configuration of containerd anew and restarts
//! it, in the place of the one with which the image was tested, and a second device plugin registers the GPUs
//! of a node of EKS Auto Mode once more. All are on by default in the operator's chart.
//!
//! # Fix
//! Set `driver.enabled: false` and `toolkit.enabled: false` in the operator's values, or switch the parts off
//! for the nodes of a pool with labels in its template: `nvidia.com/gpu.deploy.driver: "false"`.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    role: nodes
//!    amiSelectorTerms: [{alias: al2023@v20250807}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    blockDeviceMappings:
//!      - deviceName: /dev/xvda
//!        rootVolume: true
//!        ebs: {volumeSize: 100Gi, encrypted: true}
//!  ---
//!  apiVersion: helm.toolkit.fluxcd.io/v2
//!  kind: HelmRelease
//!  metadata: {name: gpu-operator, namespace: gpu-operator}
//!  spec:
//!    interval: 1h
//!    chart:
//!      spec:
//!        chart: gpu-operator
//!        version: v25.3.2
//!        sourceRef: {kind: HelmRepository, name: nvidia}
//!    values:
//! -    driver: {enabled: true} # <-
//! -    toolkit: {enabled: false}
//! +    driver: {enabled: false}
//! +    toolkit: {enabled: false}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/eks/latest/best-practices/aiml-compute.html>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/amazon-eks.html>

use crate::karpenter::ami_name::{Image, ImageFamily};
use crate::rules::gpu::report_value;
use crate::rules::nodeclass::ami_name_mismatch::selection;
use crate::rules::prelude::*;
use crate::rules::scheduling::has_nvidia_gpus;
use crate::workload::charts::{ChartValues, is_for_other_cluster};

pub(crate) static RULE: Rule = Rule {
    id: "gpu-operator-driver-on-eks-ami",
    kinds: &[Kind::CLUSTER_POLICY, Kind::HELM_RELEASE, Kind::ARGO_APPLICATION],
    reads: &[Kind::EC2_NODE_CLASS, Kind::NODE_POOL],
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("gpu_operator_driver_on_eks_ami.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Gpu)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    if object.is(Kind::CLUSTER_POLICY) {
        inspect(&ChartValues { root: &object.get("spec"), text: None, may_differ: false }, ctx);
    } else if !is_for_other_cluster(object) {
        for_each_values(object, "gpu-operator", |values| _ = inspect(values, ctx));
    }
    None
}

fn inspect(values: &ChartValues<'_, '_>, ctx: &mut Context<'_>) -> Option<()> {
    let root = values.root;
    if root.is_unknown() || root.has_unknown_key() {
        return None;
    }
    let nodes = nodes(ctx)?;
    // The chart enables it by default; a ClusterPolicy has to set it.
    let is_on = |enabled: &Node<'_>| match enabled.is_set() {
        true => enabled.bool() == Some(true),
        false => !ctx.object().is(Kind::CLUSTER_POLICY) && !values.may_differ,
    };
    let pools = gpu_pools(ctx);
    let parts: Vec<(&str, Node<'_>)> = nodes
        .parts
        .iter()
        .filter(|part| !is_left_out(part, &pools))
        .map(|part| (*part, root.path(&[*part, "enabled"])))
        .filter(|(_, enabled)| is_on(enabled))
        .collect();
    let (_, first) = parts.first()?;
    let word =
        |part: &str| if part == "devicePlugin" { "a device plugin".to_owned() } else { format!("a {part}") };
    let words = and(parts.iter().map(|(part, _)| word(part)));
    let have = if parts.len() == 1 { "have one" } else { "have them" };
    let message = format!("the GPU Operator installs {words}, but {} already {have}", nodes.text);
    let finding = report_value(values, first, message, ctx);
    let settings = and(parts.iter().map(|(part, _)| format!("`{part}.enabled: false`")));
    finding.help(format!("write {settings}")).related(nodes.object, &nodes.place, "the images of the nodes");
    if values.text.is_none() {
        let fix = Fix::new(format!("do not install {words}"), Safety::Unsafe);
        finding.fix(parts.iter().fold(fix, |fix, (_, enabled)| fix.set(enabled, json!(false))));
    }
    None
}

/// The pools of the cluster whose nodes may have GPUs.
fn gpu_pools<'i>(ctx: &Context<'i>) -> Vec<NodePool<'i>> {
    let pools = ctx.cluster().of(Kind::NODE_POOL).filter_map(NodePool::new);
    pools.filter(|pool| has_nvidia_gpus(pool) && ctx.pairs_with(pool.object())).collect()
}

/// Whether labels of all pools keep a part of the operator from their nodes (`state_manager.go` of the operator, 22.9 to 25.10).
fn is_left_out(part: &str, pools: &[NodePool<'_>]) -> bool {
    let name = match part {
        "toolkit" => "container-toolkit",
        "devicePlugin" => "device-plugin",
        other => other,
    };
    let is_off = |labels: &Node<'_>, name: &str| {
        let label = labels.get(&format!("nvidia.com/gpu.deploy.{name}"));
        label.is_set() && label.text() != Some("true")
    };
    let is_out = |pool: &NodePool<'_>| is_off(&pool.labels(), name) || is_off(&pool.labels(), "operands");
    !pools.is_empty() && pools.iter().all(is_out)
}

/// A list of at most three in words.
fn and(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// The nodes of a cluster, which all have the same parts of the operator.
struct Nodes<'i> {
    text: String,
    /// The settings of the operator for what they have.
    parts: &'static [&'static str],
    /// Where the manifests say so.
    object: &'i Object,
    place: Node<'i>,
}

/// The family of the public images that a class selects by name or parameter, if all of them have NVIDIA's driver, and the field
/// of the first.
fn named_images<'a>(class: &Ec2NodeClass<'a>) -> Option<(&'static str, Node<'a>)> {
    let mut first = None;
    for term in class.get("amiSelectorTerms").items() {
        let (node, images) = selection(&term)?;
        // Canonical's images get the driver from the operator.
        let has_driver =
            |image: &Image| image.family != ImageFamily::Ubuntu && image.has_driver("nvidia.com/gpu");
        if !images.iter().all(has_driver) {
            return None;
        }
        let family = images.first()?.family.name();
        first.get_or_insert((family, node));
    }
    first
}

/// The nodes, if all have an image with a driver. Otherwise the operator may be meant for those without.
fn nodes<'i>(ctx: &Context<'i>) -> Option<Nodes<'i>> {
    let cluster = ctx.cluster();
    let mut all: Option<Nodes<'i>> = None;
    for class in cluster.of(Kind::EC2_NODE_CLASS) {
        let users = cluster.views().class_pools().pools_of(class);
        let has_gpus = |pool: &Object| NodePool::new(pool).is_some_and(|pool| has_nvidia_gpus(&pool));
        if !users.incomplete && !users.pools.is_empty() && !users.pools.iter().any(has_gpus) {
            continue;
        }
        let spec = Ec2NodeClass::new(class)?;
        let (name, place) = match spec.alias() {
            Some(alias) => (alias.text()?.split('@').next()?, alias),
            None => named_images(&spec)?,
        };
        if !matches!(name, "al2023" | "bottlerocket" | "AL2023" | "Bottlerocket") {
            return None;
        }
        let (text, parts) = (format!("the `{name}` images"), &["driver", "toolkit"][..]);
        all.get_or_insert(Nodes { text, parts, object: class, place });
    }
    let mut of_auto_mode = gpu_pools(ctx).into_iter().filter(NodePool::is_auto_mode);
    match (of_auto_mode.next(), all.is_some()) {
        (None, _) => all,
        (Some(_), true) => None,
        (Some(pool), false) => Some(Nodes {
            text: "nodes of EKS Auto Mode".to_owned(),
            parts: &["driver", "toolkit", "devicePlugin"],
            object: pool.object(),
            place: pool.template_spec().path(&["nodeClassRef", "group"]),
        }),
    }
}
