//! A Kubernetes object: its identity, its tree, its origin.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::facts::text::{UNNAMED, ellipsize};
use crate::kind::{self, Kind, KindInfo, WorkloadKind};
use crate::source::{Document, ImageChange, PatchTarget, PatchedReplicas, Source};
use crate::steps;
use crate::tree::json::Draft;
use crate::tree::node::Node;
use crate::tree::path_cache::PathCache;
use crate::tree::pointer::Pointer;
use crate::tree::scalar::Scalar;
use crate::tree::{NewText, Span, Tree};

mod partial;

use partial::{is_applied_over_another, is_pod_template, lacks_body};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

thread_local! {
    /// The type of the last object that was read. Nearly all objects of a large file have the type of the one before.
    static LAST_TYPE: RefCell<Option<Arc<GroupVersionKind>>> = const { RefCell::new(None) };
}

impl GroupVersionKind {
    /// The type, which objects in a row share: that saves 200 bytes and four allocations of each.
    fn shared(group: &str, version: &str, kind: &str) -> Arc<GroupVersionKind> {
        LAST_TYPE.with_borrow_mut(|last| match last {
            Some(last) if last.group == group && last.version == version && last.kind == kind => {
                Arc::clone(last)
            }
            _ => Arc::clone(last.insert(Arc::new(GroupVersionKind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
            }))),
        })
    }
}

/// The identity of an object in a cluster. Objects share their type, whose fields can be read directly: `id.kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    group_version_kind: Arc<GroupVersionKind>,
    /// The namespace as written; read with [`ObjectId::namespace`]. Kinds without namespaces have none: the API server
    /// ignores what is written, so that an object is the same with it and without.
    namespace: Option<String>,
    /// The name; empty if it is missing or not a string.
    pub name: String,
}

impl Deref for ObjectId {
    type Target = GroupVersionKind;

    fn deref(&self) -> &GroupVersionKind {
        &self.group_version_kind
    }
}

/// Group, kind, namespace and name.
pub type ObjectKey = (String, String, String, String);

impl ObjectId {
    /// The `apiVersion`: `karpenter.sh/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Whether it is a file of another program, and not an object of Kubernetes.
    pub fn is_of_file(&self) -> bool {
        self.is(Kind::PROMETHEUS_RULE_FILE) || self.is(Kind::PROMETHEUS_CONFIGURATION)
    }

    /// Whether the group and kind are those of `kind`.
    pub fn is(&self, kind: Kind) -> bool {
        self.kind == kind.kind && self.group == kind.group
    }

    /// The namespace: as written, or as a set of manifests applies the object.
    pub fn namespace(&self) -> Option<&str> {
        NAMESPACE_READS.set(NAMESPACE_READS.get().wrapping_add(1));
        self.namespace.as_deref()
    }

    /// The namespace that the API server would use: `default` if none is written.
    pub fn namespace_or_default(&self) -> &str {
        self.namespace().unwrap_or("default")
    }

    pub fn key(&self) -> ObjectKey {
        (self.group.clone(), self.kind.clone(), self.namespace_or_default().to_owned(), self.name.clone())
    }

    pub fn with_namespace(self, namespace: Option<String>) -> ObjectId {
        ObjectId { namespace, ..self }
    }
}

thread_local! {
    /// Number of times that this thread has read the namespace of an object.
    static NAMESPACE_READS: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work`, and returns whether it read the namespace of an object: if not, the result is valid in any namespace.
pub(crate) fn track_namespace<T>(work: impl FnOnce() -> T) -> (T, bool) {
    let before = NAMESPACE_READS.get();
    let value = work();
    (value, NAMESPACE_READS.get() != before)
}

/// The file and document from which an object was read.
#[derive(Clone, Debug)]
pub struct Origin {
    pub source: Arc<Source>,
    /// The number of the document in the file.
    pub document: u32,
    pub span: Span,
}

/// A value derived from an object that is computed at most once per object. It is declared as a `static` in the
/// module that computes it, so that this module need not know the type.
pub(crate) struct Memo<T> {
    depends_on_namespace: bool,
    value: PhantomData<fn() -> T>,
}

/// The value of a [`Memo`] for an object, and those of the memos that were read after it. An object has few of them: room for
/// all memos of the program would take 240 bytes of each NodePool instead of 144.
#[derive(Debug)]
struct MemoEntry {
    /// The address of the memo.
    memo: usize,
    value: OnceLock<Box<dyn Any + Send + Sync>>,
    next: OnceLock<Box<MemoEntry>>,
}

impl<T: Any + Send + Sync> Memo<T> {
    /// A memo whose value does not depend on the namespace: the object as it is written and as each set of manifests applies
    /// it share one value.
    pub(crate) const fn new() -> Memo<T> {
        Memo { depends_on_namespace: false, value: PhantomData }
    }

    /// A memo that has a value for each namespace that the object is applied to.
    pub(crate) const fn by_namespace() -> Memo<T> {
        Memo { depends_on_namespace: true, value: PhantomData }
    }
}

/// Frequently read properties that follow from the tree of an object.
#[derive(Clone, Copy, Debug)]
struct Traits {
    partial: bool,
    incomplete: bool,
    template: bool,
    /// The nodes through which nearly all rules go.
    path_cache: PathCache,
    /// The row of its kind, looked up once because nearly every rule for workloads needs it.
    kind_info: Option<&'static KindInfo>,
}

/// A Kubernetes object. Cheap to clone; the same type in every program.
#[derive(Clone, Debug)]
pub struct Object(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: ObjectId,
    tree: Arc<Tree>,
    root: u32,
    origin: Option<Origin>,
    traits: Traits,
    /// How a kustomization or a GitOps controller applies it, if not as it is written.
    applied: Option<Box<Applied>>,
    /// The values of [`Object::memo`]. Most objects have none.
    memos: OnceLock<Box<MemoEntry>>,
}

#[derive(Debug)]
struct Applied {
    /// The object as written.
    written: Object,
    /// The name under which it is applied, if it differs from the written one.
    name: Option<String>,
    /// The patches that the set of manifests applies to it.
    patches: Vec<PatchTarget>,
    /// Where its fields are written, if it was converted from an old API.
    origins: Option<FieldOrigins>,
}

/// Gives the field of the written object from which a field of the converted one comes. `None` for what the conversion adds.
type OriginOf = dyn Fn(&Pointer) -> Option<Pointer> + Send + Sync;

/// Where the fields of an object are written that was converted from an old API.
#[derive(Clone)]
pub(crate) struct FieldOrigins(Arc<OriginOf>);

impl FieldOrigins {
    pub(crate) fn new(origin: impl Fn(&Pointer) -> Option<Pointer> + Send + Sync + 'static) -> FieldOrigins {
        FieldOrigins(Arc::new(origin))
    }
}

impl fmt::Debug for FieldOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FieldOrigins")
    }
}

impl Object {
    /// Creates an object from a JSON value. `None` without `apiVersion` and `kind`.
    pub fn from_json(value: &Value) -> Option<Object> {
        Object::from_draft(Draft::of(value))
    }

    /// Creates an object from JSON that has been read. `None` without `apiVersion` and `kind`.
    pub fn from_draft(draft: Draft) -> Option<Object> {
        Object::from_tree(Arc::new(draft.into_tree()), 0, None, false)
    }

    /// Creates an object that a controller makes of `written`: of the same files, so that it is together with the same
    /// objects.
    pub(crate) fn completed_from(written: &Object, value: &Value) -> Option<Object> {
        let tree = Arc::new(Draft::of(value).into_tree());
        Object::from_tree(tree, 0, written.0.origin.clone(), written.0.traits.partial)
    }

    /// Creates an object of a current API that stands for `written`, which has an old one: it has the same places in the files.
    pub(crate) fn converted_from(written: &Object, value: &Value, origins: FieldOrigins) -> Option<Object> {
        let mut object = Object::completed_from(written, value)?;
        let name = written.applied_name().map(str::to_owned);
        let applied = Applied {
            written: written.as_written().clone(),
            name,
            patches: Vec::new(),
            origins: Some(origins),
        };
        Arc::get_mut(&mut object.0)?.applied = Some(Box::new(applied));
        Some(object)
    }

    /// The objects of a document: one, or the items of a list. `partial`: the document is a patch, in which an absent
    /// field means nothing.
    pub fn from_document(source: &Arc<Source>, document: &Document, partial: bool) -> Vec<Object> {
        let Some(tree) = &document.tree else {
            return Vec::new();
        };
        let origin = Origin { source: Arc::clone(source), document: document.number, span: document.span };
        let root = Node::new(tree, 0);
        let items = root.get("items");
        let is_list = root.get("kind").text().is_some_and(|k| k.ends_with("List"));
        if is_list && items.is_sequence() {
            let sequence = tree.entry(tree.resolve(0), "items").map(|e| e.0);
            let Some(sequence) = sequence else {
                return Vec::new();
            };
            return tree
                .children(tree.resolve(sequence))
                .filter_map(|item| {
                    Object::from_tree(Arc::clone(tree), tree.resolve(item), Some(origin.clone()), partial)
                })
                .collect();
        }
        Object::from_tree(Arc::clone(tree), 0, Some(origin), partial).into_iter().collect()
    }

    fn from_tree(tree: Arc<Tree>, root: u32, origin: Option<Origin>, partial: bool) -> Option<Object> {
        let node = Node::new(&tree, root);
        let file = file_kind(&node).filter(|_| root == 0 && !partial).zip(origin.as_ref());
        let (group, version, kind) = match &file {
            Some((kind, _)) => (kind.group, "v1", kind.kind),
            None => {
                let api_version = node.get("apiVersion").text()?;
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                (group, version, node.get("kind").text()?)
            }
        };
        let metadata = node.get("metadata");
        let text = |n: Node<'_>| n.string_or_number().map(|t| t.into_owned());
        let written = || text(metadata.get("name")).or_else(|| text(metadata.get("generateName")));
        let name = match &file {
            Some((_, origin)) => origin.source.path().to_owned(),
            None => written().unwrap_or_default(),
        };
        let kind_info = kind::find(group, kind);
        let id = ObjectId {
            group_version_kind: GroupVersionKind::shared(group, version, kind),
            namespace: text(metadata.get("namespace"))
                .filter(|n| !n.is_empty() && !is_cluster_scoped(kind_info, group, kind)),
            name,
        };
        let incomplete = lacks_body(&id, &node);
        let template =
            origin.as_ref().is_some_and(|origin| is_pod_template(&id, &node, origin.source.path()));
        let patch = tree.has_patch_directive_in(root) || is_applied_over_another(&id, &node);
        let traits = Traits {
            partial: partial || patch || template,
            incomplete,
            template,
            kind_info,
            path_cache: PathCache::of(&node),
        };
        drop(node);
        Some(Object(Arc::new(Inner {
            id,
            tree,
            root,
            origin,
            traits,
            applied: None,
            memos: OnceLock::new(),
        })))
    }

    /// This object as a set of manifests applies it: in another namespace, under another name, with other images, after
    /// patches. Its places are those of the written object.
    pub(crate) fn applied_as(
        &self,
        namespace: Option<&str>,
        name: Option<String>,
        images: Vec<NewText>,
        patches: Vec<PatchTarget>,
    ) -> Object {
        let inner = &self.0;
        let mut id = inner.id.clone();
        id.namespace = namespace.map(str::to_owned).or(id.namespace);
        let tree = match images.is_empty() {
            true => Arc::clone(&inner.tree),
            false => Arc::new(inner.tree.with_texts(images)),
        };
        Object(Arc::new(Inner {
            id,
            tree,
            root: inner.root,
            origin: inner.origin.clone(),
            traits: inner.traits,
            applied: Some(Box::new(Applied {
                written: self.as_written().clone(),
                name,
                patches,
                origins: None,
            })),
            memos: OnceLock::new(),
        }))
    }

    /// The images of its containers that a kustomization changes, each with the new one: those in each list `containers` or
    /// `initContainers`, at any depth. kustomize expands aliases and merges before it changes them.
    pub(crate) fn changed_images(&self, changes: &[ImageChange]) -> Vec<NewText> {
        const LISTS: [&str; 2] = ["containers", "initContainers"];
        if changes.is_empty() {
            return Vec::new();
        }
        let (tree, root) = self.tree();
        let mut found: Vec<NewText> = Vec::new();
        for list in (root..tree.end(root)).filter(|at| LISTS.contains(&tree.key_name(*at))) {
            let list = tree.resolve(list);
            let items = tree.slot(list).kind.is_collection().then(|| tree.children(list));
            for container in items.into_iter().flatten().map(|item| tree.resolve(item)) {
                if !tree.slot(container).kind.is_mapping() {
                    continue;
                }
                let Some((at, _)) = tree.entry(container, "image") else { continue };
                let Some(Scalar::Str(written)) = tree.scalar(tree.resolve(at)) else { continue };
                let changed = changes.iter().fold(None, |new: Option<NewText>, change| {
                    let text = change.of(new.as_ref().map_or(written, |new| new.text.as_str()));
                    text.map(|text| NewText { at, text, by: Arc::clone(&change.by) }).or(new)
                });
                let is_new = !found.iter().any(|other| other.at == at);
                found.extend(changed.filter(|_| is_new));
            }
        }
        found
    }

    pub(crate) fn as_written(&self) -> &Object {
        self.0.applied.as_ref().map_or(self, |applied| &applied.written)
    }

    pub(crate) fn is_as_written(&self) -> bool {
        self.0.applied.is_none()
    }

    /// Whether it stands for an object of an old API.
    pub(crate) fn is_converted(&self) -> bool {
        self.0.applied.as_ref().is_some_and(|applied| applied.origins.is_some())
    }

    /// The field of the written object from which a field comes. `None` for a field that a conversion adds.
    pub(crate) fn written_field(&self, pointer: &Pointer) -> Option<Pointer> {
        match self.0.applied.as_ref().and_then(|applied| applied.origins.as_ref()) {
            Some(FieldOrigins(origin)) => origin(pointer),
            None => Some(pointer.clone()),
        }
    }

    /// Whether both are written at one place, in whichever sets they are applied.
    pub fn is_same_manifest(&self, other: &Object) -> bool {
        self.as_written().ptr_eq(other.as_written())
    }

    /// The name under which it is applied, if a kustomization adds a prefix or a suffix.
    pub(crate) fn applied_name(&self) -> Option<&str> {
        self.0.applied.as_ref()?.name.as_deref()
    }

    /// Whether the namespace is a placeholder: also `system` in the folder `config` of Kubebuilder's projects, whose kustomization
    /// `config/default` writes another (Kubebuilder 4, `scaffolds/internal/templates/config`).
    pub(crate) fn is_namespace_unknown(&self) -> bool {
        let is_as_written = self.as_written().namespace() == self.namespace();
        let is_scaffold = || {
            let path = self.origin().map_or("", |origin| origin.source.path());
            self.namespace() == Some("system") && path.split('/').any(|part| part == "config")
        };
        is_as_written && (self.path(&["metadata", "namespace"]).is_unknown() || is_scaffold())
    }

    /// Whether a kind has no namespaces. For kinds that are not in the kind table: those of every cluster.
    pub fn is_cluster_scoped(&self) -> bool {
        is_cluster_scoped(self.0.traits.kind_info, &self.0.id.group, &self.0.id.kind)
    }

    pub fn id(&self) -> &ObjectId {
        &self.0.id
    }

    pub(crate) fn kind(&self) -> &str {
        &self.0.id.kind
    }

    /// The API group; empty for the core group.
    pub(crate) fn group(&self) -> &str {
        &self.0.id.group
    }

    pub(crate) fn version(&self) -> &str {
        &self.0.id.version
    }

    /// The name for messages, in backticks: truncated if it is long; the placeholder if the name has one; [`UNNAMED`],
    /// which messages remove, if there is no name.
    pub fn display_name(&self) -> Cow<'_, str> {
        if !self.name().is_empty() {
            return ellipsize(self.name());
        }
        let metadata = self.get("metadata");
        let written = |key: &str| metadata.get(key).raw_text().filter(|text| !text.is_empty());
        ellipsize(written("name").or_else(|| written("generateName")).unwrap_or(UNNAMED))
    }

    pub fn name(&self) -> &str {
        &self.id().name
    }

    /// Whether it is a file of another program, and no object of Kubernetes.
    pub fn is_of_file(&self) -> bool {
        self.0.id.group == kind::FILE_GROUP
    }

    /// Whether the group and kind are those of `kind`.
    pub fn is(&self, kind: Kind) -> bool {
        self.0.id.is(kind)
    }

    pub fn root(&self) -> Node<'_> {
        Node::new(&self.0.tree, self.0.root)
    }

    /// The tree of the whole document, and the object's root in it.
    pub(crate) fn tree(&self) -> (&Arc<Tree>, u32) {
        (&self.0.tree, self.0.root)
    }

    /// The position of the object in its document: the root, or an item of a list.
    pub(crate) fn document_pointer(&self) -> Pointer {
        Node::from_document_slot(&self.0.tree, self.0.root).pointer()
    }

    /// Short for `root().get(name)`.
    pub fn get(&self, name: &str) -> Node<'_> {
        self.path(&[name])
    }

    /// Short for `root().path(names)`.
    pub fn path(&self, names: &[&str]) -> Node<'_> {
        self.0.traits.path_cache.path(&self.0.tree, self.0.root, names)
    }

    pub(crate) fn annotation(&self, key: &str) -> Node<'_> {
        self.path(&["metadata", "annotations", key])
    }

    /// What `metadata.ownerReferences` names.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Node<'_>> {
        self.path(&["metadata", "ownerReferences"]).items()
    }

    /// Whether another object owns it, or may: its maker is checked instead, and would write it again.
    pub fn is_owned(&self) -> bool {
        self.path(&["metadata", "ownerReferences"]).is_set()
    }

    /// The owner that keeps it as it is: of a Pod its ReplicaSet. Kubernetes admits one.
    pub(crate) fn controller(&self) -> Option<Node<'_>> {
        self.owners().find(|owner| owner.get("controller").bool() == Some(true))
    }

    /// The origin; `None` for objects of a cluster.
    pub fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
    }

    /// The file; `None` for objects of a cluster.
    pub(crate) fn source(&self) -> Option<&Arc<Source>> {
        self.0.origin.as_ref().map(|origin| &origin.source)
    }

    /// Whether an absent field means nothing: in a patch, or a fragment of documentation.
    pub fn is_partial(&self) -> bool {
        self.0.traits.partial || self.0.traits.incomplete
    }

    /// Whether an absent field may be set elsewhere: by the object that a patch is for, or by a kustomization.
    pub fn may_lack_fields(&self) -> bool {
        self.is_partial() || self.is_patched_by_kustomize()
    }

    /// The patches that the set of manifests applies to it.
    fn patches(&self) -> &[PatchTarget] {
        self.0.applied.as_ref().map_or(&[], |applied| &applied.patches)
    }

    /// Whether a kustomization of the input, or what applies the set, patches it, so that absent fields may be set there.
    pub fn is_patched_by_kustomize(&self) -> bool {
        self.source()
            .is_some_and(|source| source.has_patch_targets() && source.is_patched(self.kind(), self.name()))
            || self.patches().iter().any(|patch| patch.replicas != PatchedReplicas::Only)
    }

    /// Whether a patch that the set applies sets or removes the field of a node, or a field around it.
    pub(crate) fn is_set_by_patch(&self, node: &Node<'_>) -> bool {
        if self.patches().is_empty() {
            return false;
        }
        let own = node.pointer();
        let fields = self.patches().iter().flat_map(|patch| &patch.fields);
        let mut places = fields.filter_map(|field| Some(at_steps(self.root(), field)?.pointer()));
        places.any(|place| own.steps().starts_with(place.steps()))
    }

    /// Whether a patch of the input may set an absent field, a field around it, or one in it. Of a patch whose fields are not known
    /// it may.
    pub(crate) fn may_be_set_by_patch(&self, node: &Node<'_>) -> bool {
        self.may_be_patched_at(node.pointer().steps())
    }

    /// Whether a patch of the input may set an absent field, or a field beside it, which may make up for it.
    pub(crate) fn may_be_patched_around(&self, node: &Node<'_>) -> bool {
        let own = node.pointer();
        let (_, around) = own.steps().split_last().unzip();
        self.is_patched_by_kustomize() && self.may_be_patched_at(around.unwrap_or_default())
    }

    fn may_be_patched_at(&self, own: &[String]) -> bool {
        let of_source =
            self.source().into_iter().flat_map(|source| source.patches_of(self.kind(), self.name()));
        let mut patches =
            of_source.chain(self.patches()).filter(|patch| patch.replicas != PatchedReplicas::Only);
        patches
            .any(|patch| patch.fields.is_empty() || patch.fields.iter().any(|field| may_overlap(own, field)))
    }

    /// Whether a kustomization of the input sets or removes the field of a node that is not in a list, as one of several overlays may.
    pub(crate) fn is_overridden(&self, node: &Node<'_>) -> bool {
        let own = node.pointer();
        let of_source =
            self.source().into_iter().flat_map(|source| source.patches_of(self.kind(), self.name()));
        let mut fields = of_source.chain(self.patches()).flat_map(|patch| &patch.fields);
        fields.any(|field| own.steps().starts_with(field))
    }

    /// Whether a kustomization of the input sets its number of replicas.
    pub(crate) fn is_scaled_by_kustomize(&self) -> bool {
        self.source().is_some_and(|source| source.is_scaled(self.kind(), self.name()))
            || self.patches().iter().any(|patch| patch.replicas != PatchedReplicas::Kept)
    }

    /// Whether the object is not a patch, but lacks its main part.
    pub fn is_incomplete(&self) -> bool {
        self.0.traits.incomplete
    }

    /// Whether the object is written as a change to another one, so that an absent field means nothing and null
    /// removes a field.
    pub fn is_patch(&self) -> bool {
        self.0.traits.partial
    }

    /// Whether it is a pod template for Spark, which has the kind Pod.
    pub fn is_pod_template(&self) -> bool {
        self.0.traits.template
    }

    /// A derived value, computed at the first call. Computing it does not count against the step limit of the caller.
    pub(crate) fn memo<T: Any + Send + Sync>(
        &self,
        memo: &'static Memo<T>,
        compute: impl FnOnce() -> T,
    ) -> &T {
        let written = self.as_written();
        let owner = if memo.depends_on_namespace {
            let _ = self.namespace();
            self
        } else if Arc::ptr_eq(&self.0.tree, &written.0.tree) {
            written
        } else {
            self
        };
        let address = std::ptr::from_ref(memo).addr();
        let new = || Box::new(MemoEntry { memo: address, value: OnceLock::new(), next: OnceLock::new() });
        let mut entry = owner.0.memos.get_or_init(new);
        while entry.memo != address {
            entry = entry.next.get_or_init(new);
        }
        let value = entry.value.get_or_init(|| Box::new(steps::unlimited(compute)));
        value.downcast_ref().expect("each address belongs to one memo")
    }

    /// The namespace: as written, or as a set of manifests applies the object.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.0.id.namespace()
    }

    /// The namespace that the API server would use: `default` if none is written.
    pub(crate) fn namespace_or_default(&self) -> &str {
        self.0.id.namespace_or_default()
    }

    pub(crate) fn kind_info(&self) -> Option<&'static KindInfo> {
        self.0.traits.kind_info
    }

    /// Where its pod templates are; `None` for kinds without any.
    pub(crate) fn workload(&self) -> Option<&'static WorkloadKind> {
        self.0.traits.kind_info.and_then(|info| info.workload.as_ref())
    }

    /// Sorts objects of a kind by namespace and name, and those of one identity by their places in the files.
    pub(crate) fn sort_key(&self) -> impl Ord + '_ {
        let id = self.id();
        let place = self.origin().map(|o| (o.source.path(), o.document));
        (id.namespace_or_default(), id.name.as_str(), place, self.0.root)
    }

    /// Whether both are handles of the same object.
    pub(crate) fn ptr_eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Unique among the objects that exist at a time.
    pub(crate) fn ptr_id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Whether two handles are one object. In a cluster, where identities are unique, an object under review and its
    /// stored version are the same.
    pub fn is_same_resource(&self, other: &Object) -> bool {
        let (a, b) = (&self.0, &other.0);
        let stored = a.origin.is_none() && b.origin.is_none();
        Arc::ptr_eq(a, b)
            || (stored
                && !a.id.name.is_empty()
                && a.id.name == b.id.name
                && a.id.kind == b.id.kind
                && a.id.group == b.id.group
                && a.id.namespace_or_default() == b.id.namespace_or_default())
    }
}

/// The node at the steps of a patched field, if the items that they name are there.
fn at_steps<'a>(root: Node<'a>, steps: &[String]) -> Option<Node<'a>> {
    steps.iter().try_fold(root, |at, step| {
        let named = step.strip_prefix('[').and_then(|step| step.strip_suffix(']'));
        match named {
            Some(name) => at.items().find(|item| item.get("name").text() == Some(name)),
            None => Some(at.step(step)),
        }
    })
}

/// Whether one path may lead to a field around the other's, or to the same. Items of lists are not told apart.
fn may_overlap(one: &[String], other: &[String]) -> bool {
    let is_item =
        |step: &str| step == "-" || step.starts_with('[') || step.bytes().all(|byte| byte.is_ascii_digit());
    one.iter().zip(other).all(|(a, b)| a == b || is_item(a) && is_item(b))
}

fn is_cluster_scoped(info: Option<&KindInfo>, group: &str, kind: &str) -> bool {
    match info {
        Some(info) => !info.namespaced,
        None => matches!(
            (group, kind),
            ("", "PersistentVolume")
                | ("apiextensions.k8s.io", "CustomResourceDefinition")
                | ("apiregistration.k8s.io", "APIService")
                | ("certificates.k8s.io", "CertificateSigningRequest")
                | ("flowcontrol.apiserver.k8s.io", "FlowSchema" | "PriorityLevelConfiguration")
                | ("rbac.authorization.k8s.io", "ClusterRole" | "ClusterRoleBinding")
                | ("storage.k8s.io", "CSIDriver" | "CSINode" | "VolumeAttachment")
        ),
    }
}

/// The kind of a file of Prometheus: one with groups of rules, or with jobs that scrape.
fn file_kind(root: &Node<'_>) -> Option<Kind> {
    if root.get("apiVersion").is_set() || root.get("kind").is_set() {
        return None;
    }
    let has = |item: Node<'_>, fields: &[&str]| fields.iter().all(|field| item.get(field).is_set());
    let mut rules =
        root.get("groups").items().flat_map(|group| group.get("rules").items().collect::<Vec<_>>());
    if rules.any(|rule| has(rule, &["expr"])) {
        return Some(Kind::PROMETHEUS_RULE_FILE);
    }
    // Promtail, whose clients are those that it sends to, has jobs of the same form.
    let mut jobs = root.get("scrape_configs").items();
    (!root.get("clients").is_set() && jobs.any(|job| has(job, &["job_name"])))
        .then_some(Kind::PROMETHEUS_CONFIGURATION)
}
