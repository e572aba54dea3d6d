//! Converts the selectors of AWSNodeTemplate, one map each, to the terms of EC2NodeClass.
//!
//! In a map all entries had to match; a comma in a value separated alternatives. Terms are alternatives, so a
//! comma becomes several terms.

use serde_json::{Map, Value, json};

use super::ConversionError;
use crate::steps;
use crate::tree::placeholder::is_placeholder;

/// Maximum number of terms in a list.
const MAX_TERMS: usize = 30;

/// The terms of a selector. `amis` accepts names and owners as well.
pub(super) fn terms(field: &str, selector: &Value, amis: bool) -> Result<Vec<Value>, ConversionError> {
    let Some(entries) = selector.as_object().filter(|e| !e.is_empty()) else {
        return Err(format!("`spec.{field}` selects nothing that can be read"));
    };
    let mut ids: Vec<&str> = Vec::new();
    // The terms so far; each further key with several values multiplies them.
    let mut out: Vec<Map<String, Value>> = vec![Map::new()];
    let mut others = false;
    for (key, value) in entries {
        steps::take(40 * out.len());
        let Some(text) = value.as_str() else {
            return Err(format!("`spec.{field}` has a value that is not a string"));
        };
        let values = alternatives(text);
        if values.is_empty() {
            return Err(format!("`spec.{field}` has an empty value"));
        }
        if key == "aws-ids" || key == "aws::ids" {
            if is_placeholder(text) {
                return Err(format!("a placeholder hides the ids of `spec.{field}`"));
            }
            ids.extend(values);
            continue;
        }
        others = true;
        let place = match key.as_str() {
            "aws::name" if amis => Some("name"),
            "aws::owners" if amis => Some("owner"),
            _ => None,
        };
        if out.len() * values.len() > MAX_TERMS {
            return Err(format!("`spec.{field}` needs more than {MAX_TERMS} terms"));
        }
        let set = |mut term: Map<String, Value>, value: &str| {
            match place {
                Some(place) => {
                    term.insert(place.to_owned(), json!(value));
                }
                None => {
                    let tags = term.entry("tags").or_insert_with(|| json!({}));
                    tags[key] = json!(value);
                }
            }
            term
        };
        // Terms are copied only where they are multiplied: there may be very many keys.
        out = match values.as_slice() {
            [one] => out.into_iter().map(|term| set(term, one)).collect(),
            _ => out.iter().flat_map(|term| values.iter().map(|value| set(term.clone(), value))).collect(),
        };
    }
    match (ids.is_empty(), others) {
        (false, false) if ids.len() <= MAX_TERMS => {
            Ok(ids.into_iter().map(|id| json!({ "id": id })).collect())
        }
        (false, false) => Err(format!("`spec.{field}` needs more than {MAX_TERMS} terms")),
        (false, true) => {
            Err(format!("`spec.{field}` asks for ids and for tags at once: a term has one or the other"))
        }
        (true, _) if out.iter().all(|t| t.len() == 1 && t.contains_key("owner")) => {
            Err(format!("`spec.{field}` names an owner and nothing else"))
        }
        (true, _) => Ok(out.into_iter().map(Value::Object).collect()),
    }
}

/// The values between commas. A placeholder is not split: it may contain commas.
fn alternatives(text: &str) -> Vec<&str> {
    if is_placeholder(text) {
        return vec![text];
    }
    text.split(',').map(str::trim).filter(|v| !v.is_empty()).collect()
}
