//! The empty values of a chart, which are places for those of an installation.

use gpulint_rules::source::Source;
use gpulint_rules::tree::Span;
use gpulint_rules::{Node, source};

/// Start of a value in a template.
const VALUES: &str = ".Values.";

/// The key of an empty value in the values of a chart that a place depends on: the value itself, or the first in the block that
/// begins at the place in a template.
pub(super) fn empty_value(values: &Source, place: &Source, span: Span) -> Option<String> {
    let documents = source::read(values);
    let root = documents.first()?.root()?;
    if place.path() == values.path() {
        let mut steps = Vec::new();
        return find(&root, span, &mut steps).then(|| steps.join("."));
    }
    let keys = block(place, span).flat_map(|line| line.split(VALUES).skip(1)).map(|rest| {
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        rest[..rest.find(|c| !is_key(c)).unwrap_or(rest.len())].trim_end_matches('.')
    });
    let is_empty_key = |key: &&str| is_empty(&key.split('.').fold(root.clone(), |node, step| node.get(step)));
    keys.into_iter().find(is_empty_key).map(str::to_owned)
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
    use gpulint_rules::source::Source;
    use gpulint_rules::tree::Span;

    use super::empty_value;

    #[test]
    fn empty_values_are_named() {
        let values =
            Source::from_text("values.yaml", "image: {repository: \"\", tag: a}\nsubnets: {tags: {}}\n");
        let at = |source: &Source, text: &str| {
            let at = source.text().find(text).expect("the text is there") as u32;
            Span::new(at, at + text.len() as u32)
        };
        let found = |source: &Source, text: &str| empty_value(&values, source, at(source, text));
        assert_eq!(found(&values, "\"\"").as_deref(), Some("image.repository"));
        assert_eq!(found(&values, "a}"), None);
        let template = Source::from_text(
            "templates/a.yaml",
            "spec:\n  terms:\n  {{- with .Values.subnets.tags }}\n  - tags: {{ toYaml . }}\n  {{- end }}\n  tag: {{ .Values.image.tag }}\n",
        );
        assert_eq!(found(&template, "terms").as_deref(), Some("subnets.tags"));
        assert_eq!(found(&template, "tag: {{ .V"), None);
    }
}
