//! Node classes and what refers to them.

use crate::cluster::Cluster;
use crate::cluster::makers::may_be_unread;
use crate::cluster::table::{View, ViewSlot};
use crate::karpenter::nodepool::NodePool;
use crate::kind::Kind;
use crate::object::Object;
use crate::tree::node::Node;

/// Node classes by kind and name, including patches; an unknown name is empty.
pub(crate) struct ClassNames;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClassKey {
    /// Kind and name of a class, or of a patch of one.
    Known(String, String),
    /// The name of a class that a patch or a fragment changes.
    Patched(String),
}

impl View for ClassNames {
    const SLOT: ViewSlot = ViewSlot::ClassNames;
    const KINDS: &'static [Kind] = &[Kind::EC2_NODE_CLASS, Kind::AUTO_MODE_NODE_CLASS];
    const PARTIAL: bool = true;
    type Row = Object;
    type Key = ClassKey;

    fn keys(object: &Object) -> Vec<ClassKey> {
        let id = object.id();
        let mut keys = vec![ClassKey::Known(id.kind.clone(), id.name.clone())];
        if object.is_partial() {
            keys.push(ClassKey::Patched(id.name.clone()));
        }
        keys
    }
}

/// NodePools and NodeClaims by the name of the class that they refer to.
pub(crate) struct ClassUsers;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClassUserKey {
    Name(String),
    /// The name contains a placeholder, so it may be any.
    Unknown,
}

impl View for ClassUsers {
    const SLOT: ViewSlot = ViewSlot::ClassUsers;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL, Kind::NODE_CLAIM];
    type Row = Object;
    type Key = ClassUserKey;

    fn keys(object: &Object) -> Vec<ClassUserKey> {
        let paths = [&["spec", "template", "spec", "nodeClassRef"][..], &["spec", "nodeClassRef"][..]];
        let names = paths.map(|path| object.path(path).get("name"));
        let mut keys = Vec::new();
        for name in names {
            keys.extend(name.is_unknown().then_some(ClassUserKey::Unknown));
            keys.extend(name.text().map(|name| ClassUserKey::Name(name.to_owned())));
        }
        keys
    }
}

/// NodePools by the group and the kind of the class that they refer to.
pub(crate) struct ClassReferences;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClassReferenceKey {
    /// The API group, without a version if one is included by mistake.
    Group(String),
    UnknownGroup,
    /// The kind, if [`named_class`] returns one.
    Kind(Kind),
}

impl View for ClassReferences {
    const SLOT: ViewSlot = ViewSlot::ClassReferences;
    const KINDS: &'static [Kind] = &[Kind::NODE_POOL];
    type Row = Object;
    type Key = ClassReferenceKey;

    fn keys(object: &Object) -> Vec<ClassReferenceKey> {
        let group = match class_group(object) {
            Some(group) => ClassReferenceKey::Group(group.to_owned()),
            None => ClassReferenceKey::UnknownGroup,
        };
        std::iter::once(group).chain(named_class(object).map(ClassReferenceKey::Kind)).collect()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct NodeClasses<'i>(pub(super) &'i Cluster);

impl<'i> NodeClasses<'i> {
    /// Whether the input contains a class with this kind and name, or one with an unknown name.
    pub(crate) fn may_exist(self, kind: Kind, name: &str) -> bool {
        if may_be_unread(self.0, kind.kind, name) {
            return true;
        }
        let classes = self.0.table::<ClassNames>();
        let has = |name: &str| classes.contains(&ClassKey::Known(kind.kind.to_owned(), name.to_owned()));
        !classes.has_nothing_to_read() && (has(name) || has(""))
    }

    /// Whether a patch in the input may change the class.
    pub(crate) fn is_patched(self, name: &str) -> bool {
        let classes = self.0.table::<ClassNames>();
        let has = |name: &str| classes.contains(&ClassKey::Patched(name.to_owned()));
        has(name) || has("")
    }

    /// Whether a pool or claim may refer to a class with this name.
    pub(crate) fn is_used(self, name: &str) -> bool {
        let users = self.0.table::<ClassUsers>();
        users.contains(&ClassUserKey::Unknown) || users.contains(&ClassUserKey::Name(name.to_owned()))
    }

    /// The API group that every NodePool refers to, if all are known and equal.
    pub(crate) fn unique_group(self) -> Option<&'i str> {
        let mut groups = self.0.table::<ClassReferences>().keys().into_iter().filter_map(|key| match key {
            ClassReferenceKey::Group(group) => Some(Some(group.as_str())),
            ClassReferenceKey::UnknownGroup => Some(None),
            ClassReferenceKey::Kind(_) => None,
        });
        let only = groups.next()?;
        only.filter(|_| groups.next().is_none())
    }

    /// The first NodePool that names a class of this kind ([`named_class`]).
    pub(crate) fn first_pool(self, kind: Kind) -> Option<&'i Object> {
        self.0.table::<ClassReferences>().first(&ClassReferenceKey::Kind(kind))
    }

    /// The API groups that NodePools other than this one refer to.
    pub(crate) fn groups_of_other_pools(self, pool: &'i Object) -> impl Iterator<Item = &'i str> {
        let own = class_group(pool);
        let counts = self.0.table::<ClassReferences>().counts().into_iter();
        counts.filter_map(move |(key, count)| match key {
            ClassReferenceKey::Group(group) if count > usize::from(own == Some(group.as_str())) => {
                Some(group.as_str())
            }
            _ => None,
        })
    }
}

/// The group of a NodePool's class, without a version if one is included by mistake.
fn class_group(pool: &Object) -> Option<&str> {
    let text = pool.path(&["spec", "template", "spec", "nodeClassRef", "group"]).text()?;
    Some(text.split('/').next().unwrap_or(text))
}

/// The kind of the class that a NodePool references. `None` if there is no reference, or if the class belongs
/// to another provider or is built into Auto Mode.
fn named_class(pool: &Object) -> Option<Kind> {
    let reference = NodePool::new(pool)?.template_spec().get("nodeClassRef");
    class_kind(&reference)
}

/// The kind of class of a reference. `None` if it names none, or if the class belongs to another provider or
/// is built into Auto Mode.
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
