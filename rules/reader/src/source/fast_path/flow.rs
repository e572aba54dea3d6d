//! Flow collections: `{a: b}`, `[c, d]`, and JSON.

use granit_parser::ScalarStyle;

use super::scalar::{quoted_key_end, unquote};
use super::{LineScanner, MAX_DEPTH, MAX_KEY, line_end, quoted_style, spaces};

impl LineScanner<'_> {
    /// Reads a flow collection; returns its end.
    pub(super) fn flow(&mut self, start: usize, depth: usize) -> Option<usize> {
        if depth >= MAX_DEPTH {
            return None;
        }
        let mapping = self.bytes[start] == b'{';
        let closing = if mapping { b'}' } else { b']' };
        let anchor = self.anchors.take();
        self.build.open(mapping, true, anchor, self.span(start, start + 1));
        let mut at = self.flow_blanks(start + 1)?;
        if self.bytes.get(at) != Some(&closing) {
            loop {
                if mapping {
                    let key = at;
                    at = self.flow_scalar(at)?;
                    // After a quoted key the value may follow the colon.
                    let spaced = self.bytes.get(at + 1) == Some(&b' ')
                        || matches!(self.bytes[key], b'"' | b'\'') && self.bytes.get(at + 1) != Some(&b'\n');
                    if self.bytes.get(at) != Some(&b':') || !spaced || at - key >= MAX_KEY {
                        return None;
                    }
                    at += 1;
                    at += spaces(&self.bytes[at..]);
                }
                at = match self.bytes.get(at)? {
                    b'{' | b'[' => self.flow(at, depth + 1)?,
                    b'*' => self.flow_alias(at)?,
                    _ => self.flow_scalar(at)?,
                };
                at = self.flow_blanks(at)?;
                match self.bytes.get(at)? {
                    b',' => at = self.flow_blanks(at + 1)?,
                    byte if *byte == closing => break,
                    _ => return None,
                }
            }
        }
        self.build.close(self.span(at, at + 1));
        Some(at + 1)
    }

    /// Reads an alias; returns its end.
    fn flow_alias(&mut self, at: usize) -> Option<usize> {
        let end = line_end(self.bytes, at);
        let name = self.anchor_name(at, end).or_else(|| {
            let length = self.bytes[at..end].iter().position(|b| matches!(b, b',' | b']' | b'}'))?;
            self.anchor_name(at, at + length)
        })?;
        let to = name.end;
        self.add_alias(name)?;
        Some(to)
    }

    /// Skips blanks and line breaks in a flow collection. Lines must be indented deeper than the block around it.
    fn flow_blanks(&self, from: usize) -> Option<usize> {
        let mut at = from;
        let mut line = None;
        loop {
            at += spaces(&self.bytes[at..]);
            if self.bytes.get(at) != Some(&b'\n') {
                break;
            }
            at += 1;
            line = Some(at);
        }
        // At the root, `...` in the first column would end the document.
        let shallow = |line: usize| match self.indent() {
            Some(indent) => at - line <= indent,
            None => self.bytes[line..].starts_with(b"..."),
        };
        (!line.is_some_and(shallow)).then_some(at)
    }

    /// Reads a scalar in a flow collection; returns its end.
    fn flow_scalar(&mut self, at: usize) -> Option<usize> {
        match self.bytes.get(at)? {
            quote @ (b'"' | b'\'') => {
                let style = quoted_style(*quote);
                if let Some(to) = quoted_key_end(self.bytes, at) {
                    self.scalar(at, to, style)?;
                    return Some(to);
                }
                let to = unquote(self.text, at, None, &mut self.folded)?;
                self.folded_scalar(at, to, style)?;
                Some(to)
            }
            _ => {
                let to = flow_plain(self.bytes, at)?;
                if &self.bytes[at..to] == b"<<" {
                    return None;
                }
                self.scalar(at, to, ScalarStyle::Plain)?;
                Some(to)
            }
        }
    }
}

/// Whether a byte may begin a plain scalar in a flow collection.
const fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || b >= 0x80
        || matches!(
            b,
            b'_' | b'.' | b'/' | b'-' | b'$' | b'+' | b'(' | b')' | b'=' | b'~' | b'^' | b';' | b'<'
        )
}

/// The bytes that a plain scalar in a flow collection may contain: at its start some of them are indicators.
static IS_INSIDE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = is_word(b)
            || matches!(b, b' ' | b'%' | b'*' | b'@' | b'>' | b'|' | b'!' | b'&' | b'?' | b'\\' | b'`');
        byte += 1;
    }
    table
};

fn flow_plain(bytes: &[u8], at: usize) -> Option<usize> {
    let begins = match *bytes.get(at)? {
        b'-' => bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'-'),
        b')' => false,
        byte => is_word(byte),
    };
    if !begins {
        return None;
    }
    let mut end = at;
    loop {
        end += bytes[end..].iter().position(|byte| !IS_INSIDE[usize::from(*byte)])?;
        // A colon is part of the text if text follows it directly.
        match bytes.get(end)? {
            b':' if bytes.get(end + 1).is_some_and(|b| is_word(*b)) => end += 1,
            b',' | b']' | b'}' | b':' | b'\n' => break,
            _ => return None,
        }
    }
    while bytes[end - 1] == b' ' {
        end -= 1;
    }
    Some(end)
}
