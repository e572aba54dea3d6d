//! "Did you mean": the known name nearest to a mistyped one.

/// The nearest of `known`, where it is near enough to be meant.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|name| (distance(typed, name), name))
        .filter(|(far, _)| *far <= limit)
        .min()
        .map(|(_, name)| name)
}

/// ``; did you mean `x`?`` or nothing, to stand at the end of a message.
pub(crate) fn did_you_mean<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    nearest(typed, known)
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}

/// Levenshtein's distance, swapped neighbours counted once.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_what_was_meant_and_nothing_else() {
        let known = ["yaml-syntax", "image-tag-latest", "gpu"];
        assert_eq!(nearest("yaml-sytnax", known), Some("yaml-syntax"));
        assert_eq!(nearest("image-tag-lates", known), Some("image-tag-latest"));
        assert_eq!(nearest("something-else", known), None);
    }
}
