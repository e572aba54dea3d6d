//! Whether two objects of the input are applied to the same cluster.
//!
//! A repository may contain the files of several clusters, and unrelated examples. Objects of one file or of one
//! kustomization are certainly applied together; objects of a folder and its subfolders probably; nothing is known
//! about unrelated folders.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::query::ObjectKey;
use crate::cluster::sets::Bond;
use crate::kind::Kind;
use crate::object::Object;
use crate::source::KustomizeRoute;

/// How certain it is that two objects are applied to the same cluster, from the most certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Company {
    /// Both are in one file, or not from files, as in a cluster.
    File,
    /// Both are in one kustomization.
    Kustomization,
    /// Both are in one folder.
    Folder,
    /// One is in a folder, the other in a subfolder.
    Below,
    /// They are in unrelated folders, or in namespaces that differ when applied.
    Apart,
}

/// Whether a kustomization of the input adds a prefix or a suffix to the name of an object.
pub(crate) fn is_renamed(object: &Object) -> bool {
    routes(object).iter().any(|route| route.renames)
}

/// Whether an object runs in the namespace that its manifest writes, as far as the input shows.
pub(crate) fn is_in_written_namespace(object: &Object) -> bool {
    let is_set_later = routes(object).iter().any(|route| route.namespace.is_some());
    object.namespace().is_some() && !object.is_namespace_unknown() && !is_set_later
}

/// Whether two objects surely run in different namespaces.
pub(crate) fn are_misplaced(a: &Object, b: &Object) -> bool {
    is_in_written_namespace(a) && is_in_written_namespace(b) && a.namespace() != b.namespace()
}

pub(crate) fn routes(object: &Object) -> &[KustomizeRoute] {
    object.source().map_or(&[], |source| source.routes())
}

/// How certain it is that both are applied to the same cluster, by their places in the input.
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
    let (here, there) = (folder(from.source.path()), folder(to.source.path()));
    let is_far = || depth(here).abs_diff(depth(there)) > MAX_LEVELS_BELOW;
    match of_folders(here, there) {
        Company::Below if !a.is_cluster_scoped() && !b.is_cluster_scoped() && is_far() => Company::Apart,
        company => company,
    }
}

/// Maximum number of levels between the folders of two objects with a namespace that are compared. A tree that is deeper has exercises,
/// environments or applications of their own.
const MAX_LEVELS_BELOW: usize = 3;

fn depth(folder: &str) -> usize {
    folder.split('/').filter(|part| !part.is_empty() && *part != ".").count()
}

/// The company of objects in these folders that no kustomization includes.
pub(crate) fn of_folders(here: &str, there: &str) -> Company {
    if here == there {
        Company::Folder
    } else if is_below(here, there) || is_below(there, here) || are_of_one_application(here, there) {
        Company::Below
    } else {
        Company::Apart
    }
}

/// Whether two folders are beside each other and called after kinds of objects, as `deployments` and `keda` are: they have those of one
/// application.
fn are_of_one_application(here: &str, there: &str) -> bool {
    let split = |path| str::rsplit_once(path, '/').unwrap_or(("", path));
    let ((above, own), (other_above, other)) = (split(here), split(there));
    // Every pair of objects is asked about: the cheap comparison comes first.
    above == other_above && is_called_after_a_kind(own) && is_called_after_a_kind(other)
}

fn is_called_after_a_kind(name: &str) -> bool {
    // In order, for the search.
    const KINDS: [&str; 45] = [
        "autoscaler",
        "autoscalers",
        "autoscaling",
        "configmap",
        "configmaps",
        "cronjob",
        "cronjobs",
        "daemonset",
        "daemonsets",
        "deploy",
        "deployment",
        "deployments",
        "hpa",
        "hpas",
        "ingress",
        "ingresses",
        "job",
        "jobs",
        "keda",
        "namespace",
        "namespaces",
        "netpol",
        "network-policies",
        "network-policy",
        "networkpolicies",
        "networkpolicy",
        "pdb",
        "pdbs",
        "pvc",
        "pvcs",
        "rbac",
        "scaledobject",
        "scaledobjects",
        "secret",
        "secrets",
        "service",
        "serviceaccount",
        "serviceaccounts",
        "servicemonitors",
        "services",
        "statefulset",
        "statefulsets",
        "svc",
        "volumes",
        "workloads",
    ];
    KINDS
        .binary_search_by(|kind| kind.bytes().cmp(name.bytes().map(|byte| byte.to_ascii_lowercase())))
        .is_ok()
}

/// The properties of an object that determine with which objects without a namespace it pairs. Most objects share them
/// with many others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Around {
    /// The object is in a cluster in which all objects pair.
    Everything,
    /// The folder of an object outside of kustomizations.
    Folder(String),
    /// An object with its own list of kustomizations.
    Object(ObjectKey),
}

impl Around {
    /// Whether such an object pairs with `other`, which has no namespace.
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

/// Whether two objects with the same written namespace may still share one after kustomizations have set theirs.
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

/// The namespaces in which the kustomizations of an object may apply it.
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

/// The folder of a path; empty for the current folder.
pub(crate) fn folder(path: &str) -> &str {
    memchr::memrchr(b'/', path.as_bytes()).map_or("", |end| &path[..end])
}

/// Whether a folder is a subfolder of another. Paths that do not begin with `..` are below the current folder.
fn is_below(folder: &str, above: &str) -> bool {
    if above.is_empty() || above == "." {
        return !folder.starts_with('/') && !folder.starts_with("..");
    }
    folder.strip_prefix(above).is_some_and(|rest| rest.starts_with('/') || above.ends_with('/'))
}

impl Cluster {
    /// The pairing properties of an object.
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

    /// Whether a finding about one object may depend on the other one: whether both are in one cluster as far as is
    /// known. Always true if the input is the whole cluster, or is known to be applied together.
    pub fn pairs(&self, a: &Object, b: &Object) -> bool {
        self.all_pair() || company(a, b) != Company::Apart
    }

    /// Whether the kustomization of the folder of both lists the file of one, and leaves that of the other out, which is in no other
    /// file that is listed.
    pub(crate) fn are_split(&self, a: &Object, b: &Object) -> bool {
        let folder_of =
            |object: &Object| object.origin().map(|origin| folder(origin.source.path()).to_owned());
        if self.is_complete() || is_left_out(a) == is_left_out(b) || folder_of(a) != folder_of(b) {
            return false;
        }
        let twins = self.all(b.group(), b.kind(), b.namespace_or_default(), b.name());
        !twins.iter().any(|twin| is_left_out(twin) == is_left_out(a))
    }

    /// Whether both are certainly in one cluster. Files that the kustomization of their folder does not list are not.
    pub(crate) fn surely_pairs(&self, a: &Object, b: &Object) -> bool {
        self.is_complete()
            || self.bond() == Bond::Certain && !is_left_out(a) && !is_left_out(b)
            || company(a, b) <= Company::Kustomization
    }

    /// Whether both are in one cluster if each folder is applied as a whole, as `kubectl apply -f FOLDER` does. An
    /// object of which the folder has two versions is an alternative: one of them is applied, not known which.
    pub(crate) fn likely_pairs(&self, a: &Object, b: &Object) -> bool {
        let is_plain = |o: &Object| routes(o).is_empty() && !is_left_out(o) && self.is_only_version(o);
        self.surely_pairs(a, b) || company(a, b) == Company::Folder && is_plain(a) && is_plain(b)
    }

    /// The only object of a name, if it is in another namespace than an object that means it, and surely applied with it.
    pub(crate) fn only_elsewhere(&self, object: &Object, kind: Kind, name: &str) -> Option<&Object> {
        self.only_misplaced(object, kind, name).filter(|found| self.surely_pairs(object, found))
    }

    /// The object of [`Cluster::only_elsewhere`], also where it is in another file of the same folder.
    pub(crate) fn only_likely_elsewhere(&self, object: &Object, kind: Kind, name: &str) -> Option<&Object> {
        self.only_misplaced(object, kind, name).filter(|found| self.likely_pairs(object, found))
    }

    fn only_misplaced(&self, object: &Object, kind: Kind, name: &str) -> Option<&Object> {
        let mut all = self.written_as(kind, name);
        all.next().filter(|found| all.next().is_none() && are_misplaced(object, found))
    }

    /// An object with one of the names that meets a condition, if it is in another namespace than an object that means it, and
    /// likely applied with it.
    pub(crate) fn likely_elsewhere(
        &self,
        object: &Object,
        kinds: &[Kind],
        names: &[&str],
        is_meant: impl Fn(&Object) -> bool,
    ) -> Option<&Object> {
        let named = names.iter().flat_map(|name| kinds.iter().map(move |kind| (*kind, *name)));
        let mut all = named.flat_map(|(kind, name)| self.written_as(kind, name));
        all.find(|other| are_misplaced(object, other) && self.likely_pairs(object, other) && is_meant(other))
    }

    /// Whether no other object of the folder has the identity of this one.
    fn is_only_version(&self, object: &Object) -> bool {
        let id = object.id();
        let same = self.all(&id.group, &id.kind, object.namespace_or_default(), &id.name);
        same.iter().all(|other| other.ptr_eq(object) || company(object, other) > Company::Folder)
    }
}

/// Whether a kustomization of the folder leaves the file of an object out.
fn is_left_out(object: &Object) -> bool {
    object.origin().is_some_and(|origin| origin.source.is_left_out())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Company, company};
    use crate::cluster::Cluster;
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
            ("x/deployments/a.yaml", "x/keda/b.yaml", Company::Below),
            ("deployments/a.yaml", "hpa/b.yaml", Company::Below),
            ("x/deployments/a.yaml", "y/keda/b.yaml", Company::Apart),
            ("x/web/a.yaml", "x/keda/b.yaml", Company::Apart),
            ("a.yaml", "x/b.yaml", Company::Below),
            ("x/a.yaml", "x/y/z/w/b.yaml", Company::Below),
            ("x/a.yaml", "x/y/z/v/w/b.yaml", Company::Apart),
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
    fn files_of_a_folder_are_applied_together_without_alternatives() {
        let pair = |others: &[&str]| {
            let objects = [("x/web.yaml", "web"), ("x/job.yaml", "job")];
            let others = others.iter().map(|path| (*path, "web"));
            let text = |name| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{}}\n");
            let files: Vec<File> = (objects.into_iter().chain(others))
                .map(|(path, name)| File::read(Source::from_text(path, &text(name))))
                .collect();
            let objects: Vec<Object> = files.iter().map(|file| file.objects[0].clone()).collect();
            let cluster = Cluster::new(false).with_objects(objects.clone());
            (cluster.likely_pairs(&objects[0], &objects[1]), cluster.surely_pairs(&objects[0], &objects[1]))
        };
        assert_eq!(pair(&[]), (true, false));
        assert_eq!(pair(&["y/web.yaml", "x/y/web.yaml"]), (true, false));
        assert_eq!(pair(&["x/web-small.yaml"]), (false, false));
    }

    #[test]
    fn kustomizations_bring_together_and_separate() {
        let both = |a: &[(&str, Option<&str>)], b: &[(&str, Option<&str>)], kind: &str| {
            company(&object("x/a.yaml", kind, a), &object("y/b.yaml", "Deployment", b))
        };
        let prod: &[_] = &[("prod", None)];
        assert_eq!(both(prod, prod, "Deployment"), Company::Kustomization);
        // A cluster-scoped object pairs with the objects of every namespace.
        assert_eq!(both(prod, &[("prod", Some("a"))], "NodePool"), Company::Kustomization);
        assert_eq!(
            both(&[("prod", Some("a"))], &[("prod", Some("a"))], "Deployment"),
            Company::Kustomization
        );
        assert_eq!(both(&[("prod", Some("a"))], &[("prod", Some("b"))], "Deployment"), Company::Apart);
        assert_eq!(both(&[("east", None)], &[("west", None)], "Deployment"), Company::Apart);
    }
}
