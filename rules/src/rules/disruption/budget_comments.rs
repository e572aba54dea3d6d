//! Comments on the budgets of a NodePool that show which time zone their schedules were written for.

use crate::facts::timezone::is_known;
use crate::object::Object;
use crate::tree::node::Node;

/// Maximum number of comment lines above the list of budgets that are read.
const MAX_LINES_ABOVE: usize = 8;

const LOCAL_WORDS: &[&str] =
    &["business hour", "working hour", "work hour", "office hour", "local time", "업무", "근무", "영업"];
/// Common abbreviations of time zones.
const ZONES: &[&str] = &[
    "KST", "JST", "IST", "SGT", "CET", "CEST", "BST", "PST", "PDT", "PT", "MST", "MDT", "CST", "CDT", "EST",
    "EDT", "ET", "AEST", "AEDT",
];

/// The comments in the list of budgets, and those directly above it.
pub(super) fn budget_comments(object: &Object, list: &Node<'_>) -> Vec<String> {
    let (Some(origin), Some(key), Some(span)) = (object.origin(), list.key_span(), list.span()) else {
        return Vec::new();
    };
    let text = origin.source.text();
    let (start, end) = (key.start as usize, span.end as usize);
    let (Some(before), Some(inside), Some(after)) =
        (text.get(..start), text.get(start..end), text.get(end..))
    else {
        return Vec::new();
    };
    let above = before.lines().rev().skip(1).map(str::trim);
    let above = above.take_while(|line| line.starts_with('#')).take(MAX_LINES_ABOVE);
    let mut lines: Vec<String> = inside.lines().map(str::to_owned).collect();
    // The list ends with its last value, which a comment may follow on the same line.
    if let Some(last) = lines.last_mut() {
        last.push_str(after.lines().next().unwrap_or_default());
    }
    let comment = |line: &str| match line.trim_start().strip_prefix('#') {
        Some(comment) => Some(comment.to_owned()),
        None => line.split_once(" #").map(|(_, comment)| comment.to_owned()),
    };
    above.chain(lines.iter().map(String::as_str)).filter_map(comment).collect()
}

/// The word of a comment that indicates local time, and whether it is a time zone.
pub(super) fn local_time_word(comment: &str) -> Option<(String, bool)> {
    if let Some(zone) = ZONES.iter().find(|zone| has_word(comment, &[zone])) {
        return Some(((*zone).to_owned(), true));
    }
    // A zone of the time zone database, such as `Europe/Berlin`. Those of `Etc` are UTC or count from it.
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    let mut names = comment.split(|c: char| !letter(c)).filter(|name| name.contains('/'));
    if let Some(zone) = names.find(|name| !name.starts_with("Etc/") && is_known(name)) {
        return Some((zone.to_owned(), true));
    }
    let lower = comment.to_lowercase();
    let at = LOCAL_WORDS.iter().find_map(|word| lower.find(word))?;
    // Up to the end of the last word: `hours`, `근무시간`.
    let letter = |c: &char| c.is_alphanumeric();
    let mut rest = lower[at..].chars().peekable();
    let mut words: String = std::iter::from_fn(|| rest.next_if(letter)).collect();
    if words.is_ascii() && rest.next_if_eq(&' ').is_some() {
        words.push(' ');
        words.extend(std::iter::from_fn(|| rest.next_if(letter)));
    }
    Some((words, false))
}

pub(super) fn has_word(text: &str, words: &[&str]) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word))
}
