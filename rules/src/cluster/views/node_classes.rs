//! Node classes and who refers to them.

use crate::cluster::dependencies::Touched;
use crate::cluster::objects::Index;
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

use super::Kept;
use crate::cluster::relation::{Change, Counts, Relation};

/// Node classes and who refers to them.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Kind and name of every node class, patches included; an empty name where it is not known.
    known: Counts<(String, String)>,
    /// Names of the classes that a patch or a fragment says something of.
    patched: Counts<String>,
    /// Names that a pool or a claim refers to.
    used: Counts<String>,
    /// References that hold a placeholder, so that they may mean any class.
    unknown: Counts<()>,
    /// NodePools by the API group of the class that they refer to.
    groups: Counts<String>,
    /// NodePools that do not say which group it is.
    vague: Counts<()>,
    /// NodePools by the group and the kind of their class.
    pools: Relation<2, Object>,
}

impl Kept for Classes {
    fn new(index: &Index) -> Classes {
        let mut out = Classes {
            known: Counts::new("class"),
            patched: Counts::new("class patched"),
            used: Counts::new("class in use"),
            unknown: Counts::new("class unknown"),
            groups: Counts::new("class groups"),
            vague: Counts::new("class group unknown"),
            pools: Relation::new("pools by the kind of their class"),
        };
        for object in index.objects() {
            out.change(Change::Come, object, &mut Touched::unwanted());
        }
        out
    }

    fn change(&mut self, change: Change, object: &Object, touched: &mut Touched<'_>) {
        if object.is(Kind::EC2_NODE_CLASS) || object.is(Kind::AUTO_MODE_NODE_CLASS) {
            let id = object.id();
            let key = (id.kind.clone(), id.name.clone());
            self.known.change(change, key, touched);
            if object.is_partial() {
                self.patched.change(change, id.name.clone(), touched);
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
                self.unknown.change(change, (), touched);
            }
            if let Some(name) = name.text() {
                self.used.change(change, name.to_owned(), touched);
            }
        }
        if !is_pool {
            return;
        }
        match class_group(object) {
            Some(group) => self.groups.change(change, group.to_owned(), touched),
            None => self.vague.change(change, (), touched),
        }
        if let Some(kind) = named_class(object) {
            let key = [kind.group, kind.kind];
            self.pools.change(change, key, object, touched);
        }
    }
}

impl Classes {
    /// Whether a class of this kind and name, or one of unknown name, is anywhere in the input.
    pub(crate) fn may_exist(&self, kind: Kind, name: &str) -> bool {
        let has = |name: &str| self.known.has(&(kind.kind.to_owned(), name.to_owned()));
        has(name) || has("")
    }

    /// Whether a patch in the input may change the class.
    pub(crate) fn is_patched(&self, name: &str) -> bool {
        let has = |name: &str| self.patched.has(&name.to_owned());
        has(name) || has("")
    }

    /// Whether a pool or a claim refers to a class of this name, or may.
    pub(crate) fn is_used(&self, name: &str) -> bool {
        self.unknown.has(&()) || self.used.has(&name.to_owned())
    }

    /// The API group that every NodePool refers to, where all are known and agree.
    pub(crate) fn only_group(&self) -> Option<&str> {
        let mut groups = self.groups.keys().map(String::as_str);
        let only = groups.next().filter(|_| !self.vague.has(&()));
        only.filter(|_| groups.next().is_none())
    }

    /// The first NodePool that names a class of this kind ([`named_class`]).
    pub(crate) fn first_pool(&self, kind: Kind) -> Option<&Object> {
        self.pools.first([kind.group, kind.kind])
    }

    /// The API groups that NodePools other than this one refer to.
    pub(crate) fn groups_besides<'a>(&'a self, pool: &'a Object) -> impl Iterator<Item = &'a str> {
        let own = class_group(pool);
        self.groups
            .all()
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
