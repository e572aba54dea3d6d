//! Identifiers in the text of a query.

/// Whether a text is the name of a metric.
pub(crate) fn is_identifier(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':');
    text.bytes().next().is_some_and(|b| is_part(b) && !b.is_ascii_digit()) && text.bytes().all(is_part)
}

/// The histogram or summary that a series is a part of, by the suffix of its name.
pub(crate) fn of_part(name: &str) -> Option<&str> {
    ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))
}

/// The position of a word in a query, as a whole identifier.
pub(crate) fn find_word(text: &str, word: &str) -> Option<usize> {
    let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':');
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        !bytes[..*at].last().is_some_and(|b| part(*b))
            && !bytes.get(at + word.len()).is_some_and(|b| part(*b))
    })
}

/// Replaces each whole occurrence of a word.
pub(crate) fn replace_word(text: &str, word: &str, with: &str) -> String {
    let mut out = String::with_capacity(text.len() + with.len());
    let mut rest = text;
    while let Some(at) = find_word(rest, word) {
        out.push_str(&rest[..at]);
        out.push_str(with);
        rest = &rest[at + word.len()..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::{find_word, replace_word};

    #[test]
    fn words_are_whole_identifiers() {
        assert_eq!(find_word("vllm:x_total + vllm:x", "vllm:x"), Some(15));
        assert_eq!(find_word("job:x:rate", "x"), None);
        assert_eq!(replace_word("sum(a) / a{b=\"c\"} + aa", "a", "d"), "sum(d) / d{b=\"c\"} + aa");
    }
}
