//! A first look at the text of a query: whether the parser may read it at all, and in what form.

/// The longest query that is read, in bytes.
const LONGEST: usize = 16 << 10;
/// How deep parentheses may be nested, and how many operators there may be: the parser's tree is as deep.
const DEEPEST: usize = 64;
const MOST_OPERATORS: usize = 400;
/// The longest number, in characters: the parser does not check whether a duration of so many seconds exists.
const LONGEST_NUMBER: usize = 12;

/// What a value begins with that stands for a regular expression. No label has it in its value.
pub(super) const PATTERN: char = '\u{fdd0}';

/// A text for the parser.
pub(super) struct Screened {
    /// The text, in which `=~` and `!~` are `=` and `!=`, and each regular expression is its number in `patterns` after
    /// [`PATTERN`]: the parser would compile it.
    pub text: String,
    /// The regular expressions, as they are written between the quotes.
    pub patterns: Vec<String>,
}

/// The text for the parser; `None` where it is not PromQL alone, or too long.
pub(super) fn screen(text: &str) -> Option<Screened> {
    if text.len() > LONGEST
        || text.contains(PATTERN)
        || ["{{", "}}", "[[", "<%", "{%"].iter().any(|mark| text.contains(mark))
    {
        return None;
    }
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut patterns = Vec::new();
    let (mut at, mut copied) = (0, 0);
    let (mut depth, mut operators) = (0_usize, 0);
    let (mut in_brackets, mut in_braces) = (false, false);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'' | b'`') => {
                let end = end_of_string(bytes, at, quote);
                let before = text[..at].trim_end();
                let operator = before.rfind(|c| !matches!(c, '=' | '!' | '~')).map_or("", |at| &before[at..]);
                let operator = operator.trim_start_matches(|c| !matches!(c, '=' | '!' | '~'));
                if let Some(end) = end
                    && in_braces
                    && matches!(operator, "=~" | "!~")
                {
                    let tilde = before.len() - 1;
                    out.push_str(&text[copied..tilde]);
                    if operator == "!~" {
                        out.push('=');
                    }
                    out.push_str(&text[tilde + 1..=at]);
                    out.push(PATTERN);
                    out.push_str(&patterns.len().to_string());
                    patterns.push(text[at + 1..end].to_owned());
                    copied = end;
                }
                // An open string is the parser's to report.
                at = end.unwrap_or(bytes.len());
            }
            b'#' => at = text[at..].find('\n').map_or(bytes.len(), |end| at + end),
            // LogQL, and variables.
            b'|' | b'$' => return None,
            b'(' => {
                depth += 1;
                if depth > DEEPEST {
                    return None;
                }
            }
            b')' => depth = depth.saturating_sub(1),
            b'[' => in_brackets = true,
            b']' => in_brackets = false,
            b'{' => in_braces = true,
            b'}' => in_braces = false,
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let end = word_end(bytes, at);
                let word = &text[at..end];
                if byte.is_ascii_digit() && !is_plain_number(word) || in_brackets && !byte.is_ascii_digit() {
                    return None;
                }
                operators += usize::from(matches!(
                    word.to_ascii_lowercase().as_str(),
                    "and" | "or" | "unless" | "atan2"
                ));
                at = end - 1;
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'<' | b'>' | b'=' | b'!' if !in_braces => {
                // Arithmetic on durations is behind a flag of some versions.
                if in_brackets {
                    return None;
                }
                operators += 1;
            }
            _ => {}
        }
        if operators > MOST_OPERATORS {
            return None;
        }
        at += 1;
    }
    out.push_str(&text[copied..]);
    Some(Screened { text: out, patterns })
}

/// Where the string that begins at a quote ends.
fn end_of_string(bytes: &[u8], from: usize, quote: u8) -> Option<usize> {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote != b'`' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn word_end(bytes: &[u8], from: usize) -> usize {
    let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':');
    bytes[from..].iter().position(|b| !part(b)).map_or(bytes.len(), |len| from + len)
}

/// Whether a word that begins with a digit is a number or a duration of an ordinary size.
fn is_plain_number(word: &str) -> bool {
    let exponent = word.split_once(['e', 'E']).filter(|_| !word.starts_with("0x"));
    word.len() <= LONGEST_NUMBER && exponent.is_none_or(|(_, digits)| digits.len() < 2)
}
