//! Fixes of values: the edit of a values file that gives a rendered field another value. It is offered only where one action of
//! one template, and nothing else, prints the value as it is.

use gpulint_rules::lint::fix::text::{Edit, Repair};
use gpulint_rules::tree::Span;
use gpulint_rules::{Fix, Operation};
use serde_json::Value;

/// The only field that a fix changes, and its new value, which is no collection.
pub(super) fn single_change(fix: &Fix) -> Option<(&str, &Value)> {
    let is_test = |operation: &&Operation| matches!(operation, Operation::Test { .. });
    let mut changes = fix.operations.iter().filter(|operation| !is_test(operation));
    let (first, None) = (changes.next()?, changes.next()) else { return None };
    let (Operation::Replace { path, value } | Operation::Add { path, value }) = first else { return None };
    let is_scalar = value.is_string() || value.is_number() || value.is_boolean();
    (fix.creates.is_empty() && is_scalar).then_some((path.as_str(), value))
}

/// Whether an action prints a value of the chart as it is: `{{ .Values.a }}`, maybe in quotes.
pub(super) fn prints_whole(action: &str, path: &[String]) -> Option<bool> {
    let body = action.strip_prefix("{{")?.strip_suffix("}}")?;
    let body = body.trim_start_matches('-').trim_end_matches('-').trim();
    let (value, filter) = body.split_once('|').map_or((body, ""), |(value, filter)| (value, filter.trim()));
    let is_it = value.trim() == format!(".Values.{}", path.join("."));
    match filter {
        "" if is_it => Some(false),
        "quote" if is_it => Some(true),
        _ => None,
    }
}

/// Whether the texts of a chart's templates read a value once, and nothing that contains it.
pub(super) fn is_read_once(texts: &[String], path: &[String]) -> bool {
    let count = |path: &[String]| -> usize {
        let name = format!(".Values{}", path.iter().map(|step| format!(".{step}")).collect::<String>());
        let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c));
        let ends =
            texts.iter().flat_map(|text| text.match_indices(&name).map(|(at, _)| &text[at + name.len()..]));
        ends.filter(|rest| is_end(rest)).count()
    };
    let is_inside = (0..path.len()).any(|length| count(&path[..length]) > 0);
    let is_plain = |step: &String| step.chars().all(|c| c.is_alphanumeric() || c == '_');
    !is_inside && path.iter().all(is_plain) && count(path) == 1
}

/// The edit that writes another value in the place of a scalar.
pub(super) fn replacement(written: &str, span: Span, value: &Value, is_quoted: bool) -> Option<Repair> {
    let text = match value {
        Value::String(text) => {
            let starts = text.starts_with(|c: char| c.is_ascii_alphabetic());
            let is_word = starts && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
            let names = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
            let is_plain = is_word && !names.contains(&text.to_ascii_lowercase().as_str());
            // Without quotes in the template, another text may be read as a number.
            if !is_plain && !is_quoted && !has_unit(text) {
                return None;
            }
            let quotes = written.starts_with(['"', '\'']);
            if is_plain && !quotes { text.clone() } else { serde_json::to_string(text).ok()? }
        }
        other => other.to_string(),
    };
    Some(Repair { edits: vec![Edit { span, text }], scope: span })
}

/// Whether a text is a number with a unit, which YAML reads as a text: `10m`, `1Gi`.
fn has_unit(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len()
        && !unit.is_empty()
        && unit.chars().all(|c| c.is_ascii_alphabetic() && c != 'e' && c != 'x')
}

#[cfg(test)]
mod tests {
    use gpulint_rules::tree::Span;
    use serde_json::{Value, json};

    use super::{is_read_once, prints_whole, replacement};

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_value_is_printed_as_it_is_or_not() {
        assert_eq!(prints_whole("{{ .Values.a.b }}", &path("a.b")), Some(false));
        assert_eq!(prints_whole("{{- .Values.a | quote -}}", &path("a")), Some(true));
        for other in ["{{ .Values.ab }}", "{{ .Values.a | upper }}", "{{ printf \"%s\" .Values.a }}"] {
            assert_eq!(prints_whole(other, &path("a")), None, "{other}");
        }
    }

    #[test]
    fn a_value_that_is_read_twice_is_not_proven() {
        let reads = |text: &str| is_read_once(&[text.to_owned()], &path("a.b"));
        assert!(reads("x: {{ .Values.a.b }}\ny: {{ .Values.a.bc }}"));
        assert!(!reads("x: {{ .Values.a.b }}\ny: {{ $.Values.a.b }}"));
        assert!(!reads("x: {{ .Values.a.b }}\ny: {{ toYaml .Values.a }}"));
        assert!(!reads("x: {{ .Values.a.b }}\n{{ with .Values }}{{ end }}"));
    }

    #[test]
    fn values_keep_their_types() {
        let text = |written: &str, value: Value, quoted| {
            replacement(written, Span::new(0, 1), &value, quoted).map(|repair| repair.edits[0].text.clone())
        };
        assert_eq!(text("a", json!("WhenEmpty"), false).as_deref(), Some("WhenEmpty"));
        assert_eq!(text("'a'", json!("WhenEmpty"), false).as_deref(), Some("\"WhenEmpty\""));
        assert_eq!(text("720", json!("720h"), false).as_deref(), Some("\"720h\""));
        assert_eq!(text("2", json!(3), false).as_deref(), Some("3"));
        for unclear in ["true", "2"] {
            assert_eq!(text("a", json!(unclear), false), None);
        }
        assert_eq!(text("a", json!("2"), true).as_deref(), Some("\"2\""));
    }
}
