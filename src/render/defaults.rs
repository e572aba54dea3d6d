//! The empty values of a chart, which are places for those of an installation.

use std::collections::HashSet;
use std::ops::Range;

use gpulint_rules::Node;
use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;

use super::template::Template;
use super::values::{ValuesFile, given};

/// Start of a value in a template.
const VALUES: &str = ".Values.";

/// The key of an empty value of a chart that a place depends on: the value itself, the first in the block that begins at the place
/// in a template, or one that the line of the template prints and that the chart does not have. `values` are the chart's own, in
/// descending order of precedence.
pub(super) fn empty_value(values: &[ValuesFile], place: &Source, span: Span) -> Option<String> {
    if let Some(file) = values.iter().find(|file| file.path() == place.path()) {
        let mut steps = Vec::new();
        return find(&file.root()?, span, &mut steps).then(|| steps.join("."));
    }
    let keys = block(place, span).flat_map(|line| line.split(VALUES).skip(1)).map(|rest| {
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        rest[..rest.find(|c| !is_key(c)).unwrap_or(rest.len())].trim_end_matches('.')
    });
    let is_empty_key = |key: &&str| {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        given(values, &path).is_some_and(|value| is_empty(&value))
    };
    let key = keys.into_iter().find(is_empty_key).map(str::to_owned);
    key.or_else(|| {
        let (lines, text) = (place.lines(), place.text());
        let line = lines.line_of(span.start);
        let part = lines.start_of(line, text) as usize..lines.start_of(line + 1, text) as usize;
        demanded(values, text, &part)
    })
}

/// The key of the first value that a part of a template prints, without a condition and a default, and that the chart does not give.
pub(super) fn demanded(values: &[ValuesFile], template: &str, part: &Range<usize>) -> Option<String> {
    let actions = Template::read(template).actions;
    // What gives a variable its value is no condition.
    let gives = |span: &Range<usize>| {
        let text = template.get(span.clone()).unwrap_or_default();
        text.trim_start_matches(['{', '-', ' ']).starts_with('$')
    };
    let conditions = actions.iter().filter(|action| !action.prints && !gives(&action.span));
    let conditions = conditions.flat_map(|action| &action.values);
    let conditions: HashSet<&Vec<String>> = conditions.flatten().collect();
    let prints = actions.iter().filter(|action| {
        let has_default = template.get(action.span.clone()).is_some_and(|text| text.contains("default"));
        action.prints && action.span.start < part.end && action.span.end > part.start && !has_default
    });
    let is_missing = |path: &&Vec<String>| {
        let is_key = !path.is_empty() && !path.iter().any(|step| step == "*") && !conditions.contains(path);
        is_key && given(values, path).is_none_or(|value| is_empty(&value))
    };
    prints.flat_map(|action| &action.values).flatten().find(is_missing).map(|path| path.join("."))
}

fn is_empty(node: &Node<'_>) -> bool {
    let is_collection = node.is_mapping() || node.is_sequence();
    let has_none = node.entries().is_empty() && node.items().next().is_none();
    node.is_null() || node.raw_text() == Some("") || is_collection && has_none
}

/// Whether an empty value is at a span below a node, and the steps to it.
fn find(node: &Node<'_>, span: Span, steps: &mut Vec<String>) -> bool {
    if node.span() == Some(span) && is_empty(node) {
        return true;
    }
    node.entries().into_iter().any(|(key, value)| {
        steps.push(key.to_owned());
        let is_found = find(&value, span, steps);
        if !is_found {
            steps.pop();
        }
        is_found
    })
}

/// The line of a place, and the lines below it that are indented deeper, begin items of its list, or have only an action.
fn block(place: &Source, span: Span) -> impl Iterator<Item = &str> {
    let start = place.lines().start_of(place.lines().line_of(span.start), place.text()) as usize;
    let mut lines = place.text().get(start..).unwrap_or_default().lines();
    let first = lines.next().unwrap_or_default();
    let own = indent(first);
    let below = lines.take_while(move |line| {
        let text = line.trim_start();
        text.is_empty()
            || text.starts_with("{{")
            || indent(line) > own
            || indent(line) == own && text.starts_with("- ")
    });
    std::iter::once(first).chain(below)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gpulint_rules::source::Source;
    use gpulint_rules::tree::Span;

    use super::{demanded, empty_value};
    use crate::render::values::ValuesFile;

    #[test]
    fn empty_values_are_named() {
        let values = "image: {repository: \"\", tag: a}\nsubnets: {tags: {}}\n";
        let values = Arc::new(Source::from_text("values.yaml", values));
        let own = [ValuesFile::of(Arc::clone(&values))];
        let at = |source: &Source, text: &str| {
            let at = source.text().find(text).expect("the text is there") as u32;
            Span::new(at, at + text.len() as u32)
        };
        let found = |source: &Source, text: &str| empty_value(&own, source, at(source, text));
        assert_eq!(found(&values, "\"\"").as_deref(), Some("image.repository"));
        assert_eq!(found(&values, "a}"), None);
        let template = Source::from_text(
            "templates/a.yaml",
            "spec:\n  terms:\n  {{- with .Values.subnets.tags }}\n  - tags: {{ toYaml . }}\n  {{- end }}\n  tag: {{ .Values.image.tag }}\n  \
             name: a-{{ .Values.version }}\n  size: {{ .Values.size | default 1 }}\n",
        );
        assert_eq!(found(&template, "terms").as_deref(), Some("subnets.tags"));
        assert_eq!(found(&template, "tag: {{ .V"), None);
        assert_eq!(found(&template, "name: a").as_deref(), Some("version"));
        assert_eq!(found(&template, "size: "), None);
        // A condition says what happens without the value.
        let of = |text: &str| demanded(&own, text, &(0..text.len()));
        assert_eq!(of("{{ if .Values.zone }}zone: {{ .Values.zone }}{{ end }}"), None);
        assert_eq!(
            of("{{- $known := lookup .Values.zone }}zone: {{ .Values.zone }}").as_deref(),
            Some("zone")
        );
        assert_eq!(
            of("image: {{ .Values.image.repository }}:{{ .Values.image.tag }}").as_deref(),
            Some("image.repository")
        );
    }
}
