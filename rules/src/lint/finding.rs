//! What a rule has to say: an object, a pointer, a message; no bytes, no lines.

use std::sync::Arc;

use serde::Serialize;

use crate::karpenter::budget::Week;
use crate::lint::fix::Fix;
use crate::lint::message::fitted;
use crate::lint::rule::{Authority, Rule};
use crate::object::Object;
use crate::source::Source;
use crate::tree::Span;
use crate::tree::node::{Node, Shape};
use crate::tree::pointer::Pointer;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Advice.
    Info,
    /// Accepted, but likely outage, lost work, stuck nodes or wasted money.
    Warning,
    /// Refused, or provably without the effect it says, or forbidden by a practice.
    Error,
}

impl Severity {
    /// `error`, `warning` or `info`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// Where something is.
#[derive(Clone, Debug)]
pub enum Place {
    /// A field of an object.
    Field {
        /// The object.
        object: Object,
        /// The field.
        pointer: Pointer,
        /// The key rather than the value.
        key: bool,
    },
    /// A place in a file that no object holds: what the reader refused, a comment.
    Text {
        /// The file.
        source: Arc<Source>,
        /// The number of the document.
        document: u32,
        /// The object that the document holds, if it holds one.
        object: Option<Object>,
        /// The bytes.
        span: Span,
    },
}

impl Place {
    /// The place of a node.
    #[must_use]
    pub fn of(object: &Object, node: &Node<'_>) -> Place {
        Place::Field { object: object.clone(), pointer: node.pointer(), key: false }
    }

    /// The object, if there is one.
    #[must_use]
    pub fn object(&self) -> Option<&Object> {
        match self {
            Place::Field { object, .. } => Some(object),
            Place::Text { object, .. } => object.as_ref(),
        }
    }

    /// The pointer, for a field.
    #[must_use]
    pub fn pointer(&self) -> Option<&Pointer> {
        match self {
            Place::Field { pointer, .. } => Some(pointer),
            Place::Text { .. } => None,
        }
    }

    /// File, number of the document and bytes, where the object came from a file. A scalar is its
    /// value, a collection its key, and what is absent its nearest written ancestor.
    #[must_use]
    pub fn locate(&self) -> Option<(&Arc<Source>, u32, Span)> {
        match self {
            Place::Text { source, document, span, .. } => Some((source, *document, *span)),
            Place::Field { object, pointer, key } => {
                let origin = object.origin()?;
                let span = locate(object, pointer, *key)?;
                Some((&origin.source, origin.document, span))
            }
        }
    }
}

fn locate(object: &Object, pointer: &Pointer, key: bool) -> Option<Span> {
    let mut node = object.root();
    let mut exact = true;
    for step in pointer.steps() {
        let next = match step.parse::<usize>() {
            Ok(index) if node.is_sequence() => node.index(index),
            _ => node.get(step),
        };
        if next.is_absent() {
            exact = false;
            break;
        }
        node = next;
    }
    let collection = matches!(node.shape(), Shape::Mapping | Shape::Sequence);
    if (key || !exact || (collection && !node.is_flow()))
        && let Some(span) = node.key_span()
    {
        return Some(span);
    }
    let span = node.span()?;
    if collection && !node.is_flow() {
        // A list item or the whole document: its first entry says where it is.
        if pointer.steps().is_empty() || !exact {
            let kind = node.get("kind");
            if let Some(span) = kind.span() {
                return Some(span);
            }
        }
        let first = node
            .entries()
            .first()
            .and_then(|(_, n)| n.key_span())
            .or_else(|| node.items().next().and_then(|n| n.span()));
        return Some(first.unwrap_or(span));
    }
    if span.start == span.end
        && let Some(key) = node.key_span()
    {
        return Some(key);
    }
    Some(span)
}

impl Place {
    /// Whether two places are one to who reads of them.
    fn reads_as(&self, other: &Place) -> bool {
        if self.is_handle_of(other) {
            return true;
        }
        let bytes = |place: &Place| {
            let (source, document, span) = place.locate()?;
            Some((source.path().to_owned(), document, span))
        };
        self.pointer() == other.pointer()
            && self.object().map(Object::id) == other.object().map(Object::id)
            && bytes(self) == bytes(other)
    }

    /// Whether two places are the same field of the very same object.
    fn is_handle_of(&self, other: &Place) -> bool {
        match (self, other) {
            (
                Place::Field { object, pointer, key },
                Place::Field { object: other, pointer: way, key: named },
            ) => object.is_handle_of(other) && pointer == way && key == named,
            _ => false,
        }
    }
}

/// Another place that a finding speaks of.
#[derive(Clone, Debug)]
pub struct Related {
    /// Where.
    pub place: Place,
    /// What is there.
    pub message: String,
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// After configuration.
    pub severity: Severity,
    /// Who refuses the object for this, if anybody does.
    pub refused_by: Option<Authority>,
    /// Whether it holds only until another object is made, which may be applied a moment later.
    pub awaits: bool,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// Other places.
    pub related: Vec<Related>,
    /// The repair.
    pub fix: Option<Fix>,
    /// What the budgets that it speaks of allow in a week.
    pub week: Option<Box<Week>>,
}

impl Finding {
    /// Sets the help line.
    pub fn help(&mut self, text: impl Into<String>) -> &mut Finding {
        self.help = Some(fitted(text.into()));
        self
    }

    /// Sets another severity than the rule's own. What is no error is refused by nobody.
    pub fn severity(&mut self, severity: Severity) -> &mut Finding {
        self.severity = severity;
        if severity < Severity::Error {
            self.refused_by = None;
        }
        self
    }

    /// Says who refuses the object for this: one of the rule's own list, or nobody.
    pub fn refused_by(&mut self, authority: Option<Authority>) -> &mut Finding {
        debug_assert!(authority.is_none_or(|a| self.rule.refused_by.contains(&a)));
        self.refused_by = authority;
        self
    }

    /// Says that it holds only until another object is made.
    pub fn awaiting(&mut self) -> &mut Finding {
        self.awaits = true;
        self
    }

    /// Points at the key rather than the value.
    pub fn at_key(&mut self) -> &mut Finding {
        if let Place::Field { key, .. } = &mut self.place {
            *key = true;
        }
        self
    }

    /// Adds another place.
    pub fn related(&mut self, object: &Object, node: &Node<'_>, message: impl Into<String>) -> &mut Finding {
        self.related.push(Related { place: Place::of(object, node), message: message.into() });
        self
    }

    /// Sets the repair.
    pub fn fix(&mut self, fix: Fix) -> &mut Finding {
        self.fix = Some(fix);
        self
    }

    /// Sets the week that reports draw.
    pub fn week(&mut self, week: Week) -> &mut Finding {
        self.week = Some(Box::new(week));
        self
    }

    /// Whether two findings are one to who reads them: the same words of the same places.
    #[must_use]
    pub fn reads_as(&self, other: &Finding) -> bool {
        let related = |(a, b): (&Related, &Related)| a.message == b.message && a.place.reads_as(&b.place);
        self.rule.id == other.rule.id
            && self.severity == other.severity
            && self.refused_by == other.refused_by
            && self.message == other.message
            && self.help == other.help
            && self.fix == other.fix
            && self.week == other.week
            && self.place.reads_as(&other.place)
            && self.related.len() == other.related.len()
            && self.related.iter().zip(&other.related).all(related)
    }

    /// Whether the places of two findings that read the same are in the very same objects, so that
    /// one is as good as the other.
    pub(crate) fn is_as_good_as(&self, other: &Finding) -> bool {
        self.place.is_handle_of(&other.place)
            && self.related.len() == other.related.len()
            && (self.related.iter().zip(&other.related)).all(|(a, b)| a.place.is_handle_of(&b.place))
    }

    /// A name for the finding that survives edits elsewhere in the file: 16 hexadecimal digits
    /// of rule, object, pointer (list items by their key where they have one) and value.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Fnv::new();
        hash.write(self.rule.id);
        match &self.place {
            Place::Field { object, pointer, .. } => {
                let id = object.id();
                hash.write(&id.group);
                hash.write(&id.kind);
                hash.write(id.namespace_or_default());
                hash.write(&id.name);
                let mut node = object.root();
                for step in pointer.steps() {
                    match step.parse::<usize>() {
                        Ok(index) if node.is_sequence() => {
                            node = node.index(index);
                            let name = ["name", "key", "containerPort", "type"]
                                .iter()
                                .find_map(|k| node.get(k).quantity_text());
                            match name {
                                Some(name) => hash.write(&name),
                                None => hash.write(step),
                            }
                        }
                        _ => {
                            node = node.get(step);
                            hash.write(step);
                        }
                    }
                }
                hash.write(&node.to_json().to_string());
            }
            Place::Text { source, span, .. } => {
                hash.write(source.path());
                let text = source.text();
                hash.write(text.get(span.start as usize..span.end as usize).unwrap_or_default());
                hash.write(&self.message);
            }
        }
        format!("{:016x}", hash.0)
    }
}

/// FNV-1a, 64 bits: stable over versions of Rust, unlike the standard hasher.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, text: &str) {
        for byte in text.bytes().chain(std::iter::once(0xFF)) {
            self.0 ^= u64::from(byte);
            self.0 = self.0.wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// A text as messages show it: cut where it is long, so that the message stays one.
pub(crate) fn shown(text: &str) -> std::borrow::Cow<'_, str> {
    const LONGEST: usize = 44;
    let one_line = !text.contains(['\n', '\r', '\t']);
    if one_line && text.chars().count() <= LONGEST {
        return text.into();
    }
    let mut short: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST - 1).collect();
    short.push('…');
    short.into()
}
