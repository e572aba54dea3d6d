//! `# gpulint: allow[RULE] REASON`: where such a comment can stand.
//!
//! A comment stands alone above the line of the finding, or at the end of that line. It is written only if
//! the file still gives the same values afterwards and gpulint reads the comment as one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gpulint_rules::lint::suppress;
pub(crate) use gpulint_rules::lint::suppress::is_suppressible;
use gpulint_rules::source::{Document, Source, read, split_documents};
use gpulint_rules::{Finding, Rule};

pub(crate) const NO_COMMENTS: &str =
    "JSON has no comments: set the annotation `gpulint.dev/allow`, or use a baseline";
const IN_SCALAR: &str =
    "no comment can stand there: set the annotation `gpulint.dev/allow`, or use a baseline";
pub(crate) const TEMPLATE: &str = "it is in a template: write the comment above the line by hand";
const BROKEN: &str = "the document does not parse";
pub(crate) const ITSELF: &str = "what is wrong with a suppression cannot be suppressed";

pub(crate) type RulesByLine = BTreeMap<usize, BTreeSet<&'static str>>;

/// Returns the text of a file with comments that allow rules on lines, and the number of comments. Where no
/// comment can stand, calls `refuse` with the line, the rule and the reason.
pub(crate) fn with_allowed(
    source: &Source,
    lines: &RulesByLine,
    reason: &str,
    mut refuse: impl FnMut(usize, &'static str, &'static str),
) -> Option<(String, usize)> {
    let documents = read(source);
    // Writing all comments at once is fast. If that changes the values, writing them one by one finds those
    // that cannot be written.
    let above: Vec<(usize, Place, String)> = lines
        .iter()
        .filter_map(|(line, rules)| Some((*line, Place::Above, comment(rules, reason)?)))
        .collect();
    let text = with_comments(source, &above);
    let joins = lines.keys().any(|line| joins_lines(source, *line));
    if !joins && is_equal(&documents, &text, above.len()) {
        return Some((text, above.len()));
    }
    let mut written = Vec::new();
    for (line, rules) in lines {
        let Some(comment) = comment(rules, reason) else { continue };
        match place_of(source, &documents, *line, &comment) {
            Ok(place) => written.push((*line, place, comment)),
            Err(why) => rules.iter().for_each(|rule| refuse(*line, rule, why)),
        }
    }
    let text = with_comments(source, &written);
    let is_sound = !written.is_empty() && is_equal(&documents, &text, written.len());
    is_sound.then_some((text, written.len()))
}

/// Whether a finding is in a template. Its text differs from what was rendered, so that a comment cannot be verified.
pub(crate) fn is_in_template(finding: &Finding) -> bool {
    finding.location.rendered().is_some_and(|rendered| rendered.source.text().contains("{{"))
}

/// A comment that suppresses a finding, and where it is written.
pub(crate) struct Insertion {
    /// The byte of the text before which the comment is inserted.
    pub(crate) at: u32,
    /// The comment, with its indentation, and with a line end if it has a line of its own.
    pub(crate) text: String,
}

/// The comment that suppresses a rule on a line of a file, or the reason why no comment can.
pub(crate) fn insertion(
    source: &Source,
    line: usize,
    rule: &Rule,
    reason: &str,
) -> Result<Insertion, &'static str> {
    let is_json = Path::new(source.path()).extension().is_some_and(|ending| ending == "json");
    if !suppress::is_suppressible(rule) {
        return Err(ITSELF);
    }
    if is_json {
        return Err(NO_COMMENTS);
    }
    let comment = suppress::comment(&[rule.id], reason).map_err(|_| IN_SCALAR)?;
    // Only the document is parsed again, not a whole file of thousands.
    let start = source.lines().start_of(line, source.text()) as usize;
    let mut parts = split_documents(source.text()).into_iter();
    let part = parts.find(|part| part.contains(&start)).unwrap_or(0..source.text().len());
    let document = Source::from_text(source.path(), &source.text()[part.clone()]);
    let line = document.lines().line_of((start - part.start) as u32);
    let place = place_of(&document, &read(&document), line, &comment)?;
    let insertion = insert(&document, line, place, &comment);
    Ok(Insertion { at: insertion.at + part.start as u32, ..insertion })
}

/// The place of a comment on a line of a file with these documents, or the reason why there is none.
fn place_of(
    source: &Source,
    documents: &[Document],
    line: usize,
    comment: &str,
) -> Result<Place, &'static str> {
    if joins_lines(source, line) {
        return Err(TEMPLATE);
    }
    let place = [Place::Above, Place::End].into_iter().find(|place| {
        let text = with_comments(source, &[(line, *place, comment.to_owned())]);
        is_equal(documents, &text, 1)
    });
    let text = source.text();
    place.ok_or_else(|| {
        if documents.iter().all(|document| document.tree.is_some()) {
            if text.trim_start().starts_with(['{', '[']) { NO_COMMENTS } else { IN_SCALAR }
        } else if text.contains("{{") {
            TEMPLATE
        } else {
            BROKEN
        }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On a line of its own above the line that it covers.
    Above,
    /// At the end of the line that it covers.
    End,
}

fn comment(rules: &BTreeSet<&'static str>, reason: &str) -> Option<String> {
    suppress::comment(&rules.iter().copied().collect::<Vec<_>>(), reason).ok()
}

/// The text with comments at some lines, which are in ascending order.
fn with_comments(source: &Source, comments: &[(usize, Place, String)]) -> String {
    let text = source.text();
    let mut out = String::with_capacity(text.len() + comments.iter().map(|c| c.2.len() + 40).sum::<usize>());
    let mut done = 0;
    for (line, place, comment) in comments {
        let insertion = insert(source, *line, *place, comment);
        let at = insertion.at as usize;
        out.push_str(&text[done..at]);
        out.push_str(&insertion.text);
        done = at;
    }
    out.push_str(&text[done..]);
    out
}

fn insert(source: &Source, line: usize, place: Place, comment: &str) -> Insertion {
    let (text, lines) = (source.text(), source.lines());
    let mut from = lines.start_of(line, text);
    let to = lines.start_of(line + 1, text) as usize;
    if text[from as usize..].starts_with('\u{FEFF}') {
        from += '\u{FEFF}'.len_utf8() as u32;
    }
    let whole = &text[from as usize..to];
    let content = whole.trim_end_matches(['\r', '\n']);
    match place {
        Place::Above => {
            let indent = content.len() - content.trim_start_matches([' ', '\t']).len();
            // The last line may have no line end; the rest of the file shows which one it would have.
            let ends_in_crlf = if whole.len() == content.len() {
                text[..from as usize].ends_with("\r\n")
            } else {
                whole.ends_with("\r\n")
            };
            let end = if ends_in_crlf { "\r\n" } else { "\n" };
            Insertion { at: from, text: format!("{}{comment}{end}", &content[..indent]) }
        }
        Place::End => Insertion { at: from + content.len() as u32, text: format!(" {comment}") },
    }
}

/// Whether a template removes the line break before or after a comment line that is inserted above `line`.
fn joins_lines(source: &Source, line: usize) -> bool {
    let (text, lines) = (source.text(), source.lines());
    let from = lines.start_of(line, text) as usize;
    text[from..].trim_start().starts_with("{{-") || text[..from].trim_end().ends_with("-}}")
}

/// Whether a text parses to the values of some documents and has `comments` more suppression comments that
/// gpulint reads.
fn is_equal(before: &[Document], text: &str, comments: usize) -> bool {
    let source = Source::from_text("", text);
    let after = read(&source);
    let count =
        |documents: &[Document]| documents.iter().map(|document| document.comments.len()).sum::<usize>();
    let is_same = |one: &Document, other: &Document| match (one.root(), other.root()) {
        (Some(one), Some(other)) => one.to_json() == other.to_json(),
        (None, None) => one.diagnostics.len() == other.diagnostics.len(),
        _ => false,
    };
    // A comment may stand alone in front of the first document.
    before.len() == after.len()
        && count(&after) == count(before) + comments
        && before.iter().zip(&after).all(|(one, other)| is_same(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, lines: &[usize]) -> Option<String> {
        let source = Source::from_text("a.yaml", text);
        let lines = lines.iter().map(|line| (*line, BTreeSet::from(["some-rule"]))).collect();
        with_allowed(&source, &lines, "so", |_, _, _| {}).map(|(text, _)| text)
    }

    const COMMENT: &str = "# gpulint: allow[some-rule] so";

    #[test]
    fn comments_stand_above_the_line() {
        for (text, line, expected) in [
            ("a: 1\nb:\n  c: 2\n", 2, "a: 1\nb:\n  @\n  c: 2\n"),
            ("a: 1", 0, "@\na: 1"),
            ("a: 1\r\nb: 2", 1, "a: 1\r\n@\r\nb: 2"),
            ("\u{FEFF}a: 1\n", 0, "\u{FEFF}@\na: 1\n"),
            ("a: 1\n---\nb: 2\n", 2, "a: 1\n---\n@\nb: 2\n"),
            ("a: [1,\n  2,\n  3]\n", 1, "a: [1,\n  @\n  2,\n  3]\n"),
            ("a: {b: 1,\n  c: 2}\n", 1, "a: {b: 1,\n  @\n  c: 2}\n"),
            ("a: |\n  text\nb: 1\n", 0, "@\na: |\n  text\nb: 1\n"),
            ("- a: 1 # why\n  b: 2\n", 0, "@\n- a: 1 # why\n  b: 2\n"),
            ("# gpulint: allow[x] one\n# two\na: 1\n", 2, "# gpulint: allow[x] one\n# two\n@\na: 1\n"),
        ] {
            assert_eq!(written(text, &[line]), Some(expected.replace('@', COMMENT)), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_written_where_it_would_be_text() {
        for (text, line) in [("a: |\n  text\n  more\n", 2), ("a: 'one\n  two\n  three'\n", 1)] {
            assert_eq!(written(text, &[line]), None, "{text:?}");
        }
        let both = written("a: |\n  text\nb: 1\n", &[1, 2]).unwrap();
        assert_eq!(both, format!("a: |\n  text\n{COMMENT}\nb: 1\n"));
    }

    #[test]
    fn nothing_is_written_where_a_template_joins_lines() {
        for text in ["a: {{ x -}}\nb: 1\n", "a: 1\n{{- if x }}: 1\n"] {
            assert_eq!(written(text, &[1]), None, "{text:?}");
        }
    }

    #[test]
    fn a_comment_may_stand_at_the_end() {
        // The line begins within a quoted text.
        let text = "a: ['one\n  two', 3]\n";
        assert_eq!(written(text, &[1]), Some(format!("a: ['one\n  two', 3] {COMMENT}\n")));
    }
}
