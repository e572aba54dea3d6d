//! The syntax of names, labels and annotations, as the API server checks it.

/// A DNS label: at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// A DNS label that begins with a letter, which names a Service.
#[must_use]
pub fn is_dns_1035_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// A DNS subdomain: at most 253 characters, parts of a DNS label's letters between dots.
#[must_use]
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

/// The value of a label: empty, or at most 63 letters, digits, `-`, `_` and `.`, with a letter or
/// digit at both ends.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// The key of a label or an annotation: a name, with or without a DNS subdomain and `/` before it.
#[must_use]
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
    use super::{is_dns_1035_label, is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name};

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
