//! Objects of old APIs of Karpenter as what they become, for rules about the current one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::converted::{Converted, Successor};
use crate::cluster::views::kubelet_settings;
use crate::kind::Kind;
use crate::lint::fix::value::apply;
use crate::lint::fix::{Fix, Operation};
use crate::migration::convert;
use crate::object::{FieldOrigins, Object};
use crate::rules::manifest_purpose::{is_copy, is_named_after_release, is_named_after_version};
use crate::tree::pointer::Pointer;

/// Whether the path of an object says that it is kept for an old version of Karpenter.
pub(super) fn is_for_old_release(object: &Object) -> bool {
    is_named_after_release(object, "karpenter") || is_named_after_version(object) || is_copy(object)
}

/// What an object becomes without any other. `None` if it cannot be converted.
pub(super) fn successor_alone(object: &Object) -> Option<Object> {
    made_of(object, &Cluster::default())?.objects.into_iter().next()
}

/// What the objects of old APIs of a cluster become. Left out are those that the input has in the current API as well, those that a
/// kustomization patches, whose fields the patches name in the old API, and pools of which the class or the kubelet is lost.
pub(in crate::rules) fn successors(cluster: &Cluster) -> Vec<Successor> {
    let old = |kind: Kind| {
        cluster.of(kind).filter(move |object| {
            object.version() != "v1"
                && !object.may_lack_fields()
                && !is_for_old_release(object)
                && !is_current_as_well(object, cluster)
        })
    };
    let of_classes = old(Kind::AWS_NODE_TEMPLATE).chain(old(Kind::EC2_NODE_CLASS));
    let mut all: Vec<Successor> = of_classes.filter_map(|class| made_of(class, cluster)).collect();
    let converted: BTreeSet<String> = all.iter().map(|one| one.written.name().to_owned()).collect();
    let pools = old(Kind::PROVISIONER).chain(old(Kind::NODE_POOL));
    let pools = pools.filter(|pool| keeps_class(pool, &converted, cluster) && keeps_kubelet(pool, cluster));
    let pools: Vec<Successor> = pools.filter_map(|pool| made_of(pool, cluster)).collect();
    all.extend(pools);
    all
}

impl Cluster {
    /// The cluster with the objects of old APIs of Karpenter as what they become.
    #[must_use]
    pub fn in_current_apis(&self) -> &Cluster {
        self.converted(successors).map_or(self, Converted::cluster)
    }
}

/// Whether the input has the object in the current API, as in the middle of a migration.
fn is_current_as_well(object: &Object, cluster: &Cluster) -> bool {
    let id = object.id();
    let same = cluster.all(&id.group, &id.kind, "default", &id.name);
    same.iter().any(|other| other.version() == "v1" && !other.ptr_eq(object))
}

/// The name of the node class of a pool.
fn class_of(pool: &Object) -> Option<&str> {
    let reference = match pool.is(Kind::PROVISIONER) {
        true => pool.path(&["spec", "providerRef"]),
        false => pool.path(&["spec", "template", "spec", "nodeClassRef"]),
    };
    reference.get("name").text()
}

fn classes_called<'c>(name: &str, kind: Kind, cluster: &'c Cluster) -> impl Iterator<Item = &'c Object> {
    cluster.all(kind.group, kind.kind, "default", name).iter()
}

/// Whether the class of a pool is in the current API, is converted, or is not in the input.
fn keeps_class(pool: &Object, converted: &BTreeSet<String>, cluster: &Cluster) -> bool {
    let Some(name) = class_of(pool) else { return true };
    let former = classes_called(name, Kind::AWS_NODE_TEMPLATE, cluster).next().is_some();
    let mut of_kind = classes_called(name, Kind::EC2_NODE_CLASS, cluster);
    converted.contains(name) || !former && of_kind.all(|class| class.version() == "v1")
}

/// Whether the class of a pool gets its kubelet settings, or the pool has none.
fn keeps_kubelet(pool: &Object, cluster: &Cluster) -> bool {
    let field = match pool.is(Kind::PROVISIONER) {
        true => pool.path(&["spec", "kubeletConfiguration"]),
        false => pool.path(&["spec", "template", "spec", "kubelet"]),
    };
    let own = kubelet_settings(&field.to_json());
    let Some(name) = class_of(pool).filter(|_| !own.is_empty()) else { return true };
    let has_other = |class: &Object| {
        class.version() == "v1" && kubelet_settings(&class.path(&["spec", "kubelet"]).to_json()) != own
    };
    !field.has_unknown()
        && !cluster.views().kubelets().conflicts(name)
        && !classes_called(name, Kind::EC2_NODE_CLASS, cluster).any(has_other)
}

/// The fields of a pool that may stand in the way of a conversion: a kubelet, which becomes a part of its node class, and what the old
/// API rejects beside consolidation.
const OBSTACLES: [&[&str]; 3] = [
    &["spec", "kubeletConfiguration"],
    &["spec", "template", "spec", "kubelet"],
    &["spec", "ttlSecondsAfterEmpty"],
];
/// How many of them are a kubelet.
const KUBELETS: usize = 2;

/// What an object becomes, without the fields that stand in the way. `None` if it cannot be converted.
fn made_of(object: &Object, cluster: &Cluster) -> Option<Successor> {
    let written = object.root().to_json();
    [0, KUBELETS, OBSTACLES.len()].into_iter().find_map(|left_out| {
        let mut value = written.clone();
        for path in &OBSTACLES[..left_out] {
            let (last, above) = path.split_last()?;
            let parent = above.iter().try_fold(&mut value, |at, step| at.get_mut(*step));
            if let Some(parent) = parent.and_then(Value::as_object_mut) {
                parent.remove(*last);
            }
        }
        let fix = match left_out {
            0 => convert(object, cluster).ok()?,
            _ => convert(&Object::completed_from(object, &value)?, cluster).ok()?,
        };
        made(object, &value, fix)
    })
}

/// What a fix makes of an object with this value, and the class that it creates beside it.
fn made(object: &Object, value: &Value, fix: Fix) -> Option<Successor> {
    let successor = apply(value, &fix).ok()?;
    let created: Vec<Object> = fix.creates.iter().filter_map(|class| inline_class(object, class)).collect();
    let origins = FieldOrigins::new(move |pointer| origin(pointer, &fix));
    let successor = Object::converted_from(object, &successor, origins)?;
    let objects = std::iter::once(successor).chain(created).collect();
    Some(Successor { written: object.clone(), objects })
}

/// The class that a Provisioner has inline, with the fields that kept their names at their places.
fn inline_class(provisioner: &Object, class: &Value) -> Option<Object> {
    let written = provisioner.clone();
    let origins = FieldOrigins::new(move |pointer| {
        let (first, rest) = pointer.steps().split_first().filter(|(first, _)| *first == "spec")?;
        let steps = [first.as_str(), "provider"].into_iter().chain(rest.iter().map(String::as_str));
        let at = Pointer::from_steps(steps);
        (!written.root().at(&at).is_absent()).then_some(at)
    });
    Object::converted_from(provisioner, class, origins)
}

/// The place in the old object of a place in the new one. `None` for what the conversion has written.
fn origin(pointer: &Pointer, fix: &Fix) -> Option<Pointer> {
    let mut at = pointer.to_string();
    let rest_below = |at: &str, path: &str| -> Option<String> {
        let rest = at.strip_prefix(path)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    for (index, operation) in fix.operations.iter().enumerate().rev() {
        match operation {
            Operation::Move { from, path } => {
                if let Some(rest) = rest_below(&at, path) {
                    at = format!("{from}{rest}");
                }
            }
            // An empty parent of what is moved later.
            Operation::Add { value, .. } if value.as_object().is_some_and(serde_json::Map::is_empty) => {}
            // A value in another form: seconds as a duration.
            Operation::Replace { path, .. } if at == *path => {}
            Operation::Add { path, .. } | Operation::Replace { path, .. }
                if rest_below(&at, path).is_some() =>
            {
                // A field that was renamed and written anew: `amiFamily`, which becomes a term with an alias.
                let renamed = |before: &Operation| match before {
                    Operation::Move { from, path: to } if to == path => Some(from.clone()),
                    _ => None,
                };
                at = fix.operations[..index].iter().rev().find_map(renamed)?;
            }
            Operation::Add { .. } | Operation::Replace { .. } => {}
            Operation::Test { .. } | Operation::Remove { .. } => {}
        }
    }
    Pointer::parse(&at)
}
