//! A class maps a volume, and not the one for images and pods.
//!
//! # Why
//! The AMI family decides on which volume a node keeps images, logs and the files of pods: Bottlerocket on
//! `/dev/xvdb`, 20 GiB by default, beside `/dev/xvda` for the operating system; AL2 and AL2023 on `/dev/xvda`,
//! 20 GiB; Windows on `/dev/sda1`, 50 GiB. A class that maps only the device of another family pays for a
//! volume that nothing mounts. The right one stays as it is, fills up, and the kubelet evicts pods. This is
//! often left over when a class is moved from one family to another.
//!
//! With `rootVolume: true` on `/dev/xvda` of Bottlerocket, Karpenter counts that volume as the disk of pods:
//! those that request `ephemeral-storage` do not fit, however large `/dev/xvdb` is.
//!
//! Karpenter knows the root volume of AL2 and AL2023 by the name `/dev/xvda`, also with an image of one's own
//! whose root is `/dev/sda1`. Without `rootVolume: true` it counts 20 GiB, whatever size is mapped: pods that
//! request more `ephemeral-storage` get no node.
//!
//! User data that sets up a disk is taken for the one that mounts the volume.
//!
//! # Fix
//! Map the device of the family with the size that images and pods need. For Bottlerocket, leave out
//! `rootVolume`: Karpenter knows which of the two volumes pods use. With an image of one's own, set it on the
//! root volume.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: bottlerocket@v1.44.0}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    blockDeviceMappings:
//! -    - deviceName: /dev/xvda # <-
//! +    - deviceName: /dev/xvdb
//!        ebs: {volumeSize: 200Gi, encrypted: true}
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#specblockdevicemappings>
//! - <https://github.com/bottlerocket-os/bottlerocket#default-volumes>
//! - <https://github.com/aws/karpenter-provider-aws/issues/7937>

use crate::karpenter::ami_name::{image_of_parameter, images_named};
use crate::karpenter::node_class::volume_gib;
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;
use crate::workload::node_labels::is_off_karpenter;

/// The pods whose disk Karpenter counts.
const READS: &[Kind] = kinds![[Kind::NODE_POOL, Kind::EC2_NODE_CLASS], WORKLOAD_KINDS];

pub(crate) static RULE: Rule = Rule {
    id: "pod-volume-unmapped",
    reads: READS,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("pod_volume_unmapped.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    miscounted(class, ctx);
    uncounted(class, ctx);
    let family = class.family()?;
    let device = family.pod_device();
    let (mistaken, above) = mistaken(class, family)?;
    let may_be_it = |m: Node<'_>| m.get("deviceName").text().is_none_or(|name| name == device);
    if class.block_devices().any(may_be_it) {
        return None;
    }
    let name = class.block_devices().find_map(|m| {
        let gib = m.path(&["ebs", "volumeSize"]).text().and_then(volume_gib)?;
        let is_filled = m.path(&["ebs", "snapshotID"]).is_set();
        let name = m.get("deviceName");
        let is_mistaken = mistaken.contains(&name.text()?) && gib > above && !is_filled;
        is_mistaken.then_some(name)
    })?;
    let (family, written) = (family.name(), ellipsize(name.text()?));
    ctx.report(&name, format!("{family} keeps images and pods on `{device}`, not on `{written}`"))
        .help(format!("map `{device}` with the size that images and pods need"))
        .fix(
            Fix::new(format!("map `{device}` instead; check how full it gets"), Safety::Unsafe)
                .set(&name, json!(device))
                .replaces_nodes(),
        );
    None
}

/// The devices on which other families keep images and pods, and the size in GiB that a volume has to exceed, so that it is not
/// meant for something small.
fn mistaken(class: &Ec2NodeClass<'_>, family: AmiFamily) -> Option<(&'static [&'static str], u64)> {
    if family == AmiFamily::Bottlerocket {
        return Some((&["/dev/xvda"], 4));
    }
    // An AMI that is selected by its name or id may have another root device.
    if !runs_public_image(class, family) || class.raid0() != Some(false) || may_set_up_disks(class) {
        return None;
    }
    match family {
        AmiFamily::Al2 | AmiFamily::Al2023 => Some((&["/dev/xvdb", "/dev/sda1"], 20)),
        AmiFamily::Windows => Some((&["/dev/xvda"], 50)),
        AmiFamily::Bottlerocket | AmiFamily::Custom => None,
    }
}

/// Whether a class has images of EKS for its family: by an alias, by their parameters, or by names that nobody else's images have.
fn runs_public_image(class: &Ec2NodeClass<'_>, family: AmiFamily) -> bool {
    let terms = class.get("amiSelectorTerms");
    let is_public = |term: Node<'_>| {
        let is_own = term.get("owner").text().is_some_and(|owner| !PUBLISHERS.contains(&owner));
        let named = term.get("name").text().map(images_named).unwrap_or_default();
        let all = term.get("ssmParameter").text().and_then(image_of_parameter).into_iter().chain(named);
        let mut families = all.map(|image| image.family.name()).peekable();
        !is_own && families.peek().is_some() && families.all(|name| name == family.name())
    };
    class.alias().is_some() || terms.items().next().is_some() && terms.items().all(is_public)
}

/// The owners of the images of EKS, in the regions of the partition `aws` that are on by default.
const PUBLISHERS: [&str; 2] = ["amazon", "602401143452"];

/// Whether the user data may mount a volume.
fn may_set_up_disks(class: &Ec2NodeClass<'_>) -> bool {
    const WORDS: [&str; 8] = ["/dev/", "disk", "fstab", "lsblk", "mkfs", "mount", "nvme", "pvcreate"];
    class.get("userData").is_set() && class.user_data().is_none_or(|text| mentions(text, &WORDS))
}

/// The system volume is the one that Karpenter counts as the disk of pods.
fn miscounted(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    if class.family() != Some(AmiFamily::Bottlerocket) || class.raid0() != Some(false) {
        return None;
    }
    let is_root = |mapping: &Node<'_>| {
        mapping.get("rootVolume").bool() == Some(true)
            && mapping.get("deviceName").text() == Some("/dev/xvda")
    };
    let mapping = class.block_devices().find(is_root)?;
    let root = mapping.get("rootVolume");
    let size = mapping.path(&["ebs", "volumeSize"]);
    let counted = size.text().map_or(String::new(), |size| format!(" of {}", ellipsize(size)));
    let message =
        format!("Karpenter counts the system volume{counted} as the disk of pods, which is `/dev/xvdb`");
    ctx.report(&root, message)
        .at_key()
        .help("remove `rootVolume`: Karpenter then counts `/dev/xvdb`, or 20Gi where that is not mapped")
        .fix(
            Fix::new("remove `rootVolume`; check how much disk pods request", Safety::Unsafe)
                .remove(&root)
                .replaces_nodes(),
        );
    None
}

/// What pods can request of a node whose disk Karpenter counts as 20 GiB, in GiB: the kubelet keeps a tenth free, and 1 GiB is reserved.
const ROOM: i128 = 17;

/// The root device of most images other than those of EKS.
const OTHER_ROOT: &str = "/dev/sda1";

/// The root volume of an image of one's own is one that Karpenter does not count as the disk of pods: `ephemeralStorage` in
/// `pkg/providers/instancetype/types.go` of karpenter-provider-aws 1.9.
fn uncounted(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let family = class.family().filter(|family| matches!(family, AmiFamily::Al2 | AmiFamily::Al2023))?;
    let terms = class.get("amiSelectorTerms");
    let is_known = !terms.has_unknown() && !class.get("blockDeviceMappings").has_unknown();
    if !is_known
        || runs_public_image(class, family)
        || class.raid0() != Some(false)
        || may_set_up_disks(class)
    {
        return None;
    }
    let is_counted = |mapping: &Node<'_>| {
        mapping.get("deviceName").text() == Some(family.pod_device()) || mapping.get("rootVolume").is_set()
    };
    let mut all = class.block_devices();
    let mapping = all.find(|mapping| mapping.get("deviceName").text() == Some(OTHER_ROOT))?;
    let size = mapping.path(&["ebs", "volumeSize"]).text()?;
    if class.block_devices().any(|mapping| is_counted(&mapping)) || volume_gib(size)? <= 20 {
        return None;
    }
    let asking = asking_for_disk(class.object(), ctx);
    let device = family.pod_device();
    let message = format!(
        "Karpenter counts 20Gi as the disk of pods, not {}: the root volume of {} is `{device}` to it",
        ellipsize(size),
        family.name()
    );
    let root = mapping.get("rootVolume");
    let finding = ctx.report(&mapping.get("deviceName"), message);
    finding
        .severity(if asking.is_some() { Severity::Warning } else { Severity::Info })
        .help("set `rootVolume: true` on it, if it is the root volume of the image")
        .fix(Fix::unsafe_("count it as the root volume").set(&root, json!(true)).replaces_nodes());
    if let Some(asking) = asking {
        finding.related(asking, &asking.path(&["metadata", "name"]), "gets no node: it requests more disk");
    }
    None
}

/// A workload that requests more disk than nodes have with the default size, where all pools of the input use a class.
fn asking_for_disk<'i>(class: &Object, ctx: &Context<'i>) -> Option<&'i Object> {
    let cluster = ctx.cluster();
    let pools = cluster.of(Kind::NODE_POOL).filter(|pool| ctx.pairs_with(pool)).count();
    if cluster.views().class_pools().pools_of(class).pools.len() != pools {
        return None;
    }
    let asks = |container: Node<'_>| {
        let amount = |field| container.path(&["resources", field, "ephemeral-storage"]);
        let request = Some(amount("requests")).filter(Node::is_set).unwrap_or_else(|| amount("limits"));
        Quantity::at(&request).is_some_and(|request| request.value() > ROOM << 30)
    };
    let asks_for_much = |workload: &&Object| {
        let all = templates(workload);
        let mut containers = all.iter().filter(|one| !is_off_karpenter(one)).flat_map(Template::containers);
        ctx.pairs_with(workload) && containers.any(asks)
    };
    WORKLOAD_KINDS.iter().flat_map(|kind| cluster.of(*kind)).find(asks_for_much)
}
