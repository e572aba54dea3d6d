//! Values of instance labels: the keys whose values are in the catalogue, and suggestions for values that are
//! not.

use std::collections::BTreeSet;

use crate::catalog::{self, REGION, TENANCY, ZONE, ZONE_ID};
use crate::facts::region;
use crate::facts::suggest::{is_within, nearest};

/// Labels that get new values every year.
const OPEN_VALUE_KEYS: [&str; 4] = [
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-size",
    "node.kubernetes.io/instance-type",
];

/// Labels whose set of values seldom changes.
const CLOSED_VALUE_KEYS: [&str; 10] = [
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

/// Whether the catalogue contains all values that a label had when the catalogue was generated.
pub(crate) fn has_known_values(key: &str) -> bool {
    has_open_values(key) || CLOSED_VALUE_KEYS.contains(&key)
}

/// Whether a label gets new values every year.
pub(crate) fn has_open_values(key: &str) -> bool {
    OPEN_VALUE_KEYS.contains(&key)
}

/// The intended value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suggestion {
    /// The only possibility: the text differs in case, or is another name of a processor.
    Certain(&'static str),
    /// The value with a typing error corrected.
    Typo(&'static str),
    /// The most probable value.
    Likely(&'static str),
    /// No known value is similar.
    None,
}

pub(crate) fn suggest(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Suggestion {
    if let Some(word) = exact(text, key, known) {
        return Suggestion::Certain(word);
    }
    match guess(text, key, known) {
        Some(word) if is_typo(text, word, key) => Suggestion::Typo(word),
        Some(word) => Suggestion::Likely(word),
        None => Suggestion::None,
    }
}

/// Another label that has this value, if the requirement uses the wrong key: `p3` is a family, not a
/// category.
pub(crate) fn label_of(text: &str, key: &str) -> Option<&'static str> {
    const LABELS: [&str; 4] = [
        "karpenter.k8s.aws/instance-family",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-size",
        crate::catalog::INSTANCE_TYPE,
    ];
    let has = |label: &&str| crate::catalog::values(label).is_some_and(|values| values.contains(text));
    if LABELS.contains(&key) { LABELS.into_iter().find(has) } else { None }
}

/// The label whose values have the form of a text: the name or the id of a zone, or a region.
pub(crate) fn topology_label_of(text: &str) -> Option<&'static str> {
    let regions = catalog::regions().iter().chain(region::OTHER_REGIONS).copied();
    match text {
        _ if region::of_zone(text).is_some() => Some(ZONE),
        _ if region::of_zone_id(text, regions).is_some() => Some(ZONE_ID),
        _ if region::is_name(text) => Some(REGION),
        _ => None,
    }
}

/// Whether no region has an availability zone of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingZone {
    Yes,
    /// No region has it, but it may be the next zone of one.
    NotYet,
    /// A region has it, or it is not known whether one does: it is in a Local Zone, a Wavelength Zone or an unknown region.
    No,
}

impl MissingZone {
    /// The last letter that zones of any region have.
    const LAST_LETTER: char = 'f';

    pub(crate) fn of(zone: &str) -> MissingZone {
        let last = zone.char_indices().next_back().filter(|(_, letter)| letter.is_ascii_lowercase());
        let Some((at, letter)) = last else { return MissingZone::No };
        let region = &zone[..at];
        let digits = region.len() - region.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let is_known = catalog::regions().contains(&region);
        let begins_as_known = || catalog::regions().iter().any(|known| region.starts_with(*known));
        match letter {
            _ if !is_known && digits > 1 && begins_as_known() => MissingZone::Yes,
            'i'.. if is_known => MissingZone::Yes,
            _ if is_known && letter > Self::LAST_LETTER => MissingZone::NotYet,
            _ => MissingZone::No,
        }
    }
}

fn exact(text: &str, key: &str, known: &BTreeSet<&'static str>) -> Option<&'static str> {
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
        // A text with digits is a family or a type. Its category would admit far more than that.
        return None;
    }
    nearest(&lower, known.iter().copied())
}

/// Whether the texts differ by at most two letters in a way that indicates a typing error and not a newer
/// name.
fn is_typo(text: &str, near: &str, key: &str) -> bool {
    // New families can differ by a letter from existing ones; new sizes do not.
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
    use super::{Suggestion, has_known_values, suggest};
    use crate::catalog;

    #[test]
    fn other_spellings_are_told_from_slips_and_from_newer_names() {
        for (key, text, word) in [
            ("kubernetes.io/arch", "x86_64", Suggestion::Certain("amd64")),
            ("kubernetes.io/arch", "s390x", Suggestion::None),
            ("kubernetes.io/arch", "arm", Suggestion::Likely("arm64")),
            ("karpenter.k8s.aws/instance-gpu-name", "A10G", Suggestion::Certain("a10g")),
            ("karpenter.k8s.aws/instance-gpu-name", "nvidia-h100", Suggestion::Likely("h100")),
            ("karpenter.k8s.aws/instance-category", "g5", Suggestion::None),
            ("node.kubernetes.io/instance-type", "m7i.lrage", Suggestion::Typo("m7i.large")),
            ("node.kubernetes.io/instance-type", "p9x.48xlarge", Suggestion::Likely("c9g.48xlarge")),
            ("node.kubernetes.io/instance-type", "ecs.g7.xlarge", Suggestion::Likely("c6g.xlarge")),
            ("node.kubernetes.io/instance-type", "Standard_NC6s_v3", Suggestion::None),
            ("node.kubernetes.io/instance-type", "n1-standard-4", Suggestion::None),
        ] {
            assert!(has_known_values(key), "{key}");
            let known = catalog::values(key).expect("the catalogue has it");
            assert_eq!(suggest(text, key, known), word, "{key} {text}");
        }
    }
}
