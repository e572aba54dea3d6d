//! Checks the text of a query before it is parsed, and prepares it for the parser.

/// Maximum length of a query, in bytes.
const LONGEST: usize = 16 << 10;
/// Maximum depth of parentheses, and maximum number of operators: they bound the depth of the parser's tree.
const DEEPEST: usize = 64;
const MOST_OPERATORS: usize = 400;
/// Maximum length of a number, in characters: the parser does not check durations for overflow.
const LONGEST_NUMBER: usize = 12;

/// First character of a value that refers to a regular expression. Label values do not contain it.
pub(super) const PATTERN: char = '\u{fdd0}';

/// A text that is prepared for the parser.
pub(super) struct Screened {
    /// The text, in which `=~` and `!~` are replaced by `=` and `!=`, and each regular expression by [`PATTERN`] and
    /// its number in `patterns`, because the parser would compile it.
    pub(crate) text: String,
    /// The regular expressions as written between the quotes.
    pub(crate) patterns: Vec<String>,
}

/// Prepares a text for the parser; `None` if it is not only PromQL, or too long.
pub(super) fn screen(text: &str) -> Option<Screened> {
    if text.len() > LONGEST
        || text.contains(PATTERN)
        || ["{{", "[[", "<%", "{%"].iter().any(|mark| text.contains(mark))
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
                // The parser reports an unterminated string.
                at = end.unwrap_or(bytes.len());
            }
            b'#' => at = text[at..].find('\n').map_or(bytes.len(), |end| at + end),
            b'|' if in_braces => {}
            // LogQL and variables.
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
                // Arithmetic on durations is an experimental feature of some versions.
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

/// A text without comments and without the content of strings.
pub(super) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'' | b'`') => {
                out.push_str(&text[copied..=at]);
                at = end_of_string(bytes, at, quote).unwrap_or(bytes.len());
                copied = at;
            }
            b'#' => {
                out.push_str(&text[copied..at]);
                at = text[at..].find('\n').map_or(bytes.len(), |end| at + end);
                copied = at;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out
}

/// The end of the string that begins at a quote.
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

/// Whether a word that begins with a digit is a number or a duration of usual size.
fn is_plain_number(word: &str) -> bool {
    let exponent = word.split_once(['e', 'E']).filter(|_| !word.starts_with("0x"));
    word.len() <= LONGEST_NUMBER && exponent.is_none_or(|(_, digits)| digits.len() < 2)
}
