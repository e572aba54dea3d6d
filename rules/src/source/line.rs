//! Byte offsets to lines and columns, for the reporters.

/// A place as editors count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in Unicode scalar values; a byte order mark is not counted.
    pub column: u32,
}

/// Where each line starts.
#[derive(Debug)]
pub struct LineIndex {
    starts: Vec<u32>,
}

impl LineIndex {
    pub(crate) fn new(text: &str) -> LineIndex {
        let mut starts = vec![0];
        starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i as u32 + 1),
        );
        LineIndex { starts }
    }

    /// How many lines there are; an empty text has one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Never: there is always a first line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The line, counted from 0, that holds a byte.
    #[must_use]
    pub fn line_of(&self, at: u32) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    /// The first byte of a line counted from 0; the end of the text past the last one.
    #[must_use]
    pub fn start_of(&self, line: usize, text: &str) -> u32 {
        self.starts.get(line).copied().unwrap_or(text.len() as u32)
    }

    /// Line and column of a byte.
    #[must_use]
    pub fn position(&self, text: &str, at: u32) -> Position {
        let at = at.min(text.len() as u32);
        let line = self.line_of(at);
        let start = self.starts[line] as usize;
        let before = text.get(start..at as usize).unwrap_or_default();
        let column = before.chars().filter(|c| *c != '\u{FEFF}').count();
        Position {
            line: line as u32 + 1,
            column: column as u32 + 1,
        }
    }
}
