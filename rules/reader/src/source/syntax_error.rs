//! Explains syntax errors in terms of the text instead of the parser's state.

use std::ops::Range;

use granit_parser::ErrorKind;

/// Maximum number of lines above an error that are examined.
const MAX_LINES: usize = 400;

/// A message and a help for an error of this kind at an offset. `None` if the parser's message is as good.
pub(super) fn explain(kind: &ErrorKind, text: &str, at: usize) -> Option<(String, &'static str)> {
    let place = Place::new(text, at);
    if place.is_long_separator() {
        return Some((
            format!("`{}` does not separate documents", place.line.trim_end()),
            "write `---`: it is three dashes that separate documents",
        ));
    }
    match kind {
        ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation => {
            Some(("a tab indents this line".to_owned(), "indent with spaces: YAML does not allow tabs there"))
        }
        ErrorKind::TabAtBlockScalarStart => Some((
            "a tab begins this block of text".to_owned(),
            "indent with spaces: YAML does not allow tabs there",
        )),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation
        | ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::MappingKeyNotAllowed
        | ErrorKind::ExpectedDocumentStart => place.after_bracket().or_else(|| place.misplaced_line()),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            place.ended_text().or_else(|| place.misplaced_line()).or_else(|| Some(without_colon()))
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => place.second_value(),
        ErrorKind::UnclosedQuotedScalar => Some(unclosed_quote()),
        ErrorKind::DocumentIndicatorInQuotedScalar => Some(unclosed_quote()),
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            Some((
                "text follows the closing quote of this value".to_owned(),
                "put quotes around the whole value; a quote inside is `''` in single, `\\\"` in double quotes",
            ))
        }
        ErrorKind::UnknownQuotedScalarEscape | ErrorKind::InvalidQuotedScalarHexEscape => Some((
            "`\\` begins an escape that YAML does not know".to_owned(),
            "write `\\\\` for a backslash, or use single quotes",
        )),
        ErrorKind::InvalidQuotedScalarIndent => Some((
            "a quoted text goes on in this line, which is indented no deeper than its key".to_owned(),
            "close the quote on the line before, or indent this line",
        )),
        ErrorKind::UnclosedFlowCollection { open } => Some(unclosed_bracket(*open)),
        ErrorKind::UnexpectedEofFlowSequence => Some(unclosed_bracket('[')),
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            Some(unclosed_bracket('{'))
        }
        ErrorKind::ExpectedFlowSequenceSeparator => Some((
            "`,` or `]` is missing in this list".to_owned(),
            "write `,` between items; quote an item that has `[`, `]`, `{`, `}` or `,` in it",
        )),
        ErrorKind::ExpectedFlowMappingSeparator => Some((
            "`,` or `}` is missing in this map".to_owned(),
            "write `,` between fields; quote a value that has `[`, `]`, `{`, `}` or `,` in it",
        )),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => Some((
            format!("`{close}` closes what `{open}` opens"),
            "close each bracket with its own kind; quote a value that begins with one",
        )),
        ErrorKind::MisplacedFlowCollectionEnd => {
            Some(("a closing bracket has no opening one".to_owned(), "remove it, or quote the value"))
        }
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => Some((
            format!("the control character `{}` is not allowed in YAML", character.escape_default()),
            "remove it: it cannot be seen in most editors",
        )),
        ErrorKind::UnexpectedCharacter { character } => {
            Some((format!("`{character}` cannot begin a value without quotes"), "quote the value"))
        }
        ErrorKind::ExpectedNodeContent => Some((
            "a value is missing here".to_owned(),
            "write the value, or quote it if it begins with a sign",
        )),
        ErrorKind::CommentNotSeparated | ErrorKind::ExpectedWhitespace => Some((
            "a space is missing here".to_owned(),
            "write a space before `#`, and after `-`, `:` and a closing quote",
        )),
        ErrorKind::CommentInterceptedScalar => Some((
            "a comment stands between the lines of one value".to_owned(),
            "move the comment, or quote the value",
        )),
        ErrorKind::UndeclaredTagHandle | ErrorKind::InvalidTagTerminator | ErrorKind::ExpectedTagBang => {
            Some((
                "`!` begins a tag, which Kubernetes does not know".to_owned(),
                "quote a value that begins with `!`",
            ))
        }
        ErrorKind::MissingAnchorOrAliasName => Some((
            "`*` and `&` at the start of a value are an alias and an anchor".to_owned(),
            "quote a value that begins with `*` or `&`",
        )),
        _ => None,
    }
}

/// The start of the first marker that Git wrote for a merge conflict in a range of the text.
pub(super) fn merge_conflict(text: &str, range: Range<usize>) -> Option<usize> {
    let part = text.get(range.clone())?;
    let mut markers = part.match_indices("<<<<<<< ").map(|(at, _)| range.start + at);
    markers.find(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
}

fn unclosed_quote() -> (String, &'static str) {
    (
        "the quote that begins here is never closed".to_owned(),
        "close it; a quote inside is `''` in single quotes, `\\\"` in double quotes",
    )
}

fn unclosed_bracket(open: char) -> (String, &'static str) {
    let close = if open == '[' { ']' } else { '}' };
    (
        format!("`{open}` is never closed with `{close}`"),
        "close it, or quote a value that begins with a bracket",
    )
}

fn without_colon() -> (String, &'static str) {
    (
        "this line has no `key:`".to_owned(),
        "write `key: value`, or indent the line if it is part of the value above",
    )
}

struct Place<'t> {
    /// Number of the line, from 1.
    number: usize,
    line: &'t str,
    /// The text up to the error on its line.
    before: &'t str,
    /// The lines above with their numbers, nearest first, without blank lines and comments.
    above: Vec<(usize, &'t str)>,
}

impl<'t> Place<'t> {
    fn new(text: &'t str, at: usize) -> Place<'t> {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        // An error at the end of the text is on its last line.
        let mut start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if text[start..].trim().is_empty() && start > 0 {
            let head = text[..start].trim_end();
            at = head.len();
            start = head.rfind('\n').map_or(0, |end| end + 1);
        }
        let end = text[start..].find('\n').map_or(text.len(), |end| start + end);
        let number = text[..start].matches('\n').count() + 1;
        let lines = text[..start].lines().rev().take(MAX_LINES).enumerate();
        let above = lines.map(|(back, line)| (number - 1 - back, line));
        let above = above.take_while(|(_, line)| !line.starts_with("---"));
        let written = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        Place {
            number,
            line: &text[start..end],
            before: text.get(start..at).unwrap_or_default(),
            above: above.filter(|(_, line)| written(line)).collect(),
        }
    }

    /// Whether the line consists of more than the three dashes that separate documents.
    fn is_long_separator(&self) -> bool {
        const LONGEST: usize = 20;
        let line = self.line.trim_end();
        (4..=LONGEST).contains(&line.len()) && line.bytes().all(|byte| byte == b'-')
    }

    /// Explains text behind a list or a map in brackets that is the value of a key.
    fn after_bracket(&self) -> Option<(String, &'static str)> {
        let (_, value) = self.before.split_once(": ")?;
        let value = value.trim();
        let close = [('[', ']'), ('{', '}')].into_iter().find(|(open, _)| value.starts_with(*open))?.1;
        value.ends_with(close).then(|| {
            let text = format!("text follows the closing `{close}` of this value");
            (text, "put quotes around the whole value: a bracket at its start begins a list or a map")
        })
    }

    /// Explains a line that is not part of a block scalar, because it is indented less.
    fn ended_text(&self) -> Option<(String, &'static str)> {
        let own = indent(self.line);
        let at = self.above.iter().position(|(_, line)| indent(line) <= own || begins_text(line))?;
        let (number, header) = self.above[at];
        let all_deeper = self.above[..at].iter().all(|(_, line)| indent(line) > indent(header));
        if !begins_text(header) || !all_deeper || self.line.trim().is_empty() {
            return None;
        }
        Some((
            format!("this line ends the text that begins in line {number}, because it is indented less"),
            "indent it like the other lines of the text",
        ))
    }

    /// Explains a line with the wrong indentation, a key among list items, or an item among keys.
    fn misplaced_line(&self) -> Option<(String, &'static str)> {
        let own = indent(self.line);
        let is_item = self.line.trim_start().starts_with("- ") || self.line.trim() == "-";
        if let Some(found) = self.ended_text().filter(|_| !self.line.contains(": ") && !is_item) {
            return Some(found);
        }
        // The columns at which keys and items of the open blocks begin.
        let (mut keys, mut items): (Vec<usize>, Vec<usize>) = Default::default();
        let mut least = usize::MAX;
        for (_, line) in &self.above {
            let (dashes, key) = columns(line);
            for column in dashes.iter().copied().filter(|column| *column < least) {
                items.push(column);
            }
            if key < least {
                keys.push(key);
            }
            least = least.min(indent(line));
            if least == 0 {
                break;
            }
        }
        let (same, other) = if is_item { (&items, &keys) } else { (&keys, &items) };
        if same.contains(&own) {
            return None;
        }
        if other.contains(&own) {
            return Some(if is_item {
                (
                    "a list item (`- `) stands among the keys of a map".to_owned(),
                    "indent it below the key of its list, or remove the `-`",
                )
            } else {
                (
                    "a key stands among the items of a list".to_owned(),
                    "indent it to the fields of its item, or begin a new item with `- `",
                )
            });
        }
        let mut known: Vec<usize> = keys.iter().chain(&items).copied().collect();
        known.sort_unstable();
        known.dedup();
        let below = known.iter().rev().find(|column| **column < own);
        let above = known.iter().find(|column| **column > own);
        let neighbors = match (below, above) {
            (Some(below), Some(above)) => format!("{below} or {above}"),
            (Some(one), None) | (None, Some(one)) => one.to_string(),
            (None, None) => return None,
        };
        let line = if self.number > 1 { "the lines above" } else { "the others" };
        Some((
            format!("this line is indented by {own} spaces, {line} by {neighbors}"),
            "indent it like the fields that it belongs to",
        ))
    }

    /// Explains a second `: ` on a line, or a line with a key below one that already has a value.
    fn second_value(&self) -> Option<(String, &'static str)> {
        let head = self.before.trim_start();
        let in_line = head.trim_end_matches(':').contains(": ");
        if in_line {
            return Some(("a value without quotes has `: ` in it".to_owned(), "quote the whole value"));
        }
        let (number, above) = self.above.first()?;
        for (open, close) in [('[', ']'), ('{', '}')] {
            if above.matches(open).count() > above.matches(close).count() {
                return Some((
                    format!("`{open}` in line {number} is never closed with `{close}`"),
                    "close it, or quote a value that begins with a bracket",
                ));
            }
        }
        let has_value = above.split_once(": ").is_some_and(|(_, value)| !value.trim().is_empty());
        if has_value && indent(above) < indent(self.line) {
            return Some((
                format!("this line is indented below line {number}, which already has a value"),
                "indent it like that line, or remove the value there",
            ));
        }
        if !above.trim_end().ends_with(':') && !above.contains(": ") {
            return Some((
                format!("line {number} has no `:` after its key, so this line cannot follow"),
                "write `key: value` there",
            ));
        }
        None
    }
}

/// The number of blanks at the start of a line.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The columns of the dashes at the start of a line, and the column after them.
fn columns(line: &str) -> (Vec<usize>, usize) {
    let mut at = indent(line);
    let mut dashes = Vec::new();
    while line[at..].starts_with("- ") {
        dashes.push(at);
        at += 1 + indent(&line[at + 1..]);
    }
    if line[at..].trim_end() == "-" {
        dashes.push(at);
    }
    (dashes, at)
}

/// Whether a line ends in the header of a block scalar: `key: |`, `- >-`.
fn begins_text(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    let word = line.rsplit(' ').next().unwrap_or_default();
    let mut chars = word.chars();
    matches!(chars.next(), Some('|' | '>'))
        && chars.all(|c| matches!(c, '-' | '+' | '1'..='9'))
        && line.len() > word.len()
}

#[cfg(test)]
mod tests {
    use crate::source::{Source, read};

    #[test]
    fn messages_are_in_the_words_of_the_author() {
        for (text, line, expected) in [
            ("a:\n\t- b\n", 2, "a tab indents this line"),
            (
                "a:\n  - name: x\n   port: 1\n",
                3,
                "this line is indented by 3 spaces, the lines above by 2 or 4",
            ),
            (
                "l:\n  -   name: x\n    port: 1\n",
                3,
                "this line is indented by 4 spaces, the lines above by 2 or 6",
            ),
            ("a:\n    b: 1\n  c: 2\n", 3, "this line is indented by 2 spaces, the lines above by 0 or 4"),
            ("a:\n  b: 1\n  - c\n", 3, "a list item (`- `) stands among the keys of a map"),
            ("a:\n  - b\n  c: 1\n", 3, "a key stands among the items of a list"),
            ("v: apps/v1\n    kind: A\n", 2, "this line is indented below line 1, which already has a value"),
            ("a: b: c\n", 1, "a value without quotes has `: ` in it"),
            ("a: \"b", 1, "the quote that begins here is never closed"),
            ("a: %s\n", 1, "`%` cannot begin a value without quotes"),
            ("a: @b\n", 1, "`@` cannot begin a value without quotes"),
            ("a: [b, c\nd: e\n", 2, "`[` in line 1 is never closed with `]`"),
            ("a: [{x}\"a\",{y}\"b\"]\n", 1, "`,` or `]` is missing in this list"),
            ("a: \"b\" c\n", 1, "text follows the closing quote of this value"),
            ("a:\n  b: [X]-c\n  d: 1\n", 2, "text follows the closing `]` of this value"),
            ("a:\n  b: {{X}}-c\n  d: 1\n", 2, "text follows the closing `}` of this value"),
            (
                "a: |\n  text\nmore text\nb: c\n",
                3,
                "this line ends the text that begins in line 1, because it is indented less",
            ),
            ("a: 1\nb\nc: 2\n", 2, "this line has no `key:`"),
            ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> c\n", 2, "a merge conflict is not resolved"),
            ("a: \"\\d\"\n", 1, "`\\` begins an escape that YAML does not know"),
        ] {
            let documents = read(&Source::from_text("a.yaml", text));
            let found = documents.iter().flat_map(|document| &document.diagnostics).next().expect(text);
            let at = text[..found.span.start as usize].matches('\n').count() + 1;
            assert_eq!((found.message.as_str(), at), (expected, line), "{text:?}");
            assert!(found.help.is_some());
        }
    }
}
