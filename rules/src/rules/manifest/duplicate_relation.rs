//! How certain it is that two objects of one kind and name are the same object.

use crate::cluster::together::{folder, routes};
use crate::kind::Kind;
use crate::object::Object;
use crate::source::KustomizeRoute;

/// Where two objects of one identity are defined, the most certain duplicates first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// One kustomization reaches both, and kustomize rejects the second.
    Kustomization,
    /// Objects that are written for two namespaces, which the `namespace` of a kustomization makes one.
    Namespace,
    File,
    /// Both are in one folder, and may be alternatives.
    Folder,
    /// Both are somewhere in an input that is the whole cluster.
    Cluster,
}

/// How certain it is that two objects of one kind and name are the same. `None` if they may be different objects.
pub(super) fn relation(object: &Object, other: &Object, complete: bool) -> Option<Relation> {
    let (here, there) = (object.origin()?.source.path(), other.origin()?.source.path());
    let same_folder = folder(here) == folder(there);
    // Some repositories have an object of one name in hundreds of folders.
    if !same_folder && !complete && !share_root(object, other) {
        return None;
    }
    // A kustomization with a `namespace` gives it to its Namespace objects as their name.
    let renamed = |object: &Object| routes(object).iter().any(|route| route.namespace.is_some());
    if object.is(Kind::NAMESPACE) && (renamed(object) || renamed(other)) {
        return None;
    }
    // A patch of a kustomization in between may rename or remove one of them.
    let changed = || object.is_patched_by_kustomize() || other.is_patched_by_kustomize();
    let clash = |a: &KustomizeRoute, b: &KustomizeRoute| {
        a.root == b.root
            && a.affixes == b.affixes
            && (object.is_cluster_scoped()
                || match (namespace(object, Some(a)), namespace(other, Some(b))) {
                    (Some(a), Some(b)) => a == b,
                    _ => false,
                })
    };
    let kustomized = object.version() == other.version()
        && (same_folder || !changed())
        && routes(object).iter().any(|a| routes(other).iter().any(|b| clash(a, b)));
    if kustomized {
        let own = |one: &Object| {
            let written = one.as_written();
            (!written.is_namespace_unknown()).then(|| written.namespace_or_default().to_owned())
        };
        let is_moved = !object.is_cluster_scoped() && own(object) != own(other);
        return Some(if is_moved { Relation::Namespace } else { Relation::Kustomization });
    }
    // Where each kustomization gives its objects a namespace or a prefix, they are the same only within one.
    let (a, b) = (routes(object).first(), routes(other).first());
    let same_affixes = affixes(a) == affixes(b);
    let same_namespace = object.is_cluster_scoped()
        || namespace(object, a).is_some_and(|own| namespace(other, b) == Some(own));
    if !same_affixes || !same_namespace {
        return None;
    }
    if here == there {
        Some(Relation::File)
    } else if same_folder {
        // Of two files only one may be listed, and two may be listed by different kustomizations.
        let unlisted = routes(object).is_empty() && routes(other).is_empty();
        (unlisted || share_root(object, other)).then_some(Relation::Folder)
    } else {
        (complete && !kustomizations_differ(here, there)).then_some(Relation::Cluster)
    }
}

/// The prefixes that the kustomizations of a path add to names.
fn affixes(route: Option<&KustomizeRoute>) -> &str {
    route.map_or("", |route| &route.affixes)
}

/// Whether one kustomization includes both.
fn share_root(object: &Object, other: &Object) -> bool {
    routes(object).iter().any(|a| routes(other).iter().any(|b| a.root == b.root))
}

/// The namespace that an object is applied to: that of the kustomization, or its own. `None` for a placeholder.
fn namespace<'a>(object: &'a Object, route: Option<&'a KustomizeRoute>) -> Option<&'a str> {
    if let Some(namespace) = route.and_then(|route| route.namespace.as_deref()) {
        return Some(namespace);
    }
    (!object.is_namespace_unknown()).then(|| object.namespace_or_default())
}

fn kustomizations_differ(a: &str, b: &str) -> bool {
    let layer = |path: &str| -> Option<String> {
        let folders: Vec<&str> = path.split('/').collect();
        let at = folders.iter().position(|f| {
            matches!(*f, "base" | "bases" | "overlays" | "overlay" | "components" | "environments" | "envs")
        })?;
        Some(folders[..(at + 2).min(folders.len() - 1)].join("/"))
    };
    match (layer(a), layer(b)) {
        (None, None) => false,
        (a, b) => a != b,
    }
}
