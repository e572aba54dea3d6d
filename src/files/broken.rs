//! What text is that does not parse as YAML: a manifest with a mistake, or a script or a template around one.

/// Whether a text has the fields of a manifest. If it does not parse as YAML and has none of them, it is a
/// file of another tool and is not checked; a manifest with a syntax error still contains its kind.
pub(super) fn mentions_kubernetes(text: &str) -> bool {
    let field = |line: &str, name: &str| {
        let line = line.trim_start_matches([' ', '-', '{', '"', '\'', '\u{feff}']);
        let rest = line.strip_prefix(name).map(|rest| rest.trim_start_matches(['"', '\'', ' ']));
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    text.lines().any(|line| field(line, "apiVersion") || field(line, "kind"))
        || text.contains("\"apiVersion\"")
}

/// Whether a document that does not parse is a manifest: it begins like one, or has `apiVersion` or `kind` at the start of a
/// line. A report or the values of a tool may contain manifests, and has other fields at the top.
pub(super) fn is_manifest_text(text: &str) -> bool {
    text.lines().any(is_head_field) || begins_like_yaml(text) && !has_other_fields(text)
}

/// Whether a text has fields at the start of its lines, and none of a manifest.
fn has_other_fields(text: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let mut names = content(text)
        .filter_map(|line| line.split_once(':').map(|(name, _)| name))
        .filter(|name| is_name(name))
        .peekable();
    names.peek().is_some() && !names.any(|name| matches!(name, "apiVersion" | "kind" | "metadata" | "spec"))
}

/// Whether a text that does not parse is a script that contains manifests. `---` within it begins no manifest, so that all
/// documents of the file are part of it. A sentence above a manifest makes no script: kubectl refuses the file.
pub(super) fn is_script(text: &str) -> bool {
    if begins_like_yaml(text) {
        return false;
    }
    let starts_here_document = |line: &str| {
        let word =
            line.split_once("<<").map(|(_, rest)| rest.trim_start_matches(['-', ' ', '\'', '"', '\\']));
        word.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    };
    let mut before = content(text).take_while(|line| !is_head_field(line));
    is_mime(text)
        || text.starts_with("#!")
        || !text.lines().any(is_head_field)
        || before.any(starts_here_document)
}

/// Whether a text has an action of a Helm template. Those in the annotations of alerts are Prometheus's own.
pub(super) fn has_template_action(text: &str) -> bool {
    let of_alerts = ["$labels", "$value", "$externalLabels"];
    text.split("{{").skip(1).any(|rest| {
        let action = rest.split_once("}}").map_or(rest, |(action, _)| action);
        !of_alerts.iter().any(|variable| action.contains(variable))
    })
}

/// Whether a text has annotations of [ytt](https://carvel.dev/ytt/docs/latest/lang-ref-annotation/), which YAML takes for comments:
/// a value behind a field that is empty without it, a condition, or an overlay.
pub(super) fn is_ytt_template(text: &str) -> bool {
    let is_annotation = |line: &str| {
        let rest = line.trim_start().strip_prefix("#@");
        rest.is_some_and(|rest| rest.starts_with(|c: char| c == ' ' || c == '/' || c.is_ascii_lowercase()))
    };
    memchr::memmem::find(text.as_bytes(), b"#@").is_some()
        && text.lines().any(|line| is_annotation(line) || line.contains(": #@ ") || line.contains("- #@ "))
}

/// The lines that are neither empty, comments, directives nor separators.
fn content(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.trim_end().trim_start_matches('\u{feff}'));
    lines.filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with(['#', '%']) && line != "---"
    })
}

/// Whether a text is the user data of an instance in MIME parts.
fn is_mime(text: &str) -> bool {
    text.trim_start().starts_with("MIME-Version:")
}

/// Whether a line is the first field of a manifest.
fn is_head_field(line: &str) -> bool {
    let line = line.trim_start_matches('\u{feff}');
    ["apiVersion:", "kind:"].iter().any(|field| line.starts_with(field))
}

/// Whether the first line may be that of a manifest.
fn begins_like_yaml(text: &str) -> bool {
    let Some(first) = content(text).next().map(str::trim) else { return true };
    let is_key = |word: &str| matches!(word, "apiVersion" | "kind" | "metadata" | "spec");
    let word = first.split([' ', ':', '=']).next().unwrap_or_default();
    let is_entry = first.contains(": ") || first.ends_with(':');
    // Prose may end in a colon, but a key of a manifest has no spaces.
    let is_key_of_one_word = !first.split(':').next().unwrap_or_default().trim().contains(' ');
    is_entry && is_key_of_one_word && !is_mime(first)
        || first.starts_with(['-', '{', '}', '[', ']', '"', '\'', '<', '=', '>', '\t'])
        || is_key(word)
}

#[cfg(test)]
mod tests {
    use super::{has_template_action, is_manifest_text, is_script, is_ytt_template};

    #[test]
    fn text_above_a_manifest_makes_no_script() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n";
        for (text, around) in [
            (format!("oops\n{pod}"), false),
            (format!("}}{{\n{pod}"), false),
            (format!("Create the pod with\n\n{pod}"), false),
            (format!("$ kubectl get pod a -o yaml\n{pod}"), false),
            (format!("<<<<<<< HEAD\n{pod}"), false),
            (format!("#!/bin/sh\nkubectl apply -f - < a\n{pod}"), true),
            (format!("cat <<EOF | kubectl apply -f -\n{pod}EOF\n"), true),
            (format!("MIME-Version: 1.0\nContent-Type: text/cloud-config; charset=a\n\n{pod}"), true),
            ("set -eu\n".to_owned(), true),
        ] {
            assert_eq!(is_script(&text), around, "{text}");
        }
        assert!(is_manifest_text(&format!("Then create the pod:\n{pod}")));
        assert!(!is_manifest_text("set -eu\n  apiVersion: v1\n"));
        assert!(!is_manifest_text("version: 1\nobjects:\n  - kind: Pod\n    weight: .inf\n"));
        assert!(is_manifest_text("apiversion: v1\nmetadata: {name: a\n"));
        assert!(is_manifest_text("  apiVersion: v1\n  kind: Pod\n  metadata: {name: a\n"));
    }

    #[test]
    fn alerts_are_no_templates() {
        assert!(!has_template_action("a: {{ $labels.pod }}, {{ $value | humanize }}"));
        assert!(has_template_action("a: {{ $labels.pod }}\n{{- end }}"));
        assert!(!has_template_action("a: b"));
        assert!(is_ytt_template("image: #@ data.values.image\n"));
        assert!(is_ytt_template("#@overlay/match by=overlay.all\n---\na: b\n"));
        assert!(!is_ytt_template("a: b #@ c\n#@\n# @schema\nd: '#@ e'\n"));
    }
}
