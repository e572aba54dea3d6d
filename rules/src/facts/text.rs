//! Text from a manifest in messages.

use std::borrow::Cow;

/// Placeholder for the name of an unnamed object in messages. It contains a space, so that it is not a valid name;
/// [`fit_to_limit`](crate::lint::message::fit_to_limit) removes it.
pub(crate) const UNNAMED: &str = "unnamed object";

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
