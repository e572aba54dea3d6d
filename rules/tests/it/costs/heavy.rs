//! Objects in which one field is very long.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use gpulint_rules::file::File;
use gpulint_rules::source::Source;
use gpulint_rules::{Object, Pointer};
use serde_json::{Map, Value, json};

/// The way in which a field is made long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Growth {
    /// A list repeats its first item.
    Same,
    /// Each item has other names and values: a number is appended to its texts at any depth.
    Numbered,
    /// Each item has other names and values, and the lists in it are long as well.
    Nested,
    /// A mapping has many more entries like its first.
    Entries,
    /// A text is repeated.
    Text,
}

/// A field that can be long in an object of a fixture.
pub(crate) struct Place {
    kind: String,
    value: Value,
    pointer: Pointer,
    growth: Growth,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.kind, self.pointer, self.growth)
    }
}

/// Every such field of every kind, once.
pub(crate) fn places() -> Vec<Place> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut found: BTreeMap<(String, String, Growth), Place> = BTreeMap::new();
    for folder in ["verdicts", "sets", "practices", "rules"] {
        for path in gpulint_testing::yaml_below(&root.join(folder)) {
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            for object in File::read(Source::from_text("a.yaml", &text)).objects {
                let value = object.root().to_json();
                if value.to_string().len() > 20_000 {
                    continue;
                }
                let kind = format!("{}/{}", object.id().group, object.id().kind);
                collect(&kind, &value, &value, &mut Vec::new(), &mut found);
            }
        }
    }
    found.into_values().collect()
}

fn collect(
    kind: &str,
    whole: &Value,
    value: &Value,
    steps: &mut Vec<String>,
    found: &mut BTreeMap<(String, String, Growth), Place>,
) {
    let growths: &[Growth] = match value {
        Value::Array(items) if !items.is_empty() => &[Growth::Same, Growth::Numbered, Growth::Nested],
        Value::Object(entries) if entries.values().any(|entry| !entry.is_object() && !entry.is_array()) => {
            &[Growth::Entries]
        }
        Value::String(text) if !text.is_empty() => &[Growth::Text],
        _ => &[],
    };
    for growth in growths {
        let is_index = |step: &&String| step.bytes().all(|byte| byte.is_ascii_digit());
        let way: Vec<&str> = steps.iter().map(|s| if is_index(&s) { "*" } else { s }).collect();
        found.entry((kind.to_owned(), way.join("/"), *growth)).or_insert_with(|| Place {
            kind: kind.to_owned(),
            value: whole.clone(),
            pointer: Pointer::from_steps(steps.iter().cloned()),
            growth: *growth,
        });
    }
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                steps.push(at.to_string());
                collect(kind, whole, item, steps, found);
                steps.pop();
            }
        }
        Value::Object(entries) => {
            for (key, entry) in entries {
                if steps.is_empty() && ["apiVersion", "kind"].contains(&key.as_str()) {
                    continue;
                }
                steps.push(key.clone());
                collect(kind, whole, entry, steps, found);
                steps.pop();
            }
        }
        _ => {}
    }
}

impl Place {
    /// Group and kind of the object.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// The object without changes.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The object with its field made long, with about `bytes` bytes in total.
    pub(crate) fn grow(&self, bytes: usize) -> Value {
        let mut whole = self.value.clone();
        self.grow_in(&mut whole, bytes.saturating_sub(self.value.to_string().len()));
        whole
    }

    /// Makes the field of an object longer by about `room` bytes, if the object has it.
    pub(crate) fn grow_in(&self, whole: &mut Value, room: usize) {
        let mut way = self.pointer.steps().iter();
        let Some(value) = way.try_fold(whole, |value, step| match value {
            Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
            Value::Object(entries) => entries.get_mut(step),
            _ => None,
        }) else {
            return;
        };
        match value {
            Value::Array(items) => grow_list(items, room, self.growth),
            Value::Object(entries) => {
                let sample = entries.iter().find(|(_, entry)| !entry.is_object() && !entry.is_array());
                if let Some((key, entry)) = sample.map(|(key, entry)| (key.clone(), entry.clone())) {
                    let each = key.len() + entry.to_string().len() + 10;
                    for n in 0..room / each {
                        entries.insert(format!("{key}{n}"), numbered(&entry, n));
                    }
                }
            }
            Value::String(text) => *text = text.repeat(room / text.len().max(1)),
            _ => {}
        }
    }
}

/// An object with several long fields.
pub(crate) fn together(places: &[&Place], bytes: usize) -> Value {
    let mut whole = places.first().map_or(Value::Null, |first| first.value.clone());
    for place in places {
        place.grow_in(&mut whole, bytes / places.len());
    }
    whole
}

fn grow_list(items: &mut Vec<Value>, room: usize, growth: Growth) {
    let Some(first) = items.first().cloned() else {
        return;
    };
    let mut sample = first.clone();
    let each = match growth {
        // A list of n items with lists of n items each.
        Growth::Nested => {
            let each = (f64::from(u32::try_from(room).unwrap_or(u32::MAX)).sqrt() * 5.0) as usize;
            grow_inner(&mut sample, each);
            sample.to_string().len() + 8
        }
        _ => sample.to_string().len() + 6,
    };
    for n in 0..room / each {
        items.push(if growth == Growth::Same { sample.clone() } else { numbered(&sample, n) });
    }
}

/// Makes the first list or mapping of texts in a value long.
fn grow_inner(value: &mut Value, room: usize) -> bool {
    match value {
        Value::Array(items) if !items.is_empty() => {
            grow_list(items, room, Growth::Numbered);
            true
        }
        Value::Object(entries) => entries.values_mut().any(|entry| grow_inner(entry, room)),
        _ => false,
    }
}

/// The value with all texts and numbers made different from those of its neighbours.
fn numbered(value: &Value, n: usize) -> Value {
    // Words of the API do not change.
    const WORDS: [&str; 8] =
        ["operator", "effect", "type", "protocol", "topologyKey", "whenUnsatisfiable", "kind", "apiVersion"];
    match value {
        Value::String(text) => Value::String(format!("{text}{n}")),
        Value::Array(items) => Value::Array(items.iter().map(|item| numbered(item, n)).collect()),
        Value::Object(entries) => {
            let entry = |(key, entry): (&String, &Value)| {
                let keep = WORDS.contains(&key.as_str());
                (key.clone(), if keep { entry.clone() } else { numbered(entry, n) })
            };
            Value::Object(entries.iter().map(entry).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The other objects in the cluster: pools, and the examples of good practice.
pub(crate) fn neighbours() -> Vec<Object> {
    let pool = |n: usize| {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{n}")},
            "spec": {"weight": n, "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": [{"key": "karpenter.k8s.aws/instance-family", "operator": "In",
                    "values": ["g5", "g6", format!("m{}i", n % 3 + 5)]}]}}}})
    };
    let mut out: Vec<Object> = (0..40).filter_map(|n| Object::from_json(&pool(n))).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/practices");
    for path in gpulint_testing::yaml_below(&root) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let objects = File::read(Source::from_text("a.yaml", &text)).objects;
        out.extend(objects.iter().filter_map(|object| Object::from_json(&object.root().to_json())));
    }
    out
}
