//! "Did you mean": the known word most similar to an unknown one, by edit distance.

use std::cell::Cell;

use crate::steps;

/// Maximum number of suggestions of a rule for one object.
pub const SUGGESTIONS_PER_RULE: u32 = 20;

thread_local! {
    /// Number of suggestions that the current work may still make.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Runs work with a limit on the number of suggestions: hundreds of unknown words are not typing errors.
pub fn at_most<T>(count: u32, work: impl FnOnce() -> T) -> T {
    struct Outer(u32);
    impl Drop for Outer {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _outer = Outer(LEFT.replace(count));
    work()
}

/// The word of `among` that is most similar to `word`, if it is within the distance of a typo: two edits, or a third
/// of the length for long words. The first of several equally similar words is returned. After
/// [`SUGGESTIONS_PER_RULE`] words there are no more suggestions.
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(MAX_LENGTH + 1).collect();
    if word.is_empty() || word.len() > MAX_LENGTH {
        return None;
    }
    LEFT.set(LEFT.get().checked_sub(1)?);
    let in_word = letters_in(word.iter().copied());
    let mut best: Option<(usize, &str)> = None;
    let mut letters = Vec::new();
    for candidate in among {
        steps::take(1);
        let length = candidate.chars().count();
        let allowed = (length.max(word.len()) / 3).max(2);
        // Short words: a word of two letters is two edits from every other such word, and many of three are.
        let is_of_three = length == 3 && word.len() == 3;
        let allowed = allowed.min(if is_of_three { 1 } else { length.min(word.len()).saturating_sub(1) });
        // A word that is not more similar than the best so far is skipped.
        let Some(allowed) =
            best.map_or(Some(allowed), |(least, _)| least.checked_sub(1).map(|l| l.min(allowed)))
        else {
            break;
        };
        // An edit adds at most one letter and removes at most one.
        let in_candidate = letters_in(candidate.chars());
        let missing = (in_word & !in_candidate).count_ones().max((in_candidate & !in_word).count_ones());
        if length.abs_diff(word.len()) > allowed || missing as usize > allowed {
            continue;
        }
        letters.clear();
        letters.extend(candidate.chars());
        if let Some(edits) = distance(&word, &letters, allowed) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The letters of a word as a set, ignoring case; several letters may share a bit.
fn letters_in(word: impl Iterator<Item = char>) -> u64 {
    word.fold(0, |set, letter| set | 1 << (u32::from(letter.to_ascii_lowercase()) % 64))
}

/// Whether a word is at most `most` edits from another one.
pub fn is_within(word: &str, other: &str, most: usize) -> bool {
    let letters = |text: &str| text.chars().take(MAX_LENGTH + 1).collect::<Vec<char>>();
    let (a, b) = (letters(word), letters(other));
    a.len().max(b.len()) <= MAX_LENGTH
        && a.len().abs_diff(b.len()) <= most
        && distance(&a, &b, most).is_some()
}

/// Maximum length of words to compare: computing the distance takes quadratic time.
const MAX_LENGTH: usize = 100;

/// Number of insertions, deletions, replacements and transpositions, ignoring case; `None` if there are more than
/// `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut row = above.clone();
    for i in 1..=a.len() {
        steps::take(1 + b.len() / 4);
        row[0] = i;
        for j in 1..=b.len() {
            let cost = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut least = (above[j - 1] + cost).min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row[j] = least;
        }
        // A transposition depends on the row before the last.
        if row.iter().chain(&above).all(|edits| *edits > most) {
            return None;
        }
        std::mem::swap(&mut before, &mut above);
        std::mem::swap(&mut above, &mut row);
    }
    Some(above[b.len()]).filter(|edits| *edits <= most)
}

#[cfg(test)]
mod tests {
    use super::{at_most, is_within, nearest};

    #[test]
    fn after_many_unknown_words_there_are_no_suggestions() {
        let near = || nearest("eror", ["error"]).is_some();
        at_most(2, || {
            assert!(near() && near());
            assert!(!near());
            assert!(at_most(1, near), "a limit of its own");
        });
        assert!(near());
    }

    #[test]
    fn edits_are_counted() {
        assert!(is_within("m7i.lrage", "m7i.large", 1));
        assert!(is_within("", "ab", 2));
        assert!(!is_within("abc", "xyz", 2));
        assert!(!is_within(&"a".repeat(1_000_000), &"a".repeat(1_000_000), 3));
    }

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let words = ["error", "warning", "info", "gpu-pool-untainted"];
        for (word, near) in [
            ("eror", Some("error")),
            ("erorr", Some("error")),
            ("Warning", Some("warning")),
            ("ifno", Some("info")),
            ("gpu-pool-taint", Some("gpu-pool-untainted")),
            ("pool-untainted", Some("gpu-pool-untainted")),
            ("inof", Some("info")),
            ("x", None),
            ("", None),
            ("critical", None),
        ] {
            assert_eq!(nearest(word, words), near, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(1_000_000), words), None);
        assert_eq!(nearest("ab", ["ax", "bb"]), Some("ax"));
        assert_eq!(nearest("mps", ["gds"]), None);
    }
}
