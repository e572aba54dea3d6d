//! The tree builder: turns parser events, in text order, into the arena of a [`Tree`].
//!
//! Both parsers use it: `granit` for all of YAML and `fast_path` for the common subset. It resolves keys,
//! enforces the limit on nodes, and reports what Kubernetes rejects in a document.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use granit_parser::{Event, ScalarStyle, StructureStyle, Tag};

use super::{Document, ParseDiagnostic, ParseDiagnosticKind};
use crate::tree::node::Node;
use crate::tree::placeholder::may_contain_placeholder;
use crate::tree::pointer::escape;
use crate::tree::scalar::{Scalar, TagKind, resolve_key, resolve_plain};
use crate::tree::{
    KeySigns, Keys, MappingKey, NONE, PATCH_DIRECTIVE, QUOTED, Slot, SlotKind, Span, Tree, key_hash,
};

/// Maximum number of nodes of a document with its aliases expanded.
pub(crate) const MAX_NODES: u64 = 1_000_000;

/// Capacity in nodes that the buffer keeps between documents.
const MAX_SCRATCH: usize = 1 << 16;

thread_local! {
    /// Reused buffer: growing a new vector for each of 100,000 documents costs more than parsing them.
    static SCRATCH: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

struct Frame {
    at: u32,
    mapping: bool,
    flow: bool,
    last: u32,
    key: Option<MappingKey>,
    /// Number of descendants, with aliases expanded.
    weight: u64,
    anchor: usize,
}

/// An anchor of a key: its id, and the key as a scalar.
struct KeyAnchor {
    id: usize,
    text: Box<str>,
    kind: SlotKind,
    tag: TagKind,
}

pub(super) struct TreeBuilder {
    pub(super) tree: Tree,
    frames: Vec<Frame>,
    /// Anchor id, node, number of nodes in it; the number is 0 while the anchored node is open.
    anchors: Vec<(usize, u32, u64)>,
    /// Anchors of keys, which are no nodes of the tree.
    key_anchors: Vec<KeyAnchor>,
    pub(super) diagnostics: Vec<ParseDiagnostic>,
    weight: u64,
    pub(super) start: u32,
    pub(super) fatal: bool,
    /// Checks only the syntax of what is below the entries of the root, and does not store it. Anchors and merges are
    /// errors there.
    is_outline: bool,
}

/// The character at an error, or the last character of the text for an error at its end.
pub(super) fn error_span(text: &str, at: u32) -> Span {
    let mut start = (at as usize).min(text.len());
    while start > 0 && !text.is_char_boundary(start) {
        start -= 1;
    }
    let width = text[start..].chars().next().filter(|c| *c != '\n' && *c != '\r').map_or(0, char::len_utf8);
    Span::new(start as u32, (start + width) as u32)
}

impl TreeBuilder {
    pub(super) fn new(text: Arc<String>, start: u32) -> TreeBuilder {
        let slots = SCRATCH.take();
        TreeBuilder {
            tree: Tree { slots, ..Tree::new(text, true) },
            frames: Vec::new(),
            anchors: Vec::new(),
            key_anchors: Vec::new(),
            diagnostics: Vec::new(),
            weight: 0,
            start,
            fatal: false,
            is_outline: false,
        }
    }

    /// Sets whether only an outline is stored.
    pub(super) fn with_outline(mut self, is_outline: bool) -> TreeBuilder {
        self.is_outline = is_outline;
        self
    }

    /// Whether the document is empty: no node, or one empty plain scalar.
    pub(super) fn is_empty(&self) -> bool {
        match self.tree.slots.as_slice() {
            [] => true,
            [only] => only.kind == SlotKind::Plain && self.tree.scalar(0) == Some(Scalar::Null),
            _ => false,
        }
    }

    pub(super) fn finish(mut self, end: u32) -> Document {
        // Copied to its exact size; the buffer with its capacity is reused for the next document.
        let mut slots = std::mem::take(&mut self.tree.slots);
        self.tree.slots = slots.as_slice().to_vec();
        self.tree.key_signs = KeySigns::of(&slots);
        self.tree.out_of_line_keys.shrink_to_fit();
        let written = self.tree.text.get(self.start as usize..end as usize);
        let mut texts = self.tree.strings.iter().map(AsRef::as_ref).chain(written);
        self.tree.may_have_placeholders =
            self.is_outline || written.is_none() || texts.any(may_contain_placeholder);
        self.tree.strings.shrink_to_fit();
        if slots.capacity() <= MAX_SCRATCH {
            slots.clear();
            SCRATCH.set(slots);
        }
        Document {
            number: 0,
            span: Span::new(self.start, end),
            tree: (!self.fatal && !self.tree.is_empty()).then(|| Arc::new(self.tree)),
            diagnostics: self.diagnostics,
            comments: Vec::new(),
        }
    }

    fn report(&mut self, kind: ParseDiagnosticKind, span: Span, message: String, other: Option<Span>) {
        if self.fatal {
            return;
        }
        self.fatal = !matches!(kind, ParseDiagnosticKind::DuplicateKey { .. });
        self.diagnostics.push(ParseDiagnostic { kind, span, message, help: None, other, key_path: None });
    }

    pub(super) fn event(&mut self, event: &Event<'_>, span: Span) {
        // A document with a syntax error has no tree.
        if self.fatal {
            return;
        }
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                self.scalar(value, *style, *anchor, tag.as_deref(), span);
            }
            Event::MappingStart(style, anchor, _) => {
                self.open(true, *style == StructureStyle::Flow, *anchor, span);
            }
            Event::SequenceStart(style, anchor, _) => {
                self.open(false, *style == StructureStyle::Flow, *anchor, span);
            }
            Event::MappingEnd | Event::SequenceEnd => self.close(span),
            Event::Alias(id) => self.alias(*id, span),
            Event::UnresolvedAlias(name) => {
                self.report(ParseDiagnosticKind::Syntax, span, format!("unknown anchor `{name}`"), None);
            }
            _ => {}
        }
    }

    fn expects_key(&self) -> bool {
        self.frames.last().is_some_and(|f| f.mapping && f.key.is_none())
    }

    pub(super) fn scalar(
        &mut self,
        value: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        mut span: Span,
    ) {
        let plain = style == ScalarStyle::Plain;
        // granit-parser gives an empty value the text `~` and an empty span.
        let value = if plain && span.start == span.end { "" } else { value };
        if plain && value.is_empty() {
            span.end = span.start;
        }
        // `!!merge <<` is the same as `<<`.
        let merges = tag.and_then(|tag| tag.suffix_in_namespace(YAML)).is_some_and(|name| name == "merge");
        let tag = tag_kind(tag);
        if self.is_passing() {
            self.pass_scalar(value, plain, anchor);
            return;
        }
        let kind = match style {
            ScalarStyle::Plain => SlotKind::Plain,
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => SlotKind::Quoted,
            _ => SlotKind::Block,
        };
        if self.expects_key() {
            if anchor != 0 {
                self.key_anchors.push(KeyAnchor { id: anchor, text: Box::from(value), kind, tag });
            }
            self.key(value, plain && (tag == TagKind::None || merges), span);
            return;
        }
        let text = self.text(value, style, span);
        let resolved = (plain && tag == TagKind::None).then(|| resolve_plain(value));
        if matches!(resolved, Some(Scalar::Float(number)) if !number.is_finite()) {
            let message = format!("`{value}` has no JSON form, so Kubernetes rejects it");
            self.report(ParseDiagnosticKind::Syntax, span, message, None);
        }
        // Rules read most texts several times, so that a text is resolved here once.
        let tag = if matches!(resolved, Some(Scalar::Str(_))) { TagKind::Str } else { tag };
        let at = self.value(kind, tag, span, 1);
        self.tree.slots[at as usize].data = text;
        if anchor != 0 {
            self.anchors.push((anchor, at, 1));
        }
    }

    /// Where the text of a scalar is stored: the span in the file if the bytes are equal, otherwise an index into
    /// `strings`.
    fn text(&mut self, value: &str, style: ScalarStyle, span: Span) -> u32 {
        let written = &self.tree.text[span.start as usize..span.end as usize];
        if is_same(written, value) {
            return NONE;
        }
        if matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted)
            && written.len() >= 2
            && written.get(1..written.len() - 1) == Some(value)
        {
            return QUOTED;
        }
        self.store(value)
    }

    fn store(&mut self, text: &str) -> u32 {
        self.tree.strings.push(Box::from(text));
        (self.tree.strings.len() - 1) as u32
    }

    fn key(&mut self, value: &str, plain: bool, span: Span) {
        let merge = plain && value == "<<";
        // The merged values would be entries of the root, but are not stored.
        self.fatal |= merge && self.is_outline;
        let Some(name) = resolve_key(value, plain) else {
            let message = format!("key `{value}` is not a string and cannot become one");
            self.report(ParseDiagnosticKind::Syntax, span, message, None);
            self.push_key(span, NONE, 0, false);
            return;
        };
        let written = &self.tree.text[span.start as usize..span.end as usize];
        let sign = key_hash(&name);
        self.tree.has_patch_directive |= name == PATCH_DIRECTIVE;
        let text = if is_same(written, &name) {
            NONE
        } else if written.len() >= 2 && written.get(1..written.len() - 1) == Some(&*name) {
            QUOTED
        } else {
            let name = name.into_owned();
            self.store(&name)
        };
        self.push_key(span, text, sign, merge);
    }

    fn push_key(&mut self, span: Span, text: u32, sign: u16, merge: bool) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = Some(MappingKey { span, text, hash: sign, merge });
        }
    }

    /// Appends a node to the open collection.
    fn value(&mut self, kind: SlotKind, tag: TagKind, span: Span, weight: u64) -> u32 {
        let (parent, key) = match self.frames.last_mut() {
            Some(frame) => {
                frame.weight += weight;
                (frame.at, frame.key.take())
            }
            None => (NONE, None),
        };
        self.weight += weight;
        if self.weight > MAX_NODES && !self.fatal {
            self.report(
                ParseDiagnosticKind::Limit,
                span,
                format!("more than {MAX_NODES} nodes after its aliases are expanded"),
                None,
            );
        }
        let merge = key.is_some_and(|key| key.merge);
        let at = self.tree.push(Slot::new(kind, tag, span, parent), key);
        if let Some(frame) = self.frames.last_mut() {
            frame.last = at;
            if merge {
                self.tree.slots[frame.at as usize].set_keys(Keys::Merge);
            }
        }
        if merge && matches!(kind, SlotKind::Plain | SlotKind::Quoted | SlotKind::Block) {
            let message = "`<<` needs a mapping, or a list of mappings, to merge".to_owned();
            self.report(ParseDiagnosticKind::Syntax, span, message, None);
        }
        at
    }

    /// Whether the next events are below an entry of the root of an outline.
    fn is_passing(&self) -> bool {
        self.is_outline && self.frames.len() >= 2
    }

    fn pass_scalar(&mut self, value: &str, plain: bool, anchor: usize) {
        self.fatal |= anchor != 0;
        if self.expects_key() {
            self.fatal |= resolve_key(value, plain).is_none() || plain && value == "<<";
            self.push_key(Span::default(), NONE, 0, false);
            return;
        }
        self.fatal |= plain && is_no_json(value);
        self.pass_value();
    }

    fn pass_value(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = None;
        }
        self.weight += 1;
        self.fatal |= self.weight > MAX_NODES;
    }

    pub(super) fn open(&mut self, mapping: bool, flow: bool, anchor: usize, span: Span) {
        if self.is_passing() {
            self.fatal |= anchor != 0 || self.expects_key();
            self.pass_value();
            self.frames.push(Frame { at: NONE, mapping, flow, last: NONE, key: None, weight: 1, anchor: 0 });
            return;
        }
        if self.expects_key() {
            self.report(
                ParseDiagnosticKind::Syntax,
                error_span(&Arc::clone(&self.tree.text), span.start),
                format!("a {} cannot be a key", if mapping { "mapping" } else { "list" }),
                None,
            );
            self.push_key(span, NONE, 0, false);
            // A collection as a key is an error. Its content goes to a frame of its own and is dropped.
        }
        let kind = match (mapping, flow) {
            (true, false) => SlotKind::Mapping,
            (true, true) => SlotKind::FlowMapping,
            (false, false) => SlotKind::Sequence,
            (false, true) => SlotKind::FlowSequence,
        };
        let at = self.value(kind, TagKind::None, span, 1);
        if anchor != 0 {
            self.anchors.push((anchor, at, 0));
        }
        self.frames.push(Frame { at, mapping, flow, last: NONE, key: None, weight: 1, anchor });
    }

    pub(super) fn close(&mut self, span: Span) {
        let Some(frame) = self.frames.pop().filter(|frame| frame.at != NONE) else { return };
        let at = frame.at as usize;
        self.tree.slots[at].data = self.tree.slots.len() as u32;
        // The parser's end of a block collection is the next token, so the end of its last child is used.
        self.tree.slots[at].span.end = if frame.flow || frame.last == NONE {
            span.end.max(self.tree.slots[at].span.start)
        } else {
            self.tree.slots[frame.last as usize].span.end
        };
        if let Some(parent) = self.frames.last_mut() {
            // The node itself was counted when it was opened.
            parent.weight += frame.weight - 1;
        }
        if let Some(anchor) = self.anchor(frame.anchor) {
            self.anchors[anchor].2 = frame.weight;
        }
        if frame.mapping {
            self.check_duplicate_keys(frame.at);
        }
    }

    /// The node of an anchor. Anchors are sorted by id.
    fn anchor(&self, id: usize) -> Option<usize> {
        self.anchors.binary_search_by_key(&id, |a| a.0).ok()
    }

    pub(super) fn alias(&mut self, id: usize, span: Span) {
        self.fatal |= self.is_outline;
        if let Some(at) = self.key_anchors.iter().position(|key| key.id == id) {
            self.alias_of_key(at, span);
            return;
        }
        let found = self.anchor(id).map(|i| self.anchors[i]);
        if self.expects_key() {
            // If an alias to a scalar is a key, the text of the scalar is the key.
            match found {
                Some((_, target, _)) if self.tree.scalar(target).is_some() => {
                    let text = self.tree.scalar_text(target).to_owned();
                    let stored = self.store(&text);
                    self.push_key(span, stored, key_hash(&text), false);
                }
                _ => {
                    let message = "this alias cannot be a key".to_owned();
                    self.report(ParseDiagnosticKind::Syntax, span, message, None);
                    self.push_key(span, NONE, 0, false);
                }
            }
            return;
        }
        match found {
            Some((_, target, weight)) if weight > 0 => {
                let at = self.value(SlotKind::Alias, TagKind::None, span, weight);
                self.tree.slots[at as usize].data = target;
            }
            Some((_, target, _)) => {
                let other = self.tree.slot(target).span.start;
                let message = "an anchor's value contains its own alias".to_owned();
                let other = Span::new(other, other);
                self.report(ParseDiagnosticKind::Limit, span, message, Some(other));
                self.value(SlotKind::Plain, TagKind::Null, span, 1);
            }
            None => {
                self.report(ParseDiagnosticKind::Syntax, span, "unknown anchor".to_owned(), None);
                self.value(SlotKind::Plain, TagKind::Null, span, 1);
            }
        }
    }

    /// An alias of a key stands for the key's text.
    fn alias_of_key(&mut self, at: usize, span: Span) {
        let KeyAnchor { text, kind, tag, .. } = &self.key_anchors[at];
        let (text, kind, tag) = (text.clone(), *kind, *tag);
        if self.expects_key() {
            self.key(&text, kind == SlotKind::Plain && tag == TagKind::None, span);
            return;
        }
        let stored = self.store(&text);
        let at = self.value(kind, tag, span, 1);
        self.tree.slots[at as usize].data = stored;
    }

    /// Reports repeated keys. Keys are compared after resolution: `true: 1` and `"true": 2` are the same key.
    fn check_duplicate_keys(&mut self, mapping: u32) {
        if !self.tree.may_have_duplicate_key(mapping) {
            return;
        }
        let tree = &self.tree;
        let keys = || tree.children(mapping).filter(|c| !tree.is_merge(*c));
        let mut found: Vec<(u32, u32)> = Vec::new();
        let mut again = |first: u32, key: u32| found.push((first, key));
        if keys().nth(16).is_none() {
            for (i, key) in keys().enumerate() {
                let same = |other: &u32| {
                    tree.may_be_same_key(*other, key) && tree.key_name(*other) == tree.key_name(key)
                };
                if let Some(first) = keys().take(i).find(same) {
                    again(first, key);
                }
            }
        } else {
            let mut seen = std::collections::BTreeMap::new();
            for key in keys() {
                if let Some(first) = seen.insert(tree.key_name(key), key) {
                    again(first, key);
                }
            }
        }
        let slot = &mut self.tree.slots[mapping as usize];
        if !found.is_empty() && slot.keys() == Keys::Unique {
            slot.set_keys(Keys::Duplicates);
        }
        for (first, key) in found {
            let tree = &self.tree;
            let span = |key| tree.key_span(key).unwrap_or_default();
            let name = tree.key_name(key).to_owned();
            let (equal, help) = self.compare(first, key);
            let (first, span) = (span(first), span(key));
            let message = format!("key `{name}` is written twice");
            let key_path = self.key_path(mapping, &name);
            self.report(ParseDiagnosticKind::DuplicateKey { equal }, span, message, Some(first));
            if let Some(diagnostic) = self.diagnostics.last_mut() {
                diagnostic.key_path = Some(key_path);
                diagnostic.help = Some(help);
            }
        }
    }

    /// Compares the values of a repeated key, and returns the help. kubectl keeps the last value; kustomize merges two
    /// maps and rejects anything else.
    fn compare(&self, first: u32, second: u32) -> (bool, &'static str) {
        let (a, b) = (self.tree.scalar(first), self.tree.scalar(second));
        let collections = a.is_none() && b.is_none();
        let written = |at: u32| {
            let span = self.tree.slot(at).span;
            self.tree.text.get(span.start as usize..span.end as usize).map(str::trim)
        };
        let value = |at: u32| Node::new(&self.tree, at).to_json();
        let equal = match collections {
            true if written(first).is_some() && written(first) == written(second) => true,
            // Aliases may stand for more than the file has.
            true => self.tree.aliases().is_empty() && value(first) == value(second),
            false => a == b,
        };
        let help = match (equal, collections) {
            (true, _) => "remove one: the values are equal, but kustomize rejects the file",
            (false, true) => "merge the two: kubectl keeps only the last, without a warning",
            (false, false) => {
                "remove one: kubectl keeps the last without a warning, and kustomize rejects the file"
            }
        };
        (equal, help)
    }

    /// The keys on the path to a key: `/spec/containers/-/env/-/value`.
    fn key_path(&self, mapping: u32, name: &str) -> String {
        let mut steps: Vec<Cow<'_, str>> = vec![escape(name)];
        let mut at = mapping;
        while at != NONE {
            let parent = self.tree.slot(at).parent;
            if parent != NONE {
                let is_mapping = self.tree.slot(parent).kind.is_mapping();
                steps.push(if is_mapping { escape(self.tree.key_name(at)) } else { "-".into() });
            }
            at = parent;
        }
        steps.reverse();
        format!("/{}", steps.join("/"))
    }
}

/// Whether a plain scalar is a number without a JSON form.
fn is_no_json(value: &str) -> bool {
    matches!(value.as_bytes().first(), Some(b'.' | b'+' | b'-'))
        && matches!(resolve_plain(value), Scalar::Float(f) if !f.is_finite())
}

/// Whether two texts are equal. Usually both are the same slice of the file, so pointers are compared first.
fn is_same(a: &str, b: &str) -> bool {
    std::ptr::eq(a, b) || a == b
}

/// The namespace of YAML's own tags.
const YAML: &str = "tag:yaml.org,2002:";

fn tag_kind(tag: Option<&Tag>) -> TagKind {
    let Some(tag) = tag else {
        return TagKind::None;
    };
    match tag.core_suffix() {
        Some("bool") => TagKind::Bool,
        Some("int") => TagKind::Int,
        Some("float") => TagKind::Float,
        Some("null") => TagKind::Null,
        // `!!str`, `!!binary` and custom tags: text.
        _ => TagKind::Str,
    }
}
