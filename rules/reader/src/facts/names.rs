//! The syntax of names, labels and annotations, as the API server checks it.

/// A DNS label: at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// A DNS label that begins with a letter, which names a Service.
pub fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// A DNS subdomain: at most 253 characters, parts of a DNS label's letters between dots.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Why a text is not a DNS label or, with `dots`, a DNS subdomain: `upper-case letters and `_` are not allowed`.
/// `None` if it is one.
pub fn dns_fault(text: &str, dots: bool) -> Option<String> {
    let mut bad: Vec<String> = Vec::new();
    for c in text.chars() {
        let word = match c {
            'a'..='z' | '0'..='9' | '-' => continue,
            '.' if dots => continue,
            'A'..='Z' => "upper-case letters".to_owned(),
            ' ' => "spaces".to_owned(),
            '`' => "backticks".to_owned(),
            c if c.is_control() => "control characters".to_owned(),
            c => format!("`{c}`"),
        };
        if !bad.contains(&word) {
            bad.push(word);
        }
    }
    if bad.len() > 3 {
        bad.truncate(2);
        bad.push("others".to_owned());
    }
    match bad.as_slice() {
        [] => {}
        [one] if one.starts_with('`') => return Some(format!("{one} is not allowed")),
        [one] => return Some(format!("{one} are not allowed")),
        [head @ .., last] => return Some(format!("{} and {last} are not allowed", head.join(", "))),
    }
    let most = if dots { 253 } else { 63 };
    if text.len() > most {
        return Some(format!("it has {} characters, and at most {most} are allowed", text.len()));
    }
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !text.starts_with(is_edge) || !text.ends_with(is_edge) {
        return Some("it must begin and end with a letter or a digit".to_owned());
    }
    let fits = if dots { is_dns_subdomain(text) } else { is_dns_label(text) };
    (!fits).then(|| "each part between dots must begin and end with a letter or a digit".to_owned())
}

/// The value of a label: empty, or at most 63 letters, digits, `-`, `_` and `.`, with a letter or
/// digit at both ends.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// The key of a label or an annotation: a name, with or without a DNS subdomain and `/` before it.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_dns_subdomain(domain) && is_name_part(name),
        None => is_name_part(text),
    }
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::{
        dns_fault, is_dns_1035_label, is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name,
    };

    #[test]
    fn faults_name_what_is_wrong() {
        let label = |text: &str| dns_fault(text, false);
        assert_eq!(label("a-1"), None);
        assert_eq!(label("es-INSTANCE_SAFE").as_deref(), Some("upper-case letters and `_` are not allowed"));
        assert_eq!(label("a.b").as_deref(), Some("`.` is not allowed"));
        assert_eq!(dns_fault("a.b", true), None);
        assert_eq!(label("-a").as_deref(), Some("it must begin and end with a letter or a digit"));
        assert!(label(&"a".repeat(64)).is_some_and(|text| text.contains("64 characters")));
        assert!(dns_fault("a..b", true).is_some_and(|text| text.contains("between dots")));
        assert_eq!(label("<a b>").as_deref(), Some("`<`, spaces and `>` are not allowed"));
    }

    #[test]
    fn names_are_told_from_what_is_none() {
        let long = "a".repeat(63);
        let longer = "a".repeat(64);
        for text in ["a", "gpu-pool", "0", "a0", &long] {
            assert!(is_dns_label(text) && is_dns_subdomain(text), "{text}");
        }
        for text in ["", "-a", "a-", "A", "a_b", "a.b", "ä", &longer] {
            assert!(!is_dns_label(text), "{text}");
        }
        assert!(!is_dns_1035_label("0a") && is_dns_1035_label("a0"));
        assert!(is_dns_subdomain("a.b-c.d") && is_dns_subdomain(&longer));
        for text in ["", ".a", "a..b", "a.", "a.-b", &"a.".repeat(130)] {
            assert!(!is_dns_subdomain(text), "{text}");
        }
        for text in ["", "a", "A_b.c-1", "8", &long] {
            assert!(is_label_value(text), "{text}");
        }
        for text in ["a b", "-a", "a/b", "a:b", &longer] {
            assert!(!is_label_value(text), "{text}");
        }
        for text in ["a", "nvidia.com/gpu", "karpenter.sh/do-not-disrupt", "A/b"] {
            assert_eq!(is_qualified_name(text), text != "A/b", "{text}");
        }
        for text in ["", "/a", "a/", "a/b/c", "a b", "a/-"] {
            assert!(!is_qualified_name(text), "{text}");
        }
    }
}
