//! Parses documents with granit-parser, which covers all of YAML. Documents in the common subset are parsed
//! by `fast_path` instead, with the same result.
//!
//! The text is split at `---` lines first, as kubectl does, so that a syntax error in one document does not
//! hide the next. Problems are returned as [`ParseDiagnostic`]s; the engine turns them into findings.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle};
use memchr::memmem::Finder;

use super::build::{TreeBuilder, error_span};
use super::go_yaml::{GoYamlCopy, alias_keys};
use super::syntax_error::{explain, merge_conflict};
use super::{Document, ParseDiagnostic, ParseDiagnosticKind, Source};
use crate::source::fast_path::{parse_outline, parse_simple};
use crate::tree::Span;
use crate::tree::node::Node;

/// Splits text into chunks that are parsed independently: before each line that is `---`, or starts with
/// `---` and a blank. Text with a directive line (`%`) is one chunk.
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

/// Parses a chunk of a file of manifests like [`parse_chunk`], but keeps only an outline of a
/// CustomResourceDefinition.
pub fn parse_manifest(source: &Source, part: Range<usize>) -> Vec<Document> {
    static DEFINITION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(DEFINITION_LINE));
    let mentions_kind = DEFINITION.find(&source.text().as_bytes()[part.clone()]).is_some();
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

const DEFINITION_LINE: &[u8] = b"\nkind: CustomResourceDefinition";

/// Parses a chunk with granit-parser.
pub(super) fn parse_full(source: &Source, part: Range<usize>) -> Vec<Document> {
    let mut parser = ChunkParser::new(source, part.clone(), None);
    let documents = parser.read();
    if !parser.needs_copy {
        return documents;
    }
    let Some(copy) = GoYamlCopy::new(&source.text()[part.clone()]) else {
        return documents;
    };
    let mut parser = ChunkParser::new(source, part, Some(&copy));
    let mended = parser.read();
    // Blanks elsewhere may be significant.
    if parser.failed || parser.insertions == copy.insertions() { mended } else { documents }
}

fn chunk_span(part: &Range<usize>) -> Span {
    Span::new(part.start as u32, part.end as u32)
}

struct ChunkParser<'s> {
    source: &'s Source,
    chunk: Range<usize>,
    /// The text that is parsed in place of the chunk's text.
    copy: Option<&'s GoYamlCopy>,
    documents: Vec<Document>,
    /// The document that is being built.
    build: Option<TreeBuilder>,
    /// The comments since the last document.
    comments: Vec<Span>,
    /// The end of the last document in the file.
    ended_at: u32,
    after_end: bool,
    /// Whether everything but comments is skipped up to the end of the chunk, as in Kubernetes after `...`.
    skipping: bool,
    /// The text has what the parser of Kubernetes may accept: a line of a quoted scalar that is not indented deeper than its
    /// block, or an alias whose name ends with a colon.
    needs_copy: bool,
    /// The parser stopped at an error.
    failed: bool,
    /// Number of insertions of the copy inside quoted scalars and after aliases.
    insertions: usize,
}

impl<'s> ChunkParser<'s> {
    fn new(source: &'s Source, chunk: Range<usize>, copy: Option<&'s GoYamlCopy>) -> Self {
        ChunkParser {
            source,
            ended_at: chunk.start as u32,
            chunk,
            copy,
            documents: Vec::new(),
            build: None,
            comments: Vec::new(),
            after_end: false,
            skipping: false,
            needs_copy: false,
            failed: false,
            insertions: 0,
        }
    }

    fn read(&mut self) -> Vec<Document> {
        let source = self.source;
        let text = self.copy.map_or(&source.text()[self.chunk.clone()], GoYamlCopy::text);
        let mut options = Options::default();
        options.emit_comments = true;
        options.emit_unresolved_aliases = true;
        // The parser buffers comments until the next value; the text is in memory, so there is no need to
        // limit them.
        options.max_buffered_comment_events = 1 << 20;
        let has_directives = text.lines().any(|l| l.starts_with('%'));
        let mut parser = Parser::new_from_str_with_options(text, options);
        while let Some(event) = parser.next_event() {
            match event {
                Ok((event, span)) => self.event(&event, span.byte_range().unwrap_or(0..0)),
                Err(error) => {
                    self.needs_copy |= alias_keys(text.as_bytes()).next().is_some();
                    let at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
                    self.error(error.kind(), &error.info(), self.offset(at));
                    if !matches!(parser.proceed_next_document(), Ok(true)) {
                        break;
                    }
                    // Kubernetes ignores everything after `...`.
                    self.skipping = !has_directives;
                }
            }
        }
        if let Some(last) = self.documents.last_mut() {
            last.comments.append(&mut self.comments);
        }
        std::mem::take(&mut self.documents)
    }

    /// Converts an offset in the parsed text to one in the file.
    fn offset(&self, at: usize) -> u32 {
        (self.chunk.start + self.copy.map_or(at, |copy| copy.original_offset(at))) as u32
    }

    /// Ends the document at a syntax error, which is at `at` in the file.
    fn error(&mut self, kind: &ErrorKind, info: &str, at: u32) {
        self.failed = true;
        self.needs_copy |= matches!(kind, ErrorKind::InvalidQuotedScalarIndent | ErrorKind::TabInIndentation);
        let build = self.build.take();
        if self.skipping {
            return;
        }
        let text = self.source.text();
        let start = build.map_or(self.ended_at, |build| build.start);
        let conflict = merge_conflict(text, start as usize..self.chunk.end);
        let at = conflict.map_or(at, |line| line as u32);
        let (kind, message, help) = if conflict.is_some() {
            let help = "keep one side, and remove the lines of `<<<<<<<`, `=======` and `>>>>>>>`";
            (ParseDiagnosticKind::Syntax, "a merge conflict is not resolved".to_owned(), Some(help))
        } else if matches!(kind, ErrorKind::RecursionLimitExceeded) {
            (ParseDiagnosticKind::Limit, "nesting is deeper than 255 levels".to_owned(), None)
        } else {
            let (known, help) = explain(kind, text, at as usize).unzip();
            (ParseDiagnosticKind::Syntax, known.unwrap_or_else(|| describe(info)), help)
        };
        let mut document = Document::broken(
            Span::new(start, self.chunk.end as u32),
            ParseDiagnostic { kind, span: error_span(text, at), message, help, other: None, key_path: None },
        );
        document.comments.append(&mut self.comments);
        self.documents.push(document);
    }

    fn event(&mut self, event: &Event, range: Range<usize>) {
        let span = Span::new(self.offset(range.start), self.offset(range.end));
        if let (Some(copy), Event::Scalar(_, style, ..)) = (self.copy, event)
            && matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted)
        {
            self.insertions += copy.insertions_in(&range);
        }
        if let (Some(copy), Event::Alias(_)) = (self.copy, event) {
            self.insertions += copy.insertions_in(&(range.end..range.end + 1));
        }
        self.needs_copy |= matches!(event, Event::UnresolvedAlias(name) if name.ends_with(':'));
        if self.skipping && !matches!(event, Event::Comment(..)) {
            return;
        }
        match event {
            Event::DocumentStart(explicit, _) if self.after_end && !explicit => {
                self.skipping = true;
                self.report_text_after_end();
            }
            Event::DocumentStart(..) => {
                self.build = Some(TreeBuilder::new(Arc::clone(self.source.text_arc()), span.start));
            }
            Event::DocumentEnd => self.end_document(span.end),
            Event::Comment(text, _) => {
                // The parser's range is not exact for some comments, so it is checked against the text.
                if text.contains("gpulint:") {
                    self.comments.push(span);
                }
            }
            event => {
                if let Some(build) = &mut self.build {
                    build.event(event, span);
                }
            }
        }
    }

    fn end_document(&mut self, end: u32) {
        self.ended_at = end;
        self.after_end = true;
        let Some(build) = self.build.take() else { return };
        if !build.is_empty() || !build.diagnostics.is_empty() {
            let mut document = build.finish(end);
            document.comments.append(&mut self.comments);
            self.documents.push(document);
        }
    }

    /// Text after `...`: one diagnostic, on the document before it.
    fn report_text_after_end(&mut self) {
        let from = self.first_text(self.ended_at);
        if let (Some(span), Some(last)) = (from, self.documents.last_mut()) {
            last.diagnostics.push(ParseDiagnostic {
                kind: ParseDiagnosticKind::TextAfterEnd,
                span,
                message: "Kubernetes ignores text after `...`".to_owned(),
                help: None,
                other: None,
                key_path: None,
            });
        }
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
