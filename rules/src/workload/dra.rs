//! Device requests of dynamic resource allocation, in every version of the API.
//!
//! `v1beta1` has the fields of a request next to its name; `v1beta2` and `v1` have them under `exactly`. In all
//! versions `firstAvailable` is a list of alternatives.

use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;

/// The fields of `exactly`, which `v1beta1` has next to the name of the request.
const EXACT_FIELDS: &[&str] =
    &["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// The API versions of claims and classes, the preferred one first, with the minor version of Kubernetes 1 that has each first, and
/// the one that no longer has it.
const API_VERSIONS: [(&str, u32, Option<u32>); 6] = [
    ("v1", 34, None),
    ("v1beta1", 32, Some(38)),
    ("v1beta2", 33, Some(39)),
    ("v1alpha3", 31, Some(34)),
    ("v1alpha2", 27, Some(31)),
    ("v1alpha1", 26, Some(27)),
];

/// The first version of Kubernetes that has an API version, and the one that no longer has it.
pub(crate) fn served_in(api_version: &str) -> Option<(Version, Option<Version>)> {
    let (_, first, gone) = API_VERSIONS.iter().find(|(version, ..)| *version == api_version)?;
    Some((Version::new(1, *first), gone.map(|minor| Version::new(1, minor))))
}

/// The API version to write for a version of Kubernetes. Those other than `v1` are off by default.
pub(crate) fn served_by(cluster: Version) -> Option<&'static str> {
    let is_served = |first: u32, gone: Option<u32>| {
        Version::new(1, first) <= cluster && gone.is_none_or(|gone| cluster < Version::new(1, gone))
    };
    API_VERSIONS.iter().find(|(_, first, gone)| is_served(*first, *gone)).map(|(version, ..)| *version)
}

/// Whether a version has the fields of a request under `exactly`; `None` for versions without such requests.
pub(crate) fn nests_in_exactly(version: &str) -> Option<bool> {
    match version {
        "v1" | "v1beta2" => Some(true),
        "v1beta1" => Some(false),
        _ => None,
    }
}

/// The `devices` field of a ResourceClaim or ResourceClaimTemplate.
pub fn devices(object: &Object) -> Node<'_> {
    if object.is(Kind::RESOURCE_CLAIM_TEMPLATE) {
        object.path(&["spec", "spec", "devices"])
    } else {
        object.path(&["spec", "devices"])
    }
}

/// The requests of a claim, without items that are not mappings.
pub fn requests(object: &Object) -> impl Iterator<Item = Node<'_>> {
    devices(object).get("requests").items().filter(Node::is_mapping)
}

/// Every mapping that can name a device class: requests with flat fields, `exactly`, alternatives.
pub fn class_blocks(object: &Object) -> Vec<Node<'_>> {
    let mut out = Vec::new();
    for request in requests(object) {
        if flat_fields(&request).next().is_some() {
            out.push(request.clone());
        }
        let exactly = request.get("exactly");
        if exactly.is_mapping() {
            out.push(exactly);
        }
        out.extend(request.get("firstAvailable").items().filter(Node::is_mapping));
    }
    out
}

/// The fields of a request next to its name, as in `v1beta1`.
pub(crate) fn flat_fields<'a>(request: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    let request = request.clone();
    EXACT_FIELDS.iter().map(move |f| request.get(f)).filter(|n| !n.is_absent())
}

#[cfg(test)]
mod tests {
    use super::{API_VERSIONS, served_by, served_in};
    use crate::kind::api_versions::minors_of;
    use crate::platform::{Product, Version};

    #[test]
    fn api_versions_are_those_of_the_table() {
        for (version, ..) in API_VERSIONS {
            let (first, gone) = served_in(version).expect("a version");
            let Some(minors) = minors_of("resource.k8s.io", version, "ResourceClaim") else {
                assert!(gone.is_some_and(|gone| gone <= Product::Kubernetes.oldest()), "{version}");
                continue;
            };
            for minor in 26..=Product::Kubernetes.newest().minor {
                let cluster = Version::new(1, minor);
                let is_served = first <= cluster && gone.is_none_or(|gone| cluster < gone);
                assert_eq!(is_served, minors.range.contains(cluster), "{version} in {cluster}");
            }
        }
    }

    #[test]
    fn each_kubernetes_has_an_api_version() {
        let of = |minor| served_by(Version::new(1, minor));
        assert_eq!(of(25), None);
        assert_eq!([26, 27, 30, 31].map(of), ["v1alpha1", "v1alpha2", "v1alpha2", "v1alpha3"].map(Some));
        assert_eq!([32, 33, 34, 40].map(of), ["v1beta1", "v1beta1", "v1", "v1"].map(Some));
    }
}
