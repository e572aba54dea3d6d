//! The values with which a HelmRelease or an Application installs a chart.

use crate::cluster::Cluster;
use crate::facts::quantity::Quantity;
use crate::kind::Kind;
use crate::object::Object;
use crate::source::with_embedded;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;
use crate::workload::command::base_name;
use crate::workload::gpu::is_accelerator;

/// The kinds that install charts, whose objects are only in the input if they are rendered.
pub(crate) const CHART_KINDS: [Kind; 2] = [Kind::HELM_RELEASE, Kind::ARGO_APPLICATION];

/// The objects that install charts: HelmReleases first.
pub(crate) fn chart_installers(cluster: &Cluster) -> impl Iterator<Item = &Object> {
    CHART_KINDS.iter().flat_map(|kind| cluster.of(*kind))
}

/// One installation of a chart.
struct Installation<'a> {
    /// The values as fields, or one text with all of them.
    values: Node<'a>,
    text: Option<Node<'a>>,
    may_differ: bool,
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
fn chart_sources<'a>(spec: &Node<'a>) -> impl Iterator<Item = Node<'a>> + use<'a> {
    std::iter::once(spec.path(&["chart", "spec"])).chain(sources(spec))
}

/// The values of one installation.
pub(crate) struct ChartValues<'v, 'a> {
    pub(crate) root: &'v Node<'v>,
    /// The field that has them as a text.
    pub(crate) text: Option<Node<'a>>,
    /// Whether values are also set elsewhere, before or after these.
    pub(crate) may_differ: bool,
}

/// Calls a function with the values of each installation of a chart by an object.
pub(crate) fn for_each_values(object: &Object, chart: &str, mut read: impl FnMut(&ChartValues<'_, '_>)) {
    for Installation { values, text, may_differ } in installations(object, chart) {
        let Some(field) = text else {
            read(&ChartValues { root: &values, text: None, may_differ });
            continue;
        };
        with_embedded(field.text().unwrap_or_default(), |root| {
            read(&ChartValues { root, text: Some(field.clone()), may_differ });
            Some(())
        });
    }
}

/// The values that are fields of an object, where nothing else sets some.
pub(crate) fn value_fields<'a>(object: &'a Object, chart: &str) -> impl Iterator<Item = Node<'a>> {
    let own = |one: Installation<'a>| (one.text.is_none() && !one.may_differ).then_some(one.values);
    installations(object, chart).into_iter().filter_map(own)
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
        (is_accelerator(key) || matches!(key, "requestGPU" | "num-gpus"))
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
    sources.any(|source| ["chart", "path"].iter().any(|field| source.get(field).text().is_some_and(is_named)))
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
        let mut charts = sources(&spec).filter(|source| source.get("chart").text() == Some(chart));
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

/// The version of a chart that an object installs: a version or a range. `None` if it names none.
pub(crate) fn chart_version<'a>(object: &'a Object, chart: &str) -> Option<&'a str> {
    let spec = object.get("spec");
    let mut sources = chart_sources(&spec);
    let source = sources.find(|source| source.get("chart").text() == Some(chart))?;
    source.get("version").text().or_else(|| source.get("targetRevision").text())
}

fn installations<'a>(object: &'a Object, chart: &str) -> Vec<Installation<'a>> {
    let spec = object.get("spec");
    if object.is(Kind::HELM_RELEASE) {
        let is_own = installs(object, chart);
        let may_differ = spec.get("valuesFrom").is_set();
        return is_own
            .then(|| Installation { values: spec.get("values"), text: None, may_differ })
            .into_iter()
            .collect();
    }
    if !object.is(Kind::ARGO_APPLICATION) {
        return Vec::new();
    }
    let of_source = |source: Node<'a>| {
        let helm = source.get("helm");
        let is_set = |field: &&str| helm.get(field).is_set();
        let others = ["valueFiles", "parameters", "fileParameters"].iter().any(is_set);
        // `values` has no effect beside `valuesObject`.
        let (values, text) = (helm.get("valuesObject"), helm.get("values"));
        if values.is_mapping() {
            return Some(Installation { values, text: None, may_differ: others });
        }
        if !text.is_set() {
            // The defaults of the chart hold.
            return (!values.is_set()).then_some(Installation { values, text: None, may_differ: others });
        }
        text.text().is_some().then_some(Installation { values, text: Some(text), may_differ: others })
    };
    sources(&spec).filter(|source| source.get("chart").text() == Some(chart)).filter_map(of_source).collect()
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
        assert_eq!(release(json!({"image": {"tag": "1.2.0-gpu"}, "requestGPU": 0})), 0);
        assert_eq!(release(json!({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]})), 0);
        let text = "resources:\n  limits: {nvidia.com/gpu: 1}\n";
        let source = json!({"chart": "inference", "helm": {"values": text}});
        assert_eq!(charts("Application", json!({"source": source})), 1);
        let folder = json!({"path": "charts/inference", "helm": {"values": text}});
        assert_eq!(charts("Application", json!({"source": folder})), 0);
    }
}
