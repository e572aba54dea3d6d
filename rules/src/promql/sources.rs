//! The queries of an object, parsed once.

use std::ops::Range;

use memchr::memmem;
use serde_json::Value;

use crate::facts::text::contains;
use crate::keda::triggers;
use crate::kind::Kind;
use crate::object::{Memo, Object};
use crate::promql::adapter::adapter_rules;
use crate::promql::{Parsed, parse};
use crate::source::with_embedded;
use crate::steps;
use crate::tree::node::{Node, NodeId};
use crate::tree::scalar::Scalar;
use crate::workload::charts::{CHART_KINDS, for_each_values_with};

pub(crate) const QUERY_KINDS: [Kind; 9] = [
    Kind::PROMETHEUS_RULE,
    Kind::VM_RULE,
    Kind::PROMETHEUS_RULE_FILE,
    Kind::SCALED_OBJECT,
    Kind::SCALED_JOB,
    Kind::CONFIG_MAP,
    Kind::GRAFANA_DASHBOARD,
    Kind::HELM_RELEASE,
    Kind::ARGO_APPLICATION,
];

/// The kinds with groups of rules.
pub(crate) const PROMETHEUS_RULE_KINDS: [Kind; 3] =
    [Kind::PROMETHEUS_RULE, Kind::VM_RULE, Kind::PROMETHEUS_RULE_FILE];

/// The groups of an object of these kinds.
pub(crate) fn rule_groups(object: &Object) -> Node<'_> {
    if object.is(Kind::PROMETHEUS_RULE_FILE) {
        object.get("groups")
    } else {
        object.path(&["spec", "groups"])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryPlace {
    /// A trigger of a ScaledObject or ScaledJob.
    Trigger,
    Alert,
    Record,
    Dashboard,
    /// A rule of prometheus-adapter, from which HPAs read.
    Adapter,
}

#[derive(Debug)]
pub(crate) struct Query {
    spot: NodeId,
    pub(crate) place: QueryPlace,
    /// The text, without surrounding blanks.
    pub(crate) text: String,
    pub(crate) parsed: Parsed,
    /// Whether it is inside a text value (a dashboard or rule file in a field), where fixes cannot edit it.
    pub(crate) is_embedded: bool,
    /// The bytes of an embedded query in the text of the field, where they are known.
    pub(crate) part: Option<Range<usize>>,
    /// In a rule file, the name of the alert or of the series; in a dashboard, the title of the panel; in an adapter, the
    /// name of the metric.
    pub(crate) title: Option<String>,
    /// The labels of the result that the texts of an alert show.
    pub(crate) shown_labels: Vec<ShownLabel>,
}

/// A label of the result of an alert in one of its texts.
#[derive(Clone, Debug)]
pub(crate) struct ShownLabel {
    pub(crate) label: String,
    spot: NodeId,
    /// The bytes of the text in an embedded rule file.
    pub(crate) part: Option<Range<usize>>,
}

impl ShownLabel {
    /// The node with the text, or with the rule file that contains it.
    pub(crate) fn node<'o>(&self, object: &'o Object) -> Node<'o> {
        Node::from_id(object.tree().0, &self.spot)
    }
}

impl Query {
    /// The node with the query, or with the dashboard or rule file that contains it.
    pub(crate) fn node<'o>(&self, object: &'o Object) -> Node<'o> {
        Node::from_id(object.tree().0, &self.spot)
    }

    /// Whether both are queries of the same dashboard.
    pub(crate) fn is_of_dashboard_of(&self, other: &Query, object: &Object) -> bool {
        let is_in_one = [self, other].iter().all(|query| query.place == QueryPlace::Dashboard);
        is_in_one && self.node(object).pointer() == other.node(object).pointer()
    }

    /// The mapping that contains the query: the alert or the trigger. Not useful for an embedded query.
    pub(crate) fn entry<'o>(&self, object: &'o Object) -> Node<'o> {
        let pointer = self.node(object).pointer();
        let above = if self.place == QueryPlace::Trigger { 2 } else { 1 };
        let steps = pointer.steps();
        let mut node = object.root();
        for step in &steps[..steps.len().saturating_sub(above)] {
            node = match step.parse::<usize>() {
                Ok(index) if node.is_sequence() => node.index(index),
                _ => node.get(step),
            };
        }
        node
    }
}

static QUERIES: Memo<Vec<Query>> = Memo::new();

/// The queries of an object in the order of the text. Empty if reading them takes too long.
pub(crate) fn queries(object: &Object) -> &[Query] {
    let read = || steps::limited(steps::SHARED, || collect(object)).0.unwrap_or_default();
    let all: &Vec<Query> = object.memo(&QUERIES, read);
    all
}

fn collect(object: &Object) -> Vec<Query> {
    let mut out = Vec::new();
    if object.is(Kind::SCALED_OBJECT) || object.is(Kind::SCALED_JOB) {
        for trigger in triggers(object).filter(|trigger| trigger.kind() == Some("prometheus")) {
            let metadata = trigger.metadata();
            let other_dialect = metadata.get("serverAddress").text().is_some_and(is_victoria_metrics);
            push(&metadata.get("query"), QueryPlace::Trigger, other_dialect, &mut out);
        }
    } else if PROMETHEUS_RULE_KINDS.iter().any(|kind| object.is(*kind)) {
        let is_file = object.is(Kind::PROMETHEUS_RULE_FILE);
        let other_dialect = object.is(Kind::VM_RULE) || is_file && is_for_victoria_metrics(object.name());
        for_each_rule(&rule_groups(object), is_file, &mut |rule, place, _| {
            let before = out.len();
            push(&rule.get("expr"), place, other_dialect, &mut out);
            for query in &mut out[before..] {
                query.shown_labels = shown_labels(rule);
            }
        });
    } else if CHART_KINDS.iter().any(|kind| object.is(*kind)) {
        chart_rules(object, &mut out);
    } else if object.is(Kind::CONFIG_MAP) {
        let other_dialect = is_for_victoria_metrics(object.name());
        for (name, text) in object.get("data").entries() {
            if name.ends_with(".json") {
                dashboard(&text, &mut out);
            } else if [".yaml", ".yml", ".rules"].iter().any(|end| name.ends_with(end)) {
                rule_file(&text, other_dialect, &mut out);
            }
        }
    } else if object.is(Kind::GRAFANA_DASHBOARD) {
        dashboard(&object.path(&["spec", "json"]), &mut out);
    }
    for rule in adapter_rules(object).into_iter().flat_map(|all| &all.rules) {
        let Some(text) = rule.query.as_deref().map(str::trim) else { continue };
        out.push(Query {
            spot: rule.spot.clone(),
            place: QueryPlace::Adapter,
            text: text.to_owned(),
            parsed: parse(text),
            is_embedded: true,
            part: rule.part.clone(),
            title: rule.name.clone(),
            shown_labels: Vec::new(),
        });
    }
    // The list is kept, and mostly has one entry.
    out.shrink_to_fit();
    out
}

fn push(node: &Node<'_>, place: QueryPlace, other_dialect: bool, out: &mut Vec<Query>) {
    let text = match node.scalar() {
        Some(Scalar::Str(text)) => text.trim().to_owned(),
        // A number is also a valid query.
        Some(Scalar::Int(number)) => number.to_string(),
        _ => return,
    };
    let unknown = node.is_unknown() || text.is_empty();
    let parsed = match if unknown { Parsed::Unknown } else { parse(&text) } {
        Parsed::Invalid(_) if other_dialect => Parsed::Unknown,
        parsed => parsed,
    };
    out.push(Query {
        spot: node.id(),
        place,
        text,
        parsed,
        is_embedded: false,
        part: None,
        title: None,
        shown_labels: Vec::new(),
    });
}

/// The queries of a Prometheus rule file in an entry of a ConfigMap.
fn rule_file(entry: &Node<'_>, other_dialect: bool, out: &mut Vec<Query>) {
    // Alerts have templates in their annotations, which look like placeholders.
    let Some(Scalar::Str(text)) = entry.scalar() else { return };
    if !contains(text, "groups:") || !contains(text, "expr:") {
        return;
    }
    steps::take(20 * text.len());
    with_embedded(text, |root| {
        for_each_rule(&root.get("groups"), true, &mut |rule, place, name| {
            let expr = rule.get("expr");
            let part = expr.span().map(|span| span.start as usize..span.end as usize);
            let before = out.len();
            push_embedded(&expr, place, other_dialect, (entry.id(), part, name.text()), out);
            for query in &mut out[before..] {
                query.shown_labels = shown_labels(rule);
                query.shown_labels.iter_mut().for_each(|shown| shown.spot = entry.id());
            }
        });
        Some(())
    });
}

/// The values of charts of Prometheus with groups of rules: of each entry of a mapping, or of each item of a list.
const CHART_RULES: [&[&str]; 4] = [
    &["additionalPrometheusRulesMap"],
    &["additionalPrometheusRules"],
    &["serverFiles"],
    &["prometheus", "serverFiles"],
];

/// The rules in the values of the charts that an object installs.
fn chart_rules(object: &Object, out: &mut Vec<Query>) {
    for_each_values_with(object, "expr", |values| {
        for list in CHART_RULES.iter().map(|path| values.root.path(path)) {
            let entries = list.entries().into_iter().map(|(_, entry)| entry);
            for file in entries.chain(list.items()) {
                for_each_rule(&file.get("groups"), true, &mut |rule, place, name| {
                    let expr = rule.get("expr");
                    let at = values.place(&expr, object);
                    if at.is_in_text {
                        push_embedded(&expr, place, false, (at.node.id(), at.part, name.text()), out);
                    } else {
                        push(&at.node, place, false, out);
                    }
                });
            }
        }
    });
}

/// Calls a function with the rules of groups, and the name of the alert or of the series of each. `is_file`: other programs have files
/// of this form, with rules that Prometheus does not read.
fn for_each_rule<'a>(
    groups: &Node<'a>,
    is_file: bool,
    visit: &mut dyn FnMut(&Node<'a>, QueryPlace, &Node<'a>),
) {
    for group in groups.items() {
        // VictoriaMetrics and Loki have groups in other query languages.
        let language = group.get("type");
        if is_file && language.is_set() && language.text() != Some("prometheus") {
            continue;
        }
        for rule in group.get("rules").items() {
            let (record, alert) = (rule.get("record"), rule.get("alert"));
            let (place, name) = match (record.is_set(), alert.is_set()) {
                (true, _) => (QueryPlace::Record, record),
                (_, false) if is_file => continue,
                _ => (QueryPlace::Alert, alert),
            };
            visit(&rule, place, &name);
        }
    }
}

/// The labels that the annotations and labels of an alert show. A text that decides by a label, or asks for other series, is left
/// out.
fn shown_labels(rule: &Node<'_>) -> Vec<ShownLabel> {
    const DECIDES: [&str; 5] = ["if ", "with ", "range ", "query ", "or "];
    let texts = ["annotations", "labels"].into_iter().flat_map(|field| rule.get(field).entries());
    let mut all: Vec<ShownLabel> = Vec::new();
    for (_, node) in texts {
        let Some(text) = node.raw_text().filter(|text| text.contains("{{")) else { continue };
        let actions: Vec<&str> =
            text.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap_or(rest)).collect();
        if actions.iter().any(|action| DECIDES.iter().any(|word| action.contains(word))) {
            continue;
        }
        let used = actions.iter().flat_map(|action| {
            let after = ["$labels.", ".Labels."].into_iter().flat_map(|sign| action.split(sign).skip(1));
            after.map(|rest| {
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or(rest)
            })
        });
        for label in used.filter(|label| !label.is_empty()) {
            if !all.iter().any(|shown| shown.label == label) {
                let part = node.span().map(|span| span.start as usize..span.end as usize);
                all.push(ShownLabel { label: label.to_owned(), spot: node.id(), part });
            }
        }
    }
    all
}

/// Adds a query in the text of a field: with the field, the bytes in its text, and the name of the rule.
fn push_embedded(
    expr: &Node<'_>,
    place: QueryPlace,
    other_dialect: bool,
    (spot, part, title): (NodeId, Option<Range<usize>>, Option<&str>),
    out: &mut Vec<Query>,
) {
    let before = out.len();
    push(expr, place, other_dialect, out);
    for query in &mut out[before..] {
        query.spot = spot.clone();
        query.is_embedded = true;
        query.part = part.clone();
        query.title = title.map(str::to_owned);
    }
}

/// Whether the rules of an object or a file are for VictoriaMetrics, judging by its name.
fn is_for_victoria_metrics(name: &str) -> bool {
    is_victoria_metrics(name) || name.contains("vmalert")
}

/// Whether an address or a name is that of VictoriaMetrics, whose queries support more functions.
pub(crate) fn is_victoria_metrics(address: &str) -> bool {
    ["victoria", "vmselect", "vmsingle", "vmauth", ":8428", ":8481"].iter().any(|sign| address.contains(sign))
}

/// The Prometheus queries in the panels of a dashboard.
fn dashboard(text: &Node<'_>, out: &mut Vec<Query>) {
    // Variables of dashboards look like placeholders.
    let Some(Scalar::Str(json)) = text.scalar() else { return };
    if memmem::find(json.as_bytes(), b"\"expr\"").is_none() {
        return;
    }
    steps::take(2 * json.len());
    if let Ok(value) = serde_json::from_str::<Value>(json) {
        // Without any data source, queries use Grafana's default one: those with `expr` are for Prometheus, or for
        // Loki, whose queries are unknown.
        let none = memmem::find(json.as_bytes(), b"\"datasource\"").is_none();
        let above = Panel { source: none.then_some("prometheus"), title: None };
        let from = out.len();
        panels(&value, above, &text.id(), out);
        let mut places = places_of_expressions(json);
        for query in &mut out[from..] {
            // Equal queries are in the order of the text.
            let at = places.iter().position(|(known, _)| known.trim() == query.text);
            query.part = at.map(|at| places.remove(at).1);
        }
    }
}

/// The values of `expr` in a dashboard, each with its bytes inside of the quotes, in the order of the text.
fn places_of_expressions(json: &str) -> Vec<(String, Range<usize>)> {
    const KEY: &str = "\"expr\"";
    let mut places = Vec::new();
    for at in memmem::find_iter(json.as_bytes(), KEY.as_bytes()) {
        let after = at + KEY.len();
        let rest = json[after..].trim_start();
        let Some(value) = rest.strip_prefix(':').map(str::trim_start).filter(|value| value.starts_with('"'))
        else {
            continue;
        };
        let start = json.len() - value.len();
        let mut strings = serde_json::Deserializer::from_str(value).into_iter::<String>();
        if let Some(Ok(text)) = strings.next() {
            places.push((text, start + 1..start + strings.byte_offset() - 1));
        }
    }
    places
}

fn panels(value: &Value, above: Panel<'_>, spot: &NodeId, out: &mut Vec<Query>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| panels(item, above, spot, out)),
        Value::Object(fields) => {
            let title = fields.get("title").and_then(Value::as_str).filter(|title| !title.is_empty());
            let panel = Panel {
                source: fields.get("datasource").and_then(source_type).or(above.source),
                title: title.or(above.title),
            };
            if let Some(Value::String(query)) = fields.get("expr")
                && panel.source == Some("prometheus")
            {
                let text = query.trim().to_owned();
                let parsed = if text.is_empty() { Parsed::Unknown } else { parse(&text) };
                out.push(Query {
                    spot: spot.clone(),
                    place: QueryPlace::Dashboard,
                    text,
                    parsed,
                    is_embedded: true,
                    part: None,
                    title: panel.title.map(str::to_owned),
                    shown_labels: Vec::new(),
                });
            }
            fields.values().for_each(|field| panels(field, panel, spot, out));
        }
        _ => {}
    }
}

/// The settings of a panel, or of the panel or dashboard that contains it.
#[derive(Clone, Copy)]
struct Panel<'a> {
    source: Option<&'a str>,
    title: Option<&'a str>,
}

/// The type of a data source: from a reference, or from its name in older dashboards. `None` if the name does not show
/// it.
fn source_type(source: &Value) -> Option<&str> {
    match source {
        Value::String(name) if name.to_ascii_lowercase().contains("prometheus") => Some("prometheus"),
        // A variable, or a mix of several.
        Value::String(name) if name.starts_with('$') || name.starts_with("--") => None,
        Value::String(name) => Some(name),
        other => other.get("type").and_then(Value::as_str),
    }
}
