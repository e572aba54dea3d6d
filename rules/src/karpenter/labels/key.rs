//! Which label keys are allowed, by location and by Karpenter version.
//!
//! Two lists apply: the CEL rules of the CRDs in the AWS Helm chart, evaluated by the API
//! server, and the check in Karpenter's controllers, which allows fewer keys
//! (<https://karpenter.sh/docs/concepts/scheduling/#well-known-labels>). [`RejectedBy`] tells the two apart.

use crate::facts::names::is_qualified_name;
use crate::karpenter::minors;
use crate::karpenter::minors::CrdFact;
use crate::karpenter::requirement::{WELL_KNOWN_AWS, is_restricted, is_well_known, normalise};
use crate::platform::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLocation {
    /// `spec.template.metadata.labels` of a NodePool.
    TemplateLabel,
    /// `spec.template.spec.requirements` of a NodePool.
    Pool,
    /// `spec.requirements` of a NodeClaim.
    Claim,
    /// `spec.requirements` of a NodeOverlay.
    Overlay,
    /// A node selector or a required node affinity of a pod.
    Pod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRejectionReason {
    /// The domain is reserved for Karpenter, and the key is not one of its requestable labels.
    Domain(&'static str),
    /// `karpenter.sh/nodepool`, which Karpenter sets on every node.
    NodePool,
    /// `kubernetes.io/hostname`, whose value is only known once the node exists.
    Hostname,
    /// `karpenter.k8s.aws/ec2nodeclass`: allowed by the CRD, rejected by the controller.
    NodeClass,
    Since(Version),
    /// The key is not a property of an instance type, so a NodeOverlay cannot select by it.
    NotInOverlay,
    /// The domain belongs to Kubernetes, and Karpenter before 1.9 reserved it.
    Kubernetes,
    /// The key is not a valid label key: too long, or not of the form `domain/name`.
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectedBy {
    /// The CEL rules of the CRD: the object is not stored.
    Crd,
    /// Karpenter's controller: the object is stored but not used.
    Controller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRejection {
    pub reason: KeyRejectionReason,
    pub by: RejectedBy,
}

const AWS_DOMAIN: &str = "karpenter.k8s.aws";
/// The path of the keys of requirements in the table of minor versions.
const REQUIREMENT_KEY: &str = "spec/template/spec/requirements/*/key";
const CORE_DOMAIN: &str = "karpenter.sh";

/// The reason why a key is rejected at a location. `None` if it is allowed. `aws` is true for the CRDs of the
/// AWS chart: those of other providers have no rule about `karpenter.k8s.aws`.
pub(crate) fn rejection(key: &str, place: KeyLocation, version: Version, aws: bool) -> Option<KeyRejection> {
    let reason = match place {
        KeyLocation::Pod => None,
        _ => server_rejection(key, place, version, aws),
    };
    if let Some(reason) = reason {
        return Some(KeyRejection { reason, by: RejectedBy::Crd });
    }
    // The controller does not validate hand-written NodeClaims.
    let reason = match place {
        KeyLocation::Claim => None,
        _ => controller_rejection(key, place, version, aws),
    };
    reason.map(|reason| KeyRejection { reason, by: RejectedBy::Controller })
}

/// The reason for which the CEL rules of the CRD reject a key. They compare the end of the domain with
/// `endsWith`.
fn server_rejection(
    key: &str,
    place: KeyLocation,
    version: Version,
    aws: bool,
) -> Option<KeyRejectionReason> {
    let domain = key.split('/').next().unwrap_or(key);
    if key == "kubernetes.io/hostname" {
        return Some(KeyRejectionReason::Hostname);
    }
    if key == "karpenter.sh/nodepool" {
        let taken = matches!(place, KeyLocation::Claim | KeyLocation::Overlay);
        return (!taken).then_some(KeyRejectionReason::NodePool);
    }
    if domain.ends_with(CORE_DOMAIN) && key != "karpenter.sh/capacity-type" {
        return Some(KeyRejectionReason::Domain(CORE_DOMAIN));
    }
    if aws && domain.ends_with(AWS_DOMAIN) {
        return aws_rejection(key, place, version);
    }
    if is_reserved_kubernetes_domain(domain)
        && minors::states(
            version,
            "NodePool",
            REQUIREMENT_KEY,
            "cel",
            "label domain kubernetes.io is restricted",
        )
        && listed(key).is_none()
    {
        return Some(KeyRejectionReason::Kubernetes);
    }
    None
}

fn aws_rejection(key: &str, place: KeyLocation, version: Version) -> Option<KeyRejectionReason> {
    let name = key.strip_prefix(AWS_DOMAIN).and_then(|rest| rest.strip_prefix('/'));
    let Some(name) = name.filter(|n| WELL_KNOWN_AWS.contains(n) || *n == "ec2nodeclass") else {
        return Some(KeyRejectionReason::Domain(AWS_DOMAIN));
    };
    if place == KeyLocation::Overlay {
        let kept = !name.starts_with("capacity-reservation-")
            && !name.starts_with("placement-group-")
            && name != "instance-tenancy";
        return (!kept).then_some(KeyRejectionReason::NotInOverlay);
    }
    let since = listed(key)?.range.since?;
    (version < since).then_some(KeyRejectionReason::Since(since))
}

/// The key in the list that CEL allows for requirements of a NodePool, if not every version has it there.
fn listed(key: &str) -> Option<&'static CrdFact> {
    minors::crd_fact("NodePool", REQUIREMENT_KEY, "key", key)
}

/// Whether a domain was reserved for Kubernetes before 1.9.
fn is_reserved_kubernetes_domain(domain: &str) -> bool {
    let free = ["node.kubernetes.io", "node-restriction.kubernetes.io", "kops.k8s.io"];
    (domain.ends_with("kubernetes.io") || domain.ends_with("k8s.io"))
        && !free.iter().any(|end| domain.ends_with(end))
}

/// The reason for which the controller rejects a key that the CRD allows.
fn controller_rejection(
    key: &str,
    place: KeyLocation,
    version: Version,
    aws: bool,
) -> Option<KeyRejectionReason> {
    let normal = normalise(key);
    if is_well_known(normal) {
        return None;
    }
    // In pods the API server rejects malformed keys itself.
    if place != KeyLocation::Pod && !is_qualified_name(key) {
        return Some(KeyRejectionReason::Malformed);
    }
    if !is_restricted(normal) {
        return None;
    }
    let domain = key.split('/').next().unwrap_or(key);
    let of_aws = domain == AWS_DOMAIN || domain.ends_with(".karpenter.k8s.aws");
    match normal {
        "kubernetes.io/hostname" => Some(KeyRejectionReason::Hostname),
        "karpenter.k8s.aws/ec2nodeclass" => Some(KeyRejectionReason::NodeClass),
        // A pod may be deployed before the Karpenter version that introduces its label.
        _ if of_aws && !aws && place != KeyLocation::Pod => None,
        _ if of_aws => Some(
            aws_rejection(key, place, version)
                .filter(|_| place != KeyLocation::Pod)
                .unwrap_or(KeyRejectionReason::Domain(AWS_DOMAIN)),
        ),
        _ => Some(KeyRejectionReason::Domain(CORE_DOMAIN)),
    }
}

/// The key that was probably intended: an instance label of the right domain, within typo distance.
pub(crate) fn suggest_key(key: &str) -> Option<String> {
    let (domain, name) = key.split_once('/')?;
    if !domain.ends_with(AWS_DOMAIN) && !domain.ends_with(CORE_DOMAIN) {
        return None;
    }
    if name == "capacity-type" {
        return (key != "karpenter.sh/capacity-type").then(|| "karpenter.sh/capacity-type".to_owned());
    }
    if matches!(name, "instance-type" | "instance-types") {
        return Some("node.kubernetes.io/instance-type".to_owned());
    }
    let known = |name: &str| WELL_KNOWN_AWS.contains(&name).then(|| format!("{AWS_DOMAIN}/{name}"));
    let exact = known(name).or_else(|| known(name.strip_suffix('s')?));
    // Short names are close to each other: `instance-gpu` is not a typo of `instance-cpu`.
    let rest = name.strip_prefix("instance-").unwrap_or(name);
    let near = || {
        let rests = WELL_KNOWN_AWS.map(|n| n.strip_prefix("instance-").unwrap_or(n));
        let near = crate::facts::suggest::nearest(rest, rests).filter(|_| rest.len() > 4)?;
        known(&format!("instance-{near}")).or_else(|| known(near))
    };
    exact.or_else(near).filter(|meant| meant != key)
}

#[cfg(test)]
mod tests {
    use super::RejectedBy::{Controller, Crd};
    use super::{
        AWS_DOMAIN, CORE_DOMAIN, KeyLocation, KeyRejectionReason, RejectedBy, rejection, suggest_key,
    };
    use crate::platform::{Product, Version};

    const NOW: Version = Product::Karpenter.newest();

    #[test]
    fn keys_are_allowed_by_location() {
        let all = [
            KeyLocation::TemplateLabel,
            KeyLocation::Pool,
            KeyLocation::Claim,
            KeyLocation::Overlay,
            KeyLocation::Pod,
        ];
        // One letter per location, in that order: `.` is allowed, `s` is rejected by the API server, `k` is
        // rejected by Karpenter.
        for (key, by) in [
            ("karpenter.sh/capacity-type", "....."),
            ("karpenter.sh/nodepool", "ss..."),
            ("karpenter.sh/provisioner-name", "ssssk"),
            ("karpenter.sh/registered", "ssssk"),
            ("sub.karpenter.sh/x", "ssssk"),
            ("notkarpenter.sh/x", "ssss."),
            ("karpenter.sh", "ssss."),
            ("kubernetes.io/hostname", "ssssk"),
            ("karpenter.k8s.aws/instance-family", "....."),
            ("karpenter.k8s.aws/instance-tenancy", "...s."),
            ("karpenter.k8s.aws/capacity-reservation-id", "...s."),
            ("karpenter.k8s.aws/placement-group-id", "...s."),
            ("karpenter.k8s.aws/ec2nodeclass", "kk.kk"),
            ("karpenter.k8s.aws/instance-pods", "ssssk"),
            ("x.karpenter.k8s.aws/y", "ssssk"),
            ("topology.kubernetes.io/zone", "....."),
            ("topology.k8s.aws/zone-id", "....."),
            ("beta.kubernetes.io/arch", "....."),
            ("node-role.kubernetes.io/gpu", "....."),
            ("eks.amazonaws.com/instance-family", "....."),
            ("example.com/team", "....."),
            ("Example.com/team", "kk.k."),
            ("example.com/a/b", "kk.k."),
        ] {
            let found: String = all
                .iter()
                .map(|place| match rejection(key, *place, NOW, true) {
                    None => '.',
                    Some(r) if r.by == Crd => 's',
                    Some(_) => 'k',
                })
                .collect();
            assert_eq!(found, by, "{key}");
        }
    }

    #[test]
    fn versions_and_providers_decide() {
        let at = |key: &str, minor: u32| {
            rejection(key, KeyLocation::Pool, Version::new(1, minor), true).map(|r| (r.reason, r.by))
        };
        let since = |minor| Some((KeyRejectionReason::Since(Version::new(1, minor)), Crd));
        assert_eq!(at("karpenter.k8s.aws/instance-tenancy", 8), since(9));
        assert_eq!(at("karpenter.k8s.aws/instance-tenancy", 9), None);
        assert_eq!(at("karpenter.k8s.aws/placement-group-id", 10), since(11));
        let kubernetes: Option<(KeyRejectionReason, RejectedBy)> =
            Some((KeyRejectionReason::Kubernetes, Crd));
        assert_eq!(at("node-role.kubernetes.io/gpu", 8), kubernetes);
        assert_eq!(at("app.k8s.io/x", 8), kubernetes);
        assert_eq!(at("node.kubernetes.io/lifecycle", 8), None);
        assert_eq!(at("kops.k8s.io/instancegroup", 8), None);
        assert_eq!(at("node-role.kubernetes.io/gpu", 9), None);
        let foreign = |key| rejection(key, KeyLocation::Pool, NOW, false).map(|r| r.reason);
        assert_eq!(foreign("karpenter.k8s.aws/x"), None);
        assert_eq!(foreign("karpenter.sh/x"), Some(KeyRejectionReason::Domain(CORE_DOMAIN)));
        let long = format!("example.com/{}", "x".repeat(64));
        let found = rejection(&long, KeyLocation::Pool, NOW, true).map(|r| (r.reason, r.by));
        assert_eq!(found, Some((KeyRejectionReason::Malformed, Controller)));
        assert_eq!(AWS_DOMAIN, "karpenter.k8s.aws");
    }

    #[test]
    fn typos_are_corrected() {
        for (key, word) in [
            ("karpenter.k8s.aws/instance-familly", "instance-family"),
            ("karpenter.sh/instance-family", "instance-family"),
            ("karpenter.k8s.aws/instance-gpu-counts", "instance-gpu-count"),
        ] {
            assert_eq!(suggest_key(key), Some(format!("{AWS_DOMAIN}/{word}")), "{key}");
        }
        let capacity = suggest_key("karpenter.k8s.aws/capacity-type");
        assert_eq!(capacity.as_deref(), Some("karpenter.sh/capacity-type"));
        for key in [
            "example.com/instance-family",
            "karpenter.k8s.aws/instance-gpu",
            "karpenter.k8s.aws/instance-pods",
            "karpenter.k8s.aws/ec2nodeclass",
        ] {
            assert_eq!(suggest_key(key), None, "{key}");
        }
    }
}
