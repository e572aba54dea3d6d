//! Releases of charts that are in the checkout: Applications of Argo CD, those that ApplicationSets generate, and
//! HelmReleases of Flux, each with the values that it gives the chart.

use std::path::{Path, PathBuf};

use gpulint_rules::source::{Source, read};
use gpulint_rules::{Node, Object};
use serde_json::Value;

/// A chart of the checkout as an object of Argo CD or Flux installs it.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    /// The index of the file that contains the object.
    pub(crate) file: usize,
    /// The folder of the chart.
    pub(crate) chart: PathBuf,
    /// The kind and the name of the object: ``Application `web` ``.
    pub(crate) object: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    /// Later values win.
    pub(crate) values: Vec<ReleaseValues>,
    /// Single values, which win over all others.
    pub(crate) parameters: Vec<ReleaseParameter>,
    /// Why the values are not known, as far as the input shows.
    pub(crate) unknown: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum ReleaseValues {
    File(PathBuf),
    /// The values, and the place of the mapping in the file of the object: the index of the document, and the steps to it.
    /// `None` if they are written as text, or generated.
    Inline(Value, Option<(usize, Vec<String>)>),
}

/// A value that `--set` sets, or `--set-string` if it is a string.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseParameter {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) is_string: bool,
}

impl Release {
    /// A release without values.
    pub(super) fn new(
        file: usize,
        chart: &Path,
        object: String,
        name: String,
        namespace: Option<String>,
    ) -> Release {
        Release {
            file,
            chart: chart.to_owned(),
            object,
            name,
            namespace,
            values: Vec::new(),
            parameters: Vec::new(),
            unknown: None,
        }
    }

    /// Adds a values file of the checkout. One that is not there makes the values unknown unless it is `optional`.
    pub(super) fn add_file(&mut self, path: Option<PathBuf>, written: &str, optional: bool) {
        match path.filter(|path| crate::files::is_file(path)) {
            Some(path) => self.values.push(ReleaseValues::File(path)),
            None if optional => {}
            None => self.is_unknown(format!("there is no `{written}`")),
        }
    }

    /// Adds values that are written as text.
    pub(super) fn add_text(&mut self, text: &str) {
        let documents = read(&Source::from_text("values.yaml", text));
        match documents.first().and_then(|document| document.root()).map(|root| root.to_json()) {
            Some(values) if values.is_object() => self.values.push(ReleaseValues::Inline(values, None)),
            Some(Value::Null) => {}
            None if text.trim().is_empty() => {}
            _ => self.is_unknown("its `values` are no mapping".to_owned()),
        }
    }

    /// Adds values that are written as a mapping.
    pub(super) fn add_mapping(&mut self, node: &Node<'_>, object: &Object) {
        let place = object.origin().map(|origin| (origin.document as usize, node.pointer().steps().to_vec()));
        self.values.push(ReleaseValues::Inline(node.to_json(), place));
    }

    /// Adds values that are generated, so that they have no place.
    pub(super) fn add_generated(&mut self, values: Value) {
        self.values.push(ReleaseValues::Inline(values, None));
    }

    /// Records the first reason why the values are not known.
    pub(super) fn is_unknown(&mut self, reason: String) {
        self.unknown.get_or_insert(reason);
    }
}
