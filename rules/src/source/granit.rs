//! Parses documents with granit-parser, which covers all of YAML. Documents in the common subset are parsed
//! by `fast_path` instead, with the same result.
//!
//! The text is split at `---` lines first, as kubectl does, so that a syntax error in one document does not
//! hide the next. Problems are returned as [`ParseDiagnostic`]s; the engine turns them into findings.

use std::ops::Range;
use std::sync::Arc;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle};

use super::build::{TreeBuilder, error_span};
use super::reindent::Reindented;
use super::syntax_error::explain;
use super::{Document, ParseDiagnostic, ParseDiagnosticKind, Source};
use crate::source::fast_path::{parse_outline, parse_simple};
use crate::tree::Span;
use crate::tree::node::Node;

/// Splits text into chunks that are parsed independently: before each line that is `---`, or starts with
/// `---` and a blank. Text with a directive line (`%`) is one chunk.
#[must_use]
pub fn split_documents(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    if bytes.starts_with(b"%") || memchr::memmem::find(bytes, b"\n%").is_some() {
        return std::iter::once(0..text.len()).collect();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for line in memchr::memmem::find_iter(bytes, b"\n---").map(|line_break| line_break + 1) {
        if is_separator(&bytes[line..]) {
            parts.push(start..line);
            start = line;
        }
    }
    if start < bytes.len() {
        parts.push(start..bytes.len());
    }
    parts
}

fn is_separator(line: &[u8]) -> bool {
    line.starts_with(b"---") && matches!(line.get(3), None | Some(b' ' | b'\t' | b'\r' | b'\n'))
}

/// Parses a chunk of `source`. The caller numbers the documents ([`super::assign_numbers`]).
#[must_use]
pub fn parse_chunk(source: &Source, part: Range<usize>) -> Vec<Document> {
    if let Some(bad) = source.invalid_byte_in(&part) {
        let at = bad as u32;
        return vec![Document::broken(
            chunk_span(&part),
            ParseDiagnostic {
                kind: ParseDiagnosticKind::Syntax,
                span: Span::new(at, at + 1),
                message: format!("invalid UTF-8 at byte offset {bad}"),
                help: None,
                other: None,
                key_path: None,
            },
        )];
    }
    parse_simple(source, &part).unwrap_or_else(|| parse_full(source, part))
}

/// Parses a chunk of a file of manifests: as [`parse_chunk`] does, but of a CustomResourceDefinition nothing is kept but
/// what tells that it is one.
#[must_use]
pub fn parse_manifest(source: &Source, part: Range<usize>) -> Vec<Document> {
    let mentions_kind =
        memchr::memmem::find(source.text()[part.clone()].as_bytes(), DEFINITION_LINE).is_some();
    let is_text = source.invalid_byte_in(&part).is_none();
    if mentions_kind
        && is_text
        && let Some(documents) = parse_outline(source, &part)
    {
        let is_definition = |root: Node<'_>| {
            let version = root.get("apiVersion").text();
            let is_crd = root.get("kind").text() == Some("CustomResourceDefinition");
            is_crd && version.is_some_and(|version| version.starts_with("apiextensions.k8s.io/"))
        };
        if documents.iter().all(|document| document.root().is_some_and(is_definition)) {
            return documents;
        }
    }
    parse_chunk(source, part)
}

/// The line with the kind of a CustomResourceDefinition.
const DEFINITION_LINE: &[u8] = b"\nkind: CustomResourceDefinition";

/// Parses a chunk with granit-parser.
pub(super) fn parse_full(source: &Source, part: Range<usize>) -> Vec<Document> {
    let mut parser = ChunkParser::new(source, part.clone(), None);
    let documents = parser.read();
    if !parser.is_underindented {
        return documents;
    }
    let Some(copy) = Reindented::new(&source.text()[part.clone()]) else {
        return documents;
    };
    let mut parser = ChunkParser::new(source, part, Some(&copy));
    let mended = parser.read();
    // Blanks outside of quoted scalars could mean something.
    if parser.failed || parser.insertions == copy.insertions() { mended } else { documents }
}

fn chunk_span(part: &Range<usize>) -> Span {
    Span::new(part.start as u32, part.end as u32)
}

struct ChunkParser<'s> {
    source: &'s Source,
    chunk: Range<usize>,
    /// What is parsed in place of the chunk's text.
    copy: Option<&'s Reindented>,
    documents: Vec<Document>,
    /// The parser stopped at a line of a quoted scalar that is not indented deeper than its block.
    is_underindented: bool,
    /// The parser stopped at all.
    failed: bool,
    /// How many insertions of the copy are inside of quoted scalars.
    insertions: usize,
}

impl<'s> ChunkParser<'s> {
    fn new(source: &'s Source, chunk: Range<usize>, copy: Option<&'s Reindented>) -> Self {
        ChunkParser {
            source,
            chunk,
            copy,
            documents: Vec::new(),
            is_underindented: false,
            failed: false,
            insertions: 0,
        }
    }

    fn read(&mut self) -> Vec<Document> {
        let base = self.chunk.start;
        let source = self.source;
        let copy = self.copy;
        let text = copy.map_or(&source.text()[self.chunk.clone()], Reindented::text);
        let offset = |at: usize| (base + copy.map_or(at, |copy| copy.original_offset(at))) as u32;
        let mut options = Options::default();
        options.emit_comments = true;
        options.emit_unresolved_aliases = true;
        // The parser buffers comments until the next value; the text is in memory, so there is no need to
        // limit them.
        options.max_buffered_comment_events = 1 << 20;
        let directives = text.lines().any(|l| l.starts_with('%'));
        let mut parser = Parser::new_from_str_with_options(text, options);
        let mut build: Option<TreeBuilder> = None;
        let mut comments: Vec<Span> = Vec::new();
        let mut after_end = false;
        let mut skipping = false;
        let mut ended_at = base as u32;
        while let Some(event) = parser.next_event() {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => {
                    let at = offset(error.marker().byte_offset().unwrap_or(text.len()).min(text.len()));
                    self.failed = true;
                    self.is_underindented |= matches!(
                        error.kind(),
                        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation
                    );
                    if !skipping {
                        let known = explain(error.kind(), source.text(), at as usize);
                        let (known, help) =
                            known.map_or((None, None), |(text, help)| (Some(text), Some(help)));
                        let limit = matches!(error.kind(), ErrorKind::RecursionLimitExceeded);
                        let start = build.as_ref().map_or(ended_at, |b| b.start);
                        let mut document = Document::broken(
                            Span::new(start, self.chunk.end as u32),
                            ParseDiagnostic {
                                kind: if limit {
                                    ParseDiagnosticKind::Limit
                                } else {
                                    ParseDiagnosticKind::Syntax
                                },
                                span: error_span(source.text(), at),
                                message: if limit {
                                    "nesting is deeper than 255 levels".to_owned()
                                } else {
                                    known.unwrap_or_else(|| describe(&error.info()))
                                },
                                help: help.filter(|_| !limit),
                                other: None,
                                key_path: None,
                            },
                        );
                        document.comments.append(&mut comments);
                        self.documents.push(document);
                    }
                    build = None;
                    match parser.proceed_next_document() {
                        Ok(true) => {
                            // Kubernetes ignores everything after `...`.
                            skipping = !directives;
                            continue;
                        }
                        _ => break,
                    }
                }
            };
            let range = span.byte_range().unwrap_or(0..0);
            let span = Span::new(offset(range.start), offset(range.end));
            if let (Some(copy), Event::Scalar(_, style, ..)) = (copy, &event)
                && matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted)
            {
                self.insertions += copy.insertions_in(&range);
            }
            if skipping && !matches!(event, Event::Comment(..)) {
                continue;
            }
            match event {
                Event::DocumentStart(explicit, _) => {
                    if after_end && !explicit {
                        // Text after `...`: one diagnostic, on the document before it.
                        skipping = true;
                        let from = self.first_text(ended_at);
                        if let (Some(from), Some(last)) = (from, self.documents.last_mut()) {
                            last.diagnostics.push(ParseDiagnostic {
                                kind: ParseDiagnosticKind::TextAfterEnd,
                                span: from,
                                message: "Kubernetes ignores text after `...`".to_owned(),
                                help: None,
                                other: None,
                                key_path: None,
                            });
                        }
                        continue;
                    }
                    build = Some(TreeBuilder::new(Arc::clone(source.text_arc()), span.start));
                }
                Event::DocumentEnd => {
                    ended_at = span.end;
                    if let Some(build) = build.take() {
                        let empty = build.is_empty();
                        if !empty || !build.diagnostics.is_empty() {
                            let mut document = build.finish(span.end);
                            document.comments.append(&mut comments);
                            self.documents.push(document);
                        }
                    }
                    after_end = true;
                }
                Event::Comment(text, _) => {
                    // The parser's range is not exact for some comments, so it is checked against the text.
                    if text.contains("gpulint:") {
                        comments.push(span);
                    }
                }
                event => {
                    if let Some(build) = &mut build {
                        build.event(&event, span);
                    }
                }
            }
        }
        if let Some(last) = self.documents.last_mut() {
            last.comments.append(&mut comments);
        }
        std::mem::take(&mut self.documents)
    }

    /// The first line after `from` that has more than a comment or a separator.
    fn first_text(&self, from: u32) -> Option<Span> {
        let end = self.chunk.end;
        let mut at = from as usize;
        for line in self.source.text()[at..end].split_inclusive('\n') {
            let trimmed = line.trim();
            let content = !trimmed.is_empty()
                && !trimmed.starts_with('#')
                && !trimmed.starts_with("...")
                && !trimmed.starts_with("---");
            if content {
                let lead = line.len() - line.trim_start().len();
                let start = at + lead;
                return Some(Span::new(start as u32, (start + trimmed.len()) as u32));
            }
            at += line.len();
        }
        None
    }
}

fn describe(info: &str) -> String {
    let mut text: String = info.trim().trim_end_matches('.').to_owned();
    if let Some(first) = text.get(..1) {
        let lower = first.to_ascii_lowercase();
        text.replace_range(..1, &lower);
    }
    if text.len() > 100 {
        text.truncate(text.char_indices().take_while(|(i, _)| *i < 100).count());
    }
    text
}
