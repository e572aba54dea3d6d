//! Whether two objects of the input reach one cluster together.
//!
//! A repository may hold the files of several clusters, and examples that have nothing to do with each other.
//! Objects of one file or of one kustomization are applied together for certain; those of a folder and of the
//! folders below it probably; of two other folders nothing is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::ObjectKey;
use crate::cluster::sets::Bond;
use crate::object::Object;
use crate::source::KustomizeRoute;

/// How surely two objects reach one cluster, most surely first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Company {
    /// One file, or no files at all, as in a cluster.
    File,
    /// One kustomization.
    Kustomization,
    /// One folder.
    Folder,
    /// A folder and one below it.
    Below,
    /// Folders that have nothing to do with each other, or namespaces that differ once they are applied.
    Apart,
}

/// The kustomizations of the input that reach the file of an object.
pub(crate) fn routes(object: &Object) -> &[KustomizeRoute] {
    object.source().map_or(&[], |source| source.routes())
}

/// How surely both reach one cluster, as far as their places in the input tell.
pub(crate) fn company(a: &Object, b: &Object) -> Company {
    let (Some(from), Some(to)) = (a.origin(), b.origin()) else {
        return Company::File;
    };
    if Arc::ptr_eq(&from.source, &to.source) || from.source.path() == to.source.path() {
        return Company::File;
    }
    if !may_share_namespace(a, b) {
        return Company::Apart;
    }
    if routes(a).iter().any(|route| routes(b).iter().any(|other| other.root == route.root)) {
        return Company::Kustomization;
    }
    of_folders(folder(from.source.path()), folder(to.source.path()))
}

/// The same for objects of these folders, as far as no kustomization reaches them.
pub(crate) fn of_folders(here: &str, there: &str) -> Company {
    if here == there {
        Company::Folder
    } else if is_below(here, there) || is_below(there, here) {
        Company::Below
    } else {
        Company::Apart
    }
}

/// Where an object is, as far as that decides which objects without a namespace it pairs with: most objects are where many
/// others are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Around {
    /// In a cluster whose objects all pair.
    Everything,
    /// In a folder.
    Folder(String),
    /// Where kustomizations of its own bring it.
    Object(ObjectKey),
}

impl Around {
    /// Whether an object there pairs with another one, which has no namespace.
    pub(crate) fn pairs(&self, cluster: &Cluster, other: &Object) -> bool {
        match self {
            Around::Everything => true,
            Around::Object(object) => cluster.pairs(&object.0, other),
            Around::Folder(here) => other
                .origin()
                .is_none_or(|origin| of_folders(here, folder(origin.source.path())) != Company::Apart),
        }
    }
}

/// Whether two objects with one written namespace may still have one when kustomizations have set theirs.
fn may_share_namespace(a: &Object, b: &Object) -> bool {
    if routes(a).is_empty() && routes(b).is_empty() {
        return true;
    }
    let sets_namespaces = |object: &Object| routes(object).iter().any(|route| route.namespace.is_some());
    if a.namespace_or_default() != b.namespace_or_default()
        || a.is_cluster_scoped()
        || b.is_cluster_scoped()
        || !(sets_namespaces(a) || sets_namespaces(b))
    {
        return true;
    }
    let shared = || {
        let pairs = routes(a).iter().flat_map(|a| routes(b).iter().map(move |b| (a, b)));
        pairs.filter(|(a, b)| a.root == b.root)
    };
    if shared().next().is_some() {
        return shared().any(|(here, there)| namespace(a, Some(here)) == namespace(b, Some(there)));
    }
    !namespaces(a).is_disjoint(&namespaces(b))
}

/// The namespaces that the kustomizations around an object may apply it to.
fn namespaces(object: &Object) -> BTreeSet<&str> {
    let routes = routes(object);
    if routes.is_empty() {
        return BTreeSet::from([namespace(object, None)]);
    }
    routes.iter().map(|route| namespace(object, Some(route))).collect()
}

fn namespace<'a>(object: &'a Object, route: Option<&'a KustomizeRoute>) -> &'a str {
    route.and_then(|route| route.namespace.as_deref()).unwrap_or(object.namespace_or_default())
}

/// The folder of a path; empty for the current one.
pub(crate) fn folder(path: &str) -> &str {
    memchr::memrchr(b'/', path.as_bytes()).map_or("", |end| &path[..end])
}

/// Whether a folder is below another. The current folder is above all that are not outside it.
fn is_below(folder: &str, above: &str) -> bool {
    if above.is_empty() || above == "." {
        return !folder.starts_with('/') && !folder.starts_with("..");
    }
    folder.strip_prefix(above).is_some_and(|rest| rest.starts_with('/') || above.ends_with('/'))
}

impl Cluster {
    /// Where an object is.
    pub(crate) fn around(&self, object: &Object) -> Around {
        match object.origin() {
            Some(_) if self.all_pair() => Around::Everything,
            None => Around::Everything,
            Some(origin) if origin.source.routes().is_empty() => {
                Around::Folder(folder(origin.source.path()).to_owned())
            }
            Some(_) => Around::Object(ObjectKey(object.clone())),
        }
    }

    fn all_pair(&self) -> bool {
        self.is_complete() || self.bond() != Bond::Folders
    }

    /// Whether a finding about one object may rest on the other one: whether both are of one cluster as far as is
    /// known. Everything is where the input is the whole cluster, or something says that all of it is applied together.
    #[must_use]
    pub fn pairs(&self, a: &Object, b: &Object) -> bool {
        self.all_pair() || company(a, b) != Company::Apart
    }

    /// Whether both are of one cluster for certain. What the kustomization of its folder leaves out is not.
    pub(crate) fn surely_pairs(&self, a: &Object, b: &Object) -> bool {
        let is_left_out = |o: &Object| o.origin().is_some_and(|origin| origin.source.is_left_out());
        self.bond() == Bond::Certain && !is_left_out(a) && !is_left_out(b)
            || company(a, b) <= Company::Kustomization
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Company, company};
    use crate::file::File;
    use crate::object::Object;
    use crate::source::{KustomizeRoute, Source};

    fn object(path: &str, kind: &str, routes: &[(&str, Option<&str>)]) -> Object {
        let routes: Vec<KustomizeRoute> = (routes.iter())
            .map(|(root, namespace)| KustomizeRoute {
                root: Arc::from(*root),
                namespace: namespace.map(Arc::from),
                affixes: Arc::default(),
                renames: false,
            })
            .collect();
        let version = if kind == "NodePool" { "karpenter.sh/v1" } else { "apps/v1" };
        let text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n");
        let file = File::read(Source::from_text(path, &text).with_routes(routes));
        file.objects[0].clone()
    }

    #[test]
    fn objects_of_unrelated_folders_are_apart() {
        for (a, b, expected) in [
            ("a.yaml", "a.yaml", Company::File),
            ("x/a.yaml", "x/b.yaml", Company::Folder),
            ("x/a.yaml", "x/y/z/b.yaml", Company::Below),
            ("a.yaml", "x/b.yaml", Company::Below),
            ("x/a.yaml", "y/b.yaml", Company::Apart),
            ("x/a.yaml", "xy/b.yaml", Company::Apart),
            ("a.yaml", "../b.yaml", Company::Apart),
            ("/x/a.yaml", "/x/y/b.yaml", Company::Below),
        ] {
            let (a, b) = (object(a, "Deployment", &[]), object(b, "Deployment", &[]));
            assert_eq!((company(&a, &b), company(&b, &a)), (expected, expected));
        }
    }

    #[test]
    fn kustomizations_bring_together_and_separate() {
        let both = |a: &[(&str, Option<&str>)], b: &[(&str, Option<&str>)], kind: &str| {
            company(&object("x/a.yaml", kind, a), &object("y/b.yaml", "Deployment", b))
        };
        let prod: &[_] = &[("prod", None)];
        assert_eq!(both(prod, prod, "Deployment"), Company::Kustomization);
        // An object of no namespace is together with those of all.
        assert_eq!(both(prod, &[("prod", Some("a"))], "NodePool"), Company::Kustomization);
        assert_eq!(
            both(&[("prod", Some("a"))], &[("prod", Some("a"))], "Deployment"),
            Company::Kustomization
        );
        assert_eq!(both(&[("prod", Some("a"))], &[("prod", Some("b"))], "Deployment"), Company::Apart);
        assert_eq!(both(&[("east", None)], &[("west", None)], "Deployment"), Company::Apart);
    }
}
