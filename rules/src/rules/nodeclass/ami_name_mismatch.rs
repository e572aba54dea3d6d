//! An AMI name selects images of another family, variant or architecture.
//!
//! # Why
//! Where a class selects images by name, Karpenter takes the newest image that matches, and compares only
//! its architecture with the instance type: neither the operating system nor the drivers. EKS publishes
//! Amazon Linux, Bottlerocket and Windows images of all variants on the same days. A node that gets an image
//! of another family reads user data that it does not understand and never joins; a GPU node with the
//! standard image joins, but never registers its GPUs, and its pods stay Pending on nodes that are paid for.
//! Nodes without accelerators get larger images with drivers by chance, and other images at the next release.
//! A kubelet may be three minor versions older than the API server, and no newer. The same holds for a public
//! SSM parameter. The GPU Operator installs no driver on such nodes: NVIDIA publishes its driver containers for
//! Ubuntu, Red Hat and SUSE, so that only images of your own in `driver.repository` would.
//!
//! # Fix
//! Write the whole name: family, architecture, variant, Kubernetes version and date; or select by an alias,
//! with which Karpenter chooses the variant for each instance type.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: gpu}
//!  spec:
//!    amiFamily: AL2023
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - owner: amazon
//! -      name: "*eks-node*1.34-v20260810" # <-
//! +      name: amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260810
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms>
//! - <https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html>
//! - <https://kubernetes.io/releases/version-skew-policy/#kubelet>
//! - <https://github.com/aws/karpenter-provider-aws/issues/5091>
//! - <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/amazon-eks.html>

use std::collections::BTreeSet;

use super::public_name;
use crate::cluster::views::PoolsOfClass;
use crate::karpenter::ami_name::{Image, ImageFamily, Variant, image_of_parameter, images_named};
use crate::rules::prelude::*;
use crate::workload::gpu::INSTANCE_RESOURCES;

pub(crate) static RULE: Rule = Rule {
    id: "ami-name-mismatch",
    depends_on: &[Product::Kubernetes],
    reads: &[
        Kind::NODE_POOL,
        Kind::EC2_NODE_CLASS,
        Kind::CLUSTER_POLICY,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
        Kind::DAEMON_SET,
        NVIDIA_DRIVER,
    ],
    docs: docs(include_str!("ami_name_mismatch.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// A driver that the GPU Operator installs on some nodes.
const NVIDIA_DRIVER: Kind = Kind::new("nvidia.com", "NVIDIADriver");

const HELP: &str = "write the whole name: family, architecture, variant, version and date; or use an alias";

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let terms: Vec<Node<'_>> = class.get("amiSelectorTerms").items().collect();
    let selected: Vec<(Node<'_>, Vec<Image>)> = terms.iter().filter_map(selection).collect();
    // Terms add up: by the other ones the class may have what one lacks.
    let complete = selected.len() == terms.len();
    let users = ctx.cluster().views().class_pools().pools_of(class.object());
    let all: BTreeSet<Image> = selected.iter().flat_map(|(_, images)| images.iter().copied()).collect();
    for (node, images) in &selected {
        if family(class, node, images, ctx) || version(node, images, ctx) {
            continue;
        }
        let others = if complete { &all } else { continue };
        if !driver(class, (node, images), others, &users, ctx) && !variants(node, images, &users, ctx) {
            architecture(node, images, others, &users, ctx);
        }
    }
    None
}

/// The public images for EKS that a term selects, with the node that does.
pub(in crate::rules) fn selection<'a>(term: &Node<'a>) -> Option<(Node<'a>, Vec<Image>)> {
    let parameter = term.get("ssmParameter");
    let (node, images) = match parameter.text() {
        Some(name) => (parameter, Vec::from_iter(image_of_parameter(name))),
        None => {
            let (node, name) = public_name(term)?;
            (node, images_named(name))
        }
    };
    (!images.is_empty()).then_some((node, images))
}

/// The names of families for a message.
fn list(families: &BTreeSet<ImageFamily>) -> String {
    let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
    match names.as_slice() {
        [one] => (*one).to_owned(),
        [one, two] => format!("{one} and {two}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more families", rest.len()),
        [] => String::new(),
    }
}

/// Reports images of other families than `amiFamily`; with a custom one, images of several.
fn family(class: &Ec2NodeClass<'_>, node: &Node<'_>, images: &[Image], ctx: &mut Context<'_>) -> bool {
    let found: BTreeSet<ImageFamily> = images.iter().map(|image| image.family).collect();
    let Some(wanted) = class.get("amiFamily").text() else { return false };
    if wanted == "Custom" {
        if found.len() > 1 {
            let message = format!("the name matches images of {}, and the newest image wins", list(&found));
            ctx.report(node, message).help(HELP);
        }
        return found.len() > 1;
    }
    let others: BTreeSet<ImageFamily> =
        found.iter().copied().filter(|family| !family.name().eq_ignore_ascii_case(wanted)).collect();
    // The family `Ubuntu` was removed, and Canonical's images boot with AL2's user data.
    let boots_ubuntu = matches!(wanted, "AL2" | "Ubuntu");
    if others.iter().all(|family| boots_ubuntu && *family == ImageFamily::Ubuntu) {
        return false;
    }
    let message = if others.len() == found.len() {
        format!("the name matches images of {}, but `amiFamily` is {wanted}", list(&others))
    } else {
        format!("the name also matches images of {}, and the newest image wins", list(&others))
    };
    ctx.report(node, message).help(HELP).related(
        class.object(),
        &class.get("amiFamily"),
        "Karpenter configures nodes for this family",
    );
    true
}

/// The number of minor versions by which a kubelet may be older than the API server.
const MOST_SKEW: u32 = 3;

/// Reports images of one Kubernetes version that is newer than that of the control plane, or too old for it.
fn version(node: &Node<'_>, images: &[Image], ctx: &mut Context<'_>) -> bool {
    let platform = ctx.platform();
    let minors: BTreeSet<u32> = images.iter().map(|image| image.minor).collect();
    let (Some(minor), 1) = (minors.first().copied(), minors.len()) else { return false };
    let own = platform.kubernetes;
    if !platform.is_stated(Product::Kubernetes) || (minor..=minor + MOST_SKEW).contains(&own.minor) {
        return false;
    }
    let help = match minor > own.minor {
        true => "a kubelet must not be newer than the API server: upgrade that first",
        false => "a kubelet may be three minor versions older than the API server: write a newer image",
    };
    ctx.report(node, format!("the image is for Kubernetes 1.{minor}, and the control plane has {own}"))
        .help(help);
    true
}

/// Whether the GPU Operator may install a driver from images of the user's own: NVIDIA has none for Amazon Linux and
/// Bottlerocket (<https://github.com/NVIDIA/gpu-operator/issues/686>), and Canonical's images are not reported.
fn installs_own_driver(ctx: &Context<'_>) -> bool {
    let is_private = |repository: Node<'_>| {
        let by_nvidia = repository.text().is_some_and(|path| path.starts_with("nvcr.io/nvidia"));
        repository.is_set() && !by_nvidia
    };
    let is_own = |root: &Node<'_>, may_differ: bool| {
        let driver = root.get("driver");
        // Objects of the kind NVIDIADriver have repositories of their own.
        let by_object = driver.path(&["nvidiaDriverCRD", "enabled"]).bool() == Some(true)
            || driver.get("useNvidiaDriverCRD").bool() == Some(true);
        let is_off = driver.get("enabled").bool() == Some(false);
        may_differ
            || root.has_unknown_key()
            || driver.is_unknown()
            || !is_off && (by_object || is_private(driver.get("repository")))
    };
    // The operator may be a part of another chart.
    let is_nested = |object: &Object| {
        let places = [&["spec", "values"][..], &["spec", "source", "helm", "valuesObject"]];
        let mut nested = places.iter().map(|place| object.path(place).get("gpu-operator"));
        nested.any(|values| values.is_set() && is_own(&values, false))
    };
    let cluster = ctx.cluster();
    if cluster.of(NVIDIA_DRIVER).any(|driver| is_private(driver.path(&["spec", "repository"])))
        || cluster.of(Kind::DAEMON_SET).any(brings_driver)
    {
        return true;
    }
    let mut policies = cluster.of(Kind::CLUSTER_POLICY);
    policies.any(|policy| is_own(&policy.get("spec"), policy.is_partial()))
        || chart_installers(cluster).any(|object| {
            let mut found = is_nested(object);
            for_each_values(object, "gpu-operator", |values| found |= is_own(values.root, values.may_differ));
            found
        })
}

/// Whether the pods of a DaemonSet may install a driver, by their images. Drivers of storage and of claims are none.
fn brings_driver(set: &Object) -> bool {
    let templates = templates(set);
    let mut containers = templates.iter().flat_map(Template::all_containers);
    containers.any(|container| {
        let image = image_of(&container).map(|image| image.repository);
        image.is_some_and(|image| {
            let mut words = image.split(['/', '-', '_', '.']);
            words.clone().any(|word| matches!(word, "driver" | "drivers"))
                && !words.any(|word| matches!(word, "csi" | "dra" | "ebs" | "efs" | "fsx" | "s3" | "manager"))
        })
    })
}

/// Reports images that lack the driver of a pool's accelerators, unless user data or the GPU Operator may install it.
fn driver(
    class: &Ec2NodeClass<'_>,
    (node, images): (&Node<'_>, &[Image]),
    all: &BTreeSet<Image>,
    users: &PoolsOfClass,
    ctx: &mut Context<'_>,
) -> bool {
    let data = class.user_data().map(str::to_ascii_lowercase).unwrap_or_default();
    let installs = |maker: &str| data.contains(&maker.to_ascii_lowercase());
    if class.get("userData").is_unknown() || installs_own_driver(ctx) {
        return false;
    }
    for (pool, types) in users.with_types() {
        for (device, maker) in [("nvidia.com/gpu", "NVIDIA"), ("aws.amazon.com/neuron", "Neuron")] {
            let with: Vec<&str> =
                types.iter().filter(|one| one.devices(device) > 0).map(|one| one.arch).collect();
            let whole = with.len() == types.len();
            let suits = |image: &&Image| with.contains(&image.arch);
            let lacking = images.iter().filter(suits).filter(|image| !image.has_driver(device)).count();
            if !whole || lacking == 0 || installs(maker) {
                continue;
            }
            let has_any = all.iter().filter(suits).any(|image| image.has_driver(device));
            let name = pool.display_name();
            let message = if has_any {
                format!(
                    "images without the {maker} driver are among those for pool `{name}`, and the newest wins"
                )
            } else {
                format!("the image has no {maker} driver, which pool `{name}` needs")
            };
            ctx.report(node, message).help(HELP).related(
                pool,
                &pool.path(&["metadata", "name"]),
                format!("all its types have {maker} devices"),
            );
            return true;
        }
    }
    false
}

/// Reports images with drivers among those for pools without accelerators, beside the images without.
fn variants(node: &Node<'_>, images: &[Image], users: &PoolsOfClass, ctx: &mut Context<'_>) -> bool {
    const DRIVERS: [(&str, &[Variant]); 2] = [
        ("NVIDIA", &[Variant::Nvidia, Variant::NvidiaAndNeuron]),
        ("Neuron", &[Variant::Neuron, Variant::NvidiaAndNeuron]),
    ];
    let has = |wanted: &[Variant]| images.iter().any(|image| wanted.contains(&image.variant));
    let found: Vec<&str> = DRIVERS.iter().filter(|(_, with)| has(with)).map(|(maker, _)| *maker).collect();
    let Some(pools) = users.all_types().filter(|_| !found.is_empty() && has(&[Variant::Standard])) else {
        return false;
    };
    let Some((pool, _)) = pools.first() else { return false };
    let accelerators = || INSTANCE_RESOURCES.iter().filter(|name| is_accelerator(name));
    let accelerated =
        |types: &TypeSet| types.iter().any(|one| accelerators().any(|name| one.devices(name) > 0));
    if pools.iter().any(|(_, types)| accelerated(types)) {
        return false;
    }
    let makers = found.join(" and ");
    let message =
        format!("the name also matches images with drivers for {makers}, and the newest image wins");
    ctx.report(node, message).help(HELP).related(
        pool,
        &pool.path(&["metadata", "name"]),
        "its types have no accelerators",
    );
    true
}

/// Reports a pool with types of one architecture only, for which there is no image.
fn architecture(
    node: &Node<'_>,
    images: &[Image],
    all: &BTreeSet<Image>,
    users: &PoolsOfClass,
    ctx: &mut Context<'_>,
) {
    let Some((pool, arch)) = users.with_types().find_map(|(pool, types)| {
        let mut arches = types.iter().map(|one| one.arch);
        let first = arches.next()?;
        let is_missing = !all.iter().any(|image| image.arch == first);
        (is_missing && arches.all(|arch| arch == first)).then_some((pool, first))
    }) else {
        return;
    };
    let other = images.first().map_or("another architecture", |image| image.arch);
    let message =
        format!("the image is for {other}, and pool `{}` has types of {arch} only", pool.display_name());
    ctx.report(node, message).help(HELP).related(pool, &pool.path(&["metadata", "name"]), "the pool");
}
