//! Text from a manifest in messages.

use std::borrow::Cow;

use memchr::memmem;

/// Placeholder for the name of an unnamed object in messages. It contains a space, so that it is not a valid name;
/// [`fit_to_limit`](crate::lint::message::fit_to_limit) removes it.
pub(crate) const UNNAMED: &str = "unnamed object";

/// Whether a text has one of some words, which are in lower case, anywhere and in any case.
pub(crate) fn mentions(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// Whether a text, which may be a whole file, has a word anywhere.
pub(crate) fn contains(text: &str, word: &str) -> bool {
    memmem::find(text.as_bytes(), word.as_bytes()).is_some()
}

/// Whether a text is a number in decimal digits.
pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The first line of a text, with an ellipsis after this number of characters.
pub(crate) fn first_line(text: &str, max_chars: usize) -> Cow<'_, str> {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]).into(),
        None => line.into(),
    }
}

/// The text on one line of at most 253 characters, as long as the longest name; a shortened text ends in an ellipsis. The line of a
/// report is cut later.
pub(crate) fn ellipsize(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 253;
    let one_line = !text.contains(['\n', '\r', '\t']);
    if one_line && text.chars().count() <= MAX_CHARS {
        return text.into();
    }
    let mut short: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS - 1).collect();
    short.push('…');
    short.into()
}
