//! Finds the key of a values file that a rendered value comes from.

use std::path::Path;
use std::sync::Arc;

use gpulint_rules::Node;
use gpulint_rules::source;
use gpulint_rules::source::{Document, Source};
use gpulint_rules::tree::Span;
use serde_json::Value;

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
}

impl ValuesFile {
    pub(super) fn read(path: &Path, sources: &Sources) -> Option<ValuesFile> {
        let source = sources.get(path)?;
        let documents = Arc::new(source::read(&source));
        Some(ValuesFile { source, documents, document: 0, base: Vec::new(), prefix: Vec::new() })
    }

    /// The values in a mapping of a document of the file.
    pub(super) fn at_mapping(self, document: usize, base: Vec<String>) -> ValuesFile {
        ValuesFile { document, base, ..self }
    }

    /// The values as a subchart reads them, which is at some keys of its parents.
    pub(super) fn of_subchart(&self, prefix: Vec<String>) -> ValuesFile {
        ValuesFile { prefix, ..self.clone() }
    }

    /// The nodes at a path of the values, where `*` matches every item.
    fn at<'n>(&'n self, path: &[String]) -> Vec<Node<'n>> {
        let Some(root) = self.documents.get(self.document).and_then(|document| document.root()) else {
            return Vec::new();
        };
        let root = self.base.iter().fold(root, |node, step| match step.parse::<usize>() {
            Ok(index) if node.is_sequence() => node.index(index),
            _ => node.get(step),
        });
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

/// The place of a rendered value in the values files, in descending order of precedence: that of the value at
/// `path`, or of a value below it at the last steps of the pointer. `None` unless there is exactly one.
pub(super) fn find(
    files: &[ValuesFile],
    path: &[String],
    steps: &[String],
    rendered: &Node<'_>,
    key: bool,
) -> Option<(Arc<Source>, Span)> {
    for from in 0..=steps.len() {
        let whole: Vec<String> = path.iter().chain(&steps[from..]).cloned().collect();
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
                return Some((Arc::clone(&file.source), span));
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
