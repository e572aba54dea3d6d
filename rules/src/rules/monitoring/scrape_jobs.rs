//! The jobs of configurations of Prometheus: in a ConfigMap or Secret, in a file of its own, in the values of charts, and in
//! the object of an OpenTelemetry collector.

use crate::rules::prelude::*;
use crate::source::with_embedded;
use crate::workload::charts::{ValuePlace, target_namespace};

/// The kinds that may have jobs.
pub(super) const JOB_KINDS: [Kind; 6] = [
    Kind::PROMETHEUS_CONFIGURATION,
    Kind::OPENTELEMETRY_COLLECTOR,
    Kind::CONFIG_MAP,
    Kind::SECRET,
    Kind::HELM_RELEASE,
    Kind::ARGO_APPLICATION,
];

/// Charts of Prometheus, and the values with scrape configurations: a list, the text of one, or what has a list.
const CHARTS: [(&str, &[&str]); 3] = [
    ("kube-prometheus-stack", &["prometheus", "prometheusSpec", "additionalScrapeConfigs"]),
    ("prometheus", &["extraScrapeConfigs"]),
    ("prometheus", &["serverFiles", "prometheus.yml"]),
];

/// A job, or what follows from its place.
pub(super) struct Job<'v, 'a> {
    pub(super) node: &'v Node<'v>,
    /// The namespace of what scrapes, if it is known.
    pub(super) namespace: Option<&'a str>,
    place: &'v dyn Fn(&Node<'_>) -> ValuePlace<'a>,
}

impl<'a> Job<'_, 'a> {
    /// The place in the object of a node of the job.
    pub(super) fn place(&self, node: &Node<'_>) -> ValuePlace<'a> {
        (self.place)(node)
    }
}

/// Calls a function with each job of an object.
pub(super) fn for_each_job<'a>(object: &'a Object, visit: &mut dyn FnMut(&Job<'_, 'a>)) {
    let own = |node: &Node<'_>| ValuePlace::of(object.root().at(&node.pointer()));
    let namespace = Some(object.namespace_or_default());
    if object.is(Kind::PROMETHEUS_CONFIGURATION) {
        of_root(&object.root(), None, &own, visit);
    } else if object.is(Kind::OPENTELEMETRY_COLLECTOR) {
        let config = object.path(&["spec", "config", "receivers", "prometheus", "config"]);
        of_root(&config, namespace, &own, visit);
    } else if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        for (chart, path) in CHARTS {
            for_each_values(object, chart, |values| {
                let (field, namespace) = (values.root.path(path), target_namespace(object));
                let Some(text) = field.raw_text().filter(|text| may_have_jobs(text)) else {
                    return of_root(&field, namespace, &|node| values.place(node, object), visit);
                };
                let at = values.place(&field, object);
                let within = |_: &Node<'_>| at.clone();
                with_embedded(text, |root| {
                    of_root(root, namespace, &within, visit);
                    Some(())
                });
            });
        }
    } else {
        let field = if object.is(Kind::SECRET) { "stringData" } else { "data" };
        for (_, entry) in object.get(field).entries() {
            // Relabelings refer to groups as placeholders do, so that the whole text looks like one.
            let Some(text) = entry.raw_text().filter(|text| may_have_jobs(text)) else { continue };
            let within = |node: &Node<'_>| {
                let part = node.span().map(|span| span.start as usize..span.end as usize);
                ValuePlace { node: entry.clone(), is_in_text: true, part }
            };
            with_embedded(text, |root| {
                of_root(root, namespace, &within, visit);
                // An OpenTelemetry collector that a chart or a manifest configures.
                let config = root.path(&["receivers", "prometheus", "config"]);
                of_root(&config, namespace, &within, visit);
                Some(())
            });
        }
    }
}

/// Calls a function with the jobs of a configuration: a list of them, or what has the list.
fn of_root<'a>(
    root: &Node<'_>,
    namespace: Option<&'a str>,
    place: &dyn Fn(&Node<'_>) -> ValuePlace<'a>,
    visit: &mut dyn FnMut(&Job<'_, 'a>),
) {
    let jobs = if root.is_sequence() { root.clone() } else { root.get("scrape_configs") };
    for node in jobs.items() {
        visit(&Job { node: &node, namespace, place });
    }
}

/// Whether a text may be a configuration of Prometheus.
fn may_have_jobs(text: &str) -> bool {
    text.contains("scrape_configs") || text.contains("job_name")
}
