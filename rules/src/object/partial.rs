//! Manifests that are only a part of an object: patches, templates that another program completes, bodies that are missing.

use super::ObjectId;
use crate::kind::Kind;
use crate::tree::node::Node;

/// Whether `spec` is missing in a kind that requires it, or `spec.template` in a NodePool.
pub(super) fn lacks_body(id: &ObjectId, root: &Node<'_>) -> bool {
    let spec = root.get("spec");
    let lives_by_spec = id.is(Kind::NODE_POOL)
        || id.is(Kind::EC2_NODE_CLASS)
        || id.is(Kind::SCALED_OBJECT)
        || id.is(Kind::SCALED_JOB)
        || id.is(Kind::HPA)
        || id.is(Kind::PDB)
        || id.is(Kind::POD)
        || id.group == "apps"
        || id.group == "batch";
    if lives_by_spec && !spec.is_mapping() {
        return true;
    }
    id.is(Kind::NODE_POOL) && !spec.path(&["template", "spec"]).is_mapping()
}

/// Whether Flux or Argo CD applies the object over an existing one, so that it may be incomplete. Argo CD's option is often that of
/// whole objects, so that only a part of one counts.
pub(super) fn is_applied_over_another(id: &ObjectId, root: &Node<'_>) -> bool {
    let annotations = root.path(&["metadata", "annotations"]);
    let policy = annotations.get("kustomize.toolkit.fluxcd.io/ssa");
    if matches!(policy.text(), Some("Merge" | "Override")) {
        return true;
    }
    let options = annotations.get("argocd.argoproj.io/sync-options");
    let is_merged = |text: &str| text.split(',').any(|option| option.trim() == "ServerSideApply=true");
    options.text().is_some_and(is_merged) && (lacks_body(id, root) || is_part_of_object(id, root))
}

/// Whether a field is absent without which the API server creates no object of the kind.
fn is_part_of_object(id: &ObjectId, root: &Node<'_>) -> bool {
    let spec = root.get("spec");
    let is_nameless =
        |container: Node<'_>| ["name", "image"].iter().any(|field| !container.get(field).is_set());
    match id.group.as_str() {
        "" if id.kind == "Service" => {
            let is_without_ports = matches!(spec.get("type").text(), Some("ExternalName"))
                || spec.get("clusterIP").text() == Some("None");
            !is_without_ports && !spec.get("ports").is_set()
        }
        "apps" => {
            let containers = spec.path(&["template", "spec", "containers"]);
            !spec.get("selector").is_set() || !containers.is_set() || containers.items().any(is_nameless)
        }
        "batch" => !spec.get("template").is_set() && !spec.get("jobTemplate").is_set(),
        "autoscaling" => !spec.get("scaleTargetRef").is_set() || !spec.get("maxReplicas").is_set(),
        _ => false,
    }
}

/// Whether it is a Pod in a file that Spark completes with image, command and name.
pub(super) fn is_pod_template(id: &ObjectId, root: &Node<'_>, path: &str) -> bool {
    if !id.is(Kind::POD) {
        return false;
    }
    let mut containers = root.path(&["spec", "containers"]).items();
    let file = path.rsplit('/').next().unwrap_or_default();
    let called = file.to_ascii_lowercase().contains("template");
    if root.path(&["spec", "containers"]).is_absent() {
        return (called || id.name.is_empty()) && root.get("spec").is_mapping();
    }
    containers.any(|container| {
        let name = container.get("name");
        let of_spark = name.text().is_some_and(|n| n.starts_with("spark-kubernetes-"));
        container.get("image").is_absent() && (called || of_spark)
    })
}
