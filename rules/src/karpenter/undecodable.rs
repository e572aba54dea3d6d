//! Values that the API server stores in Karpenter's objects although Karpenter cannot decode them.
//!
//! The patterns and formats of a CRD are wider than Go's types: the format `int32` does not limit a number,
//! the published pattern of a quantity accepts exponents that Go does not, a `date-time` may be in lower
//! case, and a price may have more digits than a float. Each value listed here was stored by kube-apiserver
//! 1.34 and then failed in the types and functions of Karpenter 1.14. For durations see `facts::duration`.

use crate::facts::date::{is_crd_date_time, is_go_rfc3339};
use crate::facts::quantity::Quantity;
use crate::karpenter::minors;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The number does not fit into 32 bits, so a list that contains the object cannot be decoded.
    Int32Overflow,
    /// Go does not accept the quantity, so a list that contains the object cannot be decoded.
    InvalidQuantity,
    /// Go does not accept the time, so a list that contains the object cannot be decoded.
    InvalidTime,
    /// Go does not accept the quantity, and Karpenter panics when it uses it.
    Panics,
    /// The exponent is so large that arithmetic with it does not finish in reasonable time.
    NonTerminating,
    /// The number is larger than the largest float, and Karpenter panics.
    Infinite,
}

#[derive(Clone, Debug)]
pub(crate) struct Undecodable<'a> {
    pub node: Node<'a>,
    /// How Karpenter fails.
    pub error: DecodeError,
}

/// From this exponent on, one comparison takes a tenth of a second, and Karpenter makes one for each instance
/// type and pod. With the largest exponents a single comparison does not finish.
const SLOW_POSITIVE_EXPONENT: u32 = 1_000_000;

/// Below this negative exponent, parsing the text alone takes seconds.
const SLOW_NEGATIVE_EXPONENT: u32 = 10_000_000;

/// The values that this version of Karpenter cannot decode in an object of one of its kinds.
pub(crate) fn undecodable(object: &Object, karpenter: Version) -> Vec<Undecodable<'_>> {
    let mut out = Vec::new();
    let spec = object.get("spec");
    let version = object.version();
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
    // The API server removes fields that the CRD of this version does not have.
    let has = |field: &str| minors::states(karpenter, "EC2NodeClass", field, "field", "-");
    if has("spec/ipPrefixCount") {
        int32(spec.get("ipPrefixCount"), out);
    }
    if has("spec/networkInterfaces") {
        for interface in spec.get("networkInterfaces").items() {
            int32(interface.get("networkCardIndex"), out);
            int32(interface.get("deviceIndex"), out);
        }
    }
    // The controller refuses the class, and Karpenter goes on.
    if minors::has_open_kubelet(karpenter) {
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
    // Only these two thresholds are subtracted from the capacity of a node.
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

/// Checks a quantity that matches the pattern of the CRD. Other values are rejected by the API server.
fn quantity<'a>(node: Node<'a>, unread: DecodeError, out: &mut Vec<Undecodable<'a>>) {
    let Some(exponent) = node.text().and_then(exponent) else { return };
    let fault = match exponent.parse::<i64>() {
        Err(_) => unread,
        // Go keeps the low 32 bits.
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

/// Whether a quantity matches the published pattern but is not accepted by Go.
pub(crate) fn is_undecodable_quantity(text: &str) -> bool {
    exponent(text).is_some_and(|exponent| exponent.parse::<i64>().is_err())
}

/// The exponent of a quantity that matches the pattern: `1e3`, but also `1e1.5`.
fn exponent(text: &str) -> Option<&str> {
    let at = text.find(['e', 'E'])?;
    let (number, rest) = text.split_at(at);
    let exponent = rest.get(1..)?;
    (is_number(number) && is_number(exponent)).then_some(exponent)
}

/// An optional sign, and digits with at most one dot.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    all(whole) && all(fraction) && !(whole.is_empty() && fraction.is_empty())
}

fn price<'a>(node: Node<'a>, out: &mut Vec<Undecodable<'a>>) {
    let Some(text) = node.text() else { return };
    let number = text.strip_suffix('%').unwrap_or(text);
    // Words such as `inf` do not match the pattern.
    if is_number(number) && number.parse::<f64>().is_ok_and(f64::is_infinite) {
        out.push(Undecodable { node, error: DecodeError::Infinite });
    }
}
