//! References from one object to others: what scales a workload, the class of a NodePool, and what selects pods.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use gpulint_rules::{Kind, Membership, Node, Object};
use serde_json::Value;

use super::index::Files;

/// The objects of sets as they are applied, for references to them.
#[derive(Default)]
pub(super) struct Applied<'a> {
    /// The sets that have an object, by its kind, namespace and name.
    named: HashMap<(&'a str, String, String), BTreeSet<usize>>,
    pods: Vec<Pods<'a>>,
}

/// The pods of a workload of a set.
struct Pods<'a> {
    folder: &'a Path,
    namespace: String,
    labels: Node<'a>,
    set: usize,
}

impl<'a> Applied<'a> {
    pub(super) fn of(files: &Files<'a>, members: &[Vec<Membership>]) -> Applied<'a> {
        let mut applied = Applied::default();
        for (at, memberships) in members.iter().enumerate() {
            let folder = files.folder(at).unwrap_or(Path::new(""));
            for (object, of) in files.list[at]
                .objects
                .iter()
                .flat_map(|object| memberships.iter().map(move |of| (object, of)))
            {
                let id = object.id();
                let own = id.namespace().or(of.default_namespace.as_deref());
                let namespace = match is_of_cluster(object) {
                    true => String::new(),
                    false => of.namespace.as_deref().or(own).unwrap_or("default").to_owned(),
                };
                let name = format!("{}{}{}", of.prefix, id.name, of.suffix);
                let key = (id.kind.as_str(), namespace.clone(), name);
                applied.named.entry(key).or_default().insert(of.set);
                let labels = object.path(&["spec", "template", "metadata", "labels"]);
                if labels.is_mapping() {
                    applied.pods.push(Pods { folder, namespace, labels, set: of.set });
                }
            }
        }
        applied
    }

    /// The sets with objects that some others name. Labels that are selected count for files below the folder of the pods.
    pub(super) fn sets_named(&self, objects: &[Object], folder: Option<&Path>) -> BTreeSet<usize> {
        objects.iter().flat_map(|object| self.named_by(object, folder)).collect()
    }

    fn named_by(&self, object: &Object, folder: Option<&Path>) -> BTreeSet<usize> {
        let reference = match reference(object) {
            Some(Reference::Name(field)) => field,
            Some(Reference::Labels(selector)) => return self.selected_by(object, &selector, folder),
            None => return BTreeSet::new(),
        };
        let kind = reference.get("kind");
        let kind = if kind.is_set() { kind.text() } else { Some("Deployment") };
        let Some((kind, name)) = kind.zip(reference.get("name").text()) else { return BTreeSet::new() };
        let namespace = match object.is(Kind::NODE_POOL) {
            true => "",
            false => object.id().namespace_or_default(),
        };
        self.named.get(&(kind, namespace.to_owned(), name.to_owned())).cloned().unwrap_or_default()
    }

    fn selected_by(&self, object: &Object, selector: &Node<'_>, folder: Option<&Path>) -> BTreeSet<usize> {
        let wanted = selector.entries();
        let namespace = object.id().namespace_or_default();
        let is_selected = |pods: &&Pods<'_>| {
            !wanted.is_empty()
                && pods.namespace == namespace
                && folder.is_some_and(|folder| folder.starts_with(pods.folder))
                && wanted
                    .iter()
                    .all(|(key, value)| value.text().is_some() && pods.labels.get(key).text() == value.text())
        };
        self.pods.iter().filter(is_selected).map(|pods| pods.set).collect()
    }
}

/// What an object says about others, and what selectors of others read of it.
pub(crate) fn references(object: &Object) -> Vec<Value> {
    const PATHS: [&[&str]; 5] = [
        &["spec", "scaleTargetRef"],
        &["spec", "targetRef"],
        &["spec", "selector"],
        &["spec", "template", "spec", "nodeClassRef"],
        &["spec", "template", "metadata", "labels"],
    ];
    PATHS.iter().map(|path| object.path(path)).filter(Node::is_set).map(|node| node.to_json()).collect()
}

/// How an object names others.
enum Reference<'o> {
    /// The field with the kind and the name of one.
    Name(Node<'o>),
    /// The labels of pods.
    Labels(Node<'o>),
}

fn reference(object: &Object) -> Option<Reference<'_>> {
    Some(match object.id().kind.as_str() {
        _ if object.is(Kind::SCALED_OBJECT) || object.is(Kind::HPA) => {
            Reference::Name(object.path(&["spec", "scaleTargetRef"]))
        }
        "VerticalPodAutoscaler" => Reference::Name(object.path(&["spec", "targetRef"])),
        _ if object.is(Kind::NODE_POOL) => {
            Reference::Name(object.path(&["spec", "template", "spec", "nodeClassRef"]))
        }
        _ if object.is(Kind::PDB) => Reference::Labels(object.path(&["spec", "selector", "matchLabels"])),
        _ if object.is(Kind::SERVICE) => Reference::Labels(object.path(&["spec", "selector"])),
        _ => return None,
    })
}

/// Whether an object may name others.
pub(super) fn is_reference(object: &Object) -> bool {
    reference(object).is_some()
}

fn is_of_cluster(object: &Object) -> bool {
    object.is(Kind::EC2_NODE_CLASS) || object.id().kind == "NodeClass"
}
