//! Node classes and who refers to them.

use crate::cluster::dependencies::Invalidations;
use crate::cluster::objects::Index;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use super::View;
use crate::cluster::relation::{MultiIndex, Multiset, ObjectChange};

/// Node classes and who refers to them.
#[derive(Debug)]
pub(crate) struct NodeClasses {
    /// Kind and name of every node class, patches included; an empty name where it is not known.
    known: Multiset<(String, String)>,
    /// Names of the classes that a patch or a fragment says something of.
    patched: Multiset<String>,
    /// Names that a pool or a claim refers to.
    used: Multiset<String>,
    /// References that hold a placeholder, so that they may mean any class.
    unknown: Multiset<()>,
    /// NodePools by the API group of the class that they refer to.
    groups: Multiset<String>,
    /// NodePools that do not say which group it is.
    unknown_group: Multiset<()>,
    /// NodePools by the group and the kind of their class.
    pools: MultiIndex<2, Object>,
}

impl View for NodeClasses {
    fn new(index: &Index) -> NodeClasses {
        let mut out = NodeClasses {
            known: Multiset::new("class"),
            patched: Multiset::new("class patched"),
            used: Multiset::new("class in use"),
            unknown: Multiset::new("class unknown"),
            groups: Multiset::new("class groups"),
            unknown_group: Multiset::new("class group unknown"),
            pools: MultiIndex::new("pools by the kind of their class"),
        };
        for object in index.objects() {
            out.apply(ObjectChange::Added, object, &mut Invalidations::disabled());
        }
        out
    }

    fn apply(&mut self, change: ObjectChange, object: &Object, touched: &mut Invalidations<'_>) {
        if object.is(Kind::EC2_NODE_CLASS) || object.is(Kind::AUTO_MODE_NODE_CLASS) {
            let id = object.id();
            let key = (id.kind.clone(), id.name.clone());
            self.known.apply(change, key, touched);
            if object.is_partial() {
                self.patched.apply(change, id.name.clone(), touched);
            }
            return;
        }
        let is_pool = object.is(Kind::NODE_POOL);
        if object.is_partial() || !(is_pool || object.is(Kind::NODE_CLAIM)) {
            return;
        }
        for path in [&["spec", "template", "spec", "nodeClassRef"][..], &["spec", "nodeClassRef"][..]] {
            let name = object.path(path).get("name");
            if name.is_unknown() {
                self.unknown.apply(change, (), touched);
            }
            if let Some(name) = name.text() {
                self.used.apply(change, name.to_owned(), touched);
            }
        }
        if !is_pool {
            return;
        }
        match class_group(object) {
            Some(group) => self.groups.apply(change, group.to_owned(), touched),
            None => self.unknown_group.apply(change, (), touched),
        }
        if let Some(kind) = named_class(object) {
            let key = [kind.group, kind.kind];
            self.pools.apply(change, key, object, touched);
        }
    }
}

impl NodeClasses {
    /// Whether a class of this kind and name, or one of unknown name, is anywhere in the input.
    pub(crate) fn may_exist(&self, kind: Kind, name: &str) -> bool {
        let has = |name: &str| self.known.contains(&(kind.kind.to_owned(), name.to_owned()));
        has(name) || has("")
    }

    /// Whether a patch in the input may change the class.
    pub(crate) fn is_patched(&self, name: &str) -> bool {
        let has = |name: &str| self.patched.contains(&name.to_owned());
        has(name) || has("")
    }

    /// Whether a pool or a claim refers to a class of this name, or may.
    pub(crate) fn is_used(&self, name: &str) -> bool {
        self.unknown.contains(&()) || self.used.contains(&name.to_owned())
    }

    /// The API group that every NodePool refers to, where all are known and agree.
    pub(crate) fn unique_group(&self) -> Option<&str> {
        let mut groups = self.groups.keys().map(String::as_str);
        let only = groups.next().filter(|_| !self.unknown_group.contains(&()));
        only.filter(|_| groups.next().is_none())
    }

    /// The first NodePool that names a class of this kind ([`named_class`]).
    pub(crate) fn first_pool(&self, kind: Kind) -> Option<&Object> {
        self.pools.first([kind.group, kind.kind])
    }

    /// The API groups that NodePools other than this one refer to.
    pub(crate) fn groups_of_other_pools<'a>(&'a self, pool: &'a Object) -> impl Iterator<Item = &'a str> {
        let own = class_group(pool);
        self.groups
            .with_counts()
            .filter(move |(group, count)| *count > usize::from(own == Some(group.as_str())))
            .map(|(group, _)| group.as_str())
    }
}

/// The group of a NodePool's class, without a version that was written into it.
fn class_group(pool: &Object) -> Option<&str> {
    let text = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]).text()?;
    Some(text.split('/').next().unwrap_or(text))
}

/// The kind of the class that a NodePool names; `None` where it names none, where that is another
/// provider's, or Auto Mode's own.
fn named_class(pool: &Object) -> Option<Kind> {
    let reference = NodePool::new(pool)?.template_spec().get("nodeClassRef");
    class_kind(&reference)
}

/// The kind of class that a reference names; `None` where it names none, where that is another
/// provider's, or Auto Mode's own.
pub(crate) fn class_kind(reference: &Node<'_>) -> Option<Kind> {
    let is = |kind: &Kind| {
        reference.get("group").text() == Some(kind.group) && reference.get("kind").text() == Some(kind.kind)
    };
    let kinds = [Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS];
    let kind = kinds.into_iter().find(is)?;
    let name = reference.get("name");
    let name = name.text().filter(|name| !name.is_empty())?;
    let built_in = kind == Kind::AUTO_MODE_NODE_CLASS && name == "default";
    (!built_in).then_some(kind)
}
