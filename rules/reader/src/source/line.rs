//! Conversion of byte offsets to lines and columns.

/// A line and column, as editors show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    /// Column in Unicode scalar values, from 1. A byte order mark is not counted.
    pub column: u32,
}

/// The start of each line.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<u32>,
    /// Number of characters before each block of [`BLOCK`] bytes, so that a column in a line of many
    /// megabytes is found without counting from its start.
    chars_before_block: Vec<u32>,
    /// Whether the text starts with a byte order mark, which is not counted as a column.
    has_bom: bool,
    /// Whether the text is ASCII, so that columns are byte offsets.
    ascii: bool,
}

const BLOCK: usize = 4096;

impl LineIndex {
    pub(crate) fn new(text: &str) -> LineIndex {
        let breaks = || memchr::memchr_iter(b'\n', text.as_bytes());
        let mut starts = Vec::with_capacity(breaks().count() + 1);
        starts.push(0);
        starts.extend(breaks().map(|i| i as u32 + 1));
        let ascii = text.is_ascii();
        let mut chars_before_block = Vec::new();
        if !ascii {
            chars_before_block.reserve_exact(text.len() / BLOCK + 1);
            let mut sum = 0;
            for block in text.as_bytes().chunks(BLOCK) {
                chars_before_block.push(sum);
                sum += count_chars(block);
            }
        }
        LineIndex { starts, chars_before_block, has_bom: text.starts_with('\u{FEFF}'), ascii }
    }

    /// The number of lines; an empty text has one.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Always false: there is at least one line.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The line, from 0, that contains an offset.
    pub fn line_of(&self, at: u32) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    /// The offset of a line, counted from 0; the end of the text for lines past the last.
    pub fn start_of(&self, line: usize, text: &str) -> u32 {
        self.starts.get(line).copied().unwrap_or(text.len() as u32)
    }

    pub fn position(&self, text: &str, at: u32) -> Position {
        let at = at.min(text.len() as u32);
        let line = self.line_of(at);
        let start = self.starts[line] as usize;
        let mut column = self.chars_before(text, at as usize) - self.chars_before(text, start);
        if self.has_bom && line == 0 && at > 0 {
            column -= 1;
        }
        Position { line: line as u32 + 1, column: column + 1 }
    }

    /// The number of characters before an offset.
    fn chars_before(&self, text: &str, at: usize) -> u32 {
        if self.ascii {
            return at as u32;
        }
        let block = (at / BLOCK).min(self.chars_before_block.len().saturating_sub(1));
        let from = block * BLOCK;
        self.chars_before_block.get(block).copied().unwrap_or_default()
            + count_chars(&text.as_bytes()[from..at])
    }
}

/// The number of characters that start in these bytes: every byte but UTF-8 continuation bytes.
fn count_chars(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|b| (**b as i8) >= -0x40).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_on_long_lines_too() {
        let text = format!("\u{FEFF}é: {}\nx", "ü".repeat(5000));
        let index = LineIndex::new(&text);
        let position = |at: usize| {
            let p = index.position(&text, at as u32);
            (p.line, p.column)
        };
        assert_eq!(position(0), (1, 1));
        assert_eq!(position(3), (1, 1));
        assert_eq!(position(5), (1, 2));
        assert_eq!(position(3 + 4 + 2 * 4999), (1, 5003));
        assert_eq!(position(text.len() - 1), (2, 1));
        assert_eq!(position(text.len()), (2, 2));
        assert_eq!(LineIndex::new("").position("", 0).column, 1);
    }
}
