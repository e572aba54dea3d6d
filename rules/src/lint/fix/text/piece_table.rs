//! A text that is being edited: pieces of the original text and new pieces.
//!
//! Each operation of a fix edits the text that the previous one produced. Kept in pieces, all operations
//! together are still edits of the text on disk.

use std::ops::Range;

/// One change of a text: a range of bytes and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextChange {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl TextChange {
    pub(super) fn new(range: Range<usize>, text: impl Into<String>) -> TextChange {
        TextChange { range, text: text.into() }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> TextChange {
        TextChange::new(at..at, text)
    }

    pub(super) fn delete(range: Range<usize>) -> TextChange {
        TextChange::new(range, "")
    }
}

enum Piece {
    Original(Range<usize>),
    Added(String),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Original(range) => range.len(),
            Piece::Added(text) => text.len(),
        }
    }

    fn split(self, at: usize) -> (Piece, Piece) {
        match self {
            Piece::Original(range) => {
                let middle = range.start + at;
                (Piece::Original(range.start..middle), Piece::Original(middle..range.end))
            }
            Piece::Added(mut text) => {
                let rest = text.split_off(at);
                (Piece::Added(text), Piece::Added(rest))
            }
        }
    }
}

pub(super) struct PieceTable {
    pieces: Vec<Piece>,
}

impl PieceTable {
    pub(super) fn new(length: usize) -> PieceTable {
        PieceTable { pieces: vec![Piece::Original(0..length)] }
    }

    /// Applies one change, in offsets of the current text.
    fn apply(&mut self, change: &TextChange) {
        let mut out = Vec::with_capacity(self.pieces.len() + 2);
        let mut rest = std::mem::take(&mut self.pieces).into_iter().peekable();
        let mut before = change.range.start;
        while let Some(piece) = rest.next_if(|p| p.len() <= before) {
            before -= piece.len();
            out.push(piece);
        }
        let mut gone = change.range.len();
        let mut tail = None;
        if before > 0
            && let Some(piece) = rest.next()
        {
            let (head, cut) = piece.split(before);
            out.push(head);
            tail = Some(cut);
        }
        out.push(Piece::Added(change.text.clone()));
        while let Some(piece) = tail.take().or_else(|| rest.next()) {
            if gone == 0 {
                out.push(piece);
            } else if piece.len() > gone {
                out.push(piece.split(gone).1);
                gone = 0;
            } else {
                gone -= piece.len();
            }
        }
        self.pieces = out;
    }

    /// Applies several changes of one text that do not overlap.
    pub(super) fn apply_all(&mut self, mut changes: Vec<TextChange>) {
        changes.sort_by_key(|c| (c.range.start, c.range.end));
        for change in changes.iter().rev() {
            self.apply(change);
        }
    }

    /// The combined changes in offsets of the original text, in order.
    pub(super) fn changes(&self, length: usize) -> Vec<TextChange> {
        let mut out = Vec::new();
        let mut at = 0;
        let mut new = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Added(text) => new.push_str(text),
                Piece::Original(range) if range.is_empty() => {}
                Piece::Original(range) => {
                    if !new.is_empty() || range.start > at {
                        out.push(TextChange::new(at..range.start, std::mem::take(&mut new)));
                    }
                    at = range.end;
                }
            }
        }
        if !new.is_empty() || length > at {
            out.push(TextChange::new(at..length, new));
        }
        out
    }
}

/// The text after changes that are in order and do not overlap.
pub(super) fn apply_changes(text: &str, changes: &[TextChange]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for change in changes {
        out.push_str(text.get(at..change.range.start)?);
        out.push_str(&change.text);
        at = change.range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_of_edits_are_edits_of_the_old_text() {
        let text = "0123456789";
        let mut pieces = PieceTable::new(text.len());
        pieces.apply_all(vec![TextChange::new(2..4, "ab"), TextChange::insert(8, "c")]);
        // 01ab4567c89
        pieces.apply_all(vec![TextChange::delete(3..5), TextChange::insert(9, "d")]);
        // 01a567cd89
        pieces.apply_all(vec![TextChange::new(0..1, "")]);
        let changes = pieces.changes(text.len());
        assert_eq!(apply_changes(text, &changes).as_deref(), Some("1a567cd89"));
        assert_eq!(
            changes,
            [TextChange::delete(0..1), TextChange::new(2..5, "a"), TextChange::insert(8, "cd")]
        );
    }

    #[test]
    fn changes_at_one_place_keep_their_order() {
        let mut pieces = PieceTable::new(4);
        pieces.apply_all(vec![
            TextChange::insert(2, "a"),
            TextChange::delete(2..3),
            TextChange::insert(2, "b"),
        ]);
        let text = apply_changes("0123", &pieces.changes(4));
        assert_eq!(text.as_deref(), Some("01ab3"));
    }
}
