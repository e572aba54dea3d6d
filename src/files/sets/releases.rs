//! Releases of charts that are in the checkout: Applications of Argo CD, those that ApplicationSets generate, and
//! HelmReleases of Flux, each with the values that it gives the chart.

use std::path::{Path, PathBuf};

use gpulint_rules::source::{Source, read};
use gpulint_rules::{Membership, Node, Object};
use serde_json::Value;

use super::transform::Transform;
use crate::files::without_link;

/// A chart of the checkout as an object of Argo CD or Flux installs it.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    /// The index of the file that contains the object, and its path.
    pub(crate) file: usize,
    pub(crate) path: PathBuf,
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
    /// The cluster that it is for, unless it is the one that the tool runs in.
    pub(crate) cluster: Option<String>,
    /// Whether the values replace those that the chart has itself.
    pub(crate) replaces_values: bool,
    /// Whether the values are not checked against the chart's schema.
    pub(crate) skips_schema: bool,
    /// The version of Kubernetes that the chart is rendered for.
    pub(crate) kubernetes: Option<String>,
    /// The changes to what the chart gives, before it is applied.
    pub(super) changes: Box<Transform>,
    /// Why the values are not known, as far as the input shows.
    pub(crate) unknown: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum ReleaseValues {
    File(PathBuf),
    /// The values, and where they are written as a mapping or as text; `None` if they are generated.
    Inline(Value, Option<ValuesPlace>),
}

/// Where values are written: the object and its file, and the steps to them.
#[derive(Clone, Debug)]
pub(crate) struct ValuesPlace {
    pub(crate) path: PathBuf,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) document: usize,
    pub(crate) steps: Vec<String>,
}

impl ValuesPlace {
    pub(super) fn new(path: &Path, object: &Object, node: &Node<'_>) -> ValuesPlace {
        ValuesPlace {
            path: path.to_owned(),
            kind: object.id().kind.clone(),
            name: object.name().to_owned(),
            document: object.origin().map_or(0, |origin| origin.document as usize),
            steps: node.pointer().steps().to_vec(),
        }
    }
}

/// A value that `--set` sets, or `--set-string` if it is a string.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseParameter {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) is_string: bool,
    /// Where the value is written; `None` if it is generated.
    pub(crate) place: Option<ValuesPlace>,
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
            path: PathBuf::new(),
            chart: chart.to_owned(),
            object,
            name,
            namespace,
            values: Vec::new(),
            parameters: Vec::new(),
            cluster: None,
            replaces_values: false,
            skips_schema: false,
            kubernetes: None,
            changes: Box::default(),
            unknown: None,
        }
    }

    /// The membership of its objects in a set.
    pub(crate) fn membership(&self, set: usize) -> Membership {
        self.changes.membership(set)
    }

    /// Adds a values file of the checkout. One that is not there makes the values unknown unless it is `optional`.
    pub(super) fn add_file(&mut self, path: Option<PathBuf>, written: &str, optional: bool) {
        match path.filter(|path| crate::files::is_file(path)) {
            Some(path) => self.values.push(ReleaseValues::File(without_link(path))),
            None if optional => {}
            None => self.is_unknown(format!("there is no `{written}`")),
        }
    }

    /// Adds values that are written as text.
    pub(super) fn add_text(&mut self, text: &str, place: Option<ValuesPlace>) {
        let documents = read(&Source::from_text("values.yaml", text));
        match documents.first().and_then(|document| document.root()).map(|root| root.to_json()) {
            Some(values) if values.is_object() => self.values.push(ReleaseValues::Inline(values, place)),
            Some(Value::Null) => {}
            None if text.trim().is_empty() => {}
            _ => self.is_unknown("its `values` are no mapping".to_owned()),
        }
    }

    /// Adds values that are written as a mapping.
    pub(super) fn add_mapping(&mut self, node: &Node<'_>, place: Option<ValuesPlace>) {
        self.values.push(ReleaseValues::Inline(node.to_json(), place));
    }

    /// Whether another release renders the chart with the values of this one.
    pub(super) fn is_same(&self, other: &Release) -> bool {
        let key = |one: &Release| {
            let own = (one.chart.clone(), one.object.clone(), one.name.clone(), one.namespace.clone());
            let parameters = one.parameters.iter().map(|one| (one.name.clone(), one.value.clone()));
            let values = one.values.iter().map(|values| match values {
                ReleaseValues::File(path) => path.display().to_string(),
                ReleaseValues::Inline(values, _) => values.to_string(),
            });
            (own, parameters.collect::<Vec<_>>(), values.collect::<Vec<_>>(), one.unknown.clone())
        };
        key(self) == key(other) && self.changes == other.changes
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
