//! Documents of one file that are equal to the byte, but for the name of their object: only the first is parsed, the
//! others share its nodes.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::source::{Document, Source, parse_manifest};
use crate::tree::node::Node;
use crate::tree::{Span, Tree};

/// The documents of a file that were parsed, by their text without the name.
pub struct AlikeDocuments<'s> {
    source: &'s Source,
    /// The same text has the same hash, and other texts may have it as well.
    known: RwLock<HashMap<u64, Vec<Model>>>,
    hasher: RandomState,
}

/// A document that was parsed.
struct Model {
    part: Range<usize>,
    name: Range<usize>,
    span: Span,
    tree: Arc<Tree>,
}

impl<'s> AlikeDocuments<'s> {
    /// Nothing of a file was parsed yet.
    #[must_use]
    pub fn new(source: &'s Source) -> AlikeDocuments<'s> {
        AlikeDocuments { source, known: RwLock::default(), hasher: RandomState::new() }
    }

    /// [`parse_manifest`], or what it gives without parsing.
    #[must_use]
    pub fn parse_manifest(&self, part: Range<usize>) -> Vec<Document> {
        let text = self.source.text();
        let name = name_in(&text[part.clone()]).map(|name| part.start + name.start..part.start + name.end);
        let Some(name) = name.filter(|_| self.source.is_utf8()) else {
            return parse_manifest(self.source, part);
        };
        let hash =
            self.hasher.hash_one((&text[part.start..name.start], name.len(), &text[name.end..part.end]));
        if let Some(document) = self.copy(hash, &part, &name) {
            return vec![document];
        }
        let mut documents = parse_manifest(self.source, part.clone());
        if let [document] = documents.as_mut_slice() {
            self.add(hash, part, name, document);
        }
        documents
    }

    /// The document of a chunk that is like another one.
    fn copy(&self, hash: u64, part: &Range<usize>, name: &Range<usize>) -> Option<Document> {
        let text = self.source.text();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let model = known.get(&hash)?.iter().find(|model| {
            text[model.part.start..model.name.start] == text[part.start..name.start]
                && model.name.len() == name.len()
                && text[model.name.end..model.part.end] == text[name.end..part.end]
        })?;
        let shift = (part.start as u32).wrapping_sub(model.part.start as u32);
        let placed = |offset: u32| offset.wrapping_add(shift);
        Some(Document {
            number: 0,
            span: Span::new(placed(model.span.start), placed(model.span.end)),
            tree: Some(Arc::new(model.tree.shifted(shift)?)),
            diagnostics: Vec::new(),
            comments: Vec::new(),
        })
    }

    /// Keeps a document that others may be like.
    fn add(&self, hash: u64, part: Range<usize>, name: Range<usize>, document: &mut Document) {
        let is_plain = document.diagnostics.is_empty() && document.comments.is_empty();
        let Some(tree) = document.tree.take() else { return };
        let tree = match Arc::try_unwrap(tree) {
            Ok(tree) if is_plain && is_named_at(&tree, &name) => Arc::new(tree.share()),
            Ok(tree) => Arc::new(tree),
            Err(tree) => tree,
        };
        if tree.shared_nodes().is_some() {
            let model = Model { part, name, span: document.span, tree: Arc::clone(&tree) };
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.entry(hash).or_default().push(model);
        }
        document.tree = Some(tree);
    }
}

/// Whether the name of the object in a tree is the text of a range, and nothing more.
fn is_named_at(tree: &Tree, name: &Range<usize>) -> bool {
    let written = Node::new(tree, 0).path(&["metadata", "name"]);
    written.text().is_some() && written.span() == Some(Span::new(name.start as u32, name.end as u32))
}

/// Where the name of an object is written in the first line of its `metadata`, if it is one whose text means nothing to a
/// parser and nothing to who validates names: a label of RFC 1035 with a dash.
fn name_in(text: &str) -> Option<Range<usize>> {
    const METADATA: &[u8] = b"\nmetadata:\n";
    const NAME: &[u8] = b"name: ";
    let bytes = text.as_bytes();
    let line = memchr::memmem::find(bytes, METADATA)? + METADATA.len();
    let key = line + bytes[line..].iter().take_while(|byte| **byte == b' ').count();
    let start = key + NAME.len();
    if key == line || !bytes[key..].starts_with(NAME) {
        return None;
    }
    let length = memchr::memchr(b'\n', &bytes[start..])?;
    is_plain_name(&bytes[start..start + length]).then_some(start..start + length)
}

fn is_plain_name(name: &[u8]) -> bool {
    const MAX_LABEL: usize = 63;
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return false };
    name.len() <= MAX_LABEL
        && first.is_ascii_lowercase()
        && *last != b'-'
        && name.contains(&b'-')
        && name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}
