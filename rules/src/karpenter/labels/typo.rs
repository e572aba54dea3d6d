//! Label keys that resemble labels of instance types but are not: a wrong domain, or a typing error in the
//! name. Karpenter treats them as custom labels, which do not restrict the instance types.

use crate::catalog;
use crate::facts::suggest::is_within;
use crate::karpenter::provider::Provider;
use crate::karpenter::requirement::{Operator, WELL_KNOWN_AWS};
use crate::karpenter::requirement_list::{RequirementItem, is_comparison};

/// How certain it is that an instance label was intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TypoConfidence {
    /// The domain may be the user's own, but the values are those of the instance label.
    Likely,
    /// No other label has this name under this domain.
    Certain,
}

/// The known labels with other domains than `karpenter.k8s.aws`.
const GENERAL: [(&str, &str); 8] = [
    ("karpenter.sh", "capacity-type"),
    ("kubernetes.io", "arch"),
    ("kubernetes.io", "os"),
    ("node.kubernetes.io", "instance-type"),
    ("node.kubernetes.io", "windows-build"),
    ("topology.k8s.aws", "zone-id"),
    ("topology.kubernetes.io", "region"),
    ("topology.kubernetes.io", "zone"),
];

/// The known key that was intended by a key that no node has, with the confidence.
pub(crate) fn intended_key(
    item: &RequirementItem<'_>,
    provider: Provider,
) -> Option<(String, TypoConfidence)> {
    let key = item.key()?;
    let (domain, name) = key.split_once('/').unwrap_or(("", key));
    let aws = WELL_KNOWN_AWS.iter().map(|n| ("karpenter.k8s.aws", *n));
    let mut all = GENERAL.iter().copied().chain(aws);
    let (target, sure) = all.find_map(|(known_domain, known)| {
        let target = format!("{known_domain}/{known}");
        let target = provider.provider_key(&target).into_owned();
        let known_domain = target.split_once('/').map_or(known_domain, |(d, _)| d);
        let sure = compare(domain, name, known_domain, known)?;
        (key != target).then_some((target, sure))
    })?;
    // With a user's own domain, or without domain, the name alone is weak evidence.
    let weak = sure == TypoConfidence::Likely;
    if weak && !matches_instance_label(item, &provider.catalogue_key(&target)) {
        return None;
    }
    Some((target, if domain.is_empty() { TypoConfidence::Certain } else { sure }))
}

/// Whether a key may be a mistake for a known key.
fn compare(domain: &str, name: &str, known_domain: &str, known: &str) -> Option<TypoConfidence> {
    let same = normalized_letters(name) == normalized_letters(known);
    let slip = is_within(domain, known_domain, 3) && domain.len() >= 8;
    if same && (slip || is_official(domain)) {
        return Some(TypoConfidence::Certain);
    }
    // A single word such as `zone` or `arch` may well be a custom label.
    if same && known.contains('-') {
        return Some(TypoConfidence::Likely);
    }
    let near = if known.contains('-') {
        name.len() >= 7 && is_within(name, known, 2)
    } else {
        name.strip_suffix('s') == Some(known)
    };
    (near && domain == known_domain).then_some(TypoConfidence::Certain)
}

/// The name in lower case without separators.
fn normalized_letters(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether the domain belongs to Kubernetes or AWS, where users do not define labels.
fn is_official(domain: &str) -> bool {
    ["kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com", "amazon.com", "karpenter.sh"]
        .iter()
        .any(|end| domain.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

/// Whether the values of a requirement are those of an instance label, or its operator compares numbers,
/// which only makes sense for such a label.
fn matches_instance_label(item: &RequirementItem<'_>, label: &str) -> bool {
    match item.operator() {
        Some(operator) if is_comparison(operator) => true,
        Some(Operator::In | Operator::NotIn) => {
            let known = catalog::values(label);
            let is_known = |text: &str| known.is_some_and(|all| all.contains(text));
            item.values().items().filter_map(|v| v.text()).any(is_known)
        }
        _ => false,
    }
}
