//! What the API server stores of Karpenter's kinds although Karpenter cannot read it.
//!
//! A CRD's patterns and formats are wider than Go's types: an `int32` format is no bound, the
//! published pattern of a quantity takes exponents that Go does not, a `date-time` may be written in
//! lower case, and a price may have more digits than a float. Each row here was stored by kube-apiserver 1.34 and then failed in
//! Karpenter 1.14's own types and functions. Durations are `facts::duration`'s.

use crate::facts::date::{is_crd_date_time, is_go_rfc3339};
use crate::facts::quantity::Quantity;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;

/// Why Karpenter fails over a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The number does not fit into 32 bits, so no list with the object decodes.
    Int32Overflow,
    /// Go reads no quantity here, so no list with the object decodes.
    InvalidQuantity,
    /// Go reads no moment here, so no list with the object decodes.
    InvalidTime,
    /// Go reads no quantity here, and Karpenter panics where it works with it.
    Panics,
    /// The exponent is so large that arithmetic with it does not end in useful time.
    NonTerminating,
    /// The number is larger than a float, and Karpenter panics over it.
    Infinite,
}

/// A value that Karpenter fails over.
#[derive(Clone, Debug)]
pub(crate) struct Undecodable<'a> {
    /// Where it stands.
    pub node: Node<'a>,
    /// Why.
    pub error: DecodeError,
}

/// From this exponent on one comparison takes a tenth of a second, and Karpenter makes one for
/// each instance type and pod; with the largest ones a single one does not end.
const SLOW_POSITIVE_EXPONENT: u32 = 1_000_000;

/// Below this one the text itself takes seconds to read.
const SLOW_NEGATIVE_EXPONENT: u32 = 10_000_000;

/// What Karpenter of a version cannot read in an object of one of its kinds.
pub(crate) fn undecodable(object: &Object, karpenter: Version) -> Vec<Undecodable<'_>> {
    let mut out = Vec::new();
    let spec = object.get("spec");
    let version = object.id().version.as_str();
    if object.is(Kind::NODE_POOL) && version == "v1" {
        quantities(&spec.get("limits"), &mut out);
        taint_times(&spec.path(&["template", "spec"]), &mut out);
    } else if object.is(Kind::NODE_CLAIM) && version == "v1" {
        quantities(&spec.path(&["resources", "requests"]), &mut out);
        taint_times(&spec, &mut out);
    } else if object.is(Kind::NODE_OVERLAY) && version == "v1alpha1" {
        quantities(&spec.get("capacity"), &mut out);
        for field in ["price", "priceAdjustment"] {
            price(spec.get(field), &mut out);
        }
    } else if object.is(Kind::EC2_NODE_CLASS) && version == "v1" {
        node_class(&spec, karpenter, &mut out);
    }
    out
}

fn node_class<'a>(spec: &Node<'a>, karpenter: Version, out: &mut Vec<Undecodable<'a>>) {
    // What a version does not know yet is dropped before it is stored.
    if karpenter >= Version::new(1, 8) {
        int32(spec.get("ipPrefixCount"), out);
    }
    if karpenter >= Version::new(1, 11) {
        for interface in spec.get("networkInterfaces").items() {
            int32(interface.get("networkCardIndex"), out);
            int32(interface.get("deviceIndex"), out);
        }
    }
    // From 1.15 on the kubelet's fields are no longer typed.
    if karpenter >= Version::new(1, 15) {
        return;
    }
    let kubelet = spec.get("kubelet");
    for field in ["maxPods", "podsPerCore", "evictionMaxPodGracePeriod"] {
        int32(kubelet.get(field), out);
    }
    for field in ["kubeReserved", "systemReserved"] {
        for (_, node) in kubelet.get(field).entries() {
            quantity(node, DecodeError::Panics, out);
        }
    }
    // Only these two thresholds count against what a node has.
    for signal in ["memory.available", "nodefs.available"] {
        let node = kubelet.path(&["evictionHard", signal]);
        if node.text() == Some("") {
            out.push(Undecodable { node, error: DecodeError::Panics });
        } else {
            quantity(node, DecodeError::Panics, out);
        }
    }
}

fn int32<'a>(node: Node<'a>, out: &mut Vec<Undecodable<'a>>) {
    if node.int().is_some_and(|n| i32::try_from(n).is_err()) {
        out.push(Undecodable { node, error: DecodeError::Int32Overflow });
    }
}

fn quantities<'a>(map: &Node<'a>, out: &mut Vec<Undecodable<'a>>) {
    for (_, node) in map.entries() {
        quantity(node, DecodeError::InvalidQuantity, out);
    }
}

/// The times of taints.
fn taint_times<'a>(spec: &Node<'a>, out: &mut Vec<Undecodable<'a>>) {
    for list in ["taints", "startupTaints"] {
        for taint in spec.get(list).items() {
            let node = taint.get("timeAdded");
            if node.text().is_some_and(|text| is_crd_date_time(text) && !is_go_rfc3339(text)) {
                out.push(Undecodable { node, error: DecodeError::InvalidTime });
            }
        }
    }
}

/// A quantity that the CRD's pattern takes. What the pattern refuses is the API server's to say.
fn quantity<'a>(node: Node<'a>, unread: DecodeError, out: &mut Vec<Undecodable<'a>>) {
    let Some(exponent) = node.text().and_then(exponent) else {
        return;
    };
    let fault = match exponent.parse::<i64>() {
        Err(_) => unread,
        // Go keeps the low 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        Ok(n) => match n as i32 {
            n if n > 0 && n.unsigned_abs() >= SLOW_POSITIVE_EXPONENT => DecodeError::NonTerminating,
            n if n < 0 && n.unsigned_abs() >= SLOW_NEGATIVE_EXPONENT => DecodeError::NonTerminating,
            _ => return,
        },
    };
    debug_assert!(
        fault == DecodeError::NonTerminating || node.text().is_some_and(|t| Quantity::parse(t).is_err())
    );
    out.push(Undecodable { node, error: fault });
}

/// Whether the published pattern takes a quantity that Go does not read.
pub(crate) fn is_undecodable_quantity(text: &str) -> bool {
    exponent(text).is_some_and(|exponent| exponent.parse::<i64>().is_err())
}

/// The exponent of a quantity that the pattern takes: `1e3`, but `1e1.5` as well.
fn exponent(text: &str) -> Option<&str> {
    let at = text.find(['e', 'E'])?;
    let (number, rest) = text.split_at(at);
    let exponent = rest.get(1..)?;
    (is_number(number) && is_number(exponent)).then_some(exponent)
}

/// A sign or none, and digits with at most one dot among them.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    all(whole) && all(fraction) && !(whole.is_empty() && fraction.is_empty())
}

fn price<'a>(node: Node<'a>, out: &mut Vec<Undecodable<'a>>) {
    let Some(text) = node.text() else {
        return;
    };
    let number = text.strip_suffix('%').unwrap_or(text);
    // A word such as `inf` is refused by the pattern.
    if is_number(number) && number.parse::<f64>().is_ok_and(f64::is_infinite) {
        out.push(Undecodable { node, error: DecodeError::Infinite });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DecodeError, undecodable};
    use crate::object::Object;
    use crate::platform::Version;

    fn faults(object: &Value, version: Version) -> Vec<(String, DecodeError)> {
        let object = Object::from_json(object).expect("an object");
        undecodable(&object, version).into_iter().map(|u| (u.node.pointer().to_string(), u.error)).collect()
    }

    fn limit(value: &Value) -> Option<DecodeError> {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"},
            "spec": {"limits": {"cpu": value}},
        });
        let found = faults(&pool, Version::new(1, 14));
        found.into_iter().map(|(_, fault)| fault).next()
    }

    /// Each value was sent to kube-apiserver and decoded by Karpenter's types.
    #[test]
    fn quantities_that_are_stored_and_not_read() {
        for (text, fault) in [
            ("1e1.5", Some(DecodeError::InvalidQuantity)),
            ("1e.5", Some(DecodeError::InvalidQuantity)),
            ("1E1.", Some(DecodeError::InvalidQuantity)),
            ("1e9999999999999999999", Some(DecodeError::InvalidQuantity)),
            ("1e9999999", Some(DecodeError::NonTerminating)),
            ("1e100000000", Some(DecodeError::NonTerminating)),
            ("0e9999999", Some(DecodeError::NonTerminating)),
            ("1e2147483647", Some(DecodeError::NonTerminating)),
            ("1e2147483648", Some(DecodeError::NonTerminating)),
            ("1e-2147483648", Some(DecodeError::NonTerminating)),
            // The low 32 bits of this exponent are 0.
            ("1e4294967296", None),
            ("1e-1000", None),
            ("1e100", None),
            ("1e3", None),
            ("1e+3", None),
            ("1e-3", None),
            ("+.5", None),
            ("5.", None),
            ("5E", None),
            ("9999999999Ei", None),
            ("100", None),
            // The pattern refuses these.
            ("5e", None),
            ("e5", None),
            ("1e1.5.5", None),
            ("1e +3", None),
            ("one", None),
            ("", None),
            ("${LIMIT}e1.5", None),
        ] {
            assert_eq!(limit(&json!(text)), fault, "{text}");
        }
        assert_eq!(limit(&json!(4_294_967_296_i64)), None);
    }

    #[test]
    fn fields_count_from_the_version_that_types_them() {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "a"},
            "spec": {
                "ipPrefixCount": 2_147_483_648_i64,
                "networkInterfaces": [{"networkCardIndex": 4_294_967_296_i64, "deviceIndex": 0}],
                "blockDeviceMappings": [{"ebs": {"iops": 4_294_967_296_i64}}],
                "kubelet": {
                    "maxPods": 2_147_483_648_i64, "podsPerCore": 2_147_483_647,
                    "evictionMaxPodGracePeriod": -2_147_483_649_i64,
                    "kubeReserved": {"cpu": "1e1.5", "memory": "1Gi"},
                    "evictionHard": {"memory.available": "", "pid.available": ""},
                },
            },
        });
        let of = |minor| -> Vec<String> {
            let found = faults(&class, Version::new(1, minor));
            found.into_iter().map(|(pointer, _)| pointer).collect()
        };
        let kubelet = [
            "/spec/kubelet/maxPods",
            "/spec/kubelet/evictionMaxPodGracePeriod",
            "/spec/kubelet/kubeReserved/cpu",
            "/spec/kubelet/evictionHard/memory.available",
        ];
        let later = ["/spec/ipPrefixCount", "/spec/networkInterfaces/0/networkCardIndex"];
        assert_eq!(of(7), kubelet);
        assert_eq!(of(14), [&later[..], &kubelet[..]].concat());
        assert_eq!(of(15), later);
    }

    #[test]
    fn prices_beyond_a_float() {
        let overlay = |field: &str, value: &str| {
            let mut overlay = json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
                "metadata": {"name": "a"}, "spec": {},
            });
            overlay["spec"][field] = json!(value);
            faults(&overlay, Version::new(1, 14)).len()
        };
        let long = "9".repeat(400);
        assert_eq!(overlay("price", &long), 1);
        assert_eq!(overlay("priceAdjustment", &format!("+{long}%")), 1);
        assert_eq!(overlay("price", &format!("0.{long}")), 0);
        assert_eq!(overlay("price", "1.5"), 0);
        assert_eq!(overlay("price", "inf"), 0);
        assert_eq!(overlay("priceAdjustment", "-100%"), 0);
    }
}
