//! What Karpenter's controller checks of `spec.kubelet` where the CRD accepts any map there.
//!
//! The functions are `ValidateKubeletConfig` of the AWS provider (`pkg/apis/v1/kubeletconfiguration_validation.go`) and
//! `validateKubeletFieldsSupported` (`pkg/controllers/nodeclass/validation.go`). A class with a fault is not Ready, and its NodePools
//! start no nodes.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::facts::duration::GoDuration;
use crate::facts::quantity::Quantity;
use crate::facts::table;
use crate::karpenter::node_class::{EVICTION_SIGNALS, Ec2NodeClass, RESERVABLE_RESOURCES};
use crate::karpenter::scheduling::AmiFamily;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

/// The JSON type of each field of the kubelet's configuration, by path; `*` is each item or value.
static FIELDS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    table::rows::<2>(include_str!("kubelet.tsv")).map(|[path, kind]| (path, kind)).collect()
});

/// A value that the controller rejects.
#[derive(Clone, Debug)]
pub(crate) struct Fault<'a> {
    pub node: Node<'a>,
    pub kind: FaultKind,
}

/// Why the controller rejects a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The kubelet has no such field.
    UnknownField,
    /// The kubelet's field has another type.
    Type(&'static str),
    /// A threshold is neither a percentage of 0 to 100 nor a quantity that is not negative.
    Threshold,
    /// A text is not a duration that is not negative.
    Duration,
    /// A number is outside these bounds.
    Range(i64, i64),
}

/// The expressions of `maxPods`, `kubeReserved` and `systemReserved`, which need a feature gate: texts that are no quantity.
pub(crate) fn expressions<'a>(class: &Ec2NodeClass<'a>) -> Vec<Node<'a>> {
    let kubelet = class.get("kubelet");
    let pods = Some(kubelet.get("maxPods")).filter(|node| node.text().is_some());
    let reserved = ["kubeReserved", "systemReserved"].map(|field| kubelet.get(field).entries());
    let reserved = reserved.into_iter().flatten().map(|(_, node)| node);
    let is_expression = |node: &Node<'_>| {
        node.text().is_some_and(|text| !text.starts_with('-') && Quantity::decode(text).is_err())
    };
    pods.into_iter().chain(reserved.filter(is_expression)).collect()
}

/// The fields that the kubelet has at a path below `spec.kubelet`.
pub(crate) fn fields_below(path: &str) -> Vec<&'static str> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let below = FIELDS.keys().filter_map(|field| field.strip_prefix(prefix.as_str()));
    let mut fields: Vec<&str> = below.filter(|rest| !rest.contains('/') && *rest != "*").collect();
    fields.sort_unstable();
    fields
}

/// The faults of types, names and values. What the rules `node-class-kubelet` and `eviction-soft-unpaired` say for every version (names of
/// signals and resources, pairs) is not repeated here.
pub(crate) fn faults<'a>(class: &Ec2NodeClass<'a>) -> Vec<Fault<'a>> {
    let kubelet = class.get("kubelet");
    let mut out = Vec::new();
    for (name, node) in kubelet.entries() {
        // `maxPods` may be an expression.
        if name != "maxPods" || node.text().is_none() {
            decode(name, name, &node, &mut out);
        }
    }
    for field in ["evictionHard", "evictionSoft", "evictionMinimumReclaim"] {
        for (_, node) in kubelet.get(field).entries() {
            if node.text().is_some_and(|text| !is_threshold(text)) {
                out.push(Fault { node, kind: FaultKind::Threshold });
            }
        }
    }
    for (_, node) in kubelet.get("evictionSoftGracePeriod").entries() {
        let is_wrong = |text: &str| GoDuration::parse(text).map_or(true, |length| length.nanoseconds() < 0);
        if node.text().is_some_and(is_wrong) {
            out.push(Fault { node, kind: FaultKind::Duration });
        }
    }
    let bounds = [
        ("imageGCHighThresholdPercent", 100),
        ("imageGCLowThresholdPercent", 100),
        ("podsPerCore", i64::from(i32::MAX)),
        ("evictionMaxPodGracePeriod", i64::from(i32::MAX)),
        ("maxPods", i64::from(i32::MAX)),
    ];
    for (field, most) in bounds {
        let node = kubelet.get(field);
        if node.int().is_some_and(|number| !(0..=most).contains(&number)) {
            out.push(Fault { node, kind: FaultKind::Range(0, most) });
        }
    }
    out
}

/// The first field for which the class is not Ready, whatever the feature gates: a fault, or what the rules of kubelet fields say.
pub(crate) fn rejected<'a>(class: &Ec2NodeClass<'a>) -> Option<Node<'a>> {
    let kubelet = class.get("kubelet");
    let owned = kubelet.get("registerWithTaints");
    if !owned.is_absent() {
        return Some(owned);
    }
    let faults = faults(class).into_iter().map(|fault| fault.node);
    faults.chain(outside(&kubelet)).chain(unpaired(&kubelet)).chain(unsupported(class)).next()
}

/// Entries of signals and resources that the kubelet does not have, reservations below zero, and thresholds of images in the wrong
/// order.
fn outside<'a>(kubelet: &Node<'a>) -> Vec<Node<'a>> {
    let mut out = Vec::new();
    for field in ["evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim"] {
        let entries = kubelet.get(field).entries().into_iter();
        out.extend(
            entries
                .filter(|(key, _)| !EVICTION_SIGNALS.contains(key) && !is_placeholder(key))
                .map(|entry| entry.1),
        );
    }
    for field in ["kubeReserved", "systemReserved"] {
        for (key, node) in kubelet.get(field).entries() {
            let unknown = !RESERVABLE_RESOURCES.contains(&key) && !is_placeholder(key);
            if unknown || node.text().is_some_and(|text| text.starts_with('-')) {
                out.push(node);
            }
        }
    }
    let (high, low) = (kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent"));
    if high.int().zip(low.int()).is_some_and(|(high, low)| high <= low) {
        out.push(high);
    }
    out
}

/// Soft thresholds without a grace period, and the reverse.
fn unpaired<'a>(kubelet: &Node<'a>) -> Vec<Node<'a>> {
    let (soft, grace) = (kubelet.get("evictionSoft"), kubelet.get("evictionSoftGracePeriod"));
    let mut out = Vec::new();
    for (from, to) in [(&soft, &grace), (&grace, &soft)] {
        if !to.is_unknown() && !to.has_unknown_key() {
            let entries = from.entries().into_iter();
            out.extend(
                entries
                    .filter(|(key, _)| !is_placeholder(key) && to.get(key).is_absent())
                    .map(|entry| entry.1),
            );
        }
    }
    out
}

/// The fields that every AMI family takes, and that the CRD listed before it took any map.
const CLASSIC_FIELDS: [&str; 12] = [
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

/// The fields that do not reach nodes of the AMI family of a class. Empty if the family takes all, or is not known.
pub(crate) fn unsupported<'a>(class: &Ec2NodeClass<'a>) -> Vec<Node<'a>> {
    let kubelet = class.get("kubelet");
    let bottlerocket = match class.family() {
        None | Some(AmiFamily::Al2023 | AmiFamily::Custom) => return Vec::new(),
        Some(family) => family == AmiFamily::Bottlerocket,
    };
    let dropped = |field: &str| !CLASSIC_FIELDS.contains(&field) || (field == "podsPerCore" && bottlerocket);
    let entries = kubelet.entries().into_iter();
    let mut out: Vec<Node<'a>> = entries
        .filter(|(field, node)| {
            *field != "registerWithTaints" && !is_placeholder(field) && node.is_set() && dropped(field)
        })
        .map(|(_, node)| node)
        .collect();
    let dns = kubelet.get("clusterDNS");
    if dns.items().nth(1).is_some() {
        out.push(dns);
    }
    out
}

/// Decodes a value as Go's strict JSON decoder does: unknown fields and other types are errors, null is not.
fn decode<'a>(name: &str, path: &str, node: &Node<'a>, out: &mut Vec<Fault<'a>>) {
    if is_placeholder(name) || !node.is_set() || node.is_unknown() {
        return;
    }
    let Some(&wanted) = FIELDS.get(path) else {
        out.push(Fault { node: node.clone(), kind: FaultKind::UnknownField });
        return;
    };
    let fits = match wanted {
        "boolean" => node.bool().is_some(),
        "integer" => node.int().is_some(),
        "number" => node.text().is_none() && node.string_or_number().is_some(),
        "string" => node.text().is_some(),
        "duration" => node.text().is_some_and(|text| GoDuration::parse(text).is_ok()),
        "quantity" => node.string_or_number().is_some(),
        "list" => node.is_sequence(),
        "map" | "object" => node.is_mapping(),
        _ => return,
    };
    if !fits {
        out.push(Fault { node: node.clone(), kind: FaultKind::Type(wanted) });
        return;
    }
    let each = format!("{path}/*");
    for item in node.items() {
        decode("", &each, &item, out);
    }
    for (key, value) in node.entries() {
        let below = if wanted == "map" { each.clone() } else { format!("{path}/{key}") };
        decode(key, &below, &value, out);
    }
}

/// Whether the kubelet accepts an eviction threshold.
fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => Quantity::decode(text).is_ok_and(|quantity| quantity.nano() >= 0),
    }
}
