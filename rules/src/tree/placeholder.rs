//! Placeholders: text that a template engine or shell replaces before the manifest is applied.

/// Whether a text contains a placeholder: `${X}`, `{{ }}`, `$(X)`, `<X>`, or is `$X`.
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|b| matches!(b, b'$' | b'{' | b'<')) {
        return false;
    }
    if text.contains("{{") && text.contains("}}") {
        return true;
    }
    if has_delimited(text, "${", '}') || has_delimited(text, "$(", ')') {
        return true;
    }
    if let Some(name) = text.strip_prefix('$') {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(word) {
            return true;
        }
    }
    has_angle_bracketed(text)
}

/// Whether a text has a character sequence that every placeholder has. One pass, for a whole document at
/// once.
pub(crate) fn may_contain_placeholder(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr3_iter(b'$', b'<', b'{', bytes)
        .any(|at| bytes[at] != b'{' || bytes.get(at + 1) == Some(&b'{'))
}

/// The first placeholder in a text, with its delimiters.
#[must_use]
pub fn find_placeholder(text: &str) -> Option<&str> {
    if !is_placeholder(text) {
        return None;
    }
    let between = |open: &str, close: &str| {
        let start = text.find(open)?;
        let end = text[start + open.len()..].find(close)?;
        text.get(start..start + open.len() + end + close.len())
    };
    if text.contains("{{") && text.contains("}}") {
        return between("{{", "}}").or(Some(text));
    }
    between("${", "}").or_else(|| between("$(", ")")).or_else(|| {
        if text.starts_with('$') {
            return Some(text);
        }
        between("<<", ">>").or_else(|| between("<", ">")).filter(|found| is_placeholder(found)).or(Some(text))
    })
}

fn has_delimited(text: &str, open: &str, close: char) -> bool {
    text.find(open).is_some_and(|at| text[at + open.len()..].contains(close))
}

/// Whether a text contains a name in angle brackets, such as `<cluster-name>`. Comparisons (`a < b`) do not
/// count.
fn has_angle_bracketed(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('>') else {
            return false;
        };
        let name = &rest[..end];
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        if name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !name.ends_with(' ')
            && name.chars().all(inner)
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{find_placeholder, is_placeholder};

    #[test]
    fn placeholders_are_told_from_text() {
        for text in
            ["${X}", "a-${CLUSTER}-b", "$X", "$(X)", "{{ .Values.x }}", "<account>", "arn:<my account>:x"]
        {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["", "gpu", "$", "$5", "a < b", "a <= b > c", "10$", "{a}", "x{job=\"y\"}", "cost$"] {
            assert!(!is_placeholder(text), "{text}");
            assert_eq!(find_placeholder(text), None, "{text}");
        }
        for (text, found) in [
            ("a-${CLUSTER}-b", "${CLUSTER}"),
            ("$X", "$X"),
            ("x $(Y) z", "$(Y)"),
            ("{{ .Values.x }}-y", "{{ .Values.x }}"),
            ("arn:<my account>:x", "<my account>"),
            ("a-<<CLUSTER>>-b", "<<CLUSTER>>"),
        ] {
            assert_eq!(find_placeholder(text), Some(found), "{text}");
        }
    }
}
