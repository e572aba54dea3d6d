//! Formatting that `gpulint why` and `gpulint pools` share.

use gpulint_rules::catalog::price_list;
use gpulint_rules::fit::{uncertainty_code, uncertainty_text};
use gpulint_rules::karpenter::scheduling::Uncertainty;
use gpulint_rules::{Object, Pointer};
use serde_json::{Value, json};

use super::place::position;

/// The file and the line of a field, if the object is in a file.
pub(super) fn place_of(object: &Object, pointer: &Pointer) -> (Option<String>, Option<u32>) {
    match position(object, pointer) {
        Some((file, line, _)) => (Some(file), Some(line)),
        None => (None, None),
    }
}

pub(super) fn object_json(object: &Object) -> Value {
    let (file, line) = place_of(object, &Pointer::root());
    json!({
        "kind": object.id().kind, "namespace": object.id().namespace(), "name": object.name(), "file": file, "line": line,
    })
}

pub(super) fn uncertainty_json(uncertainty: &Uncertainty) -> Value {
    json!({"code": uncertainty_code(uncertainty), "text": uncertainty_text(uncertainty)})
}

pub(crate) fn workload_name(object: &Object) -> String {
    let id = object.id();
    let namespace = id.namespace().map_or(String::new(), |namespace| format!("{namespace}/"));
    format!("{namespace}{}/{}", id.kind.to_lowercase(), object.display_name())
}

/// Limits a count to the integers that JSON represents exactly.
pub(super) fn number(count: i128) -> u64 {
    u64::try_from(count.clamp(0, 1 << 53)).unwrap_or_default()
}

pub(super) fn dollars(micro: i128) -> f64 {
    number(micro) as f64 / 1e6
}

/// Hours of a month, as AWS counts them.
pub(super) const HOURS_OF_A_MONTH: f64 = 730.0;

/// An amount an hour, and what that is a month.
pub(super) fn hourly(micro: i128) -> String {
    let hour = dollars(micro);
    format!("${hour:.2} an hour (${:.0} a month)", hour * HOURS_OF_A_MONTH)
}

pub(super) fn price_note(region: Option<&str>) -> String {
    match price_list(region) {
        Some((region, date)) => {
            format!("Prices are on-demand list prices of {region} on {date}; Spot prices are not known.")
        }
        None => "There are no list prices for this region.".to_owned(),
    }
}

/// Adds a text after a head. Further lines are indented to the start of the text.
pub(super) fn wrapped(page: &mut String, head: &str, text: &str, width: usize) {
    let indent = head.chars().count();
    let room = width.saturating_sub(indent).max(24);
    page.push_str(head);
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            page.push('\n');
            page.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        }
        if used > 0 {
            page.push(' ');
            used += 1;
        }
        page.push_str(word);
        used += length;
    }
    page.push('\n');
}
