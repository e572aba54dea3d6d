//! Parts of messages for the rules over the schema, shortened so that a message fits into 120 characters.

use crate::facts::text::ellipsize;
use crate::lint::finding::{Finding, Severity};
use crate::lint::message::MAX_MESSAGE_CHARS;
use crate::schema::Operator;
use crate::tree::pointer::Pointer;

/// Maximum number of characters of a field in a message.
const MAX_FIELD_CHARS: usize = 56;

/// The field in backticks; only its last steps, after `…`, if it is long.
pub(super) fn quoted_field(pointer: &Pointer) -> String {
    let whole = pointer.field_path();
    if whole.chars().count() <= MAX_FIELD_CHARS {
        return format!("`{whole}`");
    }
    let steps = pointer.steps();
    for skipped in 1..steps.len() {
        let tail = Pointer::from_steps(steps.iter().skip(skipped).cloned()).field_path();
        if tail.chars().count() < MAX_FIELD_CHARS && !tail.starts_with('[') {
            return format!("`…{tail}`");
        }
    }
    let last = steps.last().map_or("", String::as_str);
    format!("`{}…`", last.chars().take(MAX_FIELD_CHARS - 1).collect::<String>())
}

pub(in crate::rules) fn with_article(kind: &str) -> String {
    // The letters of an abbreviation are pronounced, as in `MPIJob`.
    let is_abbreviated = kind.chars().take(2).all(|c| c.is_ascii_uppercase());
    let spelled = is_abbreviated && kind.starts_with(['F', 'H', 'L', 'M', 'N', 'R', 'S', 'X']);
    let vowel = kind.starts_with(['A', 'E', 'I', 'O', 'a', 'e', 'i', 'o']);
    let article = if spelled || vowel { "an" } else { "a" };
    format!("{article} {kind}")
}

/// A message about a kind of an operator, with the releases that it holds for unless both are too long.
pub(super) fn in_releases(message: String, operator: &Operator) -> String {
    let whole = format!("{message} in {operator}");
    if whole.chars().count() <= MAX_MESSAGE_CHARS { whole } else { message }
}

/// A message about the pods that a controller makes of a template, with the consequence unless both are too long.
pub(super) fn of_pods(message: String) -> String {
    let whole = format!("{message}: its pods cannot be created");
    if whole.chars().count() <= MAX_MESSAGE_CHARS { whole } else { message }
}

/// Lowers a finding on a field that only the definition in a file of the input does not accept.
pub(super) fn contest(finding: &mut Finding, file: &str) {
    let file = ellipsize(file.rsplit('/').next().unwrap_or(file));
    finding.severity(Severity::Info).rejected_by(None).help(format!(
        "the published definition accepts it: `{file}` is of another release, or a part of it"
    ));
}

pub(super) fn quoted_value(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().replace('`', "'");
    let cut = line.chars().count() > 32 || line.len() < text.len();
    let head: String = line.chars().take(32).collect();
    if cut { format!("`{head}…`") } else { format!("`{head}`") }
}

/// A list of names after an introduction; as many as fit.
pub(super) fn list_names(intro: &str, names: &[String]) -> String {
    let mut out = intro.to_owned();
    for (at, name) in names.iter().enumerate() {
        let piece = format!("{} `{name}`", if at == 0 { "" } else { "," });
        if out.chars().count() + piece.chars().count() > MAX_MESSAGE_CHARS - 4 {
            out.push_str(" …");
            break;
        }
        out.push_str(&piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{list_names, quoted_field, quoted_value};
    use crate::tree::pointer::Pointer;

    #[test]
    fn lines_stay_short() {
        let long = "/spec/template/spec/containers/0/resources/limits/example.com~1accelerators";
        let pointer = Pointer::parse(long).expect("a pointer");
        assert_eq!(quoted_field(&pointer), "`…resources.limits[example.com/accelerators]`");
        assert_eq!(quoted_value("a`b\nc"), "`a'b…`");
        let names: Vec<String> = (0..40).map(|n| format!("field{n}")).collect();
        assert!(list_names("known are", &names).chars().count() <= 120);
        assert!(list_names("known are", &names[..2]).ends_with("`field0`, `field1`"));
    }
}
