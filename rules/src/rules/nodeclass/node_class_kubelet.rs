//! Kubelet settings that are refused, or that do not reach the nodes.
//!
//! # Why
//! `spec.kubelet` knows six eviction signals and four kinds of reserved resources. A soft threshold
//! needs its grace period, and a grace period its threshold; nothing negative can be kept back; and
//! images are collected down to the low mark only if the high one is above it. The API server
//! refuses the rest; from 1.15 on Karpenter's controller does, and the class is not Ready. It then
//! takes every field of the kubelet on AL2023, and elsewhere only those that it can hand on.
//!
//! # Fix
//! Use the kubelet's names, and write soft thresholds and their grace periods in pairs.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: karpenter.k8s.aws/v1
//!  kind: EC2NodeClass
//!  metadata: {name: general}
//!  spec:
//!    role: KarpenterNodeRole-prod
//!    amiSelectorTerms:
//!      - alias: al2023@v20260810
//!    subnetSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    securityGroupSelectorTerms:
//!      - tags: {karpenter.sh/discovery: prod}
//!    kubelet:
//!      evictionSoft:
//!        memory.available: 5% # <-
//! +    evictionSoftGracePeriod:
//! +      memory.available: 1m30s
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/concepts/nodeclasses/#speckubelet>
//! - <https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/>

use crate::facts::duration::GoDuration;
use crate::facts::suggest::nearest;
use crate::karpenter::scheduling::AmiFamily;
use crate::lint::finding::ellipsize;
use crate::platform::Version;
use crate::rules::prelude::*;
use crate::tree::placeholder::is_placeholder;

pub(crate) static RULE: Rule = Rule {
    id: "node-class-kubelet",
    rejected_by: &[Authority::ApiServer, Authority::Karpenter],
    docs: docs(include_str!("node_class_kubelet.rs")),
    check: Check::NodeClass(check),
    ..Rule::error(Group::NodeClass)
};

const SIGNALS: [&str; 6] = [
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// From here on the CRD takes any map, and the controller looks at it.
const OPEN: Version = Version::new(1, 15);

fn check(class: &Ec2NodeClass<'_>, ctx: &mut Context<'_>) -> Option<()> {
    let object = class.object();
    let kubelet = class.get("kubelet");
    if !kubelet.is_mapping() {
        return None;
    }
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod"] {
        keys(&kubelet.get(field), &SIGNALS, "no eviction signal", ctx);
    }
    for field in ["kubeReserved", "systemReserved"] {
        let reserved = kubelet.get(field);
        keys(&reserved, &RESERVED, "nothing that can be kept back", ctx);
        for (name, node) in reserved.entries() {
            if node.text().is_some_and(|t| t.starts_with('-')) {
                let message = format!("`{}` cannot be negative", ellipsize(name));
                refuse(&node, message, ctx).help("write how much to keep back, such as 100m or 200Mi");
            }
        }
    }
    pairs(&kubelet, ctx);
    let (high, low) = (kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent"));
    if let (Some(most), Some(least)) = (high.int(), low.int())
        && most <= least
    {
        let message = format!("the high mark, {most}, has to be above the low one, {least}");
        refuse(&high, message, ctx)
            .help("images are collected from the high mark down to the low one")
            .related(object, &low, "the low mark");
    }
    // Before, such a text stops Karpenter for all classes, which is crashes-karpenter's to say.
    if ctx.platform().karpenter >= OPEN {
        free_form(class, &kubelet, ctx);
        for (_, node) in kubelet.get("evictionSoftGracePeriod").entries() {
            if let Some(text) = node.text().filter(|t| GoDuration::parse(t).is_err()) {
                let message = format!("`{}` is no duration", ellipsize(text));
                refuse(&node, message, ctx).help("write it as Go does, such as `90s` or `1m30s`");
            }
        }
    }
    None
}

/// The fields that were typed before 1.15, and that every family still applies.
const CLASSIC: [&str; 12] = [
    "clusterDNS",
    "cpuCFSQuota",
    "evictionHard",
    "evictionMaxPodGracePeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "kubeReserved",
    "maxPods",
    "podsPerCore",
    "systemReserved",
];

/// What the controller refuses of the open map: its own field, and by AMI family what would be
/// dropped on the way to the node. AL2023 takes every field; a custom image has its own ways.
fn free_form(class: &Ec2NodeClass<'_>, kubelet: &Node<'_>, ctx: &mut Context<'_>) {
    let own = kubelet.get("registerWithTaints");
    if own.is_set() {
        let message = "`registerWithTaints` is written by Karpenter itself".to_owned();
        refuse(&own, message, ctx).at_key().help("write the taints into the NodePool");
    }
    let family = match class.family() {
        Some(AmiFamily::Al2) => "AL2",
        Some(AmiFamily::Bottlerocket) => "Bottlerocket",
        Some(AmiFamily::Windows) => "Windows",
        Some(AmiFamily::Al2023 | AmiFamily::Custom) | None => return,
    };
    for (field, node) in kubelet.entries() {
        let dropped = !CLASSIC.contains(&field) || (field, family) == ("podsPerCore", "Bottlerocket");
        if dropped && field != "registerWithTaints" && !is_placeholder(field) && node.is_set() {
            let message = format!("`{}` does not reach nodes of {family}", ellipsize(field));
            refuse(&node, message, ctx)
                .at_key()
                .help("remove it, or use AL2023, which takes every field of the kubelet");
        }
    }
    let dns = kubelet.get("clusterDNS");
    if dns.items().nth(1).is_some() {
        refuse(&dns, format!("{family} takes one address of `clusterDNS`"), ctx)
            .help("keep one address, or use AL2023");
    }
}

fn refuse<'f>(node: &Node<'_>, message: String, ctx: &'f mut Context<'_>) -> &'f mut Finding {
    let by = if ctx.platform().karpenter >= OPEN { Authority::Karpenter } else { Authority::ApiServer };
    ctx.report(node, message).rejected_by(Some(by))
}

fn keys(map: &Node<'_>, known: &[&'static str], what: &str, ctx: &mut Context<'_>) {
    for (key, node) in map.entries() {
        // A null entry is no entry.
        if known.contains(&key) || is_placeholder(key) || node.is_null() {
            continue;
        }
        let finding = refuse(&node, format!("`{}` is {what}", ellipsize(key)), ctx);
        finding.at_key();
        // Short words are near to each other: `gpu` is no slip for `cpu`.
        match nearest(key, known.iter().copied()).filter(|_| key.len() > 4) {
            Some(word) => finding.help(format!("write `{word}`")),
            None => finding.help(format!("known are {}", known.join(", "))),
        };
    }
}

/// Soft thresholds and grace periods come in pairs.
fn pairs(kubelet: &Node<'_>, ctx: &mut Context<'_>) {
    let soft = kubelet.get("evictionSoft");
    let grace = kubelet.get("evictionSoftGracePeriod");
    let open = |map: &Node<'_>| map.is_unknown() || map.entries().iter().any(|(key, _)| is_placeholder(key));
    for (from, to, message, help) in [
        (
            &soft,
            &grace,
            "has no entry in `evictionSoftGracePeriod`",
            "add how long the signal must hold, such as 1m30s",
        ),
        (
            &grace,
            &soft,
            "has a grace period, but no threshold in `evictionSoft`",
            "add the threshold, or remove the grace period",
        ),
    ] {
        if open(to) {
            continue;
        }
        for (key, node) in from.entries() {
            let counts = !is_placeholder(key) && !node.is_null() && SIGNALS.contains(&key);
            if counts && !to.get(key).is_set() {
                refuse(&node, format!("`{key}` {message}"), ctx).at_key().help(help);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Engine;
    use crate::cluster::objects::Index;
    use crate::lint::settings::Settings;
    use crate::object::Object;
    use crate::platform::{Platform, Version};

    fn said(alias: &str, kubelet: &Value, karpenter: Version) -> Vec<String> {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "a"},
            "spec": {"amiSelectorTerms": [{"alias": alias}], "kubelet": kubelet},
        });
        let engine = Engine::new(Settings {
            select: vec!["node-class-kubelet".to_owned()],
            platform: Platform { karpenter, ..Platform::default() },
            ..Settings::default()
        });
        let object = Object::from_json(&class).expect("an object");
        let findings = engine.check_object(&object, &Index::new(false));
        findings.into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn from_1_15_on_the_family_decides() {
        let new = Version::new(1, 15);
        let kubelet = json!({"shutdownGracePeriod": "30s", "podsPerCore": 4, "maxPods": 58,
            "clusterDNS": ["10.0.0.10", "10.0.0.11"], "registerWithTaints": []});
        let own = "`registerWithTaints` is written by Karpenter itself".to_owned();
        assert_eq!(said("al2023@v20260810", &kubelet, new), std::slice::from_ref(&own));
        assert_eq!(
            said("bottlerocket@v1.44.0", &kubelet, new),
            [
                own.clone(),
                "`shutdownGracePeriod` does not reach nodes of Bottlerocket".to_owned(),
                "`podsPerCore` does not reach nodes of Bottlerocket".to_owned(),
                "Bottlerocket takes one address of `clusterDNS`".to_owned(),
            ]
        );
        assert_eq!(said("al2@v20250807", &kubelet, new).len(), 3);
        // A family that a placeholder decides.
        assert_eq!(said("${ALIAS}", &kubelet, new), [own]);
        // Before, the definition itself knows no other fields.
        assert_eq!(said("bottlerocket@v1.44.0", &kubelet, Version::new(1, 14)).len(), 0);
    }
}
