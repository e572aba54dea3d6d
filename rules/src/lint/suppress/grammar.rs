//! The syntax of suppressions. It does not depend on which rules exist.

use std::borrow::Cow;
use std::ops::Range;

use crate::facts::date::Date;
use crate::facts::text::cut;

/// A parsed comment or annotation; ranges are bytes of its text.
#[derive(Debug, Default)]
pub(super) struct Directive {
    /// The rules to suppress.
    pub(super) entries: Vec<AllowEntry>,
    pub(super) errors: Vec<SyntaxError>,
}

#[derive(Debug)]
pub(super) struct AllowEntry {
    pub(super) id: Range<usize>,
    /// The last day of the suppression, and its range in the text.
    pub(super) until: Option<(Date, Range<usize>)>,
    /// The reason; empty if there is only punctuation.
    pub(super) reason: String,
}

impl AllowEntry {
    pub(super) fn has_reason(&self) -> bool {
        !self.reason.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) at: Range<usize>,
    pub(super) message: String,
    pub(super) help: &'static str,
}

const COMMENT_SYNTAX: &str = "write `# gpulint: allow[rule-id] until=2027-01-31 reason`";
const ANNOTATION_SYNTAX: &str = "write `rule-id: reason; other-id until=2027-01-31: reason`";
const UNTIL_SYNTAX: &str = "write the last day that counts as `until=2027-01-31`";

impl Directive {
    fn error(&mut self, at: Range<usize>, message: impl Into<String>, help: &'static str) {
        let message = message.into();
        self.errors.push(SyntaxError { at, message, help });
    }

    /// Keeps the first entries and the first errors; returns whether there were more.
    pub(super) fn truncate(&mut self, most: usize) -> bool {
        let has_more = self.entries.len() > most || self.errors.len() > most;
        self.entries.truncate(most);
        self.errors.truncate(most);
        has_more
    }

    /// Appends a line that continues the reason of a comment, and begins `offset` bytes after its start.
    pub(super) fn continue_with(&mut self, line: &str, offset: u32) {
        for word in words(line, 0, ' ') {
            let at = word.start + offset as usize..word.end + offset as usize;
            if line[word].starts_with("until=") {
                self.entries.clear();
                self.error(at, "`until=` belongs directly after the `]`", COMMENT_SYNTAX);
            }
        }
        let more = reason(line.trim_start().trim_start_matches('#'));
        if !more.is_empty() {
            for entry in &mut self.entries {
                if !entry.reason.is_empty() {
                    entry.reason.push(' ');
                }
                entry.reason.push_str(&more);
            }
        }
    }
}

/// The beginning of a word, for a message.
pub(super) fn ellipsize(word: &str) -> Cow<'_, str> {
    cut(word, 41)
}

/// Parses a comment, including the `#`. `None` if it does not begin with `gpulint:`.
pub(super) fn parse_comment(text: &str) -> Option<Directive> {
    let body = text.trim_start_matches('#').trim_start();
    let rest = body.strip_prefix("gpulint:")?;
    let name = text.len() - body.len()..text.len() - rest.len();
    let end = text.trim_end().len();
    let mut directive = Directive::default();
    let rest = rest.trim_start();
    let at = text.len() - rest.len();
    let verb = rest.find(|c: char| c == '[' || c.is_whitespace()).unwrap_or(rest.len());
    let (verb, after) = rest.split_at(verb);
    if verb != "allow" {
        let at = if verb.is_empty() { name } else { at..at + verb.len() };
        directive.error(at, "expected `allow[rule-id]` after `gpulint:`", COMMENT_SYNTAX);
        return Some(directive);
    }
    let Some(list) = after.trim_start().strip_prefix('[') else {
        let at = at..at + verb.len();
        directive.error(at, "missing `[` after `allow`", COMMENT_SYNTAX);
        return Some(directive);
    };
    let from = text.len() - list.len();
    let Some(length) = list.find(']') else {
        directive.error(from - 1..end, "missing `]` after the rules", COMMENT_SYNTAX);
        return Some(directive);
    };
    let ids: Vec<_> = words(&text[..from + length], from, ',').collect();
    if ids.is_empty() {
        directive.error(from - 1..from + length + 1, "no rule is named", COMMENT_SYNTAX);
        return Some(directive);
    }
    let until = parse_comment_until(text, from + length + 1, &mut directive);
    let mut rest = words(text, from + length + 1, ' ').peekable();
    rest.next_if(|word| text[word.clone()].starts_with("until="));
    let reason = rest.next().map(|first| reason(&text[first.start..])).unwrap_or_default();
    if directive.errors.is_empty() {
        directive.entries = ids
            .into_iter()
            .map(|id| AllowEntry { id, until: until.clone(), reason: reason.clone() })
            .collect();
    }
    Some(directive)
}

/// The text on one line, without the separators from the rule; empty if there is only punctuation.
fn reason(text: &str) -> String {
    let separates = |c: char| c.is_whitespace() || matches!(c, ':' | '-' | ',' | ';' | '–' | '—');
    let text = text.trim_start_matches(separates);
    if !text.contains(char::is_alphanumeric) {
        return String::new();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Parses the date, which is the first word after the list; readers would miss one in a later position.
fn parse_comment_until(text: &str, from: usize, directive: &mut Directive) -> Option<(Date, Range<usize>)> {
    let mut until = None;
    for (number, word) in words(text, from, ' ').enumerate() {
        if !text[word.clone()].starts_with("until=") {
            continue;
        }
        if number > 0 {
            directive.error(word, "`until=` belongs directly after the `]`", COMMENT_SYNTAX);
            return None;
        }
        let trimmed = text[word.clone()].trim_end_matches([':', ',', ';']).len();
        until = parse_until(text, word.start..word.start + trimmed, directive);
    }
    until
}

pub(super) fn parse_annotation(text: &str) -> Directive {
    let mut directive = Directive::default();
    for part in words(text, 0, ';') {
        let part_text = &text[part.clone()];
        let part_end = part.end;
        let head_end = part.start + part_text.find(':').unwrap_or(part_text.len());
        let mut head = words(&text[..head_end], part.start, ' ');
        let (id, second, more) = (head.next(), head.next(), head.next());
        let Some(id) = id else {
            directive.error(part, "no rule is named before the `:`", ANNOTATION_SYNTAX);
            continue;
        };
        let faults = directive.errors.len();
        let until = match second {
            Some(word) if more.is_none() && text[word.clone()].starts_with("until=") => {
                parse_until(text, word, &mut directive)
            }
            Some(_) => {
                let found = ellipsize(&text[part.start..head_end]);
                let message = format!("expected a rule's id before the `:`, found `{found}`");
                directive.error(part, message, ANNOTATION_SYNTAX);
                None
            }
            None => None,
        };
        if directive.errors.len() == faults {
            directive.entries.push(AllowEntry { id, until, reason: reason(&text[head_end..part_end]) });
        }
    }
    if directive.entries.is_empty() && directive.errors.is_empty() {
        directive.error(0..text.len(), "no rule is named", ANNOTATION_SYNTAX);
    }
    directive
}

fn parse_until(text: &str, word: Range<usize>, directive: &mut Directive) -> Option<(Date, Range<usize>)> {
    let value = text[word.clone()].strip_prefix("until=")?;
    let at = word.end - value.len()..word.end;
    match Date::parse(value) {
        Some(date) => Some((date, at)),
        None if value.is_empty() => {
            directive.error(word, "`until=` has no date", UNTIL_SYNTAX);
            None
        }
        None => {
            directive.error(at, format!("`{}` is not a date", ellipsize(value)), UNTIL_SYNTAX);
            None
        }
    }
}

/// The parts of `text` after `from`, split at separators (a space matches any white space) and trimmed. Empty
/// parts are omitted.
fn words(text: &str, from: usize, separator: char) -> impl Iterator<Item = Range<usize>> {
    let is = move |c: char| c == separator || (separator == ' ' && c.is_whitespace());
    let mut at = from;
    text[from..].split(is).filter_map(move |part| {
        let start = at + (part.len() - part.trim_start().len());
        let range = start..start + part.trim().len();
        at += part.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        (!range.is_empty()).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::{Directive, parse_annotation, parse_comment};

    #[test]
    fn a_reason_is_more_than_punctuation() {
        let all =
            |directive: &Directive| directive.entries.iter().map(|e| e.has_reason()).collect::<Vec<_>>();
        let reasons = |text: &str| all(&parse_comment(text).expect("it speaks to gpulint"));
        assert_eq!(reasons("# gpulint: allow[a, b] ticket 12"), [true, true]);
        assert_eq!(reasons("# gpulint: allow[a] until=2027-01-31 agreed"), [true]);
        assert_eq!(reasons("# gpulint: allow[a] until=2027-01-31"), [false]);
        assert_eq!(reasons("# gpulint: allow[a] --"), [false]);
        let written = parse_annotation("a: agreed; b until=2027-01-31:; c");
        assert_eq!(all(&written), [true, false, false]);
        let mut directive = parse_comment("# gpulint: allow[a, b] until=2027-01-31: agreed  with ")
            .expect("it speaks to gpulint");
        directive.continue_with("  # -- the team #12", 80);
        assert_eq!(directive.entries[1].reason, "agreed with the team #12");
        assert_eq!(parse_annotation("a: see b: 12; c").entries[0].reason, "see b: 12");
    }

    fn show(text: &str, directive: &Directive) -> Vec<String> {
        let entries = directive.entries.iter().map(|e| {
            let until = e.until.as_ref().map(|(date, at)| {
                assert_eq!(date.to_string(), text[at.clone()]);
                format!(" until {date}")
            });
            format!("{}{}", &text[e.id.clone()], until.unwrap_or_default())
        });
        let faults = directive.errors.iter();
        let faults = faults.map(|f| format!("{} @ {}", f.message, &text[f.at.clone()]));
        entries.chain(faults).collect()
    }

    #[test]
    fn comments_are_read() {
        for (text, expected) in [
            ("# gpulint: allow[a]", vec!["a"]),
            ("#gpulint:allow[a,b]é", vec!["a", "b"]),
            (
                "## gpulint: allow [ a , b, ] until=2027-01-31 für später",
                vec!["a until 2027-01-31", "b until 2027-01-31"],
            ),
            ("# gpulint: allow[a]\tuntil=2027-01-31: later\r", vec!["a until 2027-01-31"]),
            ("# gpulint: alow[a]", vec!["expected `allow[rule-id]` after `gpulint:` @ alow"]),
            ("# gpulint:", vec!["expected `allow[rule-id]` after `gpulint:` @ gpulint:"]),
            ("# gpulint: allow a", vec!["missing `[` after `allow` @ allow"]),
            ("# gpulint: allow[a, b why ", vec!["missing `]` after the rules @ [a, b why"]),
            ("# gpulint: allow[ , ]", vec!["no rule is named @ [ , ]"]),
            ("# gpulint: allow[a] until=2027-02-30 x", vec!["`2027-02-30` is not a date @ 2027-02-30"]),
            ("# gpulint: allow[a] until= x", vec!["`until=` has no date @ until="]),
            (
                "# gpulint: allow[a] x until=2027-01-31",
                vec!["`until=` belongs directly after the `]` @ until=2027-01-31"],
            ),
        ] {
            let directive = parse_comment(text).expect("a suppression");
            assert_eq!(show(text, &directive), expected, "{text}");
        }
        assert!(parse_comment("# see gpulint: allow[a]").is_none());
    }

    #[test]
    fn annotations_are_read() {
        for (text, expected) in [
            ("a", vec!["a"]),
            ("a: why: because; b until=2027-01-31: später;", vec!["a", "b until 2027-01-31"]),
            ("a until=2027-01-31", vec!["a until 2027-01-31"]),
            ("a until=soon: x; b", vec!["b", "`soon` is not a date @ soon"]),
            ("a because; b", vec!["b", "expected a rule's id before the `:`, found `a because` @ a because"]),
            (": why", vec!["no rule is named before the `:` @ : why"]),
            (" ; ", vec!["no rule is named @  ; "]),
        ] {
            assert_eq!(show(text, &parse_annotation(text)), expected, "{text}");
        }
    }
}
