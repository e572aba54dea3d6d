//! One parsed document as an arena of nodes in document order.
//!
//! A tree is built once, from text by `source` or from a JSON value by [`json`], and is immutable afterwards. It
//! stores the spans of values and keys; [`node`] reads it with the semantics of a Kubernetes object. A scalar borrows
//! from the text if its value equals the bytes of its span, and is stored separately otherwise (escapes, folding).

mod content;
pub mod json;
mod large;
pub mod node;
pub mod path_cache;
pub mod placeholder;
pub mod pointer;
pub mod scalar;

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::steps;
use crate::tree::pointer::PointerMap;
use crate::tree::scalar::{Scalar, TagKind, resolve_tagged};

/// A range of bytes in a text. For UTF-16 files see [`crate::source::Source::disk_offset`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }
}

/// The directive key of a [strategic merge
/// patch](https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/) that states how
/// its mapping is merged.
pub const PATCH_DIRECTIVE: &str = "$patch";

/// Index value for "no node" and, in `data`, "the text is the span".
pub const NONE: u32 = u32::MAX;
/// Value of `data` for "the text is the span without its quotes".
pub(crate) const QUOTED: u32 = u32::MAX - 1;

/// How a node is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    Mapping,
    FlowMapping,
    Sequence,
    FlowSequence,
    Plain,
    Quoted,
    Block,
    Alias,
}

impl SlotKind {
    /// Whether it is a mapping, in block or flow style.
    pub fn is_mapping(self) -> bool {
        matches!(self, SlotKind::Mapping | SlotKind::FlowMapping)
    }

    /// Whether it has children.
    pub fn is_collection(self) -> bool {
        self.is_mapping() || matches!(self, SlotKind::Sequence | SlotKind::FlowSequence)
    }
}

/// One node of the arena with its key. 24 bytes: a large folder has millions of nodes.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub(crate) span: Span,
    /// The collection around it, or [`NONE`].
    pub parent: u32,
    /// Depends on the kind. Collection: the slot after its last descendant. Alias: its target. Scalar: the position of
    /// its text (`NONE`: the span, `QUOTED`: the span without its quotes, otherwise an index into `strings`).
    pub(crate) data: u32,
    /// Offset of the key, if the node is the value of a mapping entry.
    key_start: u32,
    key_len: u8,
    /// Part of the [`key_hash`] of the key.
    key_sign: u8,
    /// How it is written.
    pub kind: SlotKind,
    /// How the key is written, and the tag of a scalar or how the keys of a mapping are searched: [`Slot::key`],
    /// [`Slot::tag`] and [`Slot::keys`].
    traits: u8,
}

/// How the keys of a mapping are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// No key is repeated: the first match is the entry.
    Unique,
    /// A key may be repeated: the last match is the entry.
    Duplicates,
    /// There is a merge key (`<<`), and other keys may be repeated.
    Merge,
}

impl Slot {
    /// The bits of `traits` for the key.
    const KEY: u8 = 0b111;

    /// For mappings: whether they have the key `<<`.
    pub fn has_merge_key(&self) -> bool {
        self.keys() == Keys::Merge
    }

    /// For mappings: how their keys are searched.
    pub(crate) fn keys(&self) -> Keys {
        match self.traits >> 3 {
            1 => Keys::Duplicates,
            2 => Keys::Merge,
            _ => Keys::Unique,
        }
    }

    pub(crate) fn set_keys(&mut self, keys: Keys) {
        self.traits = self.traits & Slot::KEY | (keys as u8) << 3;
    }

    pub(crate) fn tag(&self) -> TagKind {
        match self.traits >> 3 {
            1 => TagKind::Str,
            2 => TagKind::Bool,
            3 => TagKind::Int,
            4 => TagKind::Float,
            5 => TagKind::Null,
            _ => TagKind::None,
        }
    }

    fn key(&self) -> SlotKey {
        match self.traits & Slot::KEY {
            1 => SlotKey::Plain,
            2 => SlotKey::Quoted,
            3 => SlotKey::Merge,
            4 => SlotKey::OutOfLine,
            _ => SlotKey::None,
        }
    }
}

/// 16-bit hash of a key, compared before the bytes to skip most non-matching keys.
#[inline]
pub(crate) fn key_hash(name: &str) -> u16 {
    let bytes = name.as_bytes();
    let Some(last) = bytes.last() else { return 0 };
    let byte = |at: usize| u32::from(bytes[at]);
    let mixed = u32::from(*last)
        .wrapping_mul(31)
        .wrapping_add(byte(bytes.len() / 2))
        .wrapping_mul(31)
        .wrapping_add(byte(0))
        .wrapping_mul(31);
    (mixed as u16).wrapping_add(bytes.len() as u16)
}

/// The part of a [`key_hash`] that fits in a slot.
fn key_sign(hash: u16) -> u8 {
    (hash ^ hash >> 8) as u8
}

/// Where the text of a slot's key is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotKey {
    None,
    /// The text of the key's span.
    Plain,
    /// The text of the key's span without its quotes.
    Quoted,
    /// The merge key `<<`.
    Merge,
    /// In `out_of_line_keys`.
    OutOfLine,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MappingKey {
    pub(crate) span: Span,
    /// `NONE`: the span; `QUOTED`: the span without its quotes; otherwise an index into `strings`.
    pub(crate) text: u32,
    /// The [`key_hash`] of its name.
    pub(crate) hash: u16,
    pub(crate) merge: bool,
}

impl Slot {
    /// Creates a slot without a key.
    pub(crate) fn new(kind: SlotKind, tag: TagKind, span: Span, parent: u32) -> Slot {
        Slot {
            span,
            parent,
            data: NONE,
            key_start: 0,
            key_len: 0,
            key_sign: 0,
            kind,
            traits: (tag as u8) << 3 | SlotKey::None as u8,
        }
    }

    /// Makes the node the value of a mapping entry. Returns whether the key fits; it is out of line otherwise.
    fn set_key(&mut self, key: &MappingKey) -> bool {
        let len = u8::try_from(key.span.end - key.span.start);
        self.key_start = key.span.start;
        self.key_len = len.unwrap_or(0);
        self.key_sign = key_sign(key.hash);
        let place = match (key.text, key.merge, len) {
            (NONE, false, Ok(_)) => SlotKey::Plain,
            (NONE, true, Ok(_)) => SlotKey::Merge,
            (QUOTED, false, Ok(_)) => SlotKey::Quoted,
            _ => SlotKey::OutOfLine,
        };
        self.traits |= place as u8;
        place != SlotKey::OutOfLine
    }
}

/// The set of key signs in a tree. Most fields that rules look up are absent from the whole document.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeySigns([u64; 4]);

impl KeySigns {
    /// The signs of all keys, including that of an absent key.
    pub(crate) fn of(slots: &[Slot]) -> KeySigns {
        let mut signs = KeySigns::default();
        for Slot { key_sign, .. } in slots {
            signs.0[usize::from(key_sign >> 6)] |= 1 << (key_sign & 63);
        }
        signs
    }

    fn has(&self, sign: u8) -> bool {
        self.0[usize::from(sign >> 6)] & 1 << (sign & 63) != 0
    }
}

/// The nodes of a document.
pub struct Tree {
    /// The text that the spans refer to.
    pub text: Arc<String>,
    /// The nodes in document order.
    pub(crate) slots: Vec<Slot>,
    /// Keys that do not fit into a slot, sorted by slot: longer than 255 bytes, or with a text in `strings`.
    pub(crate) out_of_line_keys: Vec<(u32, MappingKey)>,
    pub(crate) strings: Vec<Box<str>>,
    /// Set when the tree is complete.
    pub(crate) key_signs: KeySigns,
    pub(crate) spans: bool,
    /// False if the document has no characters of placeholders, so that no value has to be searched.
    pub may_have_placeholders: bool,
    /// Whether a key anywhere is [`PATCH_DIRECTIVE`].
    pub(crate) has_patch_directive: bool,
    /// Aliases with their targets, collected on first use.
    pub(crate) aliases: OnceLock<Box<[(u32, u32)]>>,
    /// Built when a large collection is searched.
    pub(crate) large: OnceLock<Box<large::LargeCollections>>,
    /// The tree that it was made from, for trees of parts that a controller puts together.
    pub(crate) made_from: Option<Box<MadeFrom>>,
    /// The scalars that have another text than the document.
    pub(crate) changes: Vec<Change>,
}

/// A text that takes the place of a scalar, or of an alias of one.
#[derive(Debug)]
pub struct NewText {
    /// The slot of the scalar or the alias.
    pub at: u32,
    /// The new text.
    pub text: String,
    /// What sets it, for messages.
    pub by: Arc<str>,
}

/// A scalar whose text something outside of the document sets.
#[derive(Debug)]
pub struct Change {
    at: u32,
    /// The text in the document.
    pub written: Box<str>,
    /// What sets the other one, for messages.
    pub by: Arc<str>,
}

/// The origin of a tree that was made from the parts of another.
pub(crate) struct MadeFrom {
    tree: Arc<Tree>,
    root: u32,
    places: PointerMap,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("nodes", &self.len()).field("spans", &self.spans).finish_non_exhaustive()
    }
}

/// The key of a slot among those that do not fit into slots, which are sorted by slot.
fn out_of_line_key(keys: &[(u32, MappingKey)], at: u32) -> Option<&MappingKey> {
    let found = keys.binary_search_by_key(&at, |(slot, _)| *slot);
    found.ok().map(|i| &keys[i].1)
}

impl Tree {
    pub(crate) fn new(text: Arc<String>, spans: bool) -> Tree {
        Tree {
            text,
            slots: Vec::new(),
            out_of_line_keys: Vec::new(),
            strings: Vec::new(),
            key_signs: KeySigns::default(),
            spans,
            may_have_placeholders: true,
            has_patch_directive: false,
            aliases: OnceLock::new(),
            large: OnceLock::new(),
            made_from: None,
            changes: Vec::new(),
        }
    }

    /// The tree as one that is made from another: its nodes have the pointers of what they come from there, below `root`.
    pub fn made_from(self, tree: Arc<Tree>, root: u32, places: PointerMap) -> Tree {
        Tree { made_from: Some(Box::new(MadeFrom { tree, root, places })), ..self }
    }

    /// A copy in which some scalars have other texts. Their places stay those of the original, which was made from no other.
    pub fn with_texts(&self, texts: Vec<NewText>) -> Tree {
        let mut copy = Tree {
            slots: self.slots.clone(),
            out_of_line_keys: self.out_of_line_keys.clone(),
            strings: self.strings.clone(),
            key_signs: self.key_signs,
            has_patch_directive: self.has_patch_directive,
            ..Tree::new(Arc::clone(&self.text), self.spans)
        };
        for NewText { at, text, by } in texts {
            let written = self.scalar_text(self.resolve(at)).into();
            copy.changes.push(Change { at, written, by });
            let slot = &mut copy.slots[at as usize];
            slot.data = u32::try_from(copy.strings.len()).unwrap_or(NONE);
            if slot.kind == SlotKind::Alias {
                slot.kind = SlotKind::Quoted;
            }
            copy.strings.push(text.into());
        }
        copy
    }

    /// The change of a scalar whose text something outside of the document sets.
    pub(crate) fn change(&self, at: u32) -> Option<&Change> {
        self.changes.iter().find(|change| change.at == at)
    }

    /// Every alias with its target.
    pub fn aliases(&self) -> &[(u32, u32)] {
        self.aliases.get_or_init(|| {
            let slots = (0..).zip(&self.slots);
            slots.filter(|(_, slot)| slot.kind == SlotKind::Alias).map(|(at, slot)| (at, slot.data)).collect()
        })
    }

    /// Whether the tree came from text, so that its spans are valid.
    pub(crate) fn has_spans(&self) -> bool {
        self.spans
    }

    /// The number of nodes; an alias counts as one.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The node at a slot.
    pub fn slot(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    /// The span of a node; without a meaning in trees that came from a value.
    pub fn span(&self, at: u32) -> Span {
        self.slot(at).span
    }

    /// Follows aliases from `at` to the node they refer to.
    pub fn resolve(&self, mut at: u32) -> u32 {
        while self.slot(at).kind == SlotKind::Alias {
            at = self.slot(at).data;
        }
        at
    }

    /// Appends a node; with a key, as the value of a mapping entry.
    pub(crate) fn push(&mut self, mut slot: Slot, key: Option<MappingKey>) -> u32 {
        let at = u32::try_from(self.slots.len()).unwrap_or(NONE - 2);
        if let Some(key) = key
            && !slot.set_key(&key)
        {
            self.out_of_line_keys.push((at, key));
        }
        self.slots.push(slot);
        at
    }

    fn out_of_line_key(&self, at: u32) -> Option<&MappingKey> {
        out_of_line_key(&self.out_of_line_keys, at)
    }

    /// The span of a node's key; `None` without a key.
    pub fn key_span(&self, at: u32) -> Option<Span> {
        let slot = self.slot(at);
        match slot.key() {
            SlotKey::None => None,
            SlotKey::OutOfLine => self.out_of_line_key(at).map(|key| key.span),
            _ => {
                let end = slot.key_start + u32::from(slot.key_len);
                Some(Span::new(slot.key_start, end))
            }
        }
    }

    /// Whether the node is the value of a mapping entry.
    pub(crate) fn has_key(&self, at: u32) -> bool {
        self.slot(at).key() != SlotKey::None
    }

    /// The key of a node; empty without a key.
    pub fn key_name(&self, at: u32) -> &str {
        let slot = self.slot(at);
        let (start, end) = (slot.key_start, slot.key_start + u32::from(slot.key_len));
        match slot.key() {
            SlotKey::None => "",
            SlotKey::Plain | SlotKey::Merge => self.stored(Span::new(start, end), NONE),
            SlotKey::Quoted => self.stored(Span::new(start, end), QUOTED),
            SlotKey::OutOfLine => self.out_of_line_key(at).map_or("", |key| self.stored(key.span, key.text)),
        }
    }

    pub(crate) fn is_merge(&self, at: u32) -> bool {
        match self.slot(at).key() {
            SlotKey::Merge => true,
            SlotKey::OutOfLine => self.out_of_line_key(at).is_some_and(|key| key.merge),
            _ => false,
        }
    }

    /// Whether a mapping in a node has the key [`PATCH_DIRECTIVE`]. Only trees with such a key are traversed.
    pub fn has_patch_directive_in(&self, node: u32) -> bool {
        self.has_patch_directive && (node..self.end(node)).any(|at| self.key_name(at) == PATCH_DIRECTIVE)
    }

    /// The slot after a node and all its descendants.
    pub fn end(&self, at: u32) -> u32 {
        let slot = self.slot(at);
        if slot.kind.is_collection() { slot.data } else { at + 1 }
    }

    /// Whether the node has a following sibling.
    pub fn has_next(&self, at: u32) -> bool {
        let parent = self.slot(at).parent;
        parent != NONE && self.end(at) < self.end(parent)
    }

    fn stored(&self, span: Span, text: u32) -> &str {
        match text {
            NONE => &self.text[span.start as usize..span.end as usize],
            QUOTED => &self.text[span.start as usize + 1..span.end as usize - 1],
            index => &self.strings[index as usize],
        }
    }

    /// Whether two keys of a mapping have the same hash, so that one may be repeated.
    pub(crate) fn may_have_duplicate_key(&self, mapping: u32) -> bool {
        let sign = |child: u32| self.slot(child).key_sign;
        let keys = || self.children(mapping).filter(|child| self.has_key(*child));
        if keys().nth(16).is_none() {
            let again = |(i, key)| keys().take(i).any(|other| sign(other) == sign(key));
            return keys().enumerate().any(again);
        }
        let mut signs: Vec<u16> = keys().map(|child| key_hash(self.key_name(child))).collect();
        signs.sort_unstable();
        signs.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether two keys have the same hash.
    pub(crate) fn may_be_same_key(&self, a: u32, b: u32) -> bool {
        self.slot(a).key_sign == self.slot(b).key_sign
    }

    /// Whether the key of a node, whose slot this is, equals `name`. Compares lengths before bytes.
    #[inline]
    fn is_key(&self, at: u32, slot: &Slot, name: &str) -> bool {
        let quotes = match slot.key() {
            SlotKey::None => return false,
            SlotKey::Plain | SlotKey::Merge => 0,
            SlotKey::Quoted => 1,
            SlotKey::OutOfLine => return self.key_name(at) == name,
        };
        let start = slot.key_start as usize + quotes;
        usize::from(slot.key_len) == name.len() + 2 * quotes
            && self.text.as_bytes().get(start..start + name.len()) == Some(name.as_bytes())
    }

    /// Whether two nodes and their descendants have the same kinds, keys and texts in the same order, without aliases
    /// and merges. If so, their values are equal.
    fn is_written_as(&self, at: u32, other: &Tree, theirs: u32) -> bool {
        let (nodes, others) = (at..self.end(at), theirs..other.end(theirs));
        steps::take(nodes.len() / 4);
        let is_same = |(own, their): (u32, u32)| {
            let (a, b) = (self.slot(own), other.slot(their));
            let is_plain = a.kind != SlotKind::Alias && !(a.kind.is_mapping() && a.keys() != Keys::Unique);
            let is_same_text = || self.scalar_text(own) == other.scalar_text(their);
            let is_same_value = || match a.kind.is_collection() {
                true => a.data.wrapping_sub(at) == b.data.wrapping_sub(theirs),
                false => is_same_text(),
            };
            let is_same_key = || own == at || self.key_name(own) == other.key_name(their);
            is_plain && a.kind == b.kind && a.traits >> 3 == b.traits >> 3 && is_same_key() && is_same_value()
        };
        nodes.len() == others.len() && nodes.zip(others).all(is_same)
    }

    /// The text of a scalar with escapes and folding applied.
    pub(crate) fn scalar_text(&self, at: u32) -> &str {
        let slot = self.slot(at);
        self.stored(slot.span, slot.data)
    }

    /// Whether the node is a string regardless of its text.
    pub fn is_string(&self, at: u32) -> bool {
        let slot = self.slot(at);
        matches!(slot.kind, SlotKind::Quoted | SlotKind::Block)
            && matches!(slot.tag(), TagKind::None | TagKind::Str)
    }

    /// The value of a scalar node; `None` for collections.
    pub fn scalar(&self, at: u32) -> Option<Scalar<'_>> {
        let slot = self.slot(at);
        if slot.kind.is_collection() || slot.kind == SlotKind::Alias {
            return None;
        }
        let text = self.stored(slot.span, slot.data);
        let (is_plain, tag) = (slot.kind == SlotKind::Plain, slot.tag());
        let is_text = tag == TagKind::Str || tag == TagKind::None && !is_plain;
        Some(if is_text { Scalar::Str(text) } else { resolve_tagged(text, is_plain, tag) })
    }

    /// Whether the node is null. Does not follow aliases.
    pub fn is_null(&self, at: u32) -> bool {
        let slot = self.slot(at);
        match (slot.kind, slot.tag()) {
            // The longest form of null has four bytes.
            (SlotKind::Plain, TagKind::None) if slot.data == NONE => {
                slot.span.end - slot.span.start <= 4 && self.scalar(at) == Some(Scalar::Null)
            }
            (SlotKind::Quoted | SlotKind::Block, TagKind::None) | (_, TagKind::Str) => false,
            _ => self.scalar(at) == Some(Scalar::Null),
        }
    }

    /// The number of bytes of a scalar's text as written; 0 for collections.
    pub(crate) fn text_len(&self, at: u32) -> usize {
        let slot = self.slot(at);
        if slot.kind.is_collection() { 0 } else { (slot.span.end - slot.span.start) as usize }
    }

    /// The children of a collection as written; merge entries are not expanded.
    pub fn children(&self, at: u32) -> Children<'_> {
        let end = if self.slot(at).kind.is_collection() { self.slot(at).data } else { at + 1 };
        Children { tree: self, next: at + 1, end }
    }

    /// Finds `name` in a mapping with the semantics of `sigs.k8s.io/yaml`: the last of repeated keys is used, and a
    /// merge overrides the entries before it. Returns the entry and whether it came from a merge.
    pub fn entry(&self, mapping: u32, name: &str) -> Option<(u32, bool)> {
        self.entry_of_hash(mapping, name, key_hash(name))
    }

    /// [`Tree::entry`] with the [`key_hash`] of the name.
    fn entry_of_hash(&self, mapping: u32, name: &str, hash: u16) -> Option<(u32, bool)> {
        let slot = &self.slots[mapping as usize];
        if slot.keys() != Keys::Unique {
            return self.last_entry(mapping, name);
        }
        let sign = key_sign(hash);
        if !self.key_signs.has(sign) {
            steps::take(1);
            return None;
        }
        // The hot path of all rules: a loop over slots without an iterator.
        let slots = self.slots.get(..slot.data as usize)?;
        let mut at = mapping as usize + 1;
        for passed in 0..large::MIN_ENTRIES {
            let Some(child) = slots.get(at) else {
                steps::take(1 + passed / 8);
                return None;
            };
            if child.key_sign == sign && self.is_key(at as u32, child, name) {
                // Skipping a key costs a fraction of a step.
                steps::take(1 + passed / 8);
                return Some((at as u32, false));
            }
            at = if child.kind.is_collection() { child.data as usize } else { at + 1 };
        }
        steps::take(large::MIN_ENTRIES / 8);
        self.entry_of_large(mapping, hash, name).map(|found| (found, false))
    }

    /// [`Tree::entry`] for mappings with a merge key or repeated keys.
    fn last_entry(&self, mapping: u32, name: &str) -> Option<(u32, bool)> {
        let merges = self.slot(mapping).has_merge_key();
        let mut found = None;
        for child in self.children(mapping) {
            steps::take(1);
            if merges && self.is_merge(child) {
                if let Some(entry) = self.merged_entry(child, name) {
                    found = Some((entry, true));
                }
            } else if self.is_key(child, self.slot(child), name) {
                found = Some((child, false));
            }
        }
        found
    }

    /// Finds `name` in the value of a merge key: a mapping, or a list in which the earliest mapping wins.
    fn merged_entry(&self, merge: u32, name: &str) -> Option<u32> {
        let target = self.resolve(merge);
        match self.slot(target).kind {
            SlotKind::Mapping | SlotKind::FlowMapping => self.entry(target, name).map(|e| e.0),
            SlotKind::Sequence | SlotKind::FlowSequence => self.children(target).find_map(|item| {
                let item = self.resolve(item);
                let entry = self.slot(item).kind.is_mapping();
                entry.then(|| self.entry(item, name))?.map(|e| e.0)
            }),
            _ => None,
        }
    }

    /// The effective entries of a mapping: each name once, in order of first appearance. The flag is true for
    /// entries that came from a merge.
    pub fn entries(&self, mapping: u32) -> Vec<(&str, u32, bool)> {
        if self.slot(mapping).keys() == Keys::Unique {
            let children = self.children(mapping);
            let entries: Vec<_> = children.map(|child| (self.key_name(child), child, false)).collect();
            steps::take(entries.len());
            return entries;
        }
        let mut out = EntryList {
            list: Vec::new(),
            by_name: self.children(mapping).nth(16).is_some().then(std::collections::BTreeMap::new),
        };
        for child in self.children(mapping) {
            steps::take(4);
            if !self.is_merge(child) {
                out.insert(self.key_name(child), child, false);
                continue;
            }
            let target = self.resolve(child);
            if self.slot(target).kind.is_mapping() {
                for (name, entry, _) in self.entries(target) {
                    out.insert(name, entry, true);
                }
                continue;
            }
            // The earliest mapping of the list wins, so it is inserted last.
            let mut maps: Vec<u32> = self.children(target).map(|c| self.resolve(c)).collect();
            maps.reverse();
            for map in maps {
                if self.slot(map).kind.is_mapping() {
                    for (name, entry, _) in self.entries(map) {
                        out.insert(name, entry, true);
                    }
                }
            }
        }
        out.list
    }
}

/// Entries of a mapping, each name once. Mappings with more than 16 children get an index by name.
struct EntryList<'t> {
    list: Vec<(&'t str, u32, bool)>,
    by_name: Option<std::collections::BTreeMap<&'t str, usize>>,
}

impl<'t> EntryList<'t> {
    fn insert(&mut self, name: &'t str, child: u32, merged: bool) {
        let seen = match &self.by_name {
            Some(by_name) => by_name.get(name).copied(),
            None => self.list.iter().position(|e| e.0 == name),
        };
        match seen {
            Some(at) => self.list[at] = (name, child, merged),
            None => {
                if let Some(by_name) = &mut self.by_name {
                    by_name.insert(name, self.list.len());
                }
                self.list.push((name, child, merged));
            }
        }
    }
}

/// The slots of the children of a collection, in text order.
pub struct Children<'a> {
    tree: &'a Tree,
    next: u32,
    end: u32,
}

impl Iterator for Children<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.next >= self.end {
            return None;
        }
        let at = self.next;
        self.next = self.tree.end(at);
        Some(at)
    }
}
