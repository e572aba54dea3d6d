//! Fields of older API versions that the current one does not have, with their replacements.
//!
//! The API server drops such a field silently unless the client requests strict validation, so an object of
//! `karpenter.sh/v1` with an old path loses the setting.
//!
//! Sources: Karpenter's v1 and v1beta1 migration guides, the CRDs of v0.31, v0.37 and v1.0, KEDA's migration
//! guide.

use crate::kind::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// Another path of the same object, with the same value.
    SameValue(&'static [&'static str]),
    /// Another path of the same object, with another value, described by the text.
    NewValue(&'static [&'static str], &'static str),
    /// A path of the EC2NodeClass that the pool references, with the same value.
    InNodeClass(&'static [&'static str]),
    /// No replacement; the text gives the reason, or an alternative.
    Removed(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MovedField {
    /// The current name of the kind.
    pub(crate) kind: Kind,
    pub(crate) from: &'static [&'static str],
    pub(crate) now: Replacement,
}

/// Finds an old path; list indices are `*` in the table and any number in `path`. A path below an entry of the table
/// is not found: pass the path of the first field that the schema does not have.
pub(crate) fn moved_field(kind: (&str, &str), path: &[&str]) -> Option<&'static MovedField> {
    MOVED_FIELDS.iter().find(|m| {
        (m.kind.group, m.kind.kind) == kind
            && m.from.len() == path.len()
            && m.from.iter().zip(path).all(|(old, step)| {
                old == step || *old == "*" && !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit())
            })
    })
}

const EXPIRE_AFTER: &[&str] = &["spec", "template", "spec", "expireAfter"];
const CLASS_REF: &[&str] = &["spec", "template", "spec", "nodeClassRef"];
const CONSOLIDATE_AFTER: &[&str] = &["spec", "disruption", "consolidateAfter"];
const CONSOLIDATION_POLICY: &[&str] = &["spec", "disruption", "consolidationPolicy"];
const KUBELET: &[&str] = &["spec", "kubelet"];
const AMI_TERMS: &[&str] = &["spec", "amiSelectorTerms"];
const SUBNET_TERMS: &[&str] = &["spec", "subnetSelectorTerms"];
const GROUP_TERMS: &[&str] = &["spec", "securityGroupSelectorTerms"];

const fn pool(from: &'static [&'static str], now: Replacement) -> MovedField {
    MovedField { kind: Kind::NODE_POOL, from, now }
}

const fn class(from: &'static [&'static str], now: Replacement) -> MovedField {
    MovedField { kind: Kind::EC2_NODE_CLASS, from, now }
}

const fn scaled_object(from: &'static [&'static str], now: Replacement) -> MovedField {
    MovedField { kind: Kind::SCALED_OBJECT, from, now }
}

/// All moved fields, by kind, oldest API first.
static MOVED_FIELDS: &[MovedField] = &[
    // Provisioner v1alpha5.
    pool(&["spec", "labels"], Replacement::SameValue(&["spec", "template", "metadata", "labels"])),
    pool(&["spec", "annotations"], Replacement::SameValue(&["spec", "template", "metadata", "annotations"])),
    pool(&["spec", "requirements"], Replacement::SameValue(&["spec", "template", "spec", "requirements"])),
    pool(&["spec", "taints"], Replacement::SameValue(&["spec", "template", "spec", "taints"])),
    pool(&["spec", "startupTaints"], Replacement::SameValue(&["spec", "template", "spec", "startupTaints"])),
    pool(
        &["spec", "providerRef"],
        Replacement::NewValue(CLASS_REF, "`group`, `kind` and `name` of an EC2NodeClass"),
    ),
    pool(&["spec", "provider"], Replacement::Removed("write the settings into an EC2NodeClass")),
    pool(
        &["spec", "limits", "resources"],
        Replacement::NewValue(&["spec", "limits"], "the same resources, one level up"),
    ),
    pool(
        &["spec", "ttlSecondsAfterEmpty"],
        Replacement::NewValue(
            CONSOLIDATE_AFTER,
            "a duration such as `30s`, with `consolidationPolicy: WhenEmpty`",
        ),
    ),
    pool(
        &["spec", "ttlSecondsUntilExpired"],
        Replacement::NewValue(EXPIRE_AFTER, "a duration such as `720h`"),
    ),
    pool(
        &["spec", "consolidation"],
        Replacement::NewValue(
            CONSOLIDATION_POLICY,
            "`WhenEmptyOrUnderutilized`, with `consolidateAfter: 0s`",
        ),
    ),
    pool(&["spec", "kubeletConfiguration"], Replacement::InNodeClass(KUBELET)),
    // NodePool v1beta1.
    pool(&["spec", "disruption", "expireAfter"], Replacement::SameValue(EXPIRE_AFTER)),
    pool(
        &["spec", "template", "spec", "nodeClassRef", "apiVersion"],
        Replacement::NewValue(
            &["spec", "template", "spec", "nodeClassRef", "group"],
            "the group alone, without a version",
        ),
    ),
    pool(&["spec", "template", "spec", "kubelet"], Replacement::InNodeClass(KUBELET)),
    pool(
        &["spec", "template", "spec", "resources"],
        Replacement::Removed("it never had an effect on a NodePool"),
    ),
    // AWSNodeTemplate v1alpha1.
    class(&["spec", "amiSelector"], Replacement::NewValue(AMI_TERMS, "a list of terms")),
    class(&["spec", "subnetSelector"], Replacement::NewValue(SUBNET_TERMS, "a list of terms")),
    class(&["spec", "securityGroupSelector"], Replacement::NewValue(GROUP_TERMS, "a list of terms")),
    class(
        &["spec", "launchTemplate"],
        Replacement::Removed("launch templates of your own are not read since Karpenter 0.33"),
    ),
    class(
        &["spec", "launchTemplateName"],
        Replacement::Removed("launch templates of your own are not read since Karpenter 0.33"),
    ),
    // KEDA 1.
    scaled_object(
        &["spec", "scaleTargetRef", "deploymentName"],
        Replacement::SameValue(&["spec", "scaleTargetRef", "name"]),
    ),
    scaled_object(
        &["spec", "scaleTargetRef", "containerName"],
        Replacement::SameValue(&["spec", "scaleTargetRef", "envSourceContainerName"]),
    ),
    scaled_object(&["spec", "scaleType"], Replacement::Removed("a ScaledJob is a kind of its own")),
    scaled_object(&["spec", "jobTargetRef"], Replacement::Removed("a ScaledJob is a kind of its own")),
];

#[cfg(test)]
mod tests {
    use super::{EXPIRE_AFTER, MOVED_FIELDS, Replacement, moved_field};

    #[test]
    fn a_path_is_found_whole() {
        let pool = ("karpenter.sh", "NodePool");
        let found = moved_field(pool, &["spec", "disruption", "expireAfter"]).map(|m| m.now);
        assert_eq!(found, Some(Replacement::SameValue(EXPIRE_AFTER)));
        assert!(moved_field(pool, &["spec", "disruption"]).is_none());
        assert!(moved_field(("karpenter.sh", "NodeClaim"), &["spec", "provider"]).is_none());
    }

    #[test]
    fn no_path_is_listed_twice() {
        for (i, one) in MOVED_FIELDS.iter().enumerate() {
            assert!(
                MOVED_FIELDS[i + 1..].iter().all(|m| m.kind != one.kind || m.from != one.from),
                "{:?}",
                one.from
            );
        }
    }
}
