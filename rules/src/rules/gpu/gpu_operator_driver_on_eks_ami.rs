//! The GPU Operator installs a driver on nodes whose image has one.
//!
//! # Why
//! The accelerated images of Amazon Linux 2023 and Bottlerocket for EKS already have NVIDIA's driver
//! and container toolkit. NVIDIA publishes no driver container for Amazon Linux 2023: the operator's
//! driver pods fail to pull, or replace what the image was tested with, and GPUs become available late
//! or not at all. Both are on by default in the operator's chart.
//!
//! # Fix
//! Set `driver.enabled: false` and `toolkit.enabled: false` in the operator's values.
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

use crate::cluster::values::{ChartValues, for_each_values};
use crate::karpenter::ami_name::{Image, ImageFamily};
use crate::rules::gpu::report_value;
use crate::rules::nodeclass::ami_name_mismatch::selection;
use crate::rules::prelude::*;
use crate::rules::scheduling::has_nvidia_gpus;

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
    } else {
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
    let parts: Vec<(&str, Node<'_>)> = nodes
        .parts
        .iter()
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
    let index = ctx.cluster();
    let mut all: Option<Nodes<'i>> = None;
    for class in index.of(Kind::EC2_NODE_CLASS) {
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
    let mut of_auto_mode = index
        .of(Kind::NODE_POOL)
        .filter_map(NodePool::new)
        .filter(|pool| pool.is_auto_mode() && has_nvidia_gpus(pool) && ctx.pairs_with(pool.object()));
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
