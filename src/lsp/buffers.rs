//! The texts of the files that are open in the editor.

use lsp_types::TextDocumentContentChangeEvent;

use super::position::{Encoding, Positions};

/// The text of an open file.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// The version that the client assigned to the text.
    pub(crate) version: i32,
    pub(crate) text: String,
    pub(crate) positions: Positions,
}

impl Buffer {
    pub(crate) fn new(version: i32, text: String) -> Buffer {
        let positions = Positions::new(&text);
        Buffer { version, text, positions }
    }

    /// Applies changes in order; each refers to the text that results from the ones before it.
    pub(crate) fn apply(&mut self, changes: Vec<TextDocumentContentChangeEvent>, encoding: Encoding) {
        // A change without a range replaces the whole text, so that earlier changes have no effect.
        let whole = changes.iter().rposition(|change| change.range.is_none());
        for change in changes.into_iter().skip(whole.unwrap_or_default()) {
            match change.range {
                None => {
                    self.positions = Positions::new(&change.text);
                    self.text = change.text;
                }
                Some(range) => {
                    let span = self.positions.span(&self.text, range, encoding);
                    let replaced = span.start as usize..span.end as usize;
                    self.text.replace_range(replaced.clone(), &change.text);
                    self.positions.edit(&self.text, replaced, change.text.len());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lsp_types::{Position, Range};
    use proptest::prelude::*;

    use super::*;

    fn change(range: Option<[u32; 4]>, text: &str) -> TextDocumentContentChangeEvent {
        let range = range.map(|[line, character, to_line, to]| Range {
            start: Position { line, character },
            end: Position { line: to_line, character: to },
        });
        TextDocumentContentChangeEvent { range, range_length: None, text: text.to_owned() }
    }

    fn edited(text: &str, changes: Vec<TextDocumentContentChangeEvent>) -> String {
        let mut buffer = Buffer::new(1, text.to_owned());
        buffer.apply(changes, Encoding::Utf16);
        assert_eq!(buffer.positions, Positions::new(&buffer.text));
        buffer.text
    }

    #[test]
    fn changes_are_applied_in_order() {
        let text = "a: 1\r\nb: 😀\r\n";
        // Each position refers to the text after the previous change.
        let changes = vec![
            change(Some([1, 3, 1, 5]), "é"),
            change(Some([1, 4, 1, 4]), "!"),
            change(Some([0, 0, 1, 0]), ""),
        ];
        assert_eq!(edited(text, changes), "b: é!\r\n");
        let changes =
            vec![change(Some([0, 0, 0, 1]), "x"), change(None, "whole\n"), change(Some([1, 0, 1, 0]), "end")];
        assert_eq!(edited(text, changes), "whole\nend");
        // A `\n` is inserted after a lone `\r`, and removed again.
        assert_eq!(edited("a\rb", vec![change(Some([1, 0, 1, 0]), "\n")]), "a\r\nb");
        assert_eq!(
            edited("a\r\nb", vec![change(Some([0, 1, 1, 0]), ""), change(Some([0, 9, 4, 0]), "\r")]),
            "ab\r"
        );
    }

    #[test]
    fn a_range_that_is_not_there_is_moved() {
        assert_eq!(edited("a\nb", vec![change(Some([0, 7, 9, 9]), "!")]), "a!");
        assert_eq!(edited("", vec![change(Some([3, 3, 2, 2]), "new")]), "new");
        // The start of the range is after its end.
        assert_eq!(edited("abc", vec![change(Some([0, 2, 0, 1]), "-")]), "ab-c");
    }

    proptest! {
        #[test]
        fn many_changes_keep_the_lines(
            changes in prop::collection::vec(
                (0..6_u32, 0..6_u32, 0..3_u32, 0..6_u32, prop::sample::select(vec!["", "x", "\n", "\r", "\r\n", "😀", "a\r\nb"])),
                0..20,
            ),
        ) {
            let changes = changes.into_iter().map(|(line, at, lines, to, text)| change(Some([line, at, line + lines, to]), text));
            edited("a: 1\r\nb: 😀\nc\rd", changes.collect());
        }
    }
}
