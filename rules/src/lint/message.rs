//! Line lengths of reports: messages and helps have at most 120 characters, because the API server truncates warnings
//! there. Quotes in backticks are shortened until the sentence fits: names first, then keys and resources such as
//! `nvidia.com/gpu` if necessary.

use crate::facts::text::UNNAMED;

/// Maximum number of characters of a message or a help.
pub(crate) const MAX_MESSAGE_CHARS: usize = 120;
/// Minimum number of characters of a shortened name, so that it can be recognized.
const MIN_QUOTE_CHARS: usize = 8;

/// Whether a text is too long for the limit.
pub(crate) fn is_long(text: &str) -> bool {
    text.len() > MAX_MESSAGE_CHARS && text.chars().count() > MAX_MESSAGE_CHARS && !text.contains(UNNAMED)
}

/// Fits a text to the limit by shortening its longest quotes. The placeholder for a missing name is removed.
pub(crate) fn fit_to_limit(text: String) -> String {
    let text = if text.contains(UNNAMED) { without_unnamed(&text) } else { text };
    if text.len() <= MAX_MESSAGE_CHARS || text.chars().count() <= MAX_MESSAGE_CHARS {
        return text;
    }
    // Parts with an odd index are quoted. With an odd number of backticks this is not certain.
    let parts: Vec<&str> = text.split('`').collect();
    let quoted = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    let is_key = |at: usize| parts[at].contains('/');
    let lengths: Vec<usize> = parts.iter().map(|part| part.chars().count()).collect();
    let total = |most: usize, cut_keys: bool| {
        let length = |(at, length): (usize, &usize)| match quoted(at) && (cut_keys || !is_key(at)) {
            true => (*length).min(most),
            false => *length,
        };
        lengths.iter().enumerate().map(length).sum::<usize>() + parts.len() - 1
    };
    let fits = |cut_keys: bool| {
        let mut lengths = (MIN_QUOTE_CHARS..MAX_MESSAGE_CHARS).rev();
        lengths.find(|most| total(*most, cut_keys) <= MAX_MESSAGE_CHARS)
    };
    let (most, cut_keys) = match fits(false) {
        Some(most) => (most, false),
        None => (fits(true).unwrap_or(MIN_QUOTE_CHARS), true),
    };
    let mut out: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if quoted(at) && lengths[at] > most && (cut_keys || !is_key(at)) {
            let head: String = part.chars().take(most - 1).collect();
            out.push(format!("{}…", head.trim_end_matches('…')));
        } else {
            out.push((*part).to_owned());
        }
    }
    truncate(&out.join("`"), MAX_MESSAGE_CHARS)
}

/// Removes [`UNNAMED`] after a noun, as in "pool `x` has"; elsewhere, as in "nodes of `x`", it becomes `this object`.
fn without_unnamed(text: &str) -> String {
    const BEFORE_A_NAME: [&str; 8] = ["and", "by", "for", "of", "on", "to", "while", "with"];
    let marker = format!("`{UNNAMED}`");
    let mut out = String::new();
    for (at, part) in text.split(marker.as_str()).enumerate() {
        if at > 0 {
            let words = out.trim_end();
            let last = words.rsplit(' ').next().unwrap_or_default();
            if last.is_empty() || last.ends_with([':', ',', ';', '(']) || BEFORE_A_NAME.contains(&last) {
                out.push_str("this object");
            } else {
                out.truncate(words.len());
            }
        }
        out.push_str(part);
    }
    out
}

pub(crate) fn truncate(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(most - 1).collect();
    // Half a name in backticks would be taken for a whole one.
    if !has_whole_quotes(&out)
        && let Some(at) = out.rfind('`')
    {
        out.truncate(at);
    }
    format!("{}…", out.trim_end_matches([' ', ',', ';']))
}

/// Whether every quote in backticks is closed.
pub(crate) fn has_whole_quotes(text: &str) -> bool {
    text.matches('`').count().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGE_CHARS, fit_to_limit};

    fn fit(text: &str) -> String {
        fit_to_limit(text.to_owned())
    }

    #[test]
    fn long_quotes_are_cut_and_the_sentence_is_whole() {
        let (a, b) = ("a".repeat(70), "b".repeat(40));
        let text = format!("pool `{a}` has no taint for `{b}`, and takes `gpu` pods");
        let line = fit(&text);
        assert!((MAX_MESSAGE_CHARS - 1..=MAX_MESSAGE_CHARS).contains(&line.chars().count()), "{line}");
        assert!(line.starts_with("pool `aaaa"), "{line}");
        assert!(line.ends_with("b…`, and takes `gpu` pods"), "{line}");
        assert_eq!(fit(&line), line);
        let line = fit(&format!(
            "pool `{a}` has no limit on `aws.amazon.com/neuroncore`: its `memory` limit allows some"
        ));
        assert!(line.contains("`aws.amazon.com/neuroncore`"), "{line}");
        assert_eq!(fit("pool `a` is short"), "pool `a` is short");
        // Truncated already.
        let line = fit(&format!("`{}…` {}", "é".repeat(43), "c".repeat(90)));
        assert_eq!(line.matches('…').count(), 1, "{line}");
    }

    #[test]
    fn an_object_without_a_name_is_not_named() {
        for (text, line) in [
            ("GPU pool `unnamed object` has no limit", "GPU pool has no limit"),
            ("nodes of `unnamed object` expire", "nodes of this object expire"),
            ("`unnamed object` never ends: Job `unnamed object` runs", "this object never ends: Job runs"),
        ] {
            assert_eq!(fit(text), line);
        }
    }

    #[test]
    fn what_quotes_do_not_explain_loses_its_end() {
        let text = format!("{} `{}`", "a".repeat(112), "b".repeat(60));
        assert_eq!(fit(&text), format!("{}…", "a".repeat(112)));
        for text in ["`".repeat(300), "x".repeat(300), format!("`{}", "x".repeat(300))] {
            assert!(fit(&text).chars().count() <= MAX_MESSAGE_CHARS, "{text}");
        }
    }
}
