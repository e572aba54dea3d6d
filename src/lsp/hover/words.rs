//! Formats names and numbers in Markdown.

use gpulint_rules::{Object, Pointer};

use crate::report::{position, workload_name};

/// A name from a manifest as code: on one line, cut where it is long, so that it cannot end the code early.
pub(super) fn code(text: &str) -> String {
    const LONGEST: usize = 80;
    let clean = |c: char| if c.is_control() || c == '`' { '\'' } else { c };
    let mut out: String = text.chars().take(LONGEST).map(clean).collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    format!("`{out}`")
}

/// A count with its noun: `1 type`, `2 types`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number as u128), if number == 1 { "" } else { "s" })
}

/// A number with commas: `1,124`.
pub(super) fn thousands(number: u128) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The name of a workload in the form that `gpulint why` accepts.
pub(super) fn name(object: &Object) -> String {
    code(&workload_name(object))
}

/// The first names, and the number of others.
pub(super) fn names<'o>(objects: impl ExactSizeIterator<Item = &'o Object>, most: usize) -> String {
    let total = objects.len();
    // A list that is longer by one does not become shorter with "1 more".
    let shown = if total <= most + 1 { total } else { most };
    let list: Vec<String> = objects.take(shown).map(name).collect();
    more(list, total - shown)
}

pub(super) fn more(list: Vec<String>, others: usize) -> String {
    let text = list.join(", ");
    if others > 0 { format!("{text} and {others} more") } else { text }
}

/// The location of an object, after a space: `(apps/llm.yaml:3)`. Empty for objects that are not in a file.
pub(super) fn written_at(object: &Object) -> String {
    position(object, &Pointer::root()).map_or(String::new(), |(path, line, _)| format!(" ({path}:{line})"))
}

/// Text with the first letter in upper case.
pub(super) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Dollars per hour: `$0.805`, `$55.04`.
pub(super) fn dollars(amount: f64) -> String {
    if amount < 1.0 { format!("${amount:.3}") } else { format!("${amount:.2}") }
}

#[cfg(test)]
mod tests {
    use super::{code, count, dollars, more, sentence, thousands};

    #[test]
    fn names_stay_code() {
        assert_eq!(code("a`b\nc"), "`a'b'c`");
        assert_eq!(code(&"x".repeat(90)).chars().count(), 83);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2].map(|n| count(n, "type")), ["1 type", "2 types"]);
        assert_eq!([0.805, 55.04].map(dollars), ["$0.805", "$55.04"]);
    }

    #[test]
    fn lists_and_sentences() {
        assert_eq!(more(vec!["a".to_owned(), "b".to_owned()], 3), "a, b and 3 more");
        assert_eq!(sentence("karpenter waits"), "Karpenter waits");
    }
}
