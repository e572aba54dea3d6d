//! Text from a manifest in messages.

use std::borrow::Cow;

use memchr::memmem;

/// Placeholder for the name of an unnamed object in messages. It contains a space, so that it is not a valid name;
/// `fit_to_limit` of messages removes it.
pub const UNNAMED: &str = "unnamed object";

/// Whether a text has one of some words, which are in lower case, anywhere and in any case.
pub fn mentions(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// Whether a text, which may be a whole file, has a word anywhere.
pub fn contains(text: &str, word: &str) -> bool {
    memmem::find(text.as_bytes(), word.as_bytes()).is_some()
}

/// Whether a text is a number in decimal digits.
pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// At most this number of characters of a text, which is at least one; a shortened text ends in an ellipsis.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    let mut ends = text.char_indices().map(|(at, _)| at).skip(most.saturating_sub(1));
    match (ends.next(), ends.next()) {
        (Some(end), Some(_)) => format!("{}…", &text[..end]).into(),
        _ => text.into(),
    }
}

/// The first line of a text, with an ellipsis after this number of characters.
pub fn first_line(text: &str, max_chars: usize) -> Cow<'_, str> {
    cut(text.trim().lines().next().unwrap_or_default(), max_chars + 1)
}

/// The text on one line of at most 253 characters, as long as the longest name; a shortened text ends in an ellipsis. The line of a
/// report is cut later.
pub fn ellipsize(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 253;
    if !text.contains(['\n', '\r', '\t']) {
        return cut(text, MAX_CHARS);
    }
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS - 1).collect();
    format!("{line}…").into()
}

/// The lines of a text upwards, from the whole line of a byte offset.
pub fn lines_upwards(text: &str, offset: usize) -> impl Iterator<Item = &str> {
    let length = text.get(offset..).and_then(|rest| rest.find('\n'));
    let end = length.map_or(text.len(), |length| offset + length);
    text.get(..end).unwrap_or_default().lines().rev()
}

#[cfg(test)]
mod tests {
    use super::{cut, ellipsize, first_line};

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, most, expected) in
            [("", 3, ""), ("äöü", 3, "äöü"), ("äöüß", 3, "äö…"), ("abc", 1, "…"), ("a", 1, "a")]
        {
            assert_eq!(cut(text, most), expected, "{text}");
        }
        assert_eq!(first_line("\n abcd\ne", 3), "abcd");
        assert_eq!(first_line("abcde\nf", 3), "abc…");
        assert_eq!(ellipsize(&"x".repeat(300)).chars().count(), 253);
        assert_eq!(ellipsize("a\nb"), "a b…");
    }
}
