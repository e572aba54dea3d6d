//! Patterns in metadata that a scaler compiles: globs, regular expressions, label selectors. A text is rejected only
//! if the scaler's library certainly rejects it.

use crate::facts::names::{is_label_value, is_qualified_name};

/// Whether the library of the `azure-blob` scaler (gobwas/glob) may accept a glob: it rejects ranges alone.
pub(super) fn is_glob(text: &str) -> bool {
    let mut chars = text.strip_prefix('/').unwrap_or(text).chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => _ = chars.next(),
            '[' if !is_glob_range(&mut chars) => return false,
            _ => {}
        }
    }
    true
}

/// Reads a range behind its bracket: `!` or not, then two characters with `-` between them, or any text, then `]`.
fn is_glob_range(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    if chars.peek() == Some(&'!') {
        chars.next();
    }
    let Some(low) = chars.next() else { return false };
    if chars.peek() == Some(&'-') {
        chars.next();
        return chars.next().is_some_and(|high| low <= high) && chars.next() == Some(']');
    }
    let (mut next, mut is_empty) = (Some(low), true);
    while let Some(c) = next {
        match c {
            ']' => return !is_empty,
            '\\' => _ = chars.next(),
            _ => {}
        }
        is_empty = false;
        next = chars.next();
    }
    false
}

/// Whether Go's `regexp.Compile` may accept a regular expression. Only brackets, repetitions without an argument,
/// look-arounds and a backslash at the end are examined.
pub(super) fn is_go_regex(text: &str) -> bool {
    // A quoted part may hold anything.
    if text.contains("\\Q") {
        return true;
    }
    let mut rest = text;
    let (mut open, mut repeatable) = (0_u32, false);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let mut is_argument = true;
        match c {
            '\\' => match rest.chars().next() {
                Some(escaped) => rest = &rest[escaped.len_utf8()..],
                None => return false,
            },
            '[' => match class_end(rest) {
                Some(end) => rest = &rest[end..],
                None => return false,
            },
            '(' => {
                if ["?=", "?!", "?<=", "?<!"].iter().any(|look| rest.starts_with(look)) {
                    return false;
                }
                // The flags and the name of a group are no expression.
                if rest.starts_with('?') {
                    rest = &rest[rest.find([')', ':', '>']).unwrap_or(0)..];
                    rest = rest.strip_prefix([':', '>']).unwrap_or(rest);
                }
                open += 1;
                is_argument = false;
            }
            ')' => match open.checked_sub(1) {
                Some(outer) => open = outer,
                None => return false,
            },
            '|' => is_argument = false,
            '*' | '+' | '?' if !repeatable => return false,
            _ => {}
        }
        repeatable = is_argument;
    }
    open == 0
}

/// The end of a character class, from behind its bracket.
fn class_end(text: &str) -> Option<usize> {
    let mut at = usize::from(text.starts_with('^'));
    // A bracket that comes first is a member.
    at += usize::from(text[at..].starts_with(']'));
    while let Some(c) = text[at..].chars().next() {
        match c {
            ']' => return Some(at + 1),
            '\\' => at += 1 + text[at + 1..].chars().next()?.len_utf8(),
            '[' if text[at..].starts_with("[:") => at += text[at..].find(":]").map_or(1, |end| end + 2),
            _ => at += c.len_utf8(),
        }
    }
    None
}

/// Whether the API server may accept the text as a label selector.
pub(super) fn is_label_selector(text: &str) -> bool {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = match (rest.find(','), rest.find('(')) {
            (Some(comma), Some(open)) if open < comma => rest[open..].find(')').map(|at| open + at + 1),
            (Some(comma), _) => Some(comma),
            (None, Some(open)) => rest[open..].find(')').map(|at| open + at + 1),
            (None, None) => Some(rest.len()),
        };
        let Some(end) = end else { return false };
        if !is_requirement(rest[..end].trim()) {
            return false;
        }
        rest = rest[end..].trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => {}
            None => return false,
        }
    }
    true
}

fn is_requirement(text: &str) -> bool {
    if let Some(key) = text.strip_prefix('!') {
        return is_qualified_name(key.trim());
    }
    if let Some(at) = text.find(['=', '!', '<', '>']) {
        let (key, rest) = text.split_at(at);
        let operator = ["==", "=", "!=", ">", "<"].into_iter().find(|operator| rest.starts_with(operator));
        let Some(operator) = operator else { return false };
        let value = rest[operator.len()..].trim();
        let is_value = match operator {
            ">" | "<" => value.parse::<i64>().is_ok(),
            _ => is_label_value(value),
        };
        return is_qualified_name(key.trim()) && is_value;
    }
    if let Some((head, values)) = text.split_once('(') {
        let mut words = head.split_whitespace();
        let key = words.next().is_some_and(is_qualified_name);
        let operator = matches!(words.next(), Some("in" | "notin")) && words.next().is_none();
        let values = values.strip_suffix(')').is_some_and(|v| v.split(',').all(|v| is_label_value(v.trim())));
        return key && operator && values;
    }
    is_qualified_name(text)
}

#[cfg(test)]
mod tests {
    use super::{is_glob, is_go_regex, is_label_selector};

    fn check(accepts: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(accepts(text), "{text}");
        }
        for text in bad {
            assert!(!accepts(text), "{text}");
        }
    }

    /// Each verdict is that of KEDA 2.20.2's own constructors.
    #[test]
    fn globs() {
        let good = ["{a,b", "a]", "a}", "[abc]", "[!a]", "a\\[", "[a-z]*.json", "/folder/*.json", "**", ""];
        check(is_glob, &good, &["[a-", "[a", "[]", "[a-zb]", "[z-a]", "a["]);
    }

    #[test]
    fn regular_expressions() {
        let good = [
            "",
            "^q-[0-9]+$",
            "a{2}",
            "[]a]",
            "[^]]",
            "[[:alpha:]_]",
            "(?i)a",
            "(?P<n>a)(?:b)?",
            "\\Q[\\E",
            "a|b*",
            "é+",
            "[[]",
        ];
        let bad = ["[", "[a", "(a", "a)", "*", "a|*", "(+)", "a(?=b)", "(?<!a)b", "a\\"];
        check(is_go_regex, &good, &bad);
    }

    #[test]
    fn label_selectors() {
        let good = ["a=b", "a", "!a", "a in (b, c),d!=e", "a/b==c", "a==", "a!=", "a > 1", "a in ()", "a=in"];
        let bad = ["a b", "a=/", "a in b", "a===", "a>b", "a=!b", "a,,b", "a!b", "a>=1", "a=b c"];
        check(is_label_selector, &good, &bad);
    }
}
