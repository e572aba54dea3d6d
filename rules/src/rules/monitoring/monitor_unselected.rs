//! No Prometheus selects a monitor or a rule.
//!
//! # Why
//! A Prometheus reads only those ServiceMonitors, PodMonitors, Probes, ScrapeConfigs and PrometheusRules
//! whose labels and namespace its selectors match. Without a namespace selector it looks in its own
//! namespace, and without a selector it takes none. The others have no effect, without an error: the queries
//! behind autoscalers stay empty, and alerts never fire.
//!
//! The chart kube-prometheus-stack selects the label `release` with the name of its release, unless its
//! values have other selectors, or `serviceMonitorSelectorNilUsesHelmValues: false` and its like for the
//! other kinds.
//!
//! Where no Prometheus is in the input, the label `release` of monitors and rules in one folder says what
//! they are for: a second value of it is information, since the Prometheus of a release reads one of the
//! two.
//!
//! The monitors that charts make have the labels of the chart alone: `additionalLabels` adds others, beside the
//! switch of the monitor. The charts of dcgm-exporter, the GPU Operator, Karpenter and KEDA are read in
//! HelmReleases and Applications, and the ClusterPolicy of the GPU Operator.
//!
//! # Fix
//! Add the label that the selector asks for, or widen the selectors: `{}` selects all.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: Prometheus
//!  metadata: {name: main, namespace: monitoring}
//!  spec:
//!    serviceMonitorSelector: {matchLabels: {prometheus: main}}
//!    serviceMonitorNamespaceSelector: {}
//!  ---
//!  apiVersion: monitoring.coreos.com/v1
//!  kind: ServiceMonitor
//!  metadata:
//!    name: llm
//!    namespace: serving
//! -  labels: {app: llm} # <-
//! +  labels: {app: llm, prometheus: main}
//!  spec:
//!    selector: {matchLabels: {app: llm}}
//!    endpoints: [{port: metrics}]
//! ```
//!
//! # References
//! - <https://prometheus-operator.dev/docs/platform/troubleshooting/#troubleshooting-servicemonitor-changes>
//! - <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.Prometheus>

use crate::rules::gitops::{DELIVERERS, gets_labels};
use crate::rules::gpu::report_place;
use crate::rules::manifest::duplicate_object::position;
use crate::rules::manifest_purpose::is_example;
use crate::rules::monitoring::made_monitors::{MadeMonitor, is_of_charts, made_monitors};
use crate::rules::monitoring::prometheus_stack::{COLLECTOR_KINDS, Release, releases, runs_collector};
use crate::rules::prelude::*;
use crate::workload::selector::matches;

const AGENT: Kind = Kind::new("monitoring.coreos.com", "PrometheusAgent");
const RULER: Kind = Kind::new("monitoring.coreos.com", "ThanosRuler");

/// Others that may read monitors and rules.
const OTHERS: [Kind; 4] = [Kind::OPENTELEMETRY_COLLECTOR, Kind::VM_AGENT, Kind::VM_SINGLE, Kind::VM_ALERT];

pub(crate) static RULE: Rule = Rule {
    id: "monitor-unselected",
    kinds: &[
        Kind::SERVICE_MONITOR,
        Kind::POD_MONITOR,
        Kind::PROMETHEUS_RULE,
        Kind::PROBE,
        Kind::SCRAPE_CONFIG,
        Kind::HELM_RELEASE,
        Kind::ARGO_APPLICATION,
        Kind::CLUSTER_POLICY,
    ],
    reads: kinds![
        [Kind::PROMETHEUS, AGENT, RULER, Kind::NAMESPACE],
        SELECTED,
        OTHERS,
        [Kind::HELM_RELEASE],
        DELIVERERS,
        COLLECTOR_KINDS
    ],
    reports_absence: true,
    fix: Some(Safety::Unsafe),
    docs: docs(include_str!("monitor_unselected.rs")),
    check: Check::Object(check),
    ..Rule::warning(Group::Monitoring)
};

/// The name of the namespace, which the API server adds to its labels.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The value of charts with labels for their monitors.
pub(super) const LABELS: &str = "additionalLabels";

/// The selectors of monitors. A Prometheus without any of them is configured by hand.
const MONITOR_SELECTORS: [&str; 4] =
    ["serviceMonitorSelector", "podMonitorSelector", "probeSelector", "scrapeConfigSelector"];

/// The selectors of a kind, of objects and of their namespaces.
fn selectors(object: &Object) -> Option<(&'static str, &'static str)> {
    selectors_of(&|kind| object.is(kind))
}

fn selectors_of(is: &dyn Fn(Kind) -> bool) -> Option<(&'static str, &'static str)> {
    let fields = [
        (Kind::SERVICE_MONITOR, "serviceMonitorSelector", "serviceMonitorNamespaceSelector"),
        (Kind::POD_MONITOR, "podMonitorSelector", "podMonitorNamespaceSelector"),
        (Kind::PROBE, "probeSelector", "probeNamespaceSelector"),
        (Kind::SCRAPE_CONFIG, "scrapeConfigSelector", "scrapeConfigNamespaceSelector"),
        (Kind::PROMETHEUS_RULE, "ruleSelector", "ruleNamespaceSelector"),
    ];
    fields.into_iter().find(|(kind, ..)| is(*kind)).map(|(_, own, namespace)| (own, namespace))
}

/// Why a Prometheus does not read an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// The labels of the object are others.
    Labels,
    /// It selects nothing of the kind.
    NoSelector,
    Namespace,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let cluster = ctx.cluster();
    if selectors(object).is_none() {
        if !OTHERS.iter().any(|kind| cluster.has_any(*kind)) && !runs_collector(ctx) {
            for made in made_monitors(object) {
                check_made(&made, ctx);
            }
        }
        return None;
    }
    if object.may_lack_fields()
        || object.is_namespace_unknown()
        || object.get("metadata").has_unknown()
        || object.is_owned()
        || OTHERS.iter().any(|kind| cluster.has_any(*kind))
    {
        return None;
    }
    let readers = readers_of(object.is(Kind::PROMETHEUS_RULE));
    let mut known: Option<(Reason, &Object)> = None;
    for reader in readers.iter().flat_map(|kind| cluster.of(*kind)) {
        // Any of them may select it, also one that is perhaps in another cluster.
        let reason = reason(object, reader, ctx)??;
        if ctx.pairs_with(reader) && known.is_none_or(|(before, _)| reason < before) {
            known = Some((reason, reader));
        }
    }
    let releases = releases(selectors(object)?.0, ctx)?;
    let labels = object.path(&["metadata", "labels"]);
    let is_selected = |release: &Release| labels.get("release").text() == Some(release.name.as_str());
    let is_none = known.is_none() && releases.is_empty();
    if is_none && !runs_collector(ctx) {
        return of_two_releases(object, ctx);
    }
    if is_none
        || releases.iter().any(is_selected)
        || !releases.is_empty() && gets_labels(object, ctx)
        || runs_collector(ctx)
    {
        return None;
    }
    match (known, releases.first()) {
        (Some((reason, reader)), _) => report(object, reader, reason, ctx),
        (None, Some(release)) => report_release(object, release, ctx),
        (None, None) => None,
    }
}

/// The kinds that the chart selects by its release.
const SELECTED: [Kind; 4] = [Kind::SERVICE_MONITOR, Kind::POD_MONITOR, Kind::PROMETHEUS_RULE, Kind::PROBE];

/// The label by which the Prometheus of a release selects an object. A chart gives its objects the name of its own release.
fn release_of(object: &Object) -> Option<Node<'_>> {
    let labels = object.path(&["metadata", "labels"]);
    let is_of_chart = ["heritage", "chart", "helm.sh/chart"].iter().any(|key| labels.get(key).is_set());
    let release = labels.get("release");
    (!is_of_chart && !object.may_lack_fields() && release.text().is_some()).then_some(release)
}

/// Reports a monitor for another release than the first one beside it.
fn of_two_releases(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    let own = release_of(object)?;
    let cluster = ctx.cluster();
    let is_near = |other: &&Object| {
        position(other) < position(object)
            && release_of(other).is_some()
            && cluster.likely_pairs(object, other)
    };
    let others = SELECTED.iter().flat_map(|kind| cluster.of(*kind)).filter(is_near);
    let first = others.min_by_key(|other| position(other))?;
    let other = release_of(first)?;
    let (here, there) = (own.text()?, other.text()?);
    if here == there || is_example(object) {
        return None;
    }
    let message = format!(
        "`release: {}` here and `{}` in {} `{}`: the Prometheus of a release reads one of the two",
        ellipsize(here),
        ellipsize(there),
        first.kind(),
        first.display_name()
    );
    ctx.report(&own, message)
        .severity(Severity::Info)
        .help("write the release of kube-prometheus-stack in both, as `helm list -A` shows it")
        .related(first, &other, "the other release");
    None
}

fn readers_of(is_of_rules: bool) -> &'static [Kind] {
    if is_of_rules { &[Kind::PROMETHEUS, RULER] } else { &READERS }
}

/// Reports a monitor that a chart makes, if each Prometheus asks for a label that neither its values give it nor Helm.
fn check_made<'a>(made: &MadeMonitor<'_>, ctx: &mut Context<'a>) -> Option<()> {
    let (own, _) = selectors_of(&|kind| made.kind == kind)?;
    let value_of =
        |key: &str| made.labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    let mut known: Option<(&'a Object, &'a str, &'a str)> = None;
    for reader in
        readers_of(made.kind == Kind::PROMETHEUS_RULE).iter().flat_map(|kind| ctx.cluster().of(*kind))
    {
        let selector = reader.path(&["spec", own]);
        if reader.may_lack_fields() || reader.get("spec").has_unknown_key() || selector.has_unknown() {
            return None;
        }
        let wanted = selector.get("matchLabels").entries().into_iter();
        let mut lacking = wanted.filter_map(|(key, value)| {
            let value = value.text()?;
            (!is_of_charts(key) && value_of(key) != Some(value)).then_some((key, value))
        });
        // It may select the monitor.
        let (key, value) = lacking.next()?;
        if ctx.pairs_with(reader) {
            known = known.or(Some((reader, key, value)));
        }
    }
    let releases = releases(own, ctx)?;
    if releases.iter().any(|release| value_of("release") == Some(release.name.as_str())) {
        return None;
    }
    let (installer, by, key, value, what) = match (known, releases.first()) {
        (Some((reader, key, value)), _) => {
            let by = format!("{} `{}`", reader.kind(), ellipsize(reader.name()));
            (reader.clone(), by, key.to_owned(), value.to_owned(), "its selector asks for another label")
        }
        (None, Some(Release { installer, name })) => {
            let by = format!("that of release `{}`", ellipsize(name));
            (installer.clone(), by, "release".to_owned(), name.clone(), "its chart selects by the release")
        }
        (None, None) => return None,
    };
    let message =
        format!("no Prometheus reads the {} of {}: {by} selects other labels", made.kind.kind, made.maker);
    let shown = format!("{}: {}", ellipsize(&key), ellipsize(&value));
    let finding = report_place(&made.place, message, ctx);
    finding.identified_by(&made.path).help(format!("write `{shown}` in `{}`", made.path)).related(
        &installer,
        &installer.path(&["metadata", "name"]),
        what,
    );
    if let Some(field) = &made.field {
        finding.fix(add_labels(field, &[(&key, &value)], &by));
    }
    None
}

fn report_release(object: &Object, release: &Release, ctx: &mut Context<'_>) -> Option<()> {
    let (own, _) = selectors(object)?;
    let labels = object.path(&["metadata", "labels"]);
    let Release { installer, name } = release;
    let shown = ellipsize(name);
    let message =
        format!("no Prometheus reads this {}: that of release `{shown}` selects other labels", object.kind());
    ctx.report(&labels, message)
        .help(format!("add the label `release: {shown}`, or write `{own}NilUsesHelmValues: false`"))
        .related(installer, &installer.path(&["metadata", "name"]), "its chart selects by the release")
        .fix(add_labels(&labels, &[("release", name)], "the release"));
    None
}

fn add_labels(labels: &Node<'_>, missing: &[(&str, &str)], by: &str) -> Fix {
    let fix = Fix::unsafe_(format!("add the label that {by} selects"));
    if !labels.is_mapping() {
        let all = missing.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        return fix.set(labels, Value::Object(all.collect()));
    }
    missing.iter().fold(fix, |fix, (key, value)| fix.set(&labels.get(key), json!(value)))
}

/// What reads monitors.
pub(super) const READERS: [Kind; 2] = [Kind::PROMETHEUS, AGENT];

/// Whether one Prometheus reads two monitors, as far as the input shows.
pub(super) fn are_read_together(a: &Object, b: &Object, ctx: &Context<'_>) -> bool {
    let reads = |reader: &Object, monitor: &Object| reason(monitor, reader, ctx) == Some(None);
    let mut readers = READERS.iter().flat_map(|kind| ctx.cluster().of(*kind)).peekable();
    readers.peek().is_none() || readers.any(|reader| reads(reader, a) && reads(reader, b))
}

/// Why a Prometheus does not select an object; `Some(None)` if it does. `None` if that is not known.
#[expect(clippy::option_option, reason = "unknown differs from selected")]
fn reason(object: &Object, reader: &Object, ctx: &Context<'_>) -> Option<Option<Reason>> {
    let (own, of_namespaces) = selectors(object)?;
    let spec = reader.get("spec");
    if reader.may_lack_fields()
        || reader.is_namespace_unknown()
        || !spec.is_mapping()
        || spec.has_unknown_key()
    {
        return None;
    }
    let by_hand =
        !object.is(Kind::PROMETHEUS_RULE) && MONITOR_SELECTORS.iter().all(|field| !spec.get(field).is_set());
    let (selector, namespaces) = (spec.get(own), spec.get(of_namespaces));
    if by_hand || selector.has_unknown() || namespaces.has_unknown() {
        return None;
    }
    if !selector.is_set() {
        return Some(Some(Reason::NoSelector));
    }
    let labels = object.path(&["metadata", "labels"]).entries();
    if !matches(&selector, &labels)? {
        // What applies it may add the label.
        return (!gets_labels(object, ctx)).then_some(Some(Reason::Labels));
    }
    let is_in = is_in_namespaces(object, reader, &namespaces, ctx)?;
    Some((!is_in).then_some(Reason::Namespace))
}

/// Whether a Prometheus looks in the namespace of an object.
fn is_in_namespaces(
    object: &Object,
    reader: &Object,
    selector: &Node<'_>,
    ctx: &Context<'_>,
) -> Option<bool> {
    let name = object.namespace();
    if !selector.is_set() {
        return match (name, reader.namespace()) {
            (Some(own), Some(other)) => Some(own == other),
            (None, None) => Some(true),
            // The namespace is given when it is applied.
            _ => None,
        };
    }
    let (labels, expressions) = (selector.get("matchLabels").entries(), selector.get("matchExpressions"));
    if labels.is_empty() && expressions.items().next().is_none() {
        return Some(true);
    }
    let is_by_name = labels.iter().all(|(key, _)| *key == NAME_LABEL)
        && expressions.items().all(|expression| expression.get("key").text() == Some(NAME_LABEL));
    if !is_by_name {
        // Something else may label the namespace as well.
        let namespace = ctx.partner(Kind::NAMESPACE, "default", name?)?;
        let labels = namespace.path(&["metadata", "labels"]).entries();
        return matches(selector, &labels).filter(|selected| *selected);
    }
    let name = name?;
    let mut all = labels.iter().all(|(_, value)| value.text() == Some(name));
    for expression in expressions.items() {
        let is_listed = expression.get("values").items().any(|value| value.text() == Some(name));
        all &= match expression.get("operator").text()? {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => true,
            _ => return None,
        };
    }
    Some(all)
}

fn report(object: &Object, reader: &Object, reason: Reason, ctx: &mut Context<'_>) -> Option<()> {
    let (own, of_namespaces) = selectors(object)?;
    let (kind, reader_kind) = (object.kind(), reader.kind());
    let by = format!("{reader_kind} `{}`", reader.display_name());
    let (selector, namespaces) = (reader.path(&["spec", own]), reader.path(&["spec", of_namespaces]));
    match reason {
        Reason::Labels => {
            let labels = object.path(&["metadata", "labels"]);
            let wanted = selector.get("matchLabels").entries().into_iter();
            let missing = wanted.filter_map(|(key, value)| {
                let value = value.text()?;
                (labels.get(key).text() != Some(value)).then_some((key, value))
            });
            let missing: Vec<(&str, &str)> = missing.collect();
            let message = format!("no Prometheus reads this {kind}: {by} selects other labels");
            let finding = ctx.report(&labels, message);
            finding.related(reader, &selector, "its selector");
            match missing.first() {
                Some((key, value)) => {
                    let fix = add_labels(&labels, &missing, &by);
                    finding.help(format!("add the label `{key}: {}`", ellipsize(value))).fix(fix);
                }
                None => {
                    finding.help(format!("add the label that `{own}` asks for"));
                }
            }
        }
        Reason::NoSelector => {
            ctx.report(
                &object.path(&["metadata", "labels"]),
                format!("no Prometheus reads this {kind}: {by} has no `{own}`"),
            )
            .help(format!("write `{own}: {{}}` in the {reader_kind}: without it, none are selected"))
            .related(reader, &selector, "the selector");
        }
        Reason::Namespace => {
            let message = format!("no Prometheus reads this {kind}: {by} does not look in its namespace");
            ctx.report(&object.path(&["metadata", "namespace"]), message)
                .help(format!("write `{of_namespaces}: {{}}` in the {reader_kind}, or move the {kind}"))
                .related(reader, &namespaces, "the namespaces in which it looks");
        }
    }
    None
}
