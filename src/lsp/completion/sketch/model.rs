//! The types of a sketch.

use gpulint_rules::tree::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nothing is written yet.
    Empty,
    Scalar,
    Map,
    Seq,
}

/// A value. The first one is the document.
#[derive(Clone, Debug)]
pub(crate) struct SketchNode {
    pub(crate) parent: usize,
    /// The name of the field; empty for items.
    pub(crate) key: String,
    /// The span of the name, including quotes.
    pub(crate) key_span: Option<Span>,
    pub(crate) shape: Shape,
    /// The span of the scalar, including quotes.
    pub(crate) span: Span,
    pub(crate) children: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A place without completions.
    Nowhere,
    /// In a comment that begins at this offset.
    Comment(u32),
    /// At the name of a field.
    Key(KeyPlace),
    /// At a scalar.
    Value(ValuePlace),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    /// The mapping, or the node that becomes one.
    pub(crate) parent: usize,
    /// The name as far as it is written.
    pub(crate) word: Span,
    /// The field, if a colon follows its name.
    pub(crate) entry: Option<usize>,
    /// The indentation of the name.
    pub(crate) column: usize,
    /// Whether the mapping is written in braces.
    pub(crate) flow: bool,
    pub(crate) quoted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuePlace {
    pub(crate) node: usize,
    pub(crate) word: Span,
    pub(crate) quoted: bool,
    /// The column of an item in which a mapping could begin instead.
    pub(crate) item_column: Option<usize>,
}

/// The document around the cursor.
#[derive(Debug)]
pub(crate) struct Sketch<'t> {
    pub(crate) text: &'t str,
    pub(crate) nodes: Vec<SketchNode>,
    pub(crate) place: Place,
    pub(super) offset: usize,
}

impl<'t> Sketch<'t> {
    pub(super) fn new(text: &'t str, offset: usize) -> Sketch<'t> {
        let root = SketchNode {
            parent: 0,
            key: String::new(),
            key_span: None,
            shape: Shape::Empty,
            span: Span::new(0, 0),
            children: Vec::new(),
        };
        Sketch { text, nodes: vec![root], place: Place::Nowhere, offset }
    }

    pub(super) fn add(&mut self, parent: usize, key: String, key_span: Option<Span>) -> usize {
        let at = self.nodes.len();
        self.nodes.push(SketchNode {
            parent,
            key,
            key_span,
            shape: Shape::Empty,
            span: Span::new(0, 0),
            children: Vec::new(),
        });
        self.nodes[parent].children.push(at);
        at
    }

    pub(super) fn set_scalar(&mut self, node: usize, start: usize, end: usize) {
        self.nodes[node].shape = Shape::Scalar;
        self.nodes[node].span = span(start, end);
    }

    /// Whether the cursor is in these bytes or at their end.
    pub(super) fn is_at(&self, start: usize, end: usize) -> bool {
        (start..=end).contains(&self.offset)
    }

    pub(super) fn set_place(&mut self, place: Place) {
        if self.place == Place::Nowhere {
            self.place = place;
        }
    }

    /// The word under the cursor in a plain scalar or between quotes.
    pub(super) fn word_in(&self, start: usize, end: usize) -> Span {
        let text = self.text;
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}' | '"' | '\'');
        let at = self.offset.clamp(start, end);
        let from = text[start..at].rfind(ends).map_or(start, |found| {
            let after = &text[start + found..];
            start + found + after.chars().next().map_or(0, char::len_utf8)
        });
        let to = text[at..end].find(ends).map_or(end, |found| at + found);
        span(from, to)
    }

    pub(crate) fn child(&self, node: usize, name: &str) -> Option<usize> {
        if self.nodes[node].shape != Shape::Map {
            return None;
        }
        self.nodes[node].children.iter().copied().find(|child| self.nodes[*child].key == name)
    }

    pub(crate) fn path(&self, from: usize, names: &[&str]) -> Option<usize> {
        names.iter().try_fold(from, |node, name| self.child(node, name))
    }

    /// The text of a scalar, without its quotes.
    pub(crate) fn scalar(&self, node: usize) -> Option<&'t str> {
        let node = &self.nodes[node];
        if node.shape != Shape::Scalar {
            return None;
        }
        Some(unquoted(self.text.get(node.span.start as usize..node.span.end as usize)?))
    }

    pub(crate) fn field(&self, node: usize, name: &str) -> Option<&'t str> {
        self.scalar(self.child(node, name)?)
    }

    /// The names of the fields and the indices of the items that lead to a node.
    pub(crate) fn steps(&self, node: usize) -> Vec<String> {
        let mut steps = Vec::new();
        let mut at = node;
        while at != 0 {
            let parent = self.nodes[at].parent;
            let step = match self.nodes[at].key_span {
                Some(_) => self.nodes[at].key.clone(),
                None => {
                    let siblings = &self.nodes[parent].children;
                    siblings.iter().position(|sibling| *sibling == at).unwrap_or(0).to_string()
                }
            };
            steps.push(step);
            at = parent;
        }
        steps.reverse();
        steps
    }

    /// The object that contains a node: the document, or an item of a list of objects.
    pub(crate) fn object_of(&self, node: usize) -> usize {
        let is_list = self.field(0, "kind").is_some_and(|kind| kind.ends_with("List"));
        let mut at = node;
        while is_list && at != 0 {
            let parent = self.nodes[at].parent;
            if self.nodes[parent].key == "items" && self.nodes[parent].parent == 0 && parent != 0 {
                return at;
            }
            at = parent;
        }
        0
    }
}

pub(super) fn span(start: usize, end: usize) -> Span {
    Span::new(u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(end.max(start)).unwrap_or(u32::MAX))
}

/// A scalar without its quotes.
fn unquoted(text: &str) -> &str {
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].strip_suffix(quote).unwrap_or(&text[1..]),
        _ => text,
    }
}
