//! Finds the key of a values file that a rendered value comes from.

use std::path::Path;
use std::sync::Arc;

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::{Document, Source};
use gpulint_rules::tree::Span;
use serde_json::Value;

use super::origin::in_block;
use super::sources::Sources;

#[derive(Clone, Debug)]
pub(super) struct ValuesFile {
    source: Arc<Source>,
    documents: Arc<Vec<Document>>,
    /// The index of the document with the values, and the steps to their mapping.
    document: usize,
    base: Vec<String>,
    /// The keys of the subcharts on the path to the values.
    prefix: Vec<String>,
    /// The values, if they are written as a text in the file.
    inner: Option<Arc<(Source, Vec<Document>)>>,
}

/// A single value of a release, which wins over those of all files.
#[derive(Clone, Debug)]
pub(super) struct SingleValue {
    path: Vec<String>,
    value: String,
    source: Arc<Source>,
    span: Span,
}

impl SingleValue {
    /// The value of a parameter, as `file` has it. `None` for the items of lists.
    pub(super) fn new(name: &str, value: &str, file: &ValuesFile) -> Option<SingleValue> {
        if name.contains(['[', '\\']) {
            return None;
        }
        let path = name.split('.').map(str::to_owned).collect();
        let span = file.base_node()?.span()?;
        Some(SingleValue { path, value: value.to_owned(), source: Arc::clone(&file.source), span })
    }

    /// The value as a subchart reads it, if it is one of it.
    pub(super) fn of_subchart(&self, prefix: &[String]) -> Option<SingleValue> {
        let is_global = self.path.first().is_some_and(|first| first == "global");
        let path = if is_global { self.path.clone() } else { self.path.strip_prefix(prefix)?.to_vec() };
        Some(SingleValue { path, ..self.clone() })
    }
}

impl ValuesFile {
    pub(super) fn read(path: &Path, sources: &Sources) -> Option<ValuesFile> {
        Some(ValuesFile::of(sources.get(path)?))
    }

    pub(super) fn of(source: Arc<Source>) -> ValuesFile {
        let documents = Arc::new(source::read(&source));
        ValuesFile { source, documents, document: 0, base: Vec::new(), prefix: Vec::new(), inner: None }
    }

    /// The values in a mapping or a text of a document of the file.
    pub(super) fn at_steps(self, document: usize, base: Vec<String>) -> ValuesFile {
        let mut file = ValuesFile { document, base, ..self };
        let text = file.base_node().and_then(|node| node.text().map(str::to_owned));
        file.inner = text.map(|text| {
            let source = Source::from_text("values", &text);
            let documents = source::read(&source);
            Arc::new((source, documents))
        });
        file
    }

    /// The reported path of the file.
    pub(super) fn path(&self) -> &str {
        self.source.path()
    }

    /// The root of the file.
    pub(super) fn root(&self) -> Option<Node<'_>> {
        self.documents.get(self.document)?.root()
    }

    /// The node that holds the values.
    fn base_node(&self) -> Option<Node<'_>> {
        let root = self.root()?;
        Some(self.base.iter().fold(root, |node, step| match step.parse::<usize>() {
            Ok(index) if node.is_sequence() => node.index(index),
            _ => node.get(step),
        }))
    }

    /// The place in the file of a place in the values: in a text, that of the line, or of the text.
    fn outer(&self, span: Span) -> Option<Span> {
        let Some(inner) = &self.inner else { return Some(span) };
        let (text, lines) = (inner.0.text(), inner.0.lines());
        let block = self.base_node()?;
        let line = lines.line_of(span.start);
        let start = lines.start_of(line, text);
        let written = text.get(start as usize..)?.lines().next()?;
        let columns = (span.start - start, span.end - start);
        in_block(&self.source, &block, line, written, columns).or_else(|| block.span())
    }

    /// The values as a subchart reads them, which is at some keys of its parents.
    pub(super) fn of_subchart(&self, prefix: Vec<String>) -> ValuesFile {
        ValuesFile { prefix, ..self.clone() }
    }

    /// The nodes at a path of the values, where `*` matches every item.
    fn at<'n>(&'n self, path: &[String]) -> Vec<Node<'n>> {
        let root = match &self.inner {
            Some(inner) => inner.1.first().and_then(Document::root),
            None => self.base_node(),
        };
        let Some(root) = root else { return Vec::new() };
        let is_global = path.first().is_some_and(|first| first == "global");
        let prefix: &[String] = if is_global { &[] } else { &self.prefix };
        let mut nodes = vec![root];
        for step in prefix.iter().chain(path) {
            let mut next = Vec::new();
            for node in nodes {
                match step.as_str() {
                    "*" if node.is_sequence() => next.extend(node.items()),
                    "*" => next.extend(node.entries().into_iter().map(|(_, value)| value)),
                    _ => next.push(node.get(step)),
                }
            }
            nodes = next.into_iter().filter(|node| !node.is_absent()).collect();
        }
        nodes
    }
}

/// The value at a path that the first of some files gives, in descending order of precedence.
pub(super) fn given<'f>(files: &'f [ValuesFile], path: &[String]) -> Option<Node<'f>> {
    files.iter().find_map(|file| file.at(path).into_iter().next())
}

/// The place of a rendered value in the single values and the values files, in descending order of precedence: that of the value
/// at `path`, or of a value below it at the last steps of the pointer. `None` unless there is exactly one.
pub(super) fn find(
    singles: &[SingleValue],
    files: &[ValuesFile],
    path: &[String],
    steps: &[String],
    rendered: &Node<'_>,
    key: bool,
) -> Option<(Arc<Source>, Span)> {
    for from in 0..=steps.len() {
        let whole: Vec<String> = path.iter().chain(&steps[from..]).cloned().collect();
        if let Some(single) = singles.iter().rev().find(|single| single.path == whole) {
            let value = Value::String(single.value.clone());
            let is_it = is_equal(&value, &rendered.to_json());
            return is_it.then(|| (Arc::clone(&single.source), single.span));
        }
        for file in files {
            let nodes = file.at(&whole);
            if nodes.is_empty() {
                continue;
            }
            let value = rendered.to_json();
            let mut equal = nodes.iter().filter(|node| is_equal(&node.to_json(), &value));
            if let (Some(only), None) = (equal.next(), equal.next()) {
                let is_collection = only.is_mapping() || only.is_sequence();
                let span = if key || is_collection && !only.is_flow() { only.key_span() } else { None };
                let span = span.or_else(|| only.span()).or_else(|| only.key_span())?;
                return Some((Arc::clone(&file.source), file.outer(span)?));
            }
            // This file overrides the remaining ones.
            break;
        }
    }
    None
}

/// Whether a value is rendered as another one. Scalars are compared as text, because templates add and remove
/// quotes.
fn is_equal(value: &Value, rendered: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(bool) => Some(bool.to_string()),
        _ => None,
    };
    value == rendered || text(value).is_some_and(|a| text(rendered) == Some(a))
}
