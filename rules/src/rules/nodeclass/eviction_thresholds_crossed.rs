//! A soft eviction threshold is not above the hard one.
//!
//! # Why
//! When a signal falls below its soft threshold, the kubelet waits for the grace period and then evicts pods
//! with time to end. Below the hard threshold it kills them at once. If the soft threshold is equal or lower,
//! the hard one is always reached first, and no pod ever gets the grace that was asked for. Karpenter
//! subtracts the larger of both from what a node offers. Without a hard threshold in the class those of the
//! image count; Amazon Linux sets none for `imagefs.available`.
//!
//! # Fix
//! Write a soft threshold above the hard one, or remove it.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms: [{alias: al2023@v20260810}]
//!    subnetSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: prod}}]
//!    kubelet:
//!      evictionHard: {memory.available: 500Mi}
//!      evictionSoft:
//! -      memory.available: 300Mi # <-
//! +      memory.available: 800Mi
//!      evictionSoftGracePeriod: {memory.available: 1m30s}
//! ```
//!
//! # References
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#soft-eviction-thresholds>

use crate::karpenter::node_class::{EVICTION_SIGNALS, PodVolume, volume_gib};
use crate::karpenter::scheduling::AmiFamily;
use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "eviction-thresholds-crossed",
    reads: &[Kind::NODE_POOL, Kind::EC2_NODE_CLASS],
    docs: docs(include_str!("eviction_thresholds_crossed.rs")),
    check: Check::NodeClass(check),
    ..Rule::warning(Group::NodeClass)
};

/// The hard thresholds of a kubelet that sets none. The images of Amazon Linux set the first three, and a list replaces all
/// defaults: `nodeadm/internal/kubelet/config.go` and AL2's `kubelet-config.json` of awslabs/amazon-eks-ami.
const DEFAULTS: [(&str, &str); 4] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
];

/// The hard threshold of a signal on the nodes of a class that sets none.
fn default(class: &Ec2NodeClass<'_>, signal: &str) -> Option<&'static str> {
    let sets_own = matches!(class.family()?, AmiFamily::Al2 | AmiFamily::Al2023);
    let known = if sets_own { &DEFAULTS[..3] } else { &DEFAULTS[..] };
    known.iter().find(|(name, _)| *name == signal).map(|(_, text)| *text)
}

/// A threshold: a share of the capacity in thousandths of a percent, or an amount in thousandths.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Threshold {
    Percent(i128),
    Amount(i128),
}

impl Threshold {
    fn parse(text: &str) -> Option<Threshold> {
        if let Some(percent) = text.strip_suffix('%') {
            let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
            let part = format!("{part:0<3}");
            let thousandths = whole.parse::<i128>().ok()? * 1000 + part.get(..3)?.parse::<i128>().ok()?;
            return Some(Threshold::Percent(thousandths));
        }
        Some(Threshold::Amount(Quantity::decode(text).ok()?.milli()))
    }

    /// In thousandths, of a capacity in thousandths.
    fn of(self, capacity: i128) -> i128 {
        match self {
            Threshold::Percent(thousandths) => capacity / 100_000 * thousandths,
            Threshold::Amount(amount) => amount,
        }
    }
}

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let kubelet = class.get("kubelet");
    let (soft, hard) = (kubelet.get("evictionSoft"), kubelet.get("evictionHard"));
    if hard.is_unknown() || hard.has_unknown_key() {
        return None;
    }
    for (signal, node) in soft.entries() {
        if EVICTION_SIGNALS.contains(&signal) {
            inspect(class, signal, &node, &hard, ctx);
        }
    }
    None
}

fn inspect(
    class: &Ec2NodeClass<'_>,
    signal: &str,
    node: &Node<'_>,
    hard: &Node<'_>,
    ctx: &mut Context<'_>,
) -> Option<()> {
    // A list of hard thresholds replaces all defaults.
    let own = hard.get(signal);
    let other = if hard.is_set() { own.text()? } else { default(class, signal)? };
    let text = node.text()?;
    let (low, high) = (Threshold::parse(text)?, Threshold::parse(other)?);
    let by = is_not_above(class, signal, low, high, ctx)?;
    let whose = if own.is_set() { "the hard one" } else { "the default hard one" };
    let message =
        format!("the soft threshold {text} of `{signal}` is not above {whose} of {other}: it never acts");
    let finding = ctx.report(node, message);
    finding.help("write a higher soft threshold, or remove it with its grace period");
    if own.is_set() {
        finding.related(class.object(), &own, "the hard threshold");
    }
    let is_of_disk =
        signal != "memory.available" && std::mem::discriminant(&low) != std::mem::discriminant(&high);
    if is_of_disk && let PodVolume::Mapped(volume) = class.pod_volume() {
        finding.related(class.object(), &volume.get("volumeSize"), "the volume for images and pods");
    }
    if let Some(pool) = by {
        finding.related(&pool, &pool.path(&["metadata", "name"]), "on all its types");
    }
    None
}

/// `Some` if a soft threshold is equal to the hard one or below it, with a pool if its types decide: a percentage and an amount of
/// memory are compared on all types of the pools of the class, those of a disk on the volume that the class maps for pods.
fn is_not_above(
    class: &Ec2NodeClass<'_>,
    signal: &str,
    low: Threshold,
    high: Threshold,
    ctx: &Context<'_>,
) -> Option<Option<Object>> {
    let is_below = |capacity: i128| low.of(capacity) <= high.of(capacity);
    match (low, high) {
        (Threshold::Percent(low), Threshold::Percent(high))
        | (Threshold::Amount(low), Threshold::Amount(high)) => (low <= high).then_some(None),
        _ if matches!(signal, "nodefs.available" | "imagefs.available") => {
            is_below(mapped_disk(class)?).then_some(None)
        }
        _ if signal != "memory.available" => None,
        _ => {
            let users = ctx.cluster().views().class_pools().pools_of(class.object());
            let all = users.all_types()?;
            let mut types = all.iter().flat_map(|(_, types)| types.iter());
            let is_below = types.all(|one| is_below((i128::from(one.memory_mib) << 20) * 1000));
            is_below.then(|| all.first().map(|(pool, _)| (*pool).clone()))
        }
    }
}

/// The size of the volume that a class maps for images and pods, in thousandths of a byte. `None` without a mapping, and where
/// local disks or user data may have them.
fn mapped_disk(class: &Ec2NodeClass<'_>) -> Option<i128> {
    if class.raid0() != Some(false) || class.get("userData").is_set() {
        return None;
    }
    let PodVolume::Mapped(volume) = class.pod_volume() else { return None };
    let gib = volume_gib(volume.get("volumeSize").text()?)?;
    Some((i128::from(gib) << 30) * 1000)
}
