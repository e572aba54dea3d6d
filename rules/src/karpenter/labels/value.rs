//! Values of instance labels: which keys have values that the catalogue knows, and what a value
//! that it does not know was meant to be.

use std::collections::BTreeSet;

use crate::facts::suggest::{is_within, nearest};

/// The label of the tenancy, the one of which Karpenter refuses values.
pub(crate) const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// Labels of which new values come every year.
const OPEN: [&str; 4] = [
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-size",
    "node.kubernetes.io/instance-type",
];

/// Labels whose values are words that seldom grow.
const CLOSED: [&str; 10] = [
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-capability-flex",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-name",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    TENANCY,
];

/// Whether the catalogue has every value of a label, or every value of its day.
pub(crate) fn has_known_values(key: &str) -> bool {
    is_open(key) || CLOSED.contains(&key)
}

/// Whether new values of a label come every year.
pub(crate) fn is_open(key: &str) -> bool {
    OPEN.contains(&key)
}

/// What an unknown value was meant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meant {
    /// It can only be this: another case, or a processor's other name.
    Certainly(&'static str),
    /// It differs from this by a slip of the hand.
    Slip(&'static str),
    /// This is probably meant.
    Perhaps(&'static str),
    /// Nothing is near.
    Nothing,
}

/// What a value that is none of the known ones was meant to be.
pub(crate) fn meant(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Meant {
    if let Some(word) = certain(text, key, known) {
        return Meant::Certainly(word);
    }
    match guess(text, key, known) {
        Some(word) if is_slip(text, word, key) => Meant::Slip(word),
        Some(word) => Meant::Perhaps(word),
        None => Meant::Nothing,
    }
}

fn certain(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let word = match (key, lower.as_str()) {
        ("kubernetes.io/arch", "x86_64" | "x86-64" | "x64") => "amd64",
        ("kubernetes.io/arch", "aarch64") => "arm64",
        (_, word) => word,
    };
    known.get(word).copied()
}

fn guess(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    if key.ends_with("gpu-name") {
        // `nvidia-h100` or `NVIDIA-H100-80GB`: one part is the name.
        let part = lower.split(['-', '_']).find_map(|part| known.get(part));
        if let Some(part) = part {
            return Some(part);
        }
    }
    if key.ends_with("instance-category") {
        // A family or a type names its category by the letters that it starts with.
        let end = lower.find(|c: char| !c.is_ascii_lowercase())?;
        return known.get(&lower[..end]).copied();
    }
    nearest(&lower, known.iter().copied())
}

/// Whether one text is at most two letters from the other, so that it is no newer name but a slip.
fn is_slip(text: &str, near: &str, key: &str) -> bool {
    // New families are a letter from old ones; sizes have no news.
    let family = |name: &str| name.split_once('.').map(|(family, _)| family.to_owned());
    if key == crate::catalog::INSTANCE_TYPE && family(text) != family(near) {
        return false;
    }
    let digits = |text: &str| -> Vec<char> { text.chars().filter(char::is_ascii_digit).collect() };
    // A newer generation or size differs in its digits.
    text.chars().count() >= 5 && digits(text) == digits(near) && is_within(text, near, 2)
}

#[cfg(test)]
mod tests {
    use super::{Meant, has_known_values, meant};
    use crate::catalog;

    #[test]
    fn other_spellings_are_told_from_slips_and_from_newer_names() {
        for (key, text, word) in [
            ("kubernetes.io/arch", "x86_64", Meant::Certainly("amd64")),
            ("kubernetes.io/arch", "s390x", Meant::Nothing),
            ("kubernetes.io/arch", "arm", Meant::Perhaps("arm64")),
            ("karpenter.k8s.aws/instance-gpu-name", "A10G", Meant::Certainly("a10g")),
            ("karpenter.k8s.aws/instance-gpu-name", "nvidia-h100", Meant::Perhaps("h100")),
            ("karpenter.k8s.aws/instance-category", "g5", Meant::Perhaps("g")),
            ("node.kubernetes.io/instance-type", "m7i.lrage", Meant::Slip("m7i.large")),
            ("node.kubernetes.io/instance-type", "p9x.48xlarge", Meant::Perhaps("c9g.48xlarge")),
            ("node.kubernetes.io/instance-type", "ecs.g7.xlarge", Meant::Perhaps("c6g.xlarge")),
            ("node.kubernetes.io/instance-type", "Standard_NC6s_v3", Meant::Nothing),
            ("node.kubernetes.io/instance-type", "n1-standard-4", Meant::Nothing),
        ] {
            assert!(has_known_values(key), "{key}");
            let known = catalog::values(key).expect("the catalogue has it");
            assert_eq!(meant(text, key, known), word, "{key} {text}");
        }
    }
}
