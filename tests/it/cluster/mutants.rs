//! Makes invalid objects from valid ones: changes to each field, and the changes in a file beside the seeds.
//! The result is deterministic: equal seeds give equal mutants in the same order.

use std::fs;
use std::path::Path;

use gpulint_rules::ObjectId;
use gpulint_rules::source::{Source, read};
use serde_json::{Map, Value, json};

use crate::cluster::cases::{Case, case};

/// All mutants of one object, one change each. `keep` selects them by number.
pub(crate) fn mutants(name: &str, id: &ObjectId, seed: &Value, keep: impl Fn(usize) -> bool) -> Vec<Case> {
    let mut changes = Vec::new();
    walk(seed, &mut Vec::new(), &mut changes);
    changes
        .into_iter()
        .enumerate()
        .filter(|(number, _)| keep(*number))
        .map(|(_, change)| {
            let mut value = seed.clone();
            change.apply(&mut value);
            let id = identity(id, &value);
            let place = change.path.join(".");
            case(format!("{name} {} at {place}", change.class), change.class, &id, &value)
        })
        .collect()
}

/// The mutants in `<seed>.mutants.yaml`: operations of RFC 6902, each with a name for what it breaks.
pub(crate) fn written_mutants(path: &Path, name: &str, id: &ObjectId, seed: &Value) -> Vec<Case> {
    let path = path.with_extension("mutants.yaml");
    let Ok(text) = fs::read_to_string(&path) else {
        return Vec::new();
    };
    let list = read(&Source::from_text("mutants.yaml", &text))
        .first()
        .and_then(|d| d.root().map(|root| root.to_json()))
        .unwrap_or_default();
    let entries = list.as_array().cloned().unwrap_or_default();
    assert!(!entries.is_empty(), "{}: no list", path.display());
    entries
        .iter()
        .map(|entry| {
            let breaks = entry["breaks"].as_str().unwrap_or_default();
            let place = || format!("{}: {breaks}", path.display());
            let patch: json_patch::Patch =
                serde_json::from_value(entry["patch"].clone()).unwrap_or_else(|e| panic!("{}: {e}", place()));
            let mut value = seed.clone();
            json_patch::patch(&mut value, &patch).unwrap_or_else(|e| panic!("{}: {e}", place()));
            let id = identity(id, &value);
            case(format!("{name} {breaks}"), "on-purpose", &id, &value)
        })
        .collect()
}

/// The identity after a change, which may be a change of the name or namespace.
fn identity(id: &ObjectId, value: &Value) -> ObjectId {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let mut id = id.clone().with_namespace(text(&value["metadata"]["namespace"]));
    id.name = text(&value["metadata"]["name"]).unwrap_or_default();
    id
}

/// One change to a value.
struct Change {
    class: &'static str,
    path: Vec<String>,
    edit: Edit,
}

enum Edit {
    Put(Value),
    Remove,
    Rename(String),
    AddField,
    AddItem(Value),
}

impl Change {
    fn apply(&self, root: &mut Value) {
        let Some((last, above)) = self.path.split_last() else {
            return;
        };
        let on_self = matches!(self.edit, Edit::AddField | Edit::AddItem(_));
        let mut at = root;
        let steps = if on_self { &self.path[..] } else { above };
        for step in steps {
            let next = match at {
                Value::Array(items) => step.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
                Value::Object(map) => map.get_mut(step),
                _ => None,
            };
            match next {
                Some(next) => at = next,
                None => return,
            }
        }
        match (&self.edit, at) {
            (Edit::AddField, Value::Object(map)) => {
                map.insert("unheardOf".to_owned(), json!("x"));
            }
            (Edit::AddItem(item), Value::Array(items)) => items.push(item.clone()),
            (Edit::Put(new), Value::Object(map)) => {
                map.insert(last.clone(), new.clone());
            }
            (Edit::Put(new), Value::Array(items)) => {
                if let Some(item) = last.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
                    *item = new.clone();
                }
            }
            (Edit::Remove, Value::Object(map)) => {
                map.shift_remove(last);
            }
            (Edit::Remove, Value::Array(items)) => {
                if let Ok(index) = last.parse::<usize>() {
                    items.remove(index);
                }
            }
            (Edit::Rename(new), Value::Object(map)) => {
                *map = std::mem::take(map)
                    .into_iter()
                    .map(|(key, value)| if key == *last { (new.clone(), value) } else { (key, value) })
                    .collect::<Map<String, Value>>();
            }
            _ => {}
        }
    }
}

fn walk(value: &Value, path: &mut Vec<String>, out: &mut Vec<Change>) {
    // The identity of the object is not changed, and its status is written by controllers.
    if path.len() == 1 && ["apiVersion", "kind", "status"].contains(&path[0].as_str()) {
        return;
    }
    let mut add = |class, edit| {
        out.push(Change { class, path: path.clone(), edit });
    };
    if !path.is_empty() {
        add("drop", Edit::Remove);
        add("null", Edit::Put(Value::Null));
        for (class, wrong) in replacements(value) {
            add(class, Edit::Put(wrong));
        }
        if let Value::Object(_) = value {
            add("unknown-field", Edit::AddField);
        }
        if let Value::Array(items) = value
            && let Some(first) = items.first()
        {
            add("same-item-twice", Edit::AddItem(first.clone()));
        }
        let key = &path[path.len() - 1];
        if key.len() > 3 && key.bytes().all(|b| b.is_ascii_alphabetic()) {
            let mut wrong = key.clone();
            wrong.pop();
            add("misspelt", Edit::Rename(wrong));
        }
    }
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                path.push(key.clone());
                walk(child, path, out);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                path.push(index.to_string());
                walk(child, path, out);
                path.pop();
            }
        }
        _ => {}
    }
}

/// Values that replace a value.
fn replacements(value: &Value) -> Vec<(&'static str, Value)> {
    let mut out = Vec::new();
    match value {
        Value::String(text) => {
            out.push(("empty-string", json!("")));
            out.push(("number-for-string", json!(7)));
            out.push(("bool-for-string", json!(true)));
            out.push(("map-for-string", json!({"a": "b"})));
            out.push(("list-for-string", json!([text])));
            out.push(("too-long", json!("a".repeat(300))));
            out.push(("not-a-name", json!("Not a Name!")));
            out.push(("other-case", json!(other_case(text))));
            out.push(("longer", json!(format!("{text}x"))));
            if text.starts_with(|c: char| c.is_ascii_digit()) {
                for wrong in spellings(text) {
                    out.push(("spelling", json!(wrong)));
                }
            }
        }
        Value::Number(number) => {
            out.push(("string-for-number", json!(number.to_string())));
            out.push(("word-for-number", json!("seven")));
            out.push(("bool-for-number", json!(true)));
            out.push(("map-for-number", json!({"a": 1})));
            for wrong in [json!(-1), json!(0), json!(1.5), json!(100_001), json!(3_000_000_000_u64)] {
                out.push(("other-number", wrong));
            }
        }
        Value::Bool(bool) => {
            out.push(("string-for-bool", json!(bool.to_string())));
            out.push(("number-for-bool", json!(1)));
            out.push(("map-for-bool", json!({"a": true})));
        }
        Value::Object(map) => {
            out.push(("empty-map", json!({})));
            out.push(("list-for-map", json!([map])));
            out.push(("string-for-map", json!("text")));
        }
        Value::Array(items) => {
            out.push(("empty-list", json!([])));
            out.push(("map-for-list", json!({"a": "b"})));
            out.push(("string-for-list", json!("text")));
            out.push(("one-for-list", items.first().cloned().unwrap_or(json!(1))));
            let mut with_null = items.clone();
            with_null.push(Value::Null);
            out.push(("null-item", json!(with_null)));
        }
        Value::Null => {}
    }
    out
}

fn other_case(text: &str) -> String {
    if text.bytes().any(|b| b.is_ascii_lowercase()) {
        text.to_ascii_uppercase()
    } else {
        text.to_ascii_lowercase()
    }
}

/// Common spellings of quantities, durations and percentages.
fn spellings(text: &str) -> Vec<&'static str> {
    let mut out = vec!["0", "-1", "1.5", "1e3", "10 Gi"];
    if text.ends_with(['s', 'm', 'h']) {
        out.extend(["30d", "1h30", "-5m", "1.5h", "1h30m", "5 m", "500ms"]);
    } else if text.ends_with('%') {
        out.extend(["101%", "-5%", "5.5%", "50"]);
    } else {
        out.extend(["1GB", "1,5Gi", "10gi", "100m", "1k", "0.5Gi"]);
    }
    out
}
