//! Fields that an older API version had and the current one does not: where they went.
//!
//! The API server drops such a field without a word unless its client asks for strict decoding,
//! so an object that says `karpenter.sh/v1` and still writes an old path loses the setting.
//!
//! Sources: Karpenter's v1 and v1beta1 migration guides, the CRDs of v0.31, v0.37 and v1.0, KEDA's
//! migration guide.

use crate::kind::Kind;

/// Where a field went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// Another path of the same object, with the same value.
    At(&'static [&'static str]),
    /// Another path of the same object, with another value; the text says which.
    As(&'static [&'static str], &'static str),
    /// A path of the EC2NodeClass that the pool names, with the same value.
    InClass(&'static [&'static str]),
    /// Nowhere; the text says why, or what to do instead.
    Gone(&'static str),
}

/// One field that moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The kind as it is called today.
    pub kind: Kind,
    /// The old path.
    pub from: &'static [&'static str],
    /// Where it went.
    pub now: Now,
}

/// Looks an old path up; list indices are `*` in the table and any number in `path`. A path below
/// an entry of the table is not found: ask for the first field that the schema does not know.
#[must_use]
pub fn moved(kind: (&str, &str), path: &[&str]) -> Option<&'static Moved> {
    MOVED.iter().find(|m| {
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

const fn pool(from: &'static [&'static str], now: Now) -> Moved {
    Moved { kind: Kind::NODE_POOL, from, now }
}

const fn class(from: &'static [&'static str], now: Now) -> Moved {
    Moved { kind: Kind::EC2_NODE_CLASS, from, now }
}

const fn scaled_object(from: &'static [&'static str], now: Now) -> Moved {
    Moved { kind: Kind::SCALED_OBJECT, from, now }
}

/// Every field that moved, by kind, oldest API first.
pub static MOVED: &[Moved] = &[
    // Provisioner v1alpha5.
    pool(&["spec", "labels"], Now::At(&["spec", "template", "metadata", "labels"])),
    pool(&["spec", "annotations"], Now::At(&["spec", "template", "metadata", "annotations"])),
    pool(&["spec", "requirements"], Now::At(&["spec", "template", "spec", "requirements"])),
    pool(&["spec", "taints"], Now::At(&["spec", "template", "spec", "taints"])),
    pool(&["spec", "startupTaints"], Now::At(&["spec", "template", "spec", "startupTaints"])),
    pool(&["spec", "providerRef"], Now::As(CLASS_REF, "`group`, `kind` and `name` of an EC2NodeClass")),
    pool(&["spec", "provider"], Now::Gone("write the settings into an EC2NodeClass")),
    pool(&["spec", "limits", "resources"], Now::As(&["spec", "limits"], "the same resources, one level up")),
    pool(
        &["spec", "ttlSecondsAfterEmpty"],
        Now::As(CONSOLIDATE_AFTER, "a duration such as `30s`, with `consolidationPolicy: WhenEmpty`"),
    ),
    pool(&["spec", "ttlSecondsUntilExpired"], Now::As(EXPIRE_AFTER, "a duration such as `720h`")),
    pool(
        &["spec", "consolidation"],
        Now::As(CONSOLIDATION_POLICY, "`WhenEmptyOrUnderutilized`, with `consolidateAfter: 0s`"),
    ),
    pool(&["spec", "kubeletConfiguration"], Now::InClass(KUBELET)),
    // NodePool v1beta1.
    pool(&["spec", "disruption", "expireAfter"], Now::At(EXPIRE_AFTER)),
    pool(
        &["spec", "template", "spec", "nodeClassRef", "apiVersion"],
        Now::As(&["spec", "template", "spec", "nodeClassRef", "group"], "the group alone, without a version"),
    ),
    pool(&["spec", "template", "spec", "kubelet"], Now::InClass(KUBELET)),
    pool(&["spec", "template", "spec", "resources"], Now::Gone("it never had an effect on a NodePool")),
    // AWSNodeTemplate v1alpha1.
    class(&["spec", "amiSelector"], Now::As(AMI_TERMS, "a list of terms")),
    class(&["spec", "subnetSelector"], Now::As(SUBNET_TERMS, "a list of terms")),
    class(&["spec", "securityGroupSelector"], Now::As(GROUP_TERMS, "a list of terms")),
    class(
        &["spec", "launchTemplate"],
        Now::Gone("launch templates of your own are not read since Karpenter 0.33"),
    ),
    class(
        &["spec", "launchTemplateName"],
        Now::Gone("launch templates of your own are not read since Karpenter 0.33"),
    ),
    // KEDA 1.
    scaled_object(
        &["spec", "scaleTargetRef", "deploymentName"],
        Now::At(&["spec", "scaleTargetRef", "name"]),
    ),
    scaled_object(
        &["spec", "scaleTargetRef", "containerName"],
        Now::At(&["spec", "scaleTargetRef", "envSourceContainerName"]),
    ),
    scaled_object(&["spec", "scaleType"], Now::Gone("a ScaledJob is a kind of its own")),
    scaled_object(&["spec", "jobTargetRef"], Now::Gone("a ScaledJob is a kind of its own")),
];

#[cfg(test)]
mod tests {
    use super::{EXPIRE_AFTER, MOVED, Now, moved};

    #[test]
    fn a_path_is_found_whole() {
        let pool = ("karpenter.sh", "NodePool");
        let found = moved(pool, &["spec", "disruption", "expireAfter"]).map(|m| m.now);
        assert_eq!(found, Some(Now::At(EXPIRE_AFTER)));
        assert!(moved(pool, &["spec", "disruption"]).is_none());
        assert!(moved(("karpenter.sh", "NodeClaim"), &["spec", "provider"]).is_none());
    }

    #[test]
    fn no_path_is_listed_twice() {
        for (i, one) in MOVED.iter().enumerate() {
            assert!(
                MOVED[i + 1..].iter().all(|m| m.kind != one.kind || m.from != one.from),
                "{:?}",
                one.from
            );
        }
    }
}
