//! Fields that are known, but stand elsewhere: one level too high or too low, or under a name that is near.
//!
//! One slip of indentation makes unknown fields where the fields stand, and missing ones where they belong.

use crate::facts::suggest;
use crate::kind::Kind;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::object::Object;
use crate::schema::{InvalidKind, Violation, ViolationKind, fields_at, violations};
use crate::tree::node::Node;
use crate::tree::pointer::Pointer;

/// An unknown field, and the field that was meant.
#[derive(Clone, Debug)]
pub(super) struct Misplaced {
    pub(super) from: Pointer,
    pub(super) to: Pointer,
}

impl Misplaced {
    /// Whether it is misspelled: the same place under another name.
    pub(super) fn is_misspelled(&self) -> bool {
        self.from.above(1) == self.to.above(1)
    }

    /// The number of levels that it is too high; negative if it is too low.
    pub(super) fn levels(&self) -> isize {
        self.to.steps().len() as isize - self.from.steps().len() as isize
    }
}

/// Whether `resources` of a pod was probably meant for one of its containers, one of which has none.
pub(super) fn is_of_container(object: &Object, node: &Node<'_>) -> bool {
    let pointer = node.pointer();
    let containers = object.root().at(&pointer.above(1)).get("containers");
    pointer.steps().last().is_some_and(|field| field == "resources")
        && containers.items().any(|container| container.get("resources").is_absent())
}

/// The place in the containers of a pod where an unknown field of a part of the pod belongs: `containers[].securityContext.capabilities`
/// for `securityContext.capabilities`. `None` if that part of containers has no such field.
pub(super) fn place_in_containers(
    object: &Object,
    field: &Pointer,
    definitions: &CustomResourceDefinitions,
) -> Option<String> {
    let (name, above) = field.steps().split_last()?;
    let has = |at: &Pointer, name: &str| fields_at(object, at, definitions).iter().any(|field| field == name);
    let pod = places_above(above, 0).find(|at| has(at, "containers"))?;
    let part = &above[pod.steps().len()..];
    let steps = pod.join("containers").join("0");
    let home = Pointer::from_steps(steps.steps().iter().chain(part).cloned());
    has(&home, name).then(|| {
        format!("containers[].{}", Pointer::from_steps(part.iter().cloned()).join(name).field_path())
    })
}

/// Whether a field is one of the container of a template of Argo Workflows.
pub(super) fn is_of_step(field: &Pointer) -> bool {
    matches!(field.steps(), [.., templates, _, container, _]
        if templates == "templates" && matches!(container.as_str(), "container" | "script"))
}

/// The place of a field of a template of Argo Workflows that is written in its container (`Template` in
/// pkg/apis/workflow/v1alpha1/workflow_types.go).
pub(super) fn place_in_step(field: &Pointer) -> Option<String> {
    const OF_TEMPLATES: [&str; 9] = [
        "activeDeadlineSeconds",
        "affinity",
        "nodeSelector",
        "parallelism",
        "priorityClassName",
        "retryStrategy",
        "serviceAccountName",
        "timeout",
        "tolerations",
    ];
    let name = field.steps().last().filter(|_| is_of_step(field))?;
    OF_TEMPLATES.contains(&name.as_str()).then(|| field.above(2).join(name).field_path())
}

/// Fields of the status of a Pod. Wrong indentation in a dump puts them under `spec`.
const STATUS_FIELDS: &[&str] = &[
    "conditions",
    "containerStatuses",
    "hostIP",
    "hostIPs",
    "initContainerStatuses",
    "phase",
    "podIP",
    "podIPs",
    "qosClass",
    "startTime",
];

/// The field that an unknown field was meant to be. `None` if no valid field is similar.
pub(super) fn meant(
    object: &Object,
    from: &Pointer,
    definitions: &CustomResourceDefinitions,
) -> Option<Misplaced> {
    let (name, above) = from.steps().split_last()?;
    let here = from.above(1);
    if object.is(Kind::POD) && above == ["spec"] && STATUS_FIELDS.contains(&name.as_str()) {
        let to = Pointer::from_steps(["status", name].map(str::to_owned));
        return Some(Misplaced { from: from.clone(), to });
    }
    if has_annotations_of_kserve(object, from) {
        let to = Pointer::from_steps(["metadata", "annotations"].map(str::to_owned));
        return Some(Misplaced { from: from.clone(), to });
    }
    let known = fields_at(object, &here, definitions);
    // A path of a file is no reference to a Secret: `bearerTokenFile`, `bearerTokenSecret`.
    let is_other_source = |near: &&str| name.ends_with("File") && near.ends_with("Secret");
    let near = suggest::nearest(name, known.iter().map(String::as_str));
    // The exact name in another place is more likely than two typos.
    let elsewhere = near
        .filter(|near| !suggest::is_within(name, near, 1))
        .and_then(|_| home(object, name, above, definitions))
        .filter(|to| to.steps().last() == Some(name));
    if let Some(to) = elsewhere {
        return Some(Misplaced { from: from.clone(), to });
    }
    let near = near.filter(|near| !is_other_source(near)).or_else(|| {
        // The field of the API is `secretName`; people write `name`.
        let end = |field: &&String| field.to_ascii_lowercase().ends_with(&name.to_ascii_lowercase());
        let mut ends =
            known.iter().filter(end).filter(|field| is_missing(object, &here.join(field), definitions));
        ends.next().filter(|_| ends.next().is_none()).map(String::as_str)
    });
    let to = match near {
        Some(near) => here.join(near),
        None => home(object, name, above, definitions)?,
    };
    Some(Misplaced { from: from.clone(), to })
}

/// Whether a field holds annotations of KServe, which reads them from the InferenceService and not from its components:
/// KServe 0.15, `pkg/controller/v1beta1/inferenceservice`.
fn has_annotations_of_kserve(object: &Object, at: &Pointer) -> bool {
    const DOMAIN: &str = "serving.kserve.io";
    let is_own = |key: &str| key.strip_prefix(DOMAIN).is_some_and(|rest| rest.starts_with('/'));
    object.group() == DOMAIN
        && at.steps().last().is_some_and(|name| name == "annotations")
        && object.root().at(at).entries().iter().any(|(key, _)| is_own(key))
}

pub(super) fn misplaced(object: &Object, definitions: &CustomResourceDefinitions) -> Vec<Misplaced> {
    let all = violations(object, definitions);
    let unknown = all.iter().filter(|violation| violation.kind == ViolationKind::Unknown);
    unknown.filter_map(|violation| meant(object, &violation.pointer, definitions)).collect()
}

/// Whether a violation follows from a misplaced field: a required field is missing because it is elsewhere, or its parent
/// is unknown.
pub(super) fn follows(object: &Object, violation: &Violation, misplaced: &[Misplaced]) -> bool {
    let says_no_volume =
        matches!(violation.kind, ViolationKind::Invalid { of: InvalidKind::UnknownVolume, .. });
    misplaced.iter().any(|one| {
        let (to, missing) = (one.to.steps(), violation.pointer.steps());
        let inside = missing.strip_prefix(to).is_some_and(|rest| {
            let written = one.from.steps().iter().chain(rest).cloned();
            object.root().at(&Pointer::from_steps(written)).is_set()
        });
        inside
            || (to.starts_with(missing) && !object.root().at(&violation.pointer).is_set())
            || (says_no_volume && one.to.steps().last().is_some_and(|last| last == "volumes"))
    })
}

fn is_missing(object: &Object, at: &Pointer, definitions: &CustomResourceDefinitions) -> bool {
    let all = violations(object, definitions);
    object.root().at(at).is_absent() && all.iter().any(|violation| violation.pointer == *at)
}

/// The location above, or just below, where a field of this name is valid.
fn home(
    object: &Object,
    name: &str,
    above: &[String],
    definitions: &CustomResourceDefinitions,
) -> Option<Pointer> {
    // Each object has labels and annotations, whatever its `spec` has of that name.
    if above.is_empty() && matches!(name, "labels" | "annotations") {
        let metadata = Pointer::from_steps(["metadata".to_owned(), name.to_owned()]);
        return (!object.root().at(&metadata).is_set()).then_some(metadata);
    }
    let has = |at: &Pointer| fields_at(object, at, definitions).iter().any(|field| field == name);
    // A level was left out: `spec` of a pod in the place of the `template` that is missing.
    let here = Pointer::from_steps(above.iter().cloned());
    let template = here.join("template");
    if has(&template) && is_missing(object, &template, definitions) {
        return Some(template.join(name));
    }
    for at in places_above(above, 0) {
        // A field that exists already was not meant.
        if has(&at) && !object.root().at(&at.join(name)).is_set() {
            return Some(at.join(name));
        }
    }
    if matches!(name, "labels" | "annotations")
        && let Some(metadata) = metadata_above(object, name, above, definitions)
    {
        return Some(metadata);
    }
    let fields = fields_at(object, &here, definitions);
    let homes = fields.iter().map(|field| here.join(field));
    let homes: Vec<Pointer> =
        homes.filter(|at| has(at) && !object.root().at(&at.join(name)).is_set()).collect();
    // Of several, the one that exists.
    let written = homes.iter().find(|at| object.root().at(at).is_set());
    let only = homes.first().filter(|_| homes.len() == 1);
    if let Some(home) = written.or(only) {
        return Some(home.join(name));
    }
    // A part of what the place above has already.
    let is_part = object.root().at(&here.join(name)).is_mapping();
    let mut homes = places_above(above, 1).filter(|at| !above.starts_with(at.join(name).steps()));
    homes.find(|at| is_part && has(at)).map(|at| at.join(name))
}

/// The places above one, the nearest first, with `least` steps or more.
fn places_above(place: &[String], least: usize) -> impl Iterator<Item = Pointer> {
    (least..place.len()).rev().map(|depth| Pointer::from_steps(place.iter().take(depth).cloned()))
}

/// The labels or annotations of the template that a field is in, such as those of a NodePool's nodes.
fn metadata_above(
    object: &Object,
    name: &str,
    above: &[String],
    definitions: &CustomResourceDefinitions,
) -> Option<Pointer> {
    let mut homes = places_above(above, 1).map(|template| template.join("metadata"));
    let home = homes.find(|at| fields_at(object, at, definitions).iter().any(|field| field == name))?;
    Some(home.join(name))
}
