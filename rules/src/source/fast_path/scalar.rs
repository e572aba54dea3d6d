//! Where scalars end, and what they say where that is not their text.

use super::{line_end, push_breaks, spaces};

/// What becomes of the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Chomping {
    /// One is kept.
    Clip,
    /// None is kept.
    Strip,
    /// All are kept.
    Keep,
}

pub(super) fn ends_token(bytes: &[u8], at: usize) -> bool {
    matches!(bytes.get(at), None | Some(b' ' | b'\n'))
}

/// The end of a quoted scalar whose value is the text between its quotes; `None` if it has escapes or does not end on
/// its line.
pub(super) fn quoted_key_end(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes[at];
    let inner = &bytes[at + 1..];
    let length = inner.iter().position(|b| *b == quote || matches!(b, b'\\' | b'\n'))?;
    let close = at + 1 + length;
    (bytes[close] == quote && bytes.get(close + 1) != Some(&quote)).then_some(close + 1)
}

/// Whether a plain scalar of the subset may start with this byte.
pub(super) fn begins_plain(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'-' => bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')),
        b'_' | b'.' | b'/' | b'$' | b'+' | b'(' | b'~' | b'<' | b'=' | b'^' | b';' | b'\\' => true,
        byte => byte.is_ascii_alphanumeric() || byte >= 0x80,
    }
}

/// The end of a plain scalar in block style in its line; `bytes` end with the line.
pub(super) fn plain_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = bytes.len();
    for found in memchr::memchr2_iter(b':', b'#', &bytes[at..]) {
        let i = at + found;
        match bytes[i] {
            b':' if ends_token(bytes, i + 1) => return None,
            b'#' if bytes[i - 1] == b' ' => {
                end = i;
                break;
            }
            _ => {}
        }
    }
    while bytes[end - 1] == b' ' {
        end -= 1;
    }
    Some(end)
}

/// Reads a quoted scalar into `out`; returns its end. Lines after the first must be indented deeper than `indent`; `None`
/// for a scalar that has to end on its line.
pub(super) fn unquote(text: &str, at: usize, indent: Option<usize>, out: &mut String) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    out.clear();
    let mut run = at + 1;
    let mut from = run;
    loop {
        let found = match quote {
            b'"' => memchr::memchr3(b'"', b'\\', b'\n', &bytes[from..]),
            _ => memchr::memchr2(b'\'', b'\n', &bytes[from..]),
        };
        let here = from + found?;
        let written = text.get(run..here)?;
        match bytes[here] {
            b'\n' => {
                out.push_str(written.trim_end_matches(' '));
                let (empty_lines, next) = after_breaks(bytes, here)?;
                let column = next - 1 - memchr::memrchr(b'\n', &bytes[..next])?;
                if bytes[next] != quote && column <= indent? {
                    return None;
                }
                push_breaks(out, empty_lines);
                run = next;
            }
            b'\\' => {
                out.push_str(written);
                run = escape(bytes, here + 1, indent, out)?;
            }
            _ if quote == b'\'' && bytes.get(here + 1) == Some(&quote) => {
                out.push_str(written);
                out.push('\'');
                run = here + 2;
            }
            _ => {
                out.push_str(written);
                return Some(here + 1);
            }
        }
        from = run;
    }
}

/// The number of empty lines after a line break, and where the text goes on.
fn after_breaks(bytes: &[u8], line_break: usize) -> Option<(usize, usize)> {
    let mut at = line_break + 1;
    let mut empty_lines = 0;
    loop {
        at += spaces(bytes.get(at..)?);
        match bytes.get(at)? {
            b'\n' => {
                empty_lines += 1;
                at += 1;
            }
            _ => return Some((empty_lines, at)),
        }
    }
}

/// Appends what an escape in double quotes stands for; returns where the text goes on. `at` is after the backslash.
fn escape(bytes: &[u8], at: usize, indent: Option<usize>, out: &mut String) -> Option<usize> {
    let digits = match bytes.get(at)? {
        b'\n' => {
            indent?;
            let (empty_lines, next) = after_breaks(bytes, at)?;
            out.extend(std::iter::repeat_n('\n', empty_lines));
            return Some(next);
        }
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        other => {
            out.push(match other {
                b'0' => '\0',
                b'a' => '\x07',
                b'b' => '\x08',
                b't' => '\t',
                b'n' => '\n',
                b'v' => '\x0b',
                b'f' => '\x0c',
                b'r' => '\r',
                b'e' => '\x1b',
                b' ' => ' ',
                b'"' => '"',
                b'/' => '/',
                b'\\' => '\\',
                _ => return None,
            });
            return Some(at + 1);
        }
    };
    let end = at + 1 + digits;
    let hex = std::str::from_utf8(bytes.get(at + 1..end)?).ok()?;
    if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    out.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
    Some(end)
}

/// Where a block scalar is.
pub(super) struct Block {
    /// Its first character, after the indentation.
    pub(super) start: usize,
    /// After the blanks that it may have at the beginning of the line after it.
    pub(super) end: usize,
    /// The line after it.
    pub(super) next_line: usize,
}

/// Reads a block scalar that begins with a line, into `out`; its text is indented deeper than `indent`. `None` for an empty
/// one.
pub(super) fn block(
    text: &str,
    from: usize,
    indent: usize,
    folded: bool,
    chomping: Chomping,
    out: &mut String,
) -> Option<Block> {
    let bytes = text.as_bytes();
    out.clear();
    let mut line = from;
    let mut empty_lines = 0;
    let mut widest = 0;
    let start = loop {
        let start = line + spaces(bytes.get(line..)?);
        match bytes.get(start)? {
            b'\n' => {
                empty_lines += 1;
                widest = widest.max(start - line);
                line = start + 1;
            }
            _ => break start,
        }
    };
    let column = start - line;
    if column <= indent || column < widest {
        return None;
    }
    let mut after_text = false;
    let mut was_blank = false;
    let mut at = start;
    loop {
        let is_blank = bytes[at] == b' ';
        if folded && after_text && !was_blank && !is_blank {
            push_breaks(out, empty_lines);
        } else {
            out.extend(std::iter::repeat_n('\n', empty_lines + usize::from(after_text)));
        }
        (after_text, was_blank, empty_lines) = (true, is_blank, 0);
        let end = line_end(bytes, at);
        out.push_str(text.get(at..end)?);
        if end == bytes.len() {
            (at, line) = (end, end);
            break;
        }
        line = end + 1;
        // Empty lines, and the indentation of the line after them.
        loop {
            at = line + spaces(&bytes[line..]).min(column);
            if bytes.get(at) != Some(&b'\n') {
                break;
            }
            empty_lines += 1;
            line = at + 1;
        }
        if at - line < column || at == bytes.len() {
            break;
        }
    }
    if chomping != Chomping::Strip {
        out.push('\n');
    }
    if chomping == Chomping::Keep {
        out.extend(std::iter::repeat_n('\n', empty_lines));
    }
    Some(Block { start, end: at, next_line: line })
}
