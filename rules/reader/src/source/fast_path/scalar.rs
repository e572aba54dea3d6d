//! Scalars: their ends, and their values if these differ from the text.

use granit_parser::ScalarStyle;

use super::{LineScanner, line_end, quoted_style, spaces};

impl LineScanner<'_> {
    /// Reads a plain scalar in block style.
    pub(super) fn plain(&mut self, at: usize, end: usize) -> Option<usize> {
        let indent = self.indent()?;
        if !begins_plain(self.bytes, at) {
            return None;
        }
        let mut to = plain_end(&self.bytes[..end], at)?;
        let mut last = end;
        let mut is_folded = false;
        let mut breaks = 0;
        let mut next = end + 1;
        // A comment ends it.
        while next < self.bytes.len() && self.blanks(to, last) == last {
            let end = line_end(self.bytes, next);
            let start = self.blanks(next, end);
            if start == end {
                breaks += 1;
                next = end + 1;
                continue;
            }
            if start - next <= indent || self.bytes[start] == b'#' {
                break;
            }
            if !is_folded {
                self.folded.clear();
                self.folded.push_str(self.text.get(at..to)?);
                is_folded = true;
            }
            push_breaks(&mut self.folded, breaks);
            to = plain_end(&self.bytes[..end], start)?;
            self.folded.push_str(self.text.get(start..to)?);
            (last, next, breaks) = (end, end + 1, 0);
        }
        match is_folded {
            true => self.folded_scalar(at, to, ScalarStyle::Plain)?,
            false => self.scalar(at, to, ScalarStyle::Plain)?,
        }
        self.expect_line_end(to, last)?;
        Some(last + 1)
    }

    /// Reads a quoted scalar in block style; returns its end.
    pub(super) fn quoted(&mut self, at: usize, indent: usize) -> Option<usize> {
        let style = quoted_style(self.bytes[at]);
        if let Some(to) = quoted_key_end(self.bytes, at) {
            self.scalar(at, to, style)?;
            return Some(to);
        }
        let to = unquote(self.text, at, Some(indent), &mut self.folded)?;
        self.folded_scalar(at, to, style)?;
        Some(to)
    }

    /// Reads a literal or folded block scalar whose header is on the line that ends at `end`.
    pub(super) fn block_scalar(&mut self, at: usize, end: usize, style: ScalarStyle) -> Option<usize> {
        let indent = self.indent()?;
        let mut chomping = Chomping::Clip;
        let mut column = None;
        let mut after = at + 1;
        // The indicators may be in either order.
        for _ in 0..2 {
            match self.bytes.get(after) {
                Some(b'-') if chomping == Chomping::Clip => chomping = Chomping::Strip,
                Some(b'+') if chomping == Chomping::Clip => chomping = Chomping::Keep,
                Some(digit @ b'1'..=b'9') if column.is_none() => {
                    column = Some(indent + usize::from(digit - b'0'));
                }
                _ => break,
            }
            after += 1;
        }
        if column.is_some() && self.levels.last()?.indentless {
            return None;
        }
        self.expect_line_end(after, end)?;
        let is_folded = style == ScalarStyle::Folded;
        let indents = Indents { above: indent, written: column };
        let block = block(self.text, end + 1, indents, is_folded, chomping, &mut self.folded)?;
        self.folded_scalar(block.start, block.end, style)?;
        Some(block.next_line)
    }
}

/// How line breaks at the end of a block scalar are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
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

fn begins_plain(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'-' => bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')),
        b'_' | b'.' | b'/' | b'$' | b'+' | b'(' | b'~' | b'<' | b'=' | b'^' | b';' | b'\\' => true,
        byte => byte.is_ascii_alphanumeric() || byte >= 0x80,
    }
}

/// The end of a plain scalar in block style in its line; `bytes` end with the line.
fn plain_end(bytes: &[u8], at: usize) -> Option<usize> {
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

/// Appends the folded form of a line break and the empty lines after it.
fn push_breaks(text: &mut String, empty_lines: usize) {
    match empty_lines {
        0 => text.push(' '),
        _ => text.extend(std::iter::repeat_n('\n', empty_lines)),
    }
}

/// The number of empty lines after a line break, and the start of the text after them.
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

/// Appends the value of an escape in double quotes; returns the position after it. `at` is after the backslash.
fn escape(bytes: &[u8], at: usize, indent: Option<usize>, out: &mut String) -> Option<usize> {
    let digits = match bytes.get(at)? {
        b'\n' => {
            indent?;
            let (empty_lines, next) = after_breaks(bytes, at)?;
            // The end marker of a document is not part of the text.
            if bytes[next - 1] == b'\n' && bytes[next..].starts_with(b"...") {
                return None;
            }
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

struct Block {
    /// The first character, after the indentation.
    start: usize,
    /// The position after the blanks at the start of the following line, if any.
    end: usize,
    next_line: usize,
}

struct Indents {
    /// The column of its parent.
    above: usize,
    /// The column from an explicit indentation indicator.
    written: Option<usize>,
}

/// Reads a block scalar that begins on its own line into `out`. `None` if it is empty.
fn block(
    text: &str,
    from: usize,
    indents: Indents,
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
        let blanks = spaces(bytes.get(line..)?);
        let start = line + indents.written.map_or(blanks, |column| column.min(blanks));
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
    if column <= indents.above || column < widest || indents.written.is_some_and(|written| column != written)
    {
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
        // Empty lines, and the indentation of the first line with text.
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
