//! The version of a kind that is watched, from the discovery of the API server.
//!
//! kube's `discovery` looks for a kind in the preferred version of its group only, or sorts by stability. Kinds that
//! are younger than their group are not in its preferred version (NodeOverlay is `karpenter.sh/v1alpha1`, beside
//! `v1`), so here each version of the group is asked.

use axum::http;
use gpulint_rules::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource, APIResourceList};
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;

/// The resource of a kind in the version that the rules are written for, or else in the version that the API server
/// prefers among those that have the kind; `None` if it serves the kind in no version.
pub(super) async fn discover(client: &Client, kind: Kind) -> kube::Result<Option<ApiResource>> {
    let Some(row) = kind.info() else {
        return Ok(None);
    };
    if kind.group.is_empty() {
        return Ok(Some(resource(kind, row.version, row.plural)));
    }
    let Some(group) = get::<APIGroup>(client, format!("/apis/{}", kind.group)).await? else {
        return Ok(None);
    };
    for version in by_preference(&group, row.version) {
        let path = format!("/apis/{}/{version}", kind.group);
        let Some(list) = get::<APIResourceList>(client, path).await? else { continue };
        if let Some(found) = list.resources.iter().find(|found| is_watchable(found, kind)) {
            return Ok(Some(resource(kind, version, &found.name)));
        }
    }
    Ok(None)
}

/// The resource of a kind in a version.
pub(crate) fn resource(kind: Kind, version: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group, version, kind.kind), plural)
}

/// The versions of a group: `known`, the preferred one, the others in the API server's order.
fn by_preference<'a>(group: &'a APIGroup, known: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = group.versions.iter().map(|version| version.version.as_str()).collect();
    let preferred = group.preferred_version.as_ref().map(|version| version.version.as_str());
    versions.sort_by_key(|version| (*version != known, Some(*version) != preferred));
    versions
}

fn is_watchable(resource: &APIResource, kind: Kind) -> bool {
    let has = |verb: &str| resource.verbs.iter().any(|found| found == verb);
    resource.kind == kind.kind && !resource.name.contains('/') && has("list") && has("watch")
}

/// A document of the discovery; `None` if the API server does not have it.
pub(super) async fn get<T: DeserializeOwned>(client: &Client, path: String) -> kube::Result<Option<T>> {
    let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_of_the_rules_comes_first_and_then_the_preferred_one() {
        let version = |name: &str| json!({"groupVersion": format!("g/{name}"), "version": name});
        let group: APIGroup = serde_json::from_value(json!({"name": "g", "preferredVersion": version("v1"),
            "versions": [version("v2beta1"), version("v1"), version("v1alpha1")]}))
        .unwrap();
        assert_eq!(by_preference(&group, "v1alpha1"), ["v1alpha1", "v1", "v2beta1"]);
        assert_eq!(by_preference(&group, "v3"), ["v1", "v2beta1", "v1alpha1"]);
    }
}
