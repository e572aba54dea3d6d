//! A line of a report: messages and helps have at most 120 characters, because the API server cuts
//! warnings there. What is quoted in backticks is shortened until the sentence around it fits: names first, keys
//! and resources such as `nvidia.com/gpu` only where that is not enough.

use crate::facts::text::UNNAMED;

/// The most characters of a message or a help.
pub(crate) const MAX_MESSAGE_CHARS: usize = 120;
/// Below this many characters a name tells nothing.
const MIN_QUOTE_CHARS: usize = 8;

/// The text as a line: as it is where it is short, else with its longest quotes cut. The name of an object that
/// has none is left out.
pub(crate) fn fit_to_limit(text: String) -> String {
    let text = if text.contains(UNNAMED) { without_unnamed(&text) } else { text };
    if text.chars().count() <= MAX_MESSAGE_CHARS {
        return text;
    }
    // What stands at odd places is quoted. An odd number of backticks quotes nothing for sure.
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

/// Leaves out [`UNNAMED`] after a noun, as in "pool `x` has"; elsewhere, as in "nodes of `x`", it is `this object`.
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

/// The text without its end where it has more than `most` characters.
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

/// Whether what begins in backticks also ends in them.
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
        // Cut already.
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
