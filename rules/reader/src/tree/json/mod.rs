//! Trees from JSON: from text (the object of an admission review), from a deserializer (the objects of a watch), and
//! from a `serde_json` value. Such a tree has no spans.

mod lenient;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::Hasher;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use self::lenient::lenient;
use super::placeholder::may_contain_placeholder;
use super::scalar::TagKind;
use crate::tree::node::Node;
use crate::tree::{
    KeySigns, MappingKey, NONE, PATCH_DIRECTIVE, Slot, SlotKey, SlotKind, Span, Tree, key_hash,
    out_of_line_key,
};

/// Capacity that the buffers keep between values, in nodes and in bytes.
const MAX_SCRATCH: (usize, usize) = (1 << 14, 1 << 18);
/// Maximum number of keys that a builder remembers, to store each once.
const KNOWN_KEYS: usize = 64;

thread_local! {
    /// Reused buffers: a tree is copied out of them in its exact size.
    static SCRATCH: RefCell<(Vec<Slot>, String)> = const { RefCell::new((Vec::new(), String::new())) };
}

impl Tree {
    /// Builds a tree from a JSON value. It reads like a tree from text, but has no spans.
    pub fn from_json(value: &Value) -> Tree {
        Draft::of(value).into_tree()
    }
}

/// A JSON value that has been read and can still be changed, before it becomes a [`Tree`]. All its keys and strings
/// are in one text, which takes a fraction of the memory of separate strings. The spans of its slots are offsets into
/// that text.
#[derive(Clone)]
pub struct Draft {
    slots: Vec<Slot>,
    text: String,
    out_of_line_keys: Vec<(u32, MappingKey)>,
    has_patch_directive: bool,
    has_repeated_key: bool,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("nodes", &self.slots.len()).finish_non_exhaustive()
    }
}

impl Draft {
    /// Reads an object from an API server. A list of `metadata.managedFields`, which can be half of an object and is
    /// irrelevant for rules, is skipped. The last of repeated keys is used. What Go reads and `serde_json` does not becomes
    /// unknown, see [`lenient`].
    ///
    /// # Errors
    /// What `serde_json` reports for a text that is no JSON.
    pub fn read(json: &str) -> serde_json::Result<Draft> {
        Draft::read_strictly(json).or_else(|error| {
            let replaced = lenient(json).and_then(|json| Draft::read_strictly(&json).ok());
            replaced.ok_or(error)
        })
    }

    fn read_strictly(json: &str) -> serde_json::Result<Draft> {
        let draft: Draft = serde_json::from_str(json)?;
        if draft.has_repeated_key {
            let value: Value = serde_json::from_str(json)?;
            return Builder::build(&value, true);
        }
        Ok(draft)
    }

    /// Reads a complete value.
    pub fn of(value: &Value) -> Draft {
        // Reading a value in memory does not fail.
        Builder::build(value, false).unwrap_or_else(|_| Builder::new(false).finish())
    }

    /// Bytes of all its keys and strings.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    pub fn to_json(&self) -> Value {
        Node::new(&self.clone().into_tree(), 0).to_json()
    }

    pub fn has(&self, path: &[&str]) -> bool {
        self.find(path).is_some()
    }

    pub fn is_mapping(&self, path: &[&str]) -> bool {
        self.find(path).is_some_and(|at| self.slots[at].kind == SlotKind::Mapping)
    }

    pub fn is_list(&self, path: &[&str]) -> bool {
        self.find(path).is_some_and(|at| self.slots[at].kind == SlotKind::Sequence)
    }

    pub fn string(&self, path: &[&str]) -> Option<&str> {
        let slot = &self.slots[self.find(path)?];
        (slot.kind == SlotKind::Quoted).then(|| self.stored(slot.span))
    }

    /// Removes the value at a path, if present.
    pub fn remove(&mut self, path: &[&str]) {
        let Some(at) = self.find(path) else { return };
        let end = self.end(at);
        let (first, after, gone) = (at as u32, end as u32, (end - at) as u32);
        self.slots.drain(at..end);
        self.out_of_line_keys.retain(|(slot, _)| !(first..after).contains(slot));
        self.renumber(after, after, |index| index - gone);
    }

    /// Sets a string at a path: replaces the existing value, or adds the last entry of its mapping. Does nothing
    /// without a mapping.
    pub fn set_string(&mut self, path: &[&str], string: &str) {
        self.remove(path);
        if let Some((name, mapping)) = path.split_last()
            && let Some(at) = self.insert(mapping, name, SlotKind::Quoted)
        {
            let start = offset(&self.text);
            self.text.push_str(string);
            self.slots[at].span = Span::new(start, offset(&self.text));
        }
    }

    /// Adds an empty mapping as the last entry of another one.
    pub fn add_mapping(&mut self, mapping: &[&str], name: &str) {
        if let Some(at) = self.insert(mapping, name, SlotKind::Mapping) {
            self.slots[at].data = at as u32 + 1;
        }
    }

    /// Releases the text of what was removed, for an object that stays in memory.
    pub fn compact(&mut self) {
        let old = std::mem::take(&mut self.text);
        let text = &mut self.text;
        let mut store = |span: Span| {
            let start = offset(text);
            text.push_str(&old[span.start as usize..span.end as usize]);
            Span::new(start, offset(text))
        };
        // Mappings share the text of their keys.
        let mut keys: HashMap<(u32, u32), Span> = HashMap::new();
        let mut long = self.out_of_line_keys.iter_mut().peekable();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let span = match slot.key() {
                SlotKey::None => None,
                SlotKey::OutOfLine => long.peek().filter(|(of, _)| *of == at as u32).map(|(_, key)| key.span),
                _ => Some(Span::new(slot.key_start, slot.key_start + u32::from(slot.key_len))),
            };
            if let Some(span) = span {
                let moved = *keys.entry((span.start, span.end)).or_insert_with(|| store(span));
                slot.key_start = moved.start;
                if let Some((_, key)) = long.next_if(|(of, _)| *of == at as u32) {
                    key.span = moved;
                }
            }
            if !slot.kind.is_collection() {
                slot.span = store(slot.span);
            }
        }
    }

    /// Feeds the value to a hasher, independent of the order of a mapping's entries.
    pub fn hash_value(&self, hasher: &mut impl Hasher) {
        if !self.slots.is_empty() {
            // Hashing one long text takes a fraction of the time of many short ones.
            let mut value = Vec::with_capacity(self.text.len() + 8 * self.slots.len());
            self.write_value(0, &mut value, &mut Vec::new());
            hasher.write(&value);
        }
    }

    /// The tree, without unused capacity: the webhook keeps the objects of a whole cluster in memory.
    pub fn into_tree(mut self) -> Tree {
        if self.slots.capacity() > self.slots.len() {
            self.slots = self.slots.as_slice().to_vec();
        }
        self.out_of_line_keys.shrink_to_fit();
        self.text.shrink_to_fit();
        Tree {
            may_have_placeholders: may_contain_placeholder(&self.text),
            has_patch_directive: self.has_patch_directive,
            key_signs: KeySigns::of(&self.slots),
            slots: self.slots,
            out_of_line_keys: self.out_of_line_keys,
            ..Tree::new(Arc::new(self.text), false)
        }
    }

    fn stored(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn key_span(&self, at: usize) -> Span {
        let slot = &self.slots[at];
        let out_of_line = || out_of_line_key(&self.out_of_line_keys, at as u32);
        match slot.key() {
            SlotKey::OutOfLine => out_of_line().map_or(Span::default(), |key| key.span),
            _ => Span::new(slot.key_start, slot.key_start + u32::from(slot.key_len)),
        }
    }

    fn key(&self, at: usize) -> &str {
        self.stored(self.key_span(at))
    }

    fn end(&self, at: usize) -> usize {
        let slot = &self.slots[at];
        if slot.kind.is_collection() { slot.data as usize } else { at + 1 }
    }

    fn children(&self, at: usize) -> impl Iterator<Item = usize> {
        let (mut next, end) = (at + 1, self.end(at));
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| next = self.end(child))?;
            Some(child)
        })
    }

    fn find(&self, path: &[&str]) -> Option<usize> {
        let mut at = 0;
        let sought = |at: usize, name: &str| {
            (self.slots[at].kind == SlotKind::Mapping)
                .then(|| self.children(at).find(|child| self.key(*child) == name))?
        };
        for name in path {
            at = sought(at, name)?;
        }
        (at < self.slots.len()).then_some(at)
    }

    /// Adds an entry at the end of a mapping; its value is empty.
    fn insert(&mut self, mapping: &[&str], name: &str, kind: SlotKind) -> Option<usize> {
        let parent = self.find(mapping).filter(|at| self.slots[*at].kind == SlotKind::Mapping)?;
        let at = self.end(parent);
        // The slots after it move, and the collections around it end one slot later.
        self.renumber(at as u32, at as u32 + 1, |index| index + 1);
        let mut around = parent as u32;
        while around != NONE && self.slots[around as usize].data == at as u32 {
            self.slots[around as usize].data += 1;
            around = self.slots[around as usize].parent;
        }
        self.has_patch_directive |= name == PATCH_DIRECTIVE;
        let start = offset(&self.text);
        self.text.push_str(name);
        let mut slot = Slot::new(kind, TagKind::None, Span::default(), parent as u32);
        let key = mapping_key(Span::new(start, offset(&self.text)), name);
        if !slot.set_key(&key) {
            let place = self.out_of_line_keys.partition_point(|(slot, _)| *slot < at as u32);
            self.out_of_line_keys.insert(place, (at as u32, key));
        }
        self.slots.insert(at, slot);
        Some(at)
    }

    /// Changes the indices of slots from `first` on, and the ends of collections from `end` on.
    fn renumber(&mut self, first: u32, end: u32, change: impl Fn(u32) -> u32) {
        for slot in &mut self.slots {
            if slot.parent != NONE && slot.parent >= first {
                slot.parent = change(slot.parent);
            }
            if slot.kind.is_collection() && slot.data >= end {
                slot.data = change(slot.data);
            }
        }
        for (slot, _) in &mut self.out_of_line_keys {
            if *slot >= first {
                *slot = change(*slot);
            }
        }
    }

    /// Serializes a value without ambiguity.
    fn write_value(&self, at: usize, out: &mut Vec<u8>, open: &mut Vec<(usize, Span)>) {
        // 0xFF does not occur in UTF-8.
        const END: u8 = 0xff;
        let slot = &self.slots[at];
        out.push(slot.kind as u8);
        if !slot.kind.is_collection() {
            out.extend_from_slice(self.stored(slot.span).as_bytes());
            return out.push(END);
        }
        let first = open.len();
        let is_mapping = slot.kind == SlotKind::Mapping;
        let key = |child: usize| if is_mapping { self.key_span(child) } else { Span::default() };
        open.extend(self.children(at).map(|child| (child, key(child))));
        if is_mapping {
            open[first..].sort_by(|(_, a), (_, b)| self.stored(*a).cmp(self.stored(*b)));
        }
        out.extend_from_slice(&(open.len() - first).to_le_bytes());
        for next in first..open.len() {
            let (child, key) = open[next];
            if is_mapping {
                out.extend_from_slice(self.stored(key).as_bytes());
                out.push(END);
            }
            self.write_value(child, out, open);
        }
        open.truncate(first);
    }
}

/// An object from an API server, as read by [`Draft::read`], except that repeated keys are kept: API servers send
/// none.
impl<'de> Deserialize<'de> for Draft {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Draft, D::Error> {
        Builder::build(deserializer, true)
    }
}

fn offset(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(NONE)
}

fn mapping_key(span: Span, name: &str) -> MappingKey {
    MappingKey { span, text: NONE, hash: key_hash(name), merge: false }
}

/// Fills the buffers of a thread, from which a draft is copied.
struct Builder {
    tree: Tree,
    text: String,
    /// Where keys are stored, by their hashes: most keys of an object are repeated in other mappings.
    known_keys: [Span; KNOWN_KEYS],
    has_repeated_key: bool,
    /// Whether a list of `metadata.managedFields` is skipped.
    skips_managed_fields: bool,
    /// Whether such a list was found.
    has_managed_fields: bool,
}

impl Builder {
    fn new(skips_managed_fields: bool) -> Builder {
        let (slots, text) = SCRATCH.take();
        Builder {
            tree: Tree { slots, ..Tree::new(Arc::default(), false) },
            text,
            known_keys: [Span::default(); KNOWN_KEYS],
            has_repeated_key: false,
            skips_managed_fields,
            has_managed_fields: false,
        }
    }

    fn build<'de, D: Deserializer<'de>>(
        deserializer: D,
        skips_managed_fields: bool,
    ) -> Result<Draft, D::Error> {
        let mut builder = Builder::new(skips_managed_fields);
        let root = NodeSeed { builder: &mut builder, parent: NONE, key: None, place: Place::Root };
        let read = root.deserialize(deserializer);
        let is_too_long = builder.text.len() >= NONE as usize || builder.tree.slots.len() >= NONE as usize;
        let draft = builder.finish();
        read?;
        if is_too_long { Err(D::Error::custom("more than 4 GiB")) } else { Ok(draft) }
    }

    fn finish(self) -> Draft {
        let (mut slots, mut text) = (self.tree.slots, self.text);
        let draft = Draft {
            slots: slots.as_slice().to_vec(),
            text: text.as_str().to_owned(),
            out_of_line_keys: self.tree.out_of_line_keys,
            has_patch_directive: self.tree.has_patch_directive,
            has_repeated_key: self.has_repeated_key,
        };
        if slots.capacity() <= MAX_SCRATCH.0 && text.capacity() <= MAX_SCRATCH.1 {
            slots.clear();
            text.clear();
            SCRATCH.set((slots, text));
        }
        draft
    }

    fn store(&mut self, string: &str) -> Span {
        let start = offset(&self.text);
        self.text.push_str(string);
        Span::new(start, offset(&self.text))
    }

    fn store_key(&mut self, name: &str) -> MappingKey {
        self.tree.has_patch_directive |= name == PATCH_DIRECTIVE;
        let known = usize::from(key_hash(name)) % KNOWN_KEYS;
        let span = self.known_keys[known];
        if self.text.get(span.start as usize..span.end as usize) != Some(name) {
            self.known_keys[known] = self.store(name);
        }
        mapping_key(self.known_keys[known], name)
    }

    /// Whether a mapping has two equal keys.
    fn repeats_key(&self, mapping: u32) -> bool {
        let children = || self.tree.children(mapping);
        let key = |child: u32| {
            let span = self.tree.key_span(child).unwrap_or_default();
            &self.text[span.start as usize..span.end as usize]
        };
        if children().nth(16).is_none() {
            let again = |(i, one): (usize, u32)| {
                let mut before = children().take(i);
                before.any(|other| self.tree.may_be_same_key(other, one) && key(other) == key(one))
            };
            return children().enumerate().any(again);
        }
        let mut keys: Vec<&str> = children().map(key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// The position of a value, as far as it matters for `metadata.managedFields`.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Metadata,
    /// At `metadata.managedFields`, which is skipped.
    ManagedFields,
    Elsewhere,
}

/// Appends a value with all its descendants.
struct NodeSeed<'b> {
    builder: &'b mut Builder,
    parent: u32,
    key: Option<MappingKey>,
    place: Place,
}

impl NodeSeed<'_> {
    fn push(&mut self, kind: SlotKind, span: Span) -> u32 {
        self.builder.tree.push(Slot::new(kind, TagKind::None, span, self.parent), self.key)
    }

    fn plain(mut self, value: impl fmt::Display) {
        let start = offset(&self.builder.text);
        // Writing to a string does not fail.
        let _ = write!(self.builder.text, "{value}");
        let span = Span::new(start, offset(&self.builder.text));
        self.push(SlotKind::Plain, span);
    }

    fn close(&mut self, at: u32) {
        let end = u32::try_from(self.builder.tree.slots.len()).unwrap_or(NONE);
        self.builder.tree.slots[at as usize].data = end;
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.plain(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.plain(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.plain(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        match Number::from_f64(value) {
            Some(number) => self.plain(number),
            None => self.plain("null"),
        }
        Ok(())
    }

    fn visit_str<E>(mut self, value: &str) -> Result<(), E> {
        let span = self.builder.store(value);
        self.push(SlotKind::Quoted, span);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.plain("null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if self.place == Place::ManagedFields {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        let at = self.push(SlotKind::Sequence, Span::default());
        loop {
            let builder = &mut *self.builder;
            let item = NodeSeed { builder, parent: at, key: None, place: Place::Elsewhere };
            if items.next_element_seed(item)?.is_none() {
                break;
            }
        }
        self.close(at);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let at = self.push(SlotKind::Mapping, Span::default());
        while let Some((key, place)) =
            entries.next_key_seed(KeySeed { builder: &mut *self.builder, place: self.place })?
        {
            let builder = &mut *self.builder;
            entries.next_value_seed(NodeSeed { builder, parent: at, key: Some(key), place })?;
        }
        self.close(at);
        self.builder.has_repeated_key |= self.builder.repeats_key(at);
        Ok(())
    }
}

/// Stores a key of a mapping, and returns the position of its value.
struct KeySeed<'b> {
    builder: &'b mut Builder,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = (MappingKey, Place);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed<'_> {
    type Value = (MappingKey, Place);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let place = match (self.place, name) {
            (Place::Root, "metadata") => Place::Metadata,
            (Place::Metadata, "managedFields") if self.builder.skips_managed_fields => Place::ManagedFields,
            _ => Place::Elsewhere,
        };
        if place == Place::ManagedFields {
            // A skipped list is not in the tree.
            self.builder.has_repeated_key |= self.builder.has_managed_fields;
            self.builder.has_managed_fields = true;
        }
        Ok((self.builder.store_key(name), place))
    }
}

#[cfg(test)]
mod tests;
