//! Values that a field does not accept because they stand for a value that a person or a tool fills in later.

use crate::object::Object;
use crate::schema;
use crate::schema::{Violation, ViolationKind};
use crate::tree::node::{Node, Shape};
use crate::tree::placeholder::{is_generic_name, is_stand_in, is_word_in_capitals};

/// Words that people write for an amount or a switch, and that nothing replaces: the field is wrong.
const VALUES: [&str; 15] = [
    "ALL",
    "NONE",
    "MAX",
    "MIN",
    "AUTO",
    "UNLIMITED",
    "INF",
    "ENABLED",
    "DISABLED",
    "TRUE",
    "FALSE",
    "YES",
    "NULL",
    "OFF",
    "DEFAULT",
];

/// The text of a value that its field does not accept and that stands for another value. An unquoted
/// `{name}` is a map to YAML.
pub(super) fn stand_in(
    violation: &Violation,
    node: &Node<'_>,
    object: &Object,
    all: &[Violation],
) -> Option<String> {
    let field = violation.pointer.steps().last()?;
    if matches!(violation.kind, ViolationKind::Invalid { .. } | ViolationKind::Pattern { .. })
        && let Some(name) = variable_in_key(field)
    {
        return Some(name.to_owned());
    }
    match (&violation.kind, node.shape()) {
        (ViolationKind::Missing | ViolationKind::Unknown | ViolationKind::Count { .. }, _) => None,
        (kind, Shape::Scalar) => {
            let number = matches!(kind, ViolationKind::Type { expected } if is_of_numbers(expected));
            // A port is a name or a number, and a name in capitals may be a typo.
            let port = matches!(field.as_str(), "port" | "targetPort")
                && node.text().is_some_and(|text| text.contains("PORT"));
            let quantity = matches!(kind, ViolationKind::Format { format } if is_quantity(format));
            let other = number || port || quantity || field == "caBundle";
            // A program puts entries in the place of a name; a single word in capitals may be a value: `ALL`, and so may
            // the name of a capability: `IPC_LOCK`.
            let entries = matches!(kind, ViolationKind::Type { expected } if is_of_entries(expected))
                && !matches!(field.as_str(), "add" | "drop");
            let generic =
                || all.iter().filter(|one| is_generic(&object.root().at(&one.pointer))).take(2).count();
            let stands_in = |text: &&str| {
                is_stand_in(text, field)
                    || is_generic_name(text) && generic() > 1
                    || is_word_in_capitals(text)
                        && (text.contains('_') || other && !VALUES.contains(text))
                        && (other || entries)
            };
            Some(node.text().filter(stands_in)?.to_owned())
        }
        // `[URL]`, `[IMAGE_URL]`: brackets around a word are a list to YAML.
        (ViolationKind::Type { expected }, Shape::Sequence)
            if node.is_flow() && expected.iter().all(|kind| *kind == "string") =>
        {
            let items: Vec<Node<'_>> = node.items().collect();
            let [word] = items.as_slice() else { return None };
            let is_address = |text: &&str| is_word_in_capitals(text) && text.ends_with("URL");
            word.text().filter(is_address).map(|text| format!("[{text}]"))
        }
        (ViolationKind::Type { expected }, Shape::Mapping) if node.is_flow() => {
            let entries = node.entries();
            let [(key, value)] = entries.as_slice() else { return None };
            let wants_text = expected.iter().any(|kind| matches!(*kind, "string" | "integer"));
            (wants_text && value.is_null()).then(|| format!("{{{key}}}"))
        }
        _ => None,
    }
}

fn is_generic(node: &Node<'_>) -> bool {
    node.text().is_some_and(is_generic_name)
}

/// The variable in the key of a map, in which no other program than one that fills it in has a dollar sign: `$NAME`, `${NAME}`.
fn variable_in_key(key: &str) -> Option<&str> {
    let rest = &key[key.find('$')?..];
    let name = rest[1..].trim_start_matches('{');
    let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let is_braced = rest.len() - name.len() > 1;
    let end = rest.len() - name.len() + length + usize::from(is_braced && name[length..].starts_with('}'));
    (length > 1 && name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')).then_some(&rest[..end])
}

/// The comment in the place of a value that is missing: `image: # address of the image`.
pub(super) fn comment_for_value<'a>(object: &'a Object, node: &Node<'_>) -> Option<&'a str> {
    let (origin, key) = object.origin().zip(node.key_span()).filter(|_| node.is_null())?;
    let line = origin.source.text().get(key.end as usize..)?.lines().next()?;
    let comment = line.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?.trim();
    comment.starts_with('#').then_some(comment)
}

fn is_quantity(format: &str) -> bool {
    matches!(format, "quantity" | schema::GO_QUANTITY)
}

/// Whether a field requires a map or a list.
fn is_of_entries(expected: &[&'static str]) -> bool {
    expected.iter().all(|kind| matches!(*kind, "map" | "list"))
}

/// Whether a field requires a number or a boolean.
fn is_of_numbers(expected: &[&'static str]) -> bool {
    expected.iter().all(|kind| matches!(*kind, "integer" | "number" | "boolean"))
}
