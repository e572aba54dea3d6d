//! The charts that an object installs, and the values for them, in each form in which a HelmRelease or an Application has them.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::facts::quantity::Quantity;
use crate::facts::text::contains;
use crate::kind::Kind;
use crate::object::Object;
use crate::source::with_embedded;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::command::base_name;
use crate::workload::gpu::is_accelerator;

/// The kinds that install charts, whose objects are only in the input if they are rendered.
pub(crate) const CHART_KINDS: [Kind; 2] = [Kind::HELM_RELEASE, Kind::ARGO_APPLICATION];

struct Installation<'a> {
    values: Values<'a>,
    may_differ: bool,
}

enum Values<'a> {
    Fields(Node<'a>),
    /// One field with the text of all values.
    Text(Node<'a>),
    /// Parameters, with the text of values that say as much.
    Parameters(Node<'a>, String),
}

/// The specification of what installs or applies something: that of the Applications that an ApplicationSet makes.
pub(crate) fn spec_of(object: &Object) -> Node<'_> {
    let spec = object.get("spec");
    if object.is(Kind::ARGO_APPLICATION_SET) { spec.path(&["template", "spec"]) } else { spec }
}

/// The sources of an Application, from its `spec`.
pub(crate) fn sources<'a>(spec: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    std::iter::once(spec.get("source")).chain(spec.get("sources").items())
}

/// The sources of an Application, or of those that an ApplicationSet makes.
pub fn application_sources(object: &Object) -> impl Iterator<Item = Node<'_>> {
    sources(&spec_of(object))
}

/// What names the charts of a HelmRelease or an Application, from its `spec`.
pub(crate) fn chart_sources<'a>(spec: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    std::iter::once(spec.path(&["chart", "spec"])).chain(sources(spec))
}

/// The name of the chart that a source names. A registry of images has it at the end of its address: of an OCIRepository (`url`), or
/// of a source of Argo CD without `chart` (3.1).
pub(crate) fn name_of<'a>(source: &Node<'a>) -> Option<&'a str> {
    let field = source.get("chart");
    if field.is_set() {
        return field.text();
    }
    let mut urls = ["url", "repoURL"].into_iter().filter_map(|field| source.get(field).text());
    let url = urls.find(|url| url.starts_with("oci://"))?;
    Some(base_name(url.trim_end_matches('/')))
}

pub(crate) fn names(source: &Node<'_>, chart: &str) -> bool {
    name_of(source) == Some(chart)
}

/// A place in an object: a field, or some bytes of the text in it.
#[derive(Clone, Debug)]
pub(crate) struct ValuePlace<'a> {
    pub(crate) node: Node<'a>,
    /// Whether the place is within the text of the field, where fixes cannot edit it.
    pub(crate) is_in_text: bool,
    pub(crate) part: Option<Range<usize>>,
}

impl<'a> ValuePlace<'a> {
    pub(crate) fn of(node: Node<'a>) -> ValuePlace<'a> {
        ValuePlace { node, is_in_text: false, part: None }
    }
}

/// The values of one installation.
pub(crate) struct ChartValues<'v, 'a> {
    pub(crate) root: &'v Node<'v>,
    /// The field that has them as a text.
    pub(crate) text: Option<Node<'a>>,
    /// Whether values are also set elsewhere, before or after these.
    pub(crate) may_differ: bool,
}

impl<'a> ChartValues<'_, 'a> {
    /// The place of one of the values in the object that has them. In a text, a value that is not set is at the nearest key above.
    pub(crate) fn place(&self, value: &Node<'_>, object: &'a Object) -> ValuePlace<'a> {
        let pointer = value.pointer();
        let Some(field) = &self.text else { return ValuePlace::of(object.root().at(&pointer)) };
        let mut above = (1..=pointer.steps().len()).map(|steps| self.root.at(&pointer.above(steps)));
        let span = value.span().or_else(|| above.find_map(|node| node.key_span()));
        let part = span.map(|span| span.start as usize..span.end as usize);
        ValuePlace { node: field.clone(), is_in_text: true, part }
    }
}

/// Calls a function with the values of each installation of a chart by an object.
pub(crate) fn for_each_values<'a>(object: &'a Object, chart: &str, read: impl FnMut(&ChartValues<'_, 'a>)) {
    read_each(installations(object, Some(chart)), read);
}

/// Calls a function with the values of each installation of any chart by an object. Values that are a text without the word are
/// left out, because most are not worth parsing.
pub(crate) fn for_each_values_with<'a>(
    object: &'a Object,
    word: &str,
    read: impl FnMut(&ChartValues<'_, 'a>),
) {
    let mut all = installations(object, None);
    all.retain(|one| match &one.values {
        Values::Fields(_) => true,
        Values::Text(field) => field.raw_text().is_some_and(|text| contains(text, word)),
        Values::Parameters(_, text) => contains(text, word),
    });
    read_each(all, read);
}

/// What a chart reads for a value that has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    Default,
    /// A `null` removes the default.
    Removed,
    /// The value is written, or not known.
    Written,
}

/// What a chart reads for a value with a default, as Helm merges them (`coalesceTablesFullKey` of `pkg/chart/v2/util`, `coalesceTables` before Helm
/// 4): mappings are merged key by key, so that `{}` changes nothing. Lists and scalars replace the default.
pub(crate) fn merged(values: &Node<'_>, path: &[&str]) -> Merged {
    let mut node = values.clone();
    for key in path {
        if node.is_unknown() || node.has_unknown_key() || node.is_set() && !node.is_mapping() {
            return Merged::Written;
        }
        node = node.get(key);
        if node.is_null() {
            return Merged::Removed;
        }
    }
    match node.is_absent() || node.is_mapping() && node.entries().is_empty() {
        true => Merged::Default,
        false => Merged::Written,
    }
}

/// The first answer of a function about the values of each installation of a chart by an object.
pub(crate) fn find_in_values<'a, T>(
    object: &'a Object,
    chart: &str,
    mut read: impl FnMut(&ChartValues<'_, 'a>) -> Option<T>,
) -> Option<T> {
    let mut found = None;
    for_each_values(object, chart, |values| {
        if found.is_none() {
            found = read(values);
        }
    });
    found
}

fn read_each<'a>(all: Vec<Installation<'a>>, mut read: impl FnMut(&ChartValues<'_, 'a>)) {
    for Installation { values, may_differ } in all {
        let (field, text) = match &values {
            Values::Fields(root) => {
                read(&ChartValues { root, text: None, may_differ });
                continue;
            }
            Values::Text(field) => (field, field.text().unwrap_or_default()),
            Values::Parameters(list, text) => (list, text.as_str()),
        };
        with_embedded(text, |root| {
            read(&ChartValues { root, text: Some(field.clone()), may_differ });
            Some(())
        });
    }
}

/// The values that are fields of an object, where nothing else sets some.
pub(crate) fn value_fields<'a>(object: &'a Object, chart: &str) -> impl Iterator<Item = Node<'a>> {
    let own = |one: Installation<'a>| match one.values {
        Values::Fields(values) if !one.may_differ => Some(values),
        _ => None,
    };
    installations(object, Some(chart)).into_iter().filter_map(own)
}

/// The charts of repositories that an object installs with values which ask for accelerators: in a container's resources, or by
/// the names that charts of model servers and of Ray have for them. What such a chart makes of them is not read.
pub fn charts_with_accelerators(object: &Object) -> Vec<&str> {
    if !CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        return Vec::new();
    }
    let spec = object.get("spec");
    let named = chart_sources(&spec).filter_map(|one| one.get("chart").text());
    let asks = |chart: &&str| {
        let mut found = false;
        // The chart of a folder may be rendered.
        if !chart.contains('/') {
            for_each_values(object, chart, |values| found |= asks_for_accelerators(values.root, MOST_LEVELS));
        }
        found
    };
    named.filter(asks).collect()
}

/// The levels of values in which a request is looked for.
const MOST_LEVELS: usize = 12;

fn asks_for_accelerators(values: &Node<'_>, levels: usize) -> bool {
    let is_request = |key: &str, value: &Node<'_>| {
        key == "gpu" && value.get("enabled").bool() == Some(true)
            || (is_accelerator(key) || matches!(key, "requestGPU" | "num-gpus" | "gpu" | "gpus" | "gpuCount"))
                && Quantity::at(value).is_some_and(|amount| amount.milli() > 0)
    };
    levels > 0
        && (values.items().any(|item| asks_for_accelerators(&item, levels - 1))
            || values
                .entries()
                .iter()
                .any(|(key, value)| is_request(key, value) || asks_for_accelerators(value, levels - 1)))
}

/// Whether an Application or HelmRelease installs something in another cluster than that of its controller, or may.
pub(crate) fn is_for_other_cluster(object: &Object) -> bool {
    let destination = object.path(&["spec", "destination"]);
    let named = [destination.get("name"), destination.get("server")];
    let is_own =
        |cluster: &Node<'_>| cluster.text().is_some_and(|text| text.is_empty() || is_own_cluster(text));
    object.path(&["spec", "kubeConfig"]).is_set() || named.iter().any(|one| one.is_set() && !is_own(one))
}

/// Whether the name or address of a cluster in Argo CD is that of the cluster that Argo CD runs in.
pub fn is_own_cluster(destination: &str) -> bool {
    destination == "in-cluster" || destination.contains("kubernetes.default.svc")
}

/// Whether an object installs a chart, with values or without: a HelmRelease, an Application, or an ApplicationSet with the
/// Applications that it makes. The chart may be a folder of a repository, which is often named after it, and a HelmRelease may refer
/// to its chart by such a name.
pub(crate) fn installs(object: &Object, chart: &str) -> bool {
    let spec = spec_of(object);
    let reference = spec.path(&["chartRef", "name"]);
    let is_named = |name: &str| base_name(name.trim_end_matches('/')) == chart;
    let mut sources = chart_sources(&spec);
    let has = |source: &Node<'_>, field: &str| source.get(field).text().is_some_and(is_named);
    sources.any(|source| has(&source, "chart") || has(&source, "path") || names(&source, chart))
        || reference.text().is_some_and(|name| is_named(name) || is_named(object.name()))
}

/// The namespace into which a HelmRelease or an Application installs a chart. `None` if it is not known.
pub(crate) fn target_namespace(installer: &Object) -> Option<&str> {
    let spec = installer.get("spec");
    if !installer.is(Kind::HELM_RELEASE) {
        return spec.path(&["destination", "namespace"]).text();
    }
    let target = spec.get("targetNamespace");
    let namespace = if target.is_set() { target.text() } else { installer.namespace() };
    namespace.filter(|_| !target.is_unknown())
}

/// The longest name that Helm gives a release.
const LONGEST_RELEASE: usize = 53;

/// The name of the release of a chart: helm-controller puts the target namespace before the name of the HelmRelease.
pub(crate) fn release_name(installer: &Object, chart: &str) -> Option<String> {
    let spec = installer.get("spec");
    let (written, prefix) = if installer.is(Kind::HELM_RELEASE) {
        (spec.get("releaseName"), Some(spec.get("targetNamespace")))
    } else {
        let mut charts = sources(&spec).filter(|source| names(source, chart));
        (charts.next()?.path(&["helm", "releaseName"]), None)
    };
    let prefix = prefix.filter(Node::is_set);
    let name = match prefix {
        _ if written.is_set() => written.text()?.to_owned(),
        Some(prefix) => format!("{}-{}", prefix.text()?, installer.name()),
        None => installer.name().to_owned(),
    };
    (!name.is_empty() && name.len() <= LONGEST_RELEASE && !is_placeholder(&name)).then_some(name)
}

fn installations<'a>(object: &'a Object, chart: Option<&str>) -> Vec<Installation<'a>> {
    let spec = object.get("spec");
    if object.is(Kind::HELM_RELEASE) {
        let is_wanted = chart.is_none_or(|chart| installs(object, chart));
        // Files of the chart beside its `values.yaml`.
        let files = spec.path(&["chart", "spec", "valuesFiles"]);
        let has_others = files.is_unknown() || files.items().any(|file| file.text() != Some("values.yaml"));
        let may_differ = spec.get("valuesFrom").is_set() || has_others;
        return is_wanted
            .then(|| Installation { values: Values::Fields(spec.get("values")), may_differ })
            .into_iter()
            .collect();
    }
    if !object.is(Kind::ARGO_APPLICATION) {
        return Vec::new();
    }
    let is_wanted = |source: &Node<'_>| match chart {
        Some(chart) => names(source, chart),
        None => source.get("helm").is_set(),
    };
    sources(&spec).filter(is_wanted).filter_map(|source| of_source(&source)).collect()
}

/// The installation by a source of an Application. `None` if its values are not known at all.
fn of_source<'a>(source: &Node<'a>) -> Option<Installation<'a>> {
    let helm = source.get("helm");
    let parameters = helm.get("parameters");
    // `values` has no effect beside `valuesObject`.
    let (fields, text) = (helm.get("valuesObject"), helm.get("values"));
    // The chart of a folder has values of its own.
    let mut may_differ = ["valueFiles", "fileParameters"].iter().any(|field| helm.get(field).is_set())
        || source.get("path").text().is_some_and(|path| !matches!(path, "" | "."));
    let is_alone = parameters.is_set() && !fields.is_set() && !text.is_set() && !may_differ;
    if let Some(written) = is_alone.then(|| of_parameters(&parameters)).flatten() {
        return Some(Installation { values: Values::Parameters(parameters, written), may_differ });
    }
    may_differ |= parameters.is_set();
    let values = if fields.is_mapping() {
        Values::Fields(fields)
    } else if text.is_set() {
        text.text()?;
        Values::Text(text)
    } else if fields.is_set() {
        return None;
    } else {
        // The defaults of the chart hold.
        Values::Fields(fields)
    };
    Some(Installation { values, may_differ })
}

/// The values that parameters set, as `--set` of Helm does. `None` if some are lists, or not known.
fn of_parameters(list: &Node<'_>) -> Option<String> {
    const DOT: &str = "\u{0}";
    if list.has_unknown() {
        return None;
    }
    let mut root = Map::new();
    for one in list.items() {
        let (name, value) = (one.get("name").text()?, one.get("value").text()?);
        if name.contains(['[', '=']) || value.contains(['{', ',']) {
            return None;
        }
        let name = name.replace("\\.", DOT);
        let mut steps: Vec<String> = name.split('.').map(|step| step.replace(DOT, ".")).collect();
        let last = steps.pop()?;
        let mut level = &mut root;
        for step in steps {
            level = level.entry(step).or_insert_with(|| Value::Object(Map::new())).as_object_mut()?;
        }
        let is_text = one.get("forceString").bool() == Some(true);
        let typed = || match value {
            "true" | "false" => Value::Bool(value == "true"),
            "null" => Value::Null,
            _ => value.parse::<i64>().map_or_else(|_| value.into(), Value::from),
        };
        level.insert(last, if is_text { value.into() } else { typed() });
    }
    Some(Value::Object(root).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::charts_with_accelerators;
    use crate::object::Object;

    fn charts(kind: &str, spec: Value) -> usize {
        let (group, version) = match kind {
            "HelmRelease" => ("helm.toolkit.fluxcd.io", "v2"),
            _ => ("argoproj.io", "v1alpha1"),
        };
        let object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": "a"}, "spec": spec,
        });
        charts_with_accelerators(&Object::from_json(&object).expect("an object")).len()
    }

    #[test]
    fn charts_are_named_whose_values_ask_for_accelerators() {
        let release = |values: Value| {
            charts("HelmRelease", json!({"chart": {"spec": {"chart": "inference"}}, "values": values}))
        };
        assert_eq!(release(json!({"models": [{"requestGPU": 2}]})), 1);
        assert_eq!(release(json!({"worker": {"rayStartParams": {"num-gpus": "8"}}})), 1);
        assert_eq!(release(json!({"resources": {"limits": {"aws.amazon.com/neuron": 1}}})), 1);
        assert_eq!(release(json!({"ollama": {"gpu": {"enabled": true, "number": 1}}})), 1);
        assert_eq!(release(json!({"ollama": {"gpu": {"enabled": false}}, "gpus": 0})), 0);
        assert_eq!(release(json!({"image": {"tag": "1.2.0-gpu"}, "requestGPU": 0})), 0);
        assert_eq!(release(json!({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]})), 0);
        let text = "resources:\n  limits: {nvidia.com/gpu: 1}\n";
        let source = json!({"chart": "inference", "helm": {"values": text}});
        assert_eq!(charts("Application", json!({"source": source})), 1);
        let parameters = |value: &str| {
            let parameters =
                json!([{"name": "pool.requestGPU", "value": value}, {"name": "a\\.b.c", "value": "x"}]);
            json!({"chart": "inference", "helm": {"parameters": parameters}})
        };
        assert_eq!(charts("Application", json!({"source": parameters("1")})), 1);
        assert_eq!(charts("Application", json!({"source": parameters("0")})), 0);
        let folder = json!({"path": "charts/inference", "helm": {"values": text}});
        assert_eq!(charts("Application", json!({"source": folder})), 0);
    }
}
