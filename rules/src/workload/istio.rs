//! The proxy that Istio adds to a pod, as far as the pod's template decides it.

use super::template::Template;
use crate::tree::node::Node;

/// The label or annotation with which a pod asks for the proxy, or refuses it.
pub(crate) const INJECT: &str = "sidecar.istio.io/inject";
/// The label of pods and namespaces that are in the mesh without a proxy of their own.
pub(crate) const MODE: &str = "istio.io/dataplane-mode";

/// The annotation because of which the proxy has neither a request nor a limit for `cpu` or `memory`: one of these four
/// replaces all amounts that proxies have by default (template `resources` in Istio's `injection-template.yaml`).
pub(crate) fn proxy_without_request<'a>(template: &Template<'a>, resource: &str) -> Option<Node<'a>> {
    let metadata = &template.metadata;
    let (labels, annotations) = (metadata.get("labels"), metadata.get("annotations"));
    let refuses = |map: &Node<'_>| map.has_unknown_key() || map.get(INJECT).text() == Some("false");
    // A container of this name in the template sets fields of the proxy.
    let is_set_up = template.all_containers().any(|one| one.get("name").text() == Some("istio-proxy"));
    if refuses(&labels)
        || refuses(&annotations)
        || labels.get(MODE).is_set()
        || annotations.get("inject.istio.io/templates").is_set()
        || is_set_up
    {
        return None;
    }
    let of = |name: &str| {
        let both = [format!("sidecar.istio.io/proxy{name}"), format!("sidecar.istio.io/proxy{name}Limit")];
        both.map(|key| annotations.get(&key)).into_iter().find(|node| !node.is_absent())
    };
    let (own, other) = if resource == "cpu" { ("CPU", "Memory") } else { ("Memory", "CPU") };
    if of(own).is_some() { None } else { of(other) }
}
