//! One document as an arena of nodes in document order.
//!
//! A tree is built once, by `parse` from text or by `json` from a value, and never changed. It
//! knows spans and key spans; how to walk it like a Kubernetes object is `node`'s business.
//! Scalars are borrowed from the text wherever their bytes stand there as they are.

pub(crate) mod json;
pub mod node;
pub mod placeholder;
pub mod pointer;
pub mod scalar;

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::tree::scalar::{Scalar, TagKind, resolve_tagged};

/// A range of bytes in a file, as it is on disk (for UTF-16, see [`crate::source::Source::disk_offset`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// A span from two byte offsets.
    #[must_use]
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }
}

/// No node, no text.
pub(crate) const NONE: u32 = u32::MAX;
/// The text is what stands between the quotes of the span.
pub(crate) const QUOTED: u32 = u32::MAX - 1;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
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
    pub(crate) fn is_mapping(self) -> bool {
        matches!(self, SlotKind::Mapping | SlotKind::FlowMapping)
    }

    pub(crate) fn is_collection(self) -> bool {
        self.is_mapping() || matches!(self, SlotKind::Sequence | SlotKind::FlowSequence)
    }
}

/// One node of the arena with its key: 28 bytes, because a large folder has millions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) span: Span,
    pub(crate) parent: u32,
    /// The slot behind the last one of a collection, the target of an alias, the text of a scalar
    /// (`NONE`: the span, `QUOTED`: between its quotes, else an index into `strings`).
    pub(crate) data: u32,
    /// Where the key stands, if the node is the value of a mapping entry.
    key_start: u32,
    key_len: u16,
    /// The [`sign`] of the key.
    key_hash: u16,
    pub(crate) kind: SlotKind,
    key: SlotKey,
    pub(crate) tag: TagKind,
    /// What a mapping's keys are like.
    pub(crate) keys: Keys,
}

/// What is to be known of a mapping's keys before one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Each is written once: the first one that fits is the one.
    Unique,
    /// One may be written again, and the last one counts.
    Duplicates,
    /// At least one of them merges, and others may be written again.
    Merge,
}

impl Slot {
    /// Whether this is a mapping that has a merge key.
    pub(crate) fn has_merge_key(&self) -> bool {
        self.keys == Keys::Merge
    }
}

/// A number that tells most names apart without a look at their text.
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

/// How the key of a slot is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotKey {
    /// There is none.
    None,
    /// It is the text of its span.
    Plain,
    /// It stands between the quotes of its span.
    Quoted,
    /// It merges what is here into the mapping.
    Merge,
    /// It is among `odd_keys`.
    OutOfLine,
}

/// The key of a mapping entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappingKey {
    pub(crate) span: Span,
    /// `NONE`: the span's text; `QUOTED`: between its quotes; else an index into `strings`.
    pub(crate) text: u32,
    /// The [`sign`] of its name.
    pub(crate) hash: u16,
    pub(crate) merge: bool,
}

impl Slot {
    /// A node without a key.
    pub(crate) fn new(kind: SlotKind, tag: TagKind, span: Span, parent: u32) -> Slot {
        Slot {
            span,
            parent,
            data: NONE,
            key_start: 0,
            key_len: 0,
            key_hash: 0,
            kind,
            key: SlotKey::None,
            tag,
            keys: Keys::Unique,
        }
    }
}

/// One document, parsed.
pub struct Tree {
    pub(crate) text: Arc<str>,
    pub(crate) slots: Vec<Slot>,
    /// Keys that do not fit into their slots, by slot: long ones, and those whose text is stored.
    pub(crate) out_of_line_keys: Vec<(u32, MappingKey)>,
    pub(crate) strings: Vec<Box<str>>,
    pub(crate) spans: bool,
    /// Whether a placeholder may be anywhere: most documents have none of their characters.
    pub(crate) may_have_placeholders: bool,
    /// Aliases and what they refer to, once somebody asked.
    pub(crate) aliases: OnceLock<Box<[(u32, u32)]>>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("nodes", &self.slots.len())
            .field("spans", &self.spans)
            .finish_non_exhaustive()
    }
}

impl Tree {
    pub(crate) fn new(text: Arc<str>, spans: bool) -> Tree {
        Tree {
            text,
            slots: Vec::new(),
            out_of_line_keys: Vec::new(),
            strings: Vec::new(),
            spans,
            may_have_placeholders: true,
            aliases: OnceLock::new(),
        }
    }

    /// Every alias, with the node that it refers to.
    pub(crate) fn aliases(&self) -> &[(u32, u32)] {
        self.aliases.get_or_init(|| {
            let slots = (0..).zip(&self.slots);
            slots.filter(|(_, slot)| slot.kind == SlotKind::Alias).map(|(at, slot)| (at, slot.data)).collect()
        })
    }

    /// Whether the tree came from text and its spans mean something.
    #[must_use]
    pub fn has_spans(&self) -> bool {
        self.spans
    }

    /// How many nodes were written, aliases counted once.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn slot(&self, at: u32) -> &Slot {
        &self.slots[at as usize]
    }

    /// The node that `at` stands for: itself, or what its alias refers to.
    pub(crate) fn resolve(&self, mut at: u32) -> u32 {
        while self.slot(at).kind == SlotKind::Alias {
            at = self.slot(at).data;
        }
        at
    }

    /// Appends a node, which is the value of `key` where it has one.
    pub(crate) fn push(&mut self, mut slot: Slot, key: Option<MappingKey>) -> u32 {
        let at = u32::try_from(self.slots.len()).unwrap_or(NONE - 2);
        if let Some(key) = key {
            let len = u16::try_from(key.span.end - key.span.start);
            slot.key_start = key.span.start;
            slot.key_len = len.unwrap_or(0);
            slot.key_hash = key.hash;
            slot.key = match (key.text, key.merge, len) {
                (NONE, false, Ok(_)) => SlotKey::Plain,
                (NONE, true, Ok(_)) => SlotKey::Merge,
                (QUOTED, false, Ok(_)) => SlotKey::Quoted,
                _ => SlotKey::OutOfLine,
            };
            if slot.key == SlotKey::OutOfLine {
                self.out_of_line_keys.push((at, key));
            }
        }
        self.slots.push(slot);
        at
    }

    fn out_of_line_key(&self, at: u32) -> Option<&MappingKey> {
        let found = self.out_of_line_keys.binary_search_by_key(&at, |(slot, _)| *slot);
        found.ok().map(|i| &self.out_of_line_keys[i].1)
    }

    /// Where the key of a node stands; `None` where it has none.
    pub(crate) fn key_span(&self, at: u32) -> Option<Span> {
        let slot = self.slot(at);
        match slot.key {
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
        self.slot(at).key != SlotKey::None
    }

    /// The key of a node that has one.
    pub(crate) fn key_name(&self, at: u32) -> &str {
        let slot = self.slot(at);
        let (start, end) = (slot.key_start, slot.key_start + u32::from(slot.key_len));
        match slot.key {
            SlotKey::None => "",
            SlotKey::Plain | SlotKey::Merge => self.stored(Span::new(start, end), NONE),
            SlotKey::Quoted => self.stored(Span::new(start, end), QUOTED),
            SlotKey::OutOfLine => self.out_of_line_key(at).map_or("", |key| self.stored(key.span, key.text)),
        }
    }

    pub(crate) fn is_merge(&self, at: u32) -> bool {
        match self.slot(at).key {
            SlotKey::Merge => true,
            SlotKey::OutOfLine => self.out_of_line_key(at).is_some_and(|key| key.merge),
            _ => false,
        }
    }

    /// The slot behind a node and all that is in it.
    pub(crate) fn end(&self, at: u32) -> u32 {
        let slot = self.slot(at);
        if slot.kind.is_collection() { slot.data } else { at + 1 }
    }

    /// Whether another child of the same collection follows.
    pub(crate) fn has_next(&self, at: u32) -> bool {
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

    /// Whether the signs of a mapping's keys leave it open that one is written twice.
    pub(crate) fn may_have_duplicate_key(&self, mapping: u32) -> bool {
        let sign = |child: u32| self.slot(child).key_hash;
        let keys = || self.children(mapping).filter(|child| self.has_key(*child));
        if keys().nth(16).is_none() {
            let again = |(i, key)| keys().take(i).any(|other| sign(other) == sign(key));
            return keys().enumerate().any(again);
        }
        let mut signs: Vec<u16> = keys().map(sign).collect();
        signs.sort_unstable();
        signs.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether the signs of two keys leave it open that they are the same.
    pub(crate) fn may_be_same_key(&self, a: u32, b: u32) -> bool {
        self.slot(a).key_hash == self.slot(b).key_hash
    }

    /// Whether the key of a node is this name: lengths first, because most keys are not.
    fn is_key(&self, at: u32, name: &str) -> bool {
        let slot = self.slot(at);
        let quotes = match slot.key {
            SlotKey::None => return false,
            SlotKey::Plain | SlotKey::Merge => 0,
            SlotKey::Quoted => 1,
            SlotKey::OutOfLine => return self.key_name(at) == name,
        };
        let start = slot.key_start as usize + quotes;
        usize::from(slot.key_len) == name.len() + 2 * quotes
            && self.text.as_bytes().get(start..start + name.len()) == Some(name.as_bytes())
    }

    /// The text of a scalar after escapes and folding.
    pub(crate) fn scalar_text(&self, at: u32) -> &str {
        let slot = self.slot(at);
        self.stored(slot.span, slot.data)
    }

    /// The value of a scalar node; `None` for collections.
    pub(crate) fn scalar(&self, at: u32) -> Option<Scalar<'_>> {
        let slot = self.slot(at);
        match slot.kind {
            SlotKind::Plain | SlotKind::Quoted | SlotKind::Block => {
                Some(resolve_tagged(self.scalar_text(at), slot.kind == SlotKind::Plain, slot.tag))
            }
            _ => None,
        }
    }

    /// Whether null is written here; no alias.
    pub(crate) fn is_null(&self, at: u32) -> bool {
        let slot = self.slot(at);
        match (slot.kind, slot.tag) {
            // Most scalars are seen to be something else by their lengths.
            (SlotKind::Plain, TagKind::None) if slot.data == NONE => {
                slot.span.end - slot.span.start <= 4 && self.scalar(at) == Some(Scalar::Null)
            }
            (SlotKind::Quoted | SlotKind::Block, TagKind::None) => false,
            _ => self.scalar(at) == Some(Scalar::Null),
        }
    }

    /// The written children of a collection, merge entries as they stand.
    pub(crate) fn children(&self, at: u32) -> Children<'_> {
        let end = if self.slot(at).kind.is_collection() { self.slot(at).data } else { at + 1 };
        Children { tree: self, next: at + 1, end }
    }

    /// Finds `name` in a mapping as Kubernetes' reader would: the entry written last counts, and
    /// a merge acts where it is written. Yields the entry and whether it came by a merge.
    pub(crate) fn entry(&self, mapping: u32, name: &str) -> Option<(u32, bool)> {
        let slot = self.slot(mapping);
        if slot.keys != Keys::Unique {
            return self.last_entry(mapping, name);
        }
        // Rules ask for entries more often than for anything else.
        let sign = key_hash(name);
        let slots = self.slots.get(..slot.data as usize)?;
        let mut at = mapping + 1;
        while let Some(child) = slots.get(at as usize) {
            if child.key_hash == sign && self.is_key(at, name) {
                return Some((at, false));
            }
            at = if child.kind.is_collection() { child.data } else { at + 1 };
        }
        None
    }

    /// [`Tree::entry`] of a mapping that merges, or has a key twice.
    fn last_entry(&self, mapping: u32, name: &str) -> Option<(u32, bool)> {
        let merges = self.slot(mapping).has_merge_key();
        let mut found = None;
        for child in self.children(mapping) {
            if merges && self.is_merge(child) {
                if let Some(entry) = self.merged_entry(child, name) {
                    found = Some((entry, true));
                }
            } else if self.is_key(child, name) {
                found = Some((child, false));
            }
        }
        found
    }

    /// In a list of merged maps the earlier one wins.
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

    /// The effective entries of a mapping, each name once, in the order first written; the flag
    /// says that the entry came by a merge.
    pub(crate) fn entries(&self, mapping: u32) -> Vec<(&str, u32, bool)> {
        if self.slot(mapping).keys == Keys::Unique {
            let children = self.children(mapping);
            return children.map(|child| (self.key_name(child), child, false)).collect();
        }
        let mut out = EntryList {
            list: Vec::new(),
            by_name: self.children(mapping).nth(16).is_some().then(std::collections::BTreeMap::new),
        };
        for child in self.children(mapping) {
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
            // In a list the earlier map wins, so it is put last.
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

/// Entries of a mapping, each name once; an index by name only where there are many.
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

pub(crate) struct Children<'a> {
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
