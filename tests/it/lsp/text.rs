//! Positions and edits as a client counts them, independent of the server.

use serde_json::{Value, json};

/// The unit of `character`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16,
    Utf32,
}

impl Encoding {
    fn units(self, letter: char) -> usize {
        match self {
            Encoding::Utf8 => letter.len_utf8(),
            Encoding::Utf16 => letter.len_utf16(),
            Encoding::Utf32 => 1,
        }
    }
}

/// Where the lines of a text start: behind `\n`, `\r\n` and `\r`.
fn starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'\n' || (byte == b'\r' && bytes.get(at + 1) != Some(&b'\n')) {
            starts.push(at + 1);
        }
    }
    starts
}

/// The position of a byte offset, as JSON.
pub(crate) fn position(text: &str, offset: usize, encoding: Encoding) -> Value {
    let starts = starts(text);
    let line = starts.partition_point(|&start| start <= offset) - 1;
    let character: usize = text[starts[line]..offset].chars().map(|letter| encoding.units(letter)).sum();
    json!({"line": line, "character": character})
}

/// The byte offset of a position, which must be inside the text and between two characters.
#[track_caller]
pub(crate) fn offset(text: &str, position: &Value, encoding: Encoding) -> usize {
    let starts = starts(text);
    let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
    let wanted = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
    if line == starts.len() && wanted == 0 {
        return text.len();
    }
    let start = *starts.get(line).unwrap_or_else(|| panic!("line {line} of {}", starts.len()));
    let end = starts.get(line + 1).copied().unwrap_or(text.len());
    let content = text[start..end].trim_end_matches(['\n', '\r']);
    let (mut at, mut units) = (start, 0);
    for letter in content.chars() {
        if units >= wanted {
            break;
        }
        units += encoding.units(letter);
        at += letter.len_utf8();
    }
    assert_eq!(units, wanted, "character {wanted} of line {line}: {content:?}");
    at
}

/// The text with edits applied; they may not overlap.
#[track_caller]
pub(crate) fn apply(text: &str, edits: &[Value], encoding: Encoding) -> String {
    let mut edits: Vec<(usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let range = &edit["range"];
            let (start, end) =
                (offset(text, &range["start"], encoding), offset(text, &range["end"], encoding));
            assert!(start <= end, "{edit}");
            (start, end, edit["newText"].as_str().unwrap())
        })
        .collect();
    edits.sort_by_key(|&(start, end, _)| (start, end));
    let (mut out, mut at) = (String::new(), 0);
    for (start, end, new) in edits {
        assert!(at <= start, "edits overlap at byte {start}");
        out.push_str(&text[at..start]);
        out.push_str(new);
        at = end;
    }
    out + &text[at..]
}

#[test]
fn positions_are_counted_in_units() {
    let text = "a: é\r\nb: 😀 x\n\tc\rd";
    for (part, line, utf8, utf16, utf32) in
        [("é", 0, 3, 3, 3), ("x", 1, 8, 6, 5), ("c", 2, 1, 1, 1), ("d", 3, 0, 0, 0)]
    {
        let at = text.find(part).unwrap();
        for (encoding, character) in
            [(Encoding::Utf8, utf8), (Encoding::Utf16, utf16), (Encoding::Utf32, utf32)]
        {
            let place = json!({"line": line, "character": character});
            assert_eq!(position(text, at, encoding), place, "{part}");
            assert_eq!(offset(text, &place, encoding), at, "{part}");
        }
    }
    let edit = |line: u32, from: u32, to: u32, new: &str| json!({"range": {"start": {"line": line, "character": from}, "end": {"line": line, "character": to}}, "newText": new});
    let edits = [edit(1, 6, 7, "y"), edit(0, 3, 3, "(")];
    assert_eq!(apply(text, &edits, Encoding::Utf16), "a: (é\r\nb: 😀 y\n\tc\rd");
}
