//! "Did you mean": the known word nearest to an unknown one, by edit distance.

/// The word of `among` that is nearest to `word`, if it is within the distance of a typo: two edits, or a
/// third of the length for long words. Of equally near words the first is returned.
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(MAX_LENGTH + 1).collect();
    if word.is_empty() || word.len() > MAX_LENGTH {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in among {
        let letters: Vec<char> = candidate.chars().collect();
        let allowed = (letters.len().max(word.len()) / 3).max(2);
        // Short words: a word of two letters is two edits from every other such word.
        let allowed = allowed.min(letters.len().min(word.len()).saturating_sub(1));
        if letters.len().abs_diff(word.len()) > allowed {
            continue;
        }
        let edits = distance(&word, &letters);
        if edits <= allowed && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Whether a word is at most `most` edits from another one.
pub(crate) fn is_within(word: &str, other: &str, most: usize) -> bool {
    let letters = |text: &str| text.chars().take(MAX_LENGTH + 1).collect::<Vec<char>>();
    let (a, b) = (letters(word), letters(other));
    a.len().max(b.len()) <= MAX_LENGTH && a.len().abs_diff(b.len()) <= most && distance(&a, &b) <= most
}

/// Longer words are not compared: the distance takes quadratic time.
const MAX_LENGTH: usize = 100;

/// Number of insertions, deletions, replacements and transpositions; case is ignored.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let cost = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut least = (above[j - 1] + cost).min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row[j] = least;
        }
        before = above;
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{is_within, nearest};

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
            ("x", None),
            ("", None),
            ("critical", None),
        ] {
            assert_eq!(nearest(word, words), near, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(1_000_000), words), None);
        assert_eq!(nearest("ab", ["ax", "bb"]), Some("ax"));
    }
}
