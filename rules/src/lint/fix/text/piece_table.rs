//! A text under edit: what is left of the old one, and what is new.
//!
//! Each operation of a fix edits the text that the one before it left. Kept in pieces, all of
//! them together are still edits of the text that is on disk.

use std::ops::Range;

/// One change of a text: these bytes become that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Change {
    pub(super) fn new(range: Range<usize>, text: impl Into<String>) -> Change {
        Change { range, text: text.into() }
    }

    pub(super) fn insert(at: usize, text: impl Into<String>) -> Change {
        Change::new(at..at, text)
    }

    pub(super) fn delete(range: Range<usize>) -> Change {
        Change::new(range, "")
    }
}

enum Piece {
    Old(Range<usize>),
    New(String),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Old(range) => range.len(),
            Piece::New(text) => text.len(),
        }
    }

    /// Cuts the piece in two.
    fn split(self, at: usize) -> (Piece, Piece) {
        match self {
            Piece::Old(range) => {
                let middle = range.start + at;
                (Piece::Old(range.start..middle), Piece::Old(middle..range.end))
            }
            Piece::New(mut text) => {
                let rest = text.split_off(at);
                (Piece::New(text), Piece::New(rest))
            }
        }
    }
}

/// A text in pieces.
pub(super) struct Pieces {
    pieces: Vec<Piece>,
}

impl Pieces {
    pub(super) fn new(length: usize) -> Pieces {
        Pieces { pieces: vec![Piece::Old(0..length)] }
    }

    /// Makes one change, in the coordinates of the text as it is now.
    fn change(&mut self, change: &Change) {
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
        out.push(Piece::New(change.text.clone()));
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

    /// Makes several changes of one text, none inside another.
    pub(super) fn make(&mut self, mut changes: Vec<Change>) {
        changes.sort_by_key(|c| (c.range.start, c.range.end));
        for change in changes.iter().rev() {
            self.change(change);
        }
    }

    /// The changes of the old text that all of this amounts to, in its order.
    pub(super) fn changes(&self, length: usize) -> Vec<Change> {
        let mut out = Vec::new();
        let mut at = 0;
        let mut new = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::New(text) => new.push_str(text),
                Piece::Old(range) if range.is_empty() => {}
                Piece::Old(range) => {
                    if !new.is_empty() || range.start > at {
                        out.push(Change::new(at..range.start, std::mem::take(&mut new)));
                    }
                    at = range.end;
                }
            }
        }
        if !new.is_empty() || length > at {
            out.push(Change::new(at..length, new));
        }
        out
    }
}

/// The text after changes that are in order and do not overlap.
pub(super) fn rewrite(text: &str, changes: &[Change]) -> Option<String> {
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
        let mut pieces = Pieces::new(text.len());
        pieces.make(vec![Change::new(2..4, "ab"), Change::insert(8, "c")]);
        // 01ab4567c89
        pieces.make(vec![Change::delete(3..5), Change::insert(9, "d")]);
        // 01a567cd89
        pieces.make(vec![Change::new(0..1, "")]);
        let changes = pieces.changes(text.len());
        assert_eq!(rewrite(text, &changes).as_deref(), Some("1a567cd89"));
        assert_eq!(changes, [Change::delete(0..1), Change::new(2..5, "a"), Change::insert(8, "cd")]);
    }

    #[test]
    fn changes_at_one_place_keep_their_order() {
        let mut pieces = Pieces::new(4);
        pieces.make(vec![Change::insert(2, "a"), Change::delete(2..3), Change::insert(2, "b")]);
        let text = rewrite("0123", &pieces.changes(4));
        assert_eq!(text.as_deref(), Some("01ab3"));
    }
}
