//! The labels and annotations of objects that the kube-state-metrics of a cluster exports.
//!
//! Since 2.0 it adds only those to `kube_*_labels` and `kube_*_annotations` that its options allow (`pkg/options/types.go` and
//! `internal/store/utils.go` of 2.20). The chart of kube-state-metrics takes the options from `metricLabelsAllowlist` and
//! `metricAnnotationsAllowList`, which are empty by default, and the charts around it leave them so.

use std::sync::Arc;

use crate::cluster::query::Query;
use crate::rules::monitoring::monitors::target_label;
use crate::rules::prelude::*;
use crate::workload::charts::{ChartValues, installs, is_for_other_cluster, spec_of};

/// The charts that bring it, with the value that has the values of its own chart, and the value that says whether it is installed.
const CHARTS: [(&str, &[&str], &[&str]); 3] = [
    ("kube-state-metrics", &[], &[]),
    ("kube-prometheus-stack", &["kube-state-metrics"], &["kubeStateMetrics", "enabled"]),
    ("prometheus", &["kube-state-metrics"], &["kube-state-metrics", "enabled"]),
];

/// Words in the names of other charts that bring it.
const OTHERS: [&str; 12] = [
    "coroot",
    "cost-analyzer",
    "datadog",
    "groundcover",
    "k8s-monitoring",
    "kube-stack",
    "kubecost",
    "loki-stack",
    "newrelic",
    "nri-",
    "robusta",
    "victoria",
];

pub(super) const STATE_METRICS_KINDS: &[Kind] = kinds![
    [Kind::DEPLOYMENT, Kind::STATEFUL_SET, Kind::DAEMON_SET],
    CHART_KINDS,
    [Kind::ARGO_APPLICATION_SET]
];

/// What a metric has beside its own labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Labels,
    Annotations,
}

impl Source {
    /// The source of the labels of a metric, with the name of its resource: `kube_node_labels`.
    fn of(metric: &str) -> Option<(Source, String)> {
        let rest = metric.strip_prefix("kube_")?;
        let (source, kind) = match rest.strip_suffix("_labels") {
            Some(kind) => (Source::Labels, kind),
            None => (Source::Annotations, rest.strip_suffix("_annotations")?),
        };
        let resource = match kind {
            _ if kind.is_empty() || kind.contains('_') => return None,
            _ if kind.ends_with('s') => format!("{kind}es"),
            _ => kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies")),
        };
        Some((source, resource))
    }

    fn prefix(self) -> &'static str {
        match self {
            Source::Labels => "label_",
            Source::Annotations => "annotation_",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Source::Labels => "metric-labels-allowlist",
            Source::Annotations => "metric-annotations-allowlist",
        }
    }

    fn value(self) -> &'static str {
        match self {
            Source::Labels => "metricLabelsAllowlist",
            Source::Annotations => "metricAnnotationsAllowList",
        }
    }
}

/// The keys that an option allows, by resource. `None` if they are not known.
type Allowed = Option<Vec<(String, Vec<String>)>>;

/// A kube-state-metrics, or what installs one.
#[derive(Clone, PartialEq)]
pub(super) struct StateMetrics {
    pub(super) object: ObjectKey,
    labels: Allowed,
    annotations: Allowed,
}

impl StateMetrics {
    fn new(object: &Object, mut allowed: impl FnMut(Source) -> Allowed) -> StateMetrics {
        let (labels, annotations) = (allowed(Source::Labels), allowed(Source::Annotations));
        StateMetrics { object: ObjectKey(object.clone()), labels, annotations }
    }

    /// Whether it surely does not add a label to a metric.
    fn lacks(&self, (source, resource): &(Source, String), label: &str) -> bool {
        let allowed = match source {
            Source::Labels => &self.labels,
            Source::Annotations => &self.annotations,
        };
        let Some(name) = label.strip_prefix(source.prefix()) else { return false };
        allowed.as_ref().is_some_and(|all| {
            let mut of_resource = all.iter().filter(|(one, _)| one == resource || one == "*");
            !of_resource.any(|(_, keys)| keys.iter().any(|key| is_exported_as(key, name)))
        })
    }

    /// How to add a label.
    pub(super) fn help(&self, metric: &str, label: &str) -> String {
        let Some((source, resource)) = Source::of(metric) else { return String::new() };
        let key = key_of(label.strip_prefix(source.prefix()).unwrap_or(label));
        let entry = match key {
            Some(key) => format!("`{resource}=[{key}]`"),
            None => format!("its key to `{resource}=[...]`"),
        };
        let ObjectKey(object) = &self.object;
        let name = object.display_name();
        if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
            format!("add {entry} to `{}` in the values of `{name}`", source.value())
        } else {
            format!("add {entry} to `--{}` of `{name}`", source.option())
        }
    }
}

/// Whether a label of an object is exported under a name. A key may have one `*` since 2.20.
fn is_exported_as(key: &str, name: &str) -> bool {
    match key.split_once('*') {
        Some((start, end)) => name.starts_with(&written(start)) && name.ends_with(&written(end)),
        None => written(key) == name,
    }
}

/// A key as it is written in the name of a label of Prometheus: `camelCase/key` becomes `camel_case_key`.
fn written(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    let mut before = '_';
    for c in key.chars() {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            out.push('_');
        }
        out.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
        before = c;
    }
    out
}

/// The key of a label, where its exported name tells it.
fn key_of(name: &str) -> Option<&str> {
    const KNOWN: [&str; 14] = [
        "app.kubernetes.io/component",
        "app.kubernetes.io/instance",
        "app.kubernetes.io/name",
        "eks.amazonaws.com/nodegroup",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-family",
        "karpenter.k8s.aws/instance-gpu-name",
        "karpenter.sh/capacity-type",
        "karpenter.sh/nodepool",
        "kueue.x-k8s.io/queue-name",
        "node.kubernetes.io/instance-type",
        "nvidia.com/gpu.product",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ];
    let known = || KNOWN.into_iter().find(|key| written(key) == name);
    if name.contains('_') { known() } else { Some(name) }
}

/// The keys of an option: `nodes=[karpenter.sh/nodepool,team],pods=[*]`.
fn parse(text: &str) -> Allowed {
    let mut out = Vec::new();
    for part in text.split(']').map(|part| part.trim_start_matches([',', ' ']).trim()) {
        if part.is_empty() {
            continue;
        }
        let (resource, keys) = part.split_once("=[")?;
        let keys = keys.split(',').map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        out.push((resource.trim().to_owned(), keys.collect()));
    }
    (!is_placeholder(text)).then_some(out)
}

/// The kube-state-metrics of the cluster.
pub(super) struct StateMetricsOf;

impl Query for StateMetricsOf {
    const SLOT: QuerySlot = QuerySlot::KubeStateMetrics;
    const KINDS: &'static [Kind] = STATE_METRICS_KINDS;
    type Key = ();
    type Value = Arc<[StateMetrics]>;

    fn compute(cluster: &Cluster, (): &()) -> Arc<[StateMetrics]> {
        let workloads = STATE_METRICS_KINDS[..3].iter().flat_map(|kind| cluster.of(*kind));
        let sets = cluster.of(Kind::ARGO_APPLICATION_SET);
        let installers = chart_installers(cluster).filter(|object| !is_for_other_cluster(object));
        workloads
            .filter_map(of_workload)
            .chain(installers.filter_map(of_installer))
            .chain(sets.filter(|set| may_bring(set)).map(|set| StateMetrics::new(set, |_| None)))
            .collect()
    }
}

fn of_workload(object: &Object) -> Option<StateMetrics> {
    let templates = templates(object);
    let container = templates
        .iter()
        .flat_map(Template::containers)
        .find(|one| image_of(one).is_some_and(|image| image.last() == "kube-state-metrics"))?;
    let words = words(&container);
    let version = image_of(&container)?.version();
    // Before 2.0 it exported all labels; a file of options replaces those of the command line.
    let is_open = object.may_lack_fields()
        || version.is_some_and(|version| version < Version::new(2, 0))
        || container.get("args").has_unknown()
        || !matches!(option(&words, &["config"]), OptionValue::Absent);
    Some(StateMetrics::new(object, |source| match option(&words, &[source.option()]) {
        _ if is_open => None,
        OptionValue::Absent => Some(Vec::new()),
        OptionValue::Unknown => None,
        OptionValue::Text(text, _) => parse(&text),
    }))
}

/// Whether the name of an object, or of a chart that it installs, is that of something that brings kube-state-metrics.
fn may_bring(object: &Object) -> bool {
    let known = CHARTS.iter().any(|(chart, ..)| installs(object, chart));
    let spec = spec_of(object);
    let charts = [spec.path(&["chart", "spec", "chart"]), spec.path(&["source", "chart"])];
    known || charts.iter().filter_map(Node::text).chain([object.name()]).any(|name| mentions(name, &OTHERS))
}

fn of_installer(object: &Object) -> Option<StateMetrics> {
    let Some((chart, below, enabled)) = CHARTS.iter().find(|(chart, ..)| installs(object, chart)) else {
        return may_bring(object).then(|| StateMetrics::new(object, |_| None));
    };
    let spec = object.get("spec");
    let named = spec.path(&["chart", "spec", "chart"]);
    // A chart of a folder may be one around it, and a renderer may change what it makes.
    let is_open = object.may_lack_fields()
        || spec.get("postRenderers").is_set()
        || named.text().is_some_and(|name| name != *chart);
    let mut found = None;
    for_each_values(object, chart, |values| {
        if values.root.path(enabled).bool() == Some(false) && !enabled.is_empty() {
            return;
        }
        let own = values.root.path(below);
        let is_open = is_open || values.root.path(enabled).is_unknown() || are_open(values, &own, chart);
        found = Some(StateMetrics::new(object, |source| match is_open {
            true => None,
            false => of_values(&own.get(source.value())),
        }));
    });
    found
}

/// Whether something else than the lists may say which labels are exported.
fn are_open(values: &ChartValues<'_, '_>, own: &Node<'_>, chart: &str) -> bool {
    let adds = |rule: &Node<'_>| {
        rule.get("action").text() == Some("labelmap")
            || target_label(rule).raw_text().is_some_and(|label| {
                label.starts_with(Source::Labels.prefix()) || label.starts_with(Source::Annotations.prefix())
            })
    };
    let monitor = own.path(&["prometheus", "monitor"]);
    let mut rules =
        ["relabelings", "metricRelabelings"].into_iter().flat_map(|list| monitor.get(list).items());
    let mut extra = own.get("extraArgs").items();
    values.may_differ
        || values.root.has_unknown_key()
        || own.is_unknown()
        || own.has_unknown_key()
        // Values below the name of the chart are those of a chart around it.
        || values.root.get(chart).is_set()
        || extra.any(|arg| arg.raw_text().is_none_or(|text| mentions(text, &["allowlist", "--config"])))
        || rules.any(|rule| adds(&rule))
}

/// The keys of a list of the values, whose items the chart joins.
fn of_values(list: &Node<'_>) -> Allowed {
    if !list.is_set() {
        return (!list.is_unknown()).then(Vec::new);
    }
    if let Some(text) = list.text() {
        return parse(text);
    }
    let texts: Option<Vec<&str>> = list.items().map(|item| item.text()).collect();
    parse(&texts?.join(","))
}

/// A kube-state-metrics of the cluster, if there is one and each of them surely lacks a label in all of some metrics.
pub(super) fn lacking(metrics: &[&str], label: &str, ctx: &Context<'_>) -> Option<StateMetrics> {
    let metrics: Vec<(Source, String)> =
        metrics.iter().map(|metric| Source::of(metric)).collect::<Option<_>>()?;
    let all = ctx.cluster().query::<StateMetricsOf>(&());
    let near: Vec<&StateMetrics> = all.iter().filter(|one| ctx.pairs_with(&one.object.0)).collect();
    let lacks = |one: &&StateMetrics| metrics.iter().all(|metric| one.lacks(metric, label));
    near.first().filter(|_| near.iter().all(lacks)).map(|first| (*first).clone())
}

/// Whether a metric has the labels or annotations of objects, and a label is named as one of them.
pub(super) fn may_carry(metric: &str, label: &str) -> bool {
    Source::of(metric).is_some_and(|(source, _)| label.starts_with(source.prefix()))
}

#[cfg(test)]
mod tests {
    use super::{is_exported_as, may_carry, parse};

    #[test]
    fn keys_are_read_and_compared_as_they_are_exported() {
        let all = parse("nodes=[karpenter.sh/nodepool, nodePool],pods=[*]").expect("a list");
        assert_eq!(all[0].1, ["karpenter.sh/nodepool", "nodePool"]);
        assert_eq!(all[1], ("pods".to_owned(), vec!["*".to_owned()]));
        assert_eq!(parse("nodes"), None);
        assert!(is_exported_as("karpenter.sh/nodepool", "karpenter_sh_nodepool"));
        assert!(is_exported_as("nodePool", "node_pool"));
        assert!(is_exported_as("karpenter.sh/*", "karpenter_sh_nodepool"));
        assert!(is_exported_as("*", "team") && !is_exported_as("team", "app"));
        assert!(may_carry("kube_networkpolicy_labels", "label_app"));
        assert!(!may_carry("kube_node_labels", "node") && !may_carry("kube_node_info", "label_app"));
    }
}
