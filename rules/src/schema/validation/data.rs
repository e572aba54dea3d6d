//! The values and keys of ConfigMaps and Secrets: what decoding requires of them, and `ValidateConfigMap` and `ValidateSecret`.
//!
//! These kinds have no schema here: their texts are those of other programs, whose placeholders the rules over schemas would report.

use crate::facts::text::ellipsize;
use crate::kind::Kind;
use crate::object::Object;
use crate::schema::violation::{MAX_VIOLATIONS, Violation, ViolationKind};
use crate::tree::node::{Node, Shape};
use crate::tree::placeholder::is_placeholder;
use crate::tree::scalar::Scalar;

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 253;

pub(in crate::schema) fn check(object: &Object, out: &mut Vec<Violation>) {
    let other = match (object.is(Kind::CONFIG_MAP), object.is(Kind::SECRET)) {
        (true, _) => "binaryData",
        (_, true) => "stringData",
        _ => return,
    };
    // SOPS encrypts the values, and writes them anew when they are decrypted.
    if object.get("sops").is_set() {
        return;
    }
    for field in ["data", other] {
        let map = object.get(field);
        match map.shape() {
            Shape::Mapping => entries(object, field, &map, out),
            _ if !map.is_set() || map.is_unknown() => {}
            _ => out.push(Violation::at(&map, ViolationKind::Type { expected: vec!["map"] })),
        }
    }
}

fn entries(object: &Object, field: &str, map: &Node<'_>, out: &mut Vec<Violation>) {
    // The bytes of a Secret and of `binaryData`: a list of numbers is decoded as well.
    let is_of_bytes = field == "binaryData" || field == "data" && object.is(Kind::SECRET);
    for (key, value) in map.entries() {
        if out.len() >= MAX_VIOLATIONS {
            return;
        }
        let is_text = match value.shape() {
            Shape::Sequence => is_of_bytes,
            Shape::Scalar => value.is_null() || matches!(value.scalar(), Some(Scalar::Str(_))),
            Shape::Mapping | Shape::Absent => false,
        };
        if !is_text {
            out.push(Violation::at(&value, ViolationKind::Type { expected: vec!["string"] }));
        } else if let Some(fault) = fault_of_key(key) {
            let message = format!("`{}` is not a valid key of `{field}`: {fault}", ellipsize(key));
            out.push(
                Violation::invalid(&value, message).help(
                    "write letters, digits, `-`, `_` and `.`; `items` of a volume give files other names",
                ),
            );
        }
    }
}

/// Why the API server does not accept a key (`IsConfigMapKey`). `None` if it does, or if the key is a placeholder or part of a patch.
fn fault_of_key(key: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if is_placeholder(key) || key.starts_with('$') {
        return None;
    }
    match key.chars().find(|c| !is_allowed(*c)) {
        Some(c) if c.is_whitespace() || c.is_control() => Some("blanks are not allowed".to_owned()),
        Some(c) => Some(format!("`{c}` is not allowed")),
        None if key.is_empty() => Some("it is empty".to_owned()),
        None if key.len() > MAX_KEY => Some(format!("it has more than {MAX_KEY} characters")),
        None if key == "." || key.starts_with("..") => Some("it is a path".to_owned()),
        None => None,
    }
}
