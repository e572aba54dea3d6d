//! Manifests that the API server accepts or rejects, with the fields of its errors.

use crate::object::Object;
use crate::schema::violation::Violation;

use super::validate;

fn violations(text: &str) -> Vec<Violation> {
    let value: serde_json::Value = serde_yaml::from_str(text).unwrap();
    let object = Object::from_json(&value).unwrap();
    let mut out = Vec::new();
    validate(&object, usize::MAX, &mut out);
    out
}

/// Asserts that there are no violations.
#[track_caller]
pub(super) fn taken(text: &str) {
    let found = violations(text);
    assert!(found.is_empty(), "{found:#?}\n{text}");
}

/// Asserts that there is a violation at this field and nowhere else.
#[track_caller]
pub(super) fn refused(text: &str, place: &str) {
    let found = violations(text);
    let places: Vec<String> = found.iter().map(|v| v.pointer.to_string()).collect();
    assert_eq!(places, [place], "{found:#?}\n{text}");
}
