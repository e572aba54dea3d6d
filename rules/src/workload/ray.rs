//! The pods of a Ray cluster: the head, and the workers of each group.

use crate::facts::text::is_digits;
use crate::kind::Kind;
use crate::object::Object;
use crate::platform::Version;
use crate::tree::node::Node;
use crate::workload::devices::gpus_of;
use crate::workload::environment::may_define;
use crate::workload::image::image_of;
use crate::workload::template::Template;

/// The spec of the cluster of a RayCluster, RayJob or RayService.
pub(crate) fn cluster_spec(object: &Object) -> Node<'_> {
    let spec = object.get("spec");
    match object {
        _ if object.is(Kind::RAY_JOB) => spec.get("rayClusterSpec"),
        _ if object.is(Kind::RAY_SERVICE) => spec.get("rayClusterConfig"),
        _ => spec,
    }
}

/// What the tag of one of Ray's own images says: `2.49.2` and `310` for `rayproject/ray:2.49.2-py310-gpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RayImage<'a> {
    pub(crate) ray: &'a str,
    /// The version of Python, without its point. Each release of Ray has its own default.
    pub(crate) python: Option<&'a str>,
}

/// The release of Ray in a container. `None` for nightly builds, and for images of one's own.
pub(crate) fn ray_image<'a>(container: &Node<'a>) -> Option<RayImage<'a>> {
    const IMAGES: [&str; 4] = ["rayproject/ray", "rayproject/ray-ml", "rayproject/ray-llm", "anyscale/ray"];
    let image = image_of(container)?;
    let tag = image.tag.filter(|_| IMAGES.iter().any(|known| image.is(known)))?;
    let python = tag.split('-').find_map(|part| part.strip_prefix("py").filter(|version| is_digits(version)));
    Some(RayImage { ray: release_in(tag)?, python })
}

/// The release of Ray in a tag, with what follows it left out: `2.11.0` of `2.11.0-py311` and of `2.11.0.a464b6-py311-cpu`, which has the
/// commit of the release.
pub(crate) fn release_in(tag: &str) -> Option<&str> {
    let first = tag.split('-').next()?;
    let mut numbers = first.split('.');
    let is_release = (0..3).all(|_| numbers.next().is_some_and(is_digits));
    let commit = numbers.next();
    let is_commit = |text: &str| text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_known = is_release && commit.is_none_or(is_commit) && numbers.next().is_none();
    let end = commit.map_or(first.len(), |commit| first.len() - commit.len() - 1);
    is_known.then(|| &first[..end])
}

/// The version of Ray in a cluster: that of the head's image, where it is one of Ray's own, before `rayVersion`, which only describes it.
pub(crate) fn ray_version(cluster: &Node<'_>) -> Option<Version> {
    let head = cluster.path(&["headGroupSpec", "template", "spec", "containers"]).items().next();
    let of_image = head.and_then(|head| Version::parse(ray_image(&head)?.ray));
    of_image.or_else(|| Version::parse(&cluster.get("rayVersion").string_or_number()?))
}

/// Which number of pods is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The fewest: the minimum of a group that Ray's autoscaler scales.
    Least,
    /// The pods with which the cluster starts.
    First,
    /// The most, also of a group that is suspended for now.
    Most,
}

/// The pods of a template of a RayCluster, RayJob or RayService: of a worker group, otherwise one, which is the head or
/// submits the job. `None` if it is unknown, or without limit.
pub(crate) fn pods_of_template(template: &Template<'_>, extent: Extent) -> Option<i64> {
    let pointer = template.spec.pointer();
    let above = |levels: usize| template.place.0.root().at(&pointer.above(levels));
    match pointer.steps() {
        [.., groups, _, _, _] if groups == "workerGroupSpecs" => group_pods(&above(4), &above(2), extent),
        _ => Some(1),
    }
}

/// The pods of a worker group: `numOfHosts` (1) for each of `replicas` (0) within `minReplicas` (0) and `maxReplicas`, whose
/// default means no limit. These are the defaults of the CRD `ray.io/v1`; `GetWorkerGroupDesiredReplicas` of KubeRay puts
/// the replicas within the bounds since 1.0, and knows suspended groups since 1.3.
pub(crate) fn group_pods(cluster: &Node<'_>, group: &Node<'_>, extent: Extent) -> Option<i64> {
    let suspend = group.get("suspend");
    if extent != Extent::Most && (suspend.is_unknown() || suspend.bool() == Some(true)) {
        return suspend.bool().map(|_| 0);
    }
    let scaling = cluster.get("enableInTreeAutoscaling");
    if scaling.is_unknown() && extent != Extent::First {
        return None;
    }
    let scales = scaling.bool() == Some(true);
    let (least, most) = (group.get("minReplicas").int_or(0)?, group.get("maxReplicas"));
    let replicas = match extent {
        Extent::Least if scales => least,
        Extent::Most if scales => most.int()?,
        _ => group.get("replicas").int_or(0)?.max(least).min(most.int_or(i64::MAX)?),
    };
    Some(replicas.max(0).saturating_mul(group.get("numOfHosts").int_or(1)?))
}

/// The GPUs that Ray counts in each pod of a worker group, or in the head. `None` if they are not known.
pub(crate) fn gpus_of_group(group: &Node<'_>) -> Option<i64> {
    let template = group.path(&["template", "spec"]);
    // `resources` of a group replaces what its parameters say.
    let of_group = group.path(&["resources", "GPU"]);
    let announced = if of_group.is_set() { of_group } else { group.path(&["rayStartParams", "num-gpus"]) };
    if announced.is_set() {
        return announced.string_or_number()?.parse().ok();
    }
    let containers = template.get("containers");
    if containers.has_unknown() {
        return None;
    }
    // Ray finds the GPUs that a claim or the runtime of NVIDIA gives to a container without a limit.
    let hidden = template.get("resourceClaims").is_set() || template.get("runtimeClassName").is_set();
    let Some(first) = containers.items().next() else { return Some(0) };
    match gpus_of(&first) {
        Some(devices) => Some(devices.count),
        None if hidden || may_define(&first, |name| name == "NVIDIA_VISIBLE_DEVICES") => None,
        None => Some(0),
    }
}

/// Whether a RayJob has rules of its own for what is deleted when, which exclude `shutdownAfterJobFinishes`
/// (`validateDeletionConfiguration` of KubeRay 1.5).
pub(crate) fn has_deletion_rules(spec: &Node<'_>) -> bool {
    spec.path(&["deletionStrategy", "deletionRules"]).is_set()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tree::Tree;
    use crate::workload::template::templates;

    #[test]
    fn tags_of_rays_images_have_versions() {
        for (image, expected) in [
            ("rayproject/ray:2.49.2-py310-gpu", Some(("2.49.2", Some("310")))),
            ("mirror.example.com/hub/rayproject/ray-ml:2.9.3", Some(("2.9.3", None))),
            ("rayproject/ray-ml:2.11.0.a464b6-py311-cpu", Some(("2.11.0", Some("311")))),
            ("rayproject/ray:2.11.0rc1", None),
            ("rayproject/ray:nightly-py311", None),
            ("rayproject/ray@sha256:a", None),
            ("example.com/ray:2.9.3", None),
        ] {
            let tree = Tree::from_json(&json!({"image": image}));
            let found = ray_image(&Node::new(&tree, 0)).map(|image| (image.ray, image.python));
            assert_eq!(found, expected, "{image}");
        }
    }

    #[test]
    fn groups_are_within_their_bounds() {
        let cases = [
            (json!({}), json!({}), [Some(0), Some(0), Some(0)]),
            (json!({}), json!({"replicas": 2, "numOfHosts": 4}), [Some(8), Some(8), Some(8)]),
            (json!({}), json!({"replicas": 9, "maxReplicas": 3}), [Some(3), Some(3), Some(3)]),
            (json!({}), json!({"replicas": 2, "suspend": true}), [Some(0), Some(0), Some(2)]),
            (json!(true), json!({"replicas": 2, "minReplicas": 1}), [Some(1), Some(2), None]),
            (json!(true), json!({"minReplicas": 1, "maxReplicas": 5}), [Some(1), Some(1), Some(5)]),
        ];
        for (scales, mut group, expected) in cases {
            let pod = json!({"spec": {"containers": [{"name": "c"}]}});
            group["template"] = pod.clone();
            let object = Object::from_json(&json!({
                "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "a"},
                "spec": {
                    "enableInTreeAutoscaling": scales == json!(true),
                    "headGroupSpec": {"template": pod},
                    "workerGroupSpecs": [group],
                },
            }))
            .expect("an object");
            let templates = templates(&object);
            let numbers = [Extent::Least, Extent::First, Extent::Most]
                .map(|extent| pods_of_template(&templates[1], extent));
            assert_eq!(numbers, expected, "{group}");
            assert_eq!(pods_of_template(&templates[0], Extent::Most), Some(1));
        }
    }
}
