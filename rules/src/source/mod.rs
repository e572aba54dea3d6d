//! Text to documents.
//!
//! A [`Source`] is a file's text with its path; [`read`] turns it into [`Document`]s, each with a
//! [`Tree`] and the problems the reader met. Only this module speaks bytes: everything above
//! names places by pointer.

mod build;
mod fast_path;
mod granit;
mod line;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::tree::node::Node;
use crate::tree::{Span, Tree};

pub use build::MAX_NODES;
pub use granit::{parse_chunk, split_documents};
pub use line::{LineIndex, Position};

/// The most bytes a file may have: 256 MiB.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// How a file's bytes became text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    Utf8,
    /// UTF-16 by its byte order mark.
    Utf16,
}

/// What a kustomization changes of the objects that it lists: those of a kind, of a name, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchTarget {
    /// The kind; `None` for any.
    pub kind: Option<String>,
    /// The name; `None` for any.
    pub name: Option<String>,
}

/// The text of one file.
#[derive(Debug)]
pub struct Source {
    path: Arc<str>,
    /// The path that the configuration's globs see.
    scope: Arc<str>,
    text: Arc<str>,
    encoding: Encoding,
    /// Offsets of bytes that are no UTF-8; they stand as `?` in the text.
    invalid: Vec<usize>,
    kustomized: bool,
    patch_targets: Vec<PatchTarget>,
    lines: OnceLock<LineIndex>,
    chunks: OnceLock<Vec<Range<usize>>>,
}

impl Source {
    /// Reads bytes as text: UTF-8, or UTF-16 where a byte order mark says so. Bytes that are no
    /// UTF-8 are remembered, so that the documents without them can still be judged.
    #[must_use]
    pub fn new(path: &str, bytes: Vec<u8>) -> Source {
        let (text, encoding, invalid) = match bytes.as_slice() {
            [0xFF, 0xFE, rest @ ..] => (utf16(rest, u16::from_le_bytes), Encoding::Utf16, vec![]),
            [0xFE, 0xFF, rest @ ..] => (utf16(rest, u16::from_be_bytes), Encoding::Utf16, vec![]),
            _ => {
                let (text, invalid) = utf8(bytes);
                (text, Encoding::Utf8, invalid)
            }
        };
        Source {
            path: Arc::from(path),
            scope: Arc::from(path),
            text: Arc::from(text),
            encoding,
            invalid,
            kustomized: false,
            patch_targets: Vec::new(),
            lines: OnceLock::new(),
            chunks: OnceLock::new(),
        }
    }

    /// A source from text, for tests, documentation and editor buffers.
    #[must_use]
    pub fn from_text(path: &str, text: &str) -> Source {
        Source::new(path, text.as_bytes().to_vec())
    }

    /// The path as a person would type it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sets the path that the configuration's globs see: the one from the configuration's folder.
    #[must_use]
    pub fn with_scope(mut self, path: &str) -> Source {
        self.scope = Arc::from(path);
        self
    }

    /// Says that a kustomization lists the file: kustomize writes namespaces, labels and selectors
    /// into it before anybody applies it.
    #[must_use]
    pub fn with_kustomized(mut self, kustomized: bool) -> Source {
        self.kustomized = kustomized;
        self
    }

    /// Says which of the file's objects a kustomization patches.
    #[must_use]
    pub fn with_patches(mut self, targets: &[PatchTarget]) -> Source {
        self.patch_targets = targets.to_vec();
        self
    }

    /// Whether a kustomization patches the objects of a kind and name.
    pub(crate) fn is_patched(&self, kind: &str, name: &str) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        let mut targets = self.patch_targets.iter();
        targets.any(|target| fits(&target.kind, kind) && fits(&target.name, name))
    }

    /// Whether kustomize completes the file.
    #[must_use]
    pub fn is_kustomized(&self) -> bool {
        self.kustomized
    }

    /// The path that the configuration's globs see; without a configuration, as it is reported.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The text. A byte order mark of UTF-8 stays in it, so that offsets are those on disk.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn text_arc(&self) -> &Arc<str> {
        &self.text
    }

    /// Lines and columns.
    #[must_use]
    pub fn lines(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(&self.text))
    }

    /// Whether the text is, byte for byte, what stands on disk.
    #[must_use]
    pub fn is_utf8(&self) -> bool {
        self.encoding == Encoding::Utf8 && self.invalid.is_empty()
    }

    /// The part of the text, as [`cut`] cuts it, that holds a byte.
    pub(crate) fn chunk_of(&self, at: u32) -> Range<usize> {
        let parts = self.chunks.get_or_init(|| split_documents(&self.text));
        let after = parts.partition_point(|part| part.start <= at as usize);
        parts.get(after.saturating_sub(1)).cloned().unwrap_or(0..self.text.len())
    }

    /// The offset on disk of a byte of the text: the same but for UTF-16.
    #[must_use]
    pub fn disk_offset(&self, at: u32) -> u64 {
        match self.encoding {
            Encoding::Utf8 => u64::from(at),
            Encoding::Utf16 => {
                let units: usize = self.text[..at as usize].chars().map(char::len_utf16).sum();
                2 + 2 * units as u64
            }
        }
    }

    pub(crate) fn invalid_byte_in(&self, part: &Range<usize>) -> Option<usize> {
        self.invalid.iter().copied().find(|at| part.contains(at))
    }
}

fn utf8(bytes: Vec<u8>) -> (String, Vec<usize>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, Vec::new()),
        Err(error) => {
            let mut bytes = error.into_bytes();
            let mut invalid = Vec::new();
            let mut from = 0;
            while let Err(e) = std::str::from_utf8(&bytes[from..]) {
                let at = from + e.valid_up_to();
                let width = e.error_len().unwrap_or(bytes.len() - at).max(1);
                invalid.push(at);
                bytes[at..at + width].fill(b'?');
                from = at + width;
            }
            (String::from_utf8(bytes).expect("every invalid byte was replaced"), invalid)
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|c| unit([c[0], c[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// What the reader found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseDiagnosticKind {
    /// The document does not parse, or holds what has no JSON form.
    Syntax,
    /// A key is written twice in one mapping; the later value counts.
    DuplicateKey,
    /// Nesting, aliases or size past a limit.
    Limit,
    /// Text after `...`, which Kubernetes' readers drop.
    TextAfterEnd,
}

/// Something the reader has to say about a document.
#[derive(Clone, Debug)]
pub struct ParseDiagnostic {
    /// What kind.
    pub kind: ParseDiagnosticKind,
    /// Where.
    pub span: Span,
    /// One lower-case sentence without a full stop.
    pub message: String,
    /// A second place: the first of two equal keys, the anchor of a cycle.
    pub other: Option<Span>,
}

/// One YAML document of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Counts the documents of the file that hold something, from 0.
    pub number: u32,
    /// From its first byte to its last.
    pub span: Span,
    /// Absent where the document is broken.
    pub tree: Option<Arc<Tree>>,
    /// What the reader met, in the order of the text.
    pub diagnostics: Vec<ParseDiagnostic>,
    /// Comments that speak to gpulint, `#` included.
    pub comments: Vec<Span>,
}

impl Document {
    /// The root node, object or not; `None` where the document is broken.
    #[must_use]
    pub fn root(&self) -> Option<Node<'_>> {
        self.tree.as_deref().map(|tree| Node::new(tree, 0))
    }

    fn broken(span: Span, problem: ParseDiagnostic) -> Document {
        Document { number: 0, span, tree: None, diagnostics: vec![problem], comments: Vec::new() }
    }
}

/// Reads all documents of a source, one after the other.
#[must_use]
pub fn read(source: &Source) -> Vec<Document> {
    assign_numbers(split_documents(source.text()).into_iter().map(|part| parse_chunk(source, part)))
}

/// Numbers the documents of a file, given part by part in their order.
pub fn assign_numbers(parts: impl Iterator<Item = Vec<Document>>) -> Vec<Document> {
    let mut documents: Vec<Document> = parts.flatten().collect();
    for (number, document) in documents.iter_mut().enumerate() {
        document.number = u32::try_from(number).unwrap_or(u32::MAX);
    }
    documents
}
