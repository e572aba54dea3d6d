//! The rules of prometheus-adapter, which serve the metrics of HPAs: their names, and their queries.
//!
//! Source: kubernetes-sigs/prometheus-adapter, `pkg/naming` and `docs/config.md`, and its chart's values; read in
//! November 2026.

use std::ops::Range;

use regex::Regex;

use crate::facts::text::contains;
use crate::kind::Kind;
use crate::object::{Memo, Object};
use crate::promql::identifiers::is_identifier;
use crate::source::with_embedded;
use crate::steps;
use crate::tree::node::{Node, NodeId};
use crate::workload::charts::for_each_values_with;

/// The query of a rule that has none.
const DEFAULT_QUERY: &str = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";

/// A rule of the adapter.
#[derive(Debug)]
pub(crate) struct AdapterRule {
    /// The name under which an HPA reads the metric; `None` if it is not known, or if there are several.
    pub(crate) name: Option<String>,
    /// Whether it is for `External` metrics, and not for `Pods` and `Object`.
    pub(crate) is_external: bool,
    /// The query in PromQL, if its metric is known.
    pub(crate) query: Option<String>,
    /// The field with the query, or with the configuration that contains it.
    pub(crate) spot: NodeId,
    /// The bytes of the query in the text of a configuration.
    pub(crate) part: Option<Range<usize>>,
}

/// The rules of an adapter in one object.
#[derive(Debug, Default)]
pub(crate) struct AdapterRules {
    pub(crate) rules: Vec<AdapterRule>,
    /// Whether the adapter serves metrics by other rules as well, as far as the object shows.
    pub(crate) has_others: bool,
}

/// The rules of an adapter in a ConfigMap, or in the values of a chart. `None` for other objects.
pub(crate) fn adapter_rules(object: &Object) -> Option<&AdapterRules> {
    static RULES: Memo<Option<AdapterRules>> = Memo::new();
    let read = || steps::limited(steps::SHARED, || collect(object)).0.flatten();
    object.memo(&RULES, read).as_ref()
}

fn collect(object: &Object) -> Option<AdapterRules> {
    let mut all = AdapterRules::default();
    if object.is(Kind::CONFIG_MAP) {
        for (_, entry) in object.get("data").entries() {
            let Some(text) = entry.raw_text().filter(|text| contains(text, "seriesQuery")) else { continue };
            steps::take(20 * text.len());
            let read = with_embedded(text, |root| {
                all.has_others |= root.get("rules").is_unknown() || root.get("externalRules").is_unknown();
                push(&root.get("rules"), false, Some(&entry), &mut all);
                push(&root.get("externalRules"), true, Some(&entry), &mut all);
                Some(())
            });
            all.has_others |= read.is_none();
        }
    } else {
        for_each_values_with(object, "seriesQuery", |values| {
            let rules = [values.root.get("rules"), values.root.path(&["prometheus-adapter", "rules"])];
            for rules in rules.iter().filter(|rules| rules.is_mapping()) {
                // The chart has rules for all series of pods unless they are switched off.
                all.has_others |= rules.get("default").bool() != Some(false)
                    || rules.get("existing").is_set()
                    || rules.has_unknown_key()
                    || values.may_differ;
                push(&rules.get("custom"), false, values.text.as_ref(), &mut all);
                push(&rules.get("external"), true, values.text.as_ref(), &mut all);
            }
        });
    }
    (!all.rules.is_empty()).then_some(all)
}

/// Adds the rules of a list. `entry` is the field with the text of the configuration that contains it.
fn push(list: &Node<'_>, is_external: bool, entry: Option<&Node<'_>>, all: &mut AdapterRules) {
    for rule in list.items() {
        let series_query = rule.get("seriesQuery");
        let Some(series_text) = series_query.raw_text() else { continue };
        let query = rule.get("metricsQuery");
        let node = if query.is_set() { query.clone() } else { series_query.clone() };
        let part = entry.and_then(|_| node.span()).map(|span| span.start as usize..span.end as usize);
        let series = series_of(series_text);
        let text = if query.is_set() { query.raw_text() } else { Some(DEFAULT_QUERY) };
        all.rules.push(AdapterRule {
            name: series.and_then(|series| served_name(&rule.get("name"), series)),
            is_external,
            query: text.and_then(|text| filled_in(text, series)),
            spot: entry.unwrap_or(&node).id(),
            part,
        });
    }
}

/// The only series of a `seriesQuery`: `up{…}`, or `{__name__=~"^up$",…}`, whose pattern is a name. `None` if it selects by
/// another pattern.
fn series_of(text: &str) -> Option<&str> {
    let (name, matchers) = text.split_once('{').unwrap_or((text, ""));
    if !name.trim().is_empty() {
        return Some(name.trim()).filter(|name| is_identifier(name));
    }
    let (_, after) = matchers.split_once("__name__")?;
    let after = after.trim_start();
    let value = after.strip_prefix("=~").or_else(|| after.strip_prefix('='))?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    let pattern = value[1..].split(quote).next()?;
    let name = pattern.strip_prefix('^').unwrap_or(pattern);
    let name = name.strip_suffix('$').unwrap_or(name);
    is_identifier(name).then_some(name)
}

/// The name of a series in the metrics API, by `matches` and `as` of a rule.
fn served_name(name: &Node<'_>, series: &str) -> Option<String> {
    if name.has_unknown_key() {
        return None;
    }
    let (matches, served) = (name.get("matches"), name.get("as"));
    let pattern = match matches.raw_text() {
        Some(text) if !text.is_empty() => Regex::new(text).ok()?,
        _ if matches.is_absent() || matches.raw_text() == Some("") => Regex::new("^.*$").ok()?,
        _ => return None,
    };
    let found = pattern.captures(series)?;
    match served.raw_text().filter(|text| !text.is_empty()) {
        // Other forms, such as `$1_rate`, are read differently in Go and in Rust.
        Some(template) if template.contains('$') => {
            let mut out = template.to_owned();
            for number in 0..pattern.captures_len() {
                let group = found.get(number).map_or("", |group| group.as_str());
                out = out.replace(&format!("${{{number}}}"), group);
            }
            if let Some(rest) = out.strip_prefix('$') {
                out = found.get(rest.parse().ok()?)?.as_str().to_owned();
            }
            (!out.contains('$')).then_some(out)
        }
        Some(name) => Some(name.to_owned()),
        None if served.is_set() && served.raw_text().is_none() => None,
        None => Some(found.get(usize::from(pattern.captures_len() == 2))?.as_str().to_owned()),
    }
}

/// A query with a value in the place of each template of the adapter. `None` if it has others.
fn filled_in(query: &str, series: Option<&str>) -> Option<String> {
    let mut out = String::with_capacity(query.len());
    let mut rest = query;
    while let Some((before, after)) = rest.split_once("<<") {
        let (template, behind) = after.split_once(">>")?;
        out.push_str(before);
        out.push_str(match template.trim() {
            ".Series" => series?,
            ".LabelMatchers" => r#"namespace!="""#,
            ".GroupBy" => "pod",
            _ => return None,
        });
        rest = behind;
    }
    Some(out + rest)
}
