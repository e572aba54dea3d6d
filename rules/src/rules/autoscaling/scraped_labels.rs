//! The labels that the monitors of a set give to the series of a workload's pods.
//!
//! Source: `generatePodMonitorConfig` and `generateServiceMonitorConfig` in `pkg/prometheus/promcfg.go` of the Prometheus
//! Operator, read in November 2026.

use regex::Regex;

use crate::promql::expr::{MatchOp, Matcher, Selector};
use crate::rules::monitoring::monitors::{MONITORS, RELABELINGS, agents_may_relabel, endpoints, is_of_pods};
use crate::rules::monitoring::service_monitor_selects_nothing::Scope;
use crate::rules::prelude::*;
use crate::workload::selector;

/// The kinds that [`scrapes_of`] reads beside workloads.
pub(in crate::rules) const SCRAPE_KINDS: &[Kind] =
    kinds![MONITORS, [Kind::VM_AGENT, Kind::SERVICE, Kind::SCRAPE_CONFIG, Kind::PROMETHEUS]];

/// Labels that model servers do not give to their own series, and Prometheus only where a monitor says so.
const FROM_OBJECTS: [&str; 12] = [
    "service",
    "app",
    "app_kubernetes_io_name",
    "app_kubernetes_io_instance",
    "app_kubernetes_io_component",
    "component",
    "release",
    "statefulset",
    "deployment",
    "pod_name",
    "kubernetes_namespace",
    "kubernetes_pod_name",
];

/// The series of a workload's pods as one monitor scrapes them.
pub(in crate::rules) struct Scrape<'a> {
    pub(in crate::rules) monitor: &'a Object,
    /// The labels whose values are known.
    labels: Vec<(String, String)>,
    /// Labels that have a value which is not known.
    unknown: Vec<String>,
}

impl Scrape<'_> {
    /// The value of a label; empty for a label that the series certainly lack. `None` if it is not known.
    pub(super) fn value(&self, label: &str) -> Option<&str> {
        if self.unknown.iter().any(|unknown| unknown == label) {
            return None;
        }
        let known = self.labels.iter().find(|(name, _)| name == label);
        known.map(|(_, value)| value.as_str()).or_else(|| FROM_OBJECTS.contains(&label).then_some(""))
    }

    /// Whether a matcher certainly selects none of the series.
    pub(super) fn is_excluded_by(&self, matcher: &Matcher) -> bool {
        self.value(&matcher.label).is_some_and(|value| holds(matcher, value) == Some(false))
    }

    fn add(&mut self, label: &str, value: Option<&str>) {
        match value {
            Some(value) => self.labels.push((label.to_owned(), value.to_owned())),
            None => self.unknown.push(label.to_owned()),
        }
    }

    /// Copies labels of a Service or a pod, with the names that Prometheus gives them.
    fn copy(&mut self, names: &Node<'_>, labels: &[(&str, Node<'_>)]) {
        for name in names.items().filter_map(|name| name.text()) {
            let sanitized = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
            if let Some((_, value)) = labels.iter().find(|(label, _)| *label == name) {
                self.add(&sanitized, value.text());
            }
        }
    }
}

/// Whether a matcher holds for the value of a label. `None` for an expression that is not valid.
pub(super) fn holds(matcher: &Matcher, value: &str) -> Option<bool> {
    let matches = || Some(Regex::new(&format!("^(?s:{})$", matcher.value)).ok()?.is_match(value));
    match matcher.op {
        MatchOp::Equal => Some(matcher.value == value),
        MatchOp::NotEqual => Some(matcher.value != value),
        MatchOp::Matches => matches(),
        MatchOp::NotMatches => matches().map(|is_match| !is_match),
    }
}

/// The value of a label that series have by the pod that they are scraped from. `None` for other labels, and where it is not
/// known.
pub(super) fn value_of_pods(label: &str, workload: &Object) -> Option<String> {
    match label {
        "namespace" => workload.namespace().map(str::to_owned),
        "pod" => Some(match workload.is(Kind::STATEFUL_SET) {
            true => format!("{}-0", workload.name()),
            false => format!("{}-7d9f8b6c5d-x2x4z", workload.name()),
        }),
        "container" => {
            let templates = templates(workload);
            let mut containers = templates.iter().flat_map(Template::containers);
            let only = containers.next().filter(|_| containers.next().is_none())?;
            only.get("name").text().map(str::to_owned)
        }
        _ => None,
    }
}

/// Whether a selector may select series of a workload's pods.
pub(in crate::rules) fn may_select(selector: &Selector, workload: &Object) -> bool {
    selector.matchers.iter().all(|matcher| {
        let value = value_of_pods(&matcher.label, workload);
        value.is_none_or(|value| holds(matcher, &value) != Some(false))
    })
}

/// How the pods of a workload are scraped, as far as the monitors of the set show. `None` if something else may scrape
/// them, or a monitor may change the labels.
pub(in crate::rules) fn scrapes_of<'a>(workload: &'a Object, ctx: &Context<'a>) -> Option<Vec<Scrape<'a>>> {
    let cluster = ctx.cluster();
    let templates = templates(workload);
    let is_plain = |template: &Template<'_>| {
        let annotations = template.metadata.get("annotations");
        !template.metadata.has_unknown()
            && !annotations.entries().iter().any(|(key, _)| key.starts_with("prometheus.io/"))
    };
    if cluster.has_any(Kind::SCRAPE_CONFIG)
        || cluster.of(Kind::PROMETHEUS).any(adds_labels)
        || agents_may_relabel(cluster)
        || workload.may_lack_fields()
        || !templates.iter().all(is_plain)
    {
        return None;
    }
    let template = templates.first()?;
    let namespace = workload.namespace_or_default();
    let mut found = Vec::new();
    for monitor in MONITORS.into_iter().flat_map(|kind| cluster.of(kind)) {
        if matches!(Scope::of(monitor)?, Scope::These(names) if !names.contains(&namespace)) {
            continue;
        }
        let wanted = monitor.path(&["spec", "selector"]);
        if wanted.has_unknown() || !wanted.is_mapping() {
            return None;
        }
        let mut of_monitor = Vec::new();
        if is_of_pods(monitor) {
            if selector::matches(&wanted, &template.labels())? {
                of_monitor.push(of_pods(monitor, workload, template));
            }
        } else {
            for service in cluster.views().services_of(namespace, template) {
                let labels = service.path(&["metadata", "labels"]).entries();
                if selector::matches(&wanted, &labels)? {
                    of_monitor.push(of_service(monitor, service, workload, template));
                }
            }
        }
        if !of_monitor.is_empty() && (changes_labels(monitor) || !cluster.likely_pairs(workload, monitor)) {
            return None;
        }
        found.extend(of_monitor);
    }
    Some(found)
}

/// Whether a Prometheus gives the series of all monitors labels of its own.
fn adds_labels(prometheus: &Object) -> bool {
    ["scrapeClasses", "podTargetLabels"].iter().any(|field| !prometheus.path(&["spec", field]).is_absent())
}

/// Whether a monitor may give other labels than by its fields for them.
fn changes_labels(monitor: &Object) -> bool {
    let spec = monitor.get("spec");
    let relabels = |endpoint: Node<'_>| {
        RELABELINGS.iter().any(|list| endpoint.get(list).is_set()) || endpoint.has_unknown()
    };
    monitor.may_lack_fields()
        || spec.has_unknown_key()
        || spec.get("scrapeClass").is_set()
        || ["jobLabel", "podTargetLabels", "targetLabels"].iter().any(|field| spec.get(field).has_unknown())
        || endpoints(monitor).any(relabels)
}

/// The labels that both kinds of monitors give.
fn of_target<'a>(monitor: &'a Object, workload: &Object, template: &Template<'_>) -> Scrape<'a> {
    let mut scrape = Scrape { monitor, labels: Vec::new(), unknown: Vec::new() };
    scrape.add("namespace", workload.namespace().filter(|_| !workload.is_namespace_unknown()));
    let mut containers = template.containers();
    let only = containers.next().filter(|_| containers.next().is_none());
    scrape.add("container", only.as_ref().and_then(|container| container.get("name").text()));
    scrape.copy(&monitor.path(&["spec", "podTargetLabels"]), &template.labels());
    scrape
}

fn of_pods<'a>(monitor: &'a Object, workload: &Object, template: &Template<'_>) -> Scrape<'a> {
    let mut scrape = of_target(monitor, workload, template);
    let labels = template.labels();
    let named = job_label(monitor, &labels);
    let own = monitor.namespace().map(|namespace| format!("{namespace}/{}", monitor.name()));
    match named {
        Some(value) => scrape.add("job", value.text()),
        None => scrape.add("job", own.as_deref()),
    }
    scrape
}

fn of_service<'a>(
    monitor: &'a Object,
    service: &Object,
    workload: &Object,
    template: &Template<'_>,
) -> Scrape<'a> {
    let mut scrape = of_target(monitor, workload, template);
    let labels = service.path(&["metadata", "labels"]).entries();
    scrape.copy(&monitor.path(&["spec", "targetLabels"]), &labels);
    scrape.add("service", Some(service.name()));
    match job_label(monitor, &labels) {
        Some(value) => scrape.add("job", value.text()),
        None => scrape.add("job", Some(service.name())),
    }
    scrape
}

/// The value of the label that `jobLabel` names.
fn job_label<'n>(monitor: &Object, labels: &[(&str, Node<'n>)]) -> Option<Node<'n>> {
    let label = monitor.path(&["spec", "jobLabel"]);
    let name = label.text()?;
    labels.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
}
