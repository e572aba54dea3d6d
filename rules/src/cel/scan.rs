//! Scans the text of an expression before it is parsed: its size, and constructs that the parser is known to treat
//! differently from the API server.

use crate::steps;

/// Maximum length of an expression that is parsed, in bytes.
const MAX_LENGTH: usize = 16 * 1024;
/// Maximum number of operators, dots and brackets of an expression that is parsed. They bound the recursion of the
/// parser.
const MAX_OPERATORS: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    /// Number of operators, dots and brackets: at least the depth of the syntax tree.
    pub(super) operators: usize,
    /// Depth of brackets and conditionals, which is the depth of recursion of the parser.
    pub(super) nesting: usize,
    /// Whether it has only tokens that both parsers read in the same way.
    pub(super) is_plain: bool,
}

impl Scan {
    /// `None` if the expression is too large to be parsed.
    pub(super) fn new(text: &str) -> Option<Scan> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        steps::take(text.len() / 4);
        let mut scan = Scan { operators: 0, nesting: 0, is_plain: true };
        let (mut open, mut conditionals) = (0_usize, 0);
        let mut rest = text;
        let mut previous = ' ';
        while let Some(first) = rest.chars().next() {
            let taken = match first {
                '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
                '"' | '\'' => {
                    // A prefix makes it a raw string or bytes; three quotes delimit a string of several lines.
                    if is_part_of_name(previous) || rest.starts_with("\"\"\"") || rest.starts_with("'''") {
                        scan.is_plain = false;
                    }
                    scan.literal(rest, first, matches!(previous, 'r' | 'R'))
                }
                // An escaped field name.
                '`' => {
                    scan.is_plain = false;
                    1
                }
                '.' | '[' | '{' | ',' => {
                    scan.operators += 1;
                    open += usize::from(matches!(first, '[' | '{'));
                    // A message, `Name{field: value}`.
                    scan.is_plain &= first != '{' || !is_part_of_name(previous);
                    // Optional fields, items and entries. A blank may be in between.
                    scan.is_plain &= !rest[1..].trim_start().starts_with('?');
                    1
                }
                '(' | '!' | '-' | '+' | '*' | '/' | '%' | '<' | '>' | '=' | '&' | '|' | '?' | ':' => {
                    scan.operators += 1;
                    open += usize::from(first == '(');
                    conditionals += usize::from(first == '?');
                    1
                }
                ')' | ']' | '}' => {
                    open = open.saturating_sub(1);
                    1
                }
                other => other.len_utf8(),
            };
            scan.nesting = scan.nesting.max(open + conditionals);
            if !first.is_whitespace() {
                previous = first;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        (scan.operators <= MAX_OPERATORS).then_some(scan)
    }

    /// The length of a literal with its quotes, at the start of `rest`.
    fn literal(&mut self, rest: &str, quote: char, raw: bool) -> usize {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => {
                    escaped = false;
                    self.is_plain &= matches!(c, 'n' | 't' | 'r' | '\\' | '"' | '\'');
                }
                '\\' if !raw => escaped = true,
                _ if c == quote => return at + 1,
                _ => {}
            }
        }
        rest.len()
    }
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::Scan;

    #[test]
    fn what_both_parsers_read_alike_is_plain() {
        for (text, plain) in [
            ("self.a == 'x'", true),
            ("self.a // it's a note\n> 1", true),
            (r#"self.a == "it's""#, true),
            (r"self.a == 'a\'b\\'", true),
            (r"self.a == '\x41'", false),
            ("self.a == r'\\d'", false),
            ("self.a == '''x'''", false),
            ("self.?a.orValue(1) == 1", false),
            ("self[?0].hasValue()", false),
            ("{?'a': self.?a}", false),
            ("self.`a-b` == 1", false),
            ("Object{spec: 1}", false),
            ("a in {'b': 1}", false),
            ("self ? 1 : 2", true),
        ] {
            let scan = Scan::new(text).expect("it is small");
            assert_eq!(scan.is_plain, plain, "{text}");
        }
    }

    #[test]
    fn brackets_and_conditionals_nest() {
        for (text, nesting) in [("a", 0), ("(a) + (b)", 1), ("f([a])", 2), ("a ? b : c ? d : (e)", 3)] {
            assert_eq!(Scan::new(text).map(|scan| scan.nesting), Some(nesting), "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_not_parsed() {
        assert_eq!(Scan::new(&"(".repeat(600)), None);
        assert_eq!(Scan::new(&"a".repeat(20_000)), None);
    }
}
