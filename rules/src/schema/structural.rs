//! From a structural schema, as a CRD has it, to a JSON Schema that says what the API server says.
//!
//! The server treats a structural schema otherwise than JSON Schema reads it: fields that it does
//! not name are unknown, a field with a default is never missing, an int-or-string is what it is
//! called, formats of integers are bounds, list types forbid duplicates. All of it is written out
//! here, once, when a kind is first met.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::source::{Source, read};
use crate::tree::node::Node;

use super::core;

/// How the server reads the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A CRD's own schema.
    Crd,
    /// A core type inside a CRD: its generated form, without what Go code checks.
    Embedded,
    /// A core type in a core object: decoded into Go, then checked in code.
    Core,
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// Our name for a quantity that Go reads, where the pattern takes it.
pub(crate) const GO_QUANTITY: &str = "quantity that is read";
/// Our name for a moment that a CRD takes, which Go may not read.
pub(crate) const CRD_DATE_TIME: &str = "date-time that is stored";

/// What the published CRDs have for a quantity.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Reads our own data with our own reader. What does not parse is null, which a test forbids.
pub(super) fn read_yaml(text: &str) -> Value {
    let source = std::sync::Arc::new(Source::from_text("schema.yaml", text));
    let documents = read(&source);
    let tree = documents.iter().find_map(|d| d.tree.as_ref());
    tree.map_or(Value::Null, |tree| Node::new(tree, 0).to_json())
}

/// The JSON Schema of a kind whose `openAPIV3Schema` is `schema`.
/// `decoded` says that a webhook of the kind's own project decodes it into Go, where integers have
/// a size; the API server does not look at it.
pub(super) fn of_crd(schema: &Value, decoded: bool) -> Value {
    let mut making = StructuralCompiler { bound_integers: decoded, ..StructuralCompiler::default() };
    let mut root = making.convert(schema, Dialect::Crd, false);
    making.add_common_fields(&mut root);
    making.finish(root)
}

/// The JSON Schema of a core kind whose type is `name`.
pub(super) fn of_core(name: &str) -> Option<Value> {
    let mut making = StructuralCompiler { bound_integers: true, ..StructuralCompiler::default() };
    let mut root = making.convert(&core::strict(name)?, Dialect::Core, false);
    making.add_common_fields(&mut root);
    Some(making.finish(root))
}

#[derive(Default)]
struct StructuralCompiler {
    /// Types that something refers to, by the name of their definition.
    referenced: BTreeMap<String, (String, Dialect)>,
    queue: VecDeque<String>,
    /// Whether the formats of integers are bounds.
    bound_integers: bool,
}

impl StructuralCompiler {
    fn reference(&mut self, name: &str, reading: Dialect) -> Value {
        let reading = match reading {
            Dialect::Crd => Dialect::Embedded,
            other => other,
        };
        let key = match reading {
            Dialect::Core => name.to_owned(),
            _ => format!("{name}.embedded"),
        };
        if !self.referenced.contains_key(&key) {
            self.referenced.insert(key.clone(), (name.to_owned(), reading));
            self.queue.push_back(key.clone());
        }
        Value::String(format!("#/$defs/{key}"))
    }

    /// What every object has beside its own fields. The server ignores a status on create.
    fn add_common_fields(&mut self, root: &mut Value) {
        let metadata = json!({"$ref": self.reference(OBJECT_META, Dialect::Core)});
        let Some(root) = root.as_object_mut() else {
            return;
        };
        let properties = root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
            properties.insert("kind".to_owned(), json!({"type": "string"}));
            properties.insert("metadata".to_owned(), metadata);
            properties.insert("status".to_owned(), json!({}));
        }
    }

    fn finish(mut self, mut root: Value) -> Value {
        let mut definitions = Map::new();
        while let Some(key) = self.queue.pop_front() {
            let Some((name, reading)) = self.referenced.get(&key).cloned() else {
                continue;
            };
            let made = match (name.as_str(), reading) {
                (QUANTITY, Dialect::Core) => {
                    json!({"type": ["integer", "number", "string"], "format": "quantity"})
                }
                // Who decodes the object reads less than the pattern takes.
                (QUANTITY, _) if self.bound_integers => json!({
                    "type": ["integer", "string"],
                    "pattern": QUANTITY_PATTERN,
                    "format": GO_QUANTITY,
                }),
                (QUANTITY, _) => {
                    json!({"type": ["integer", "string"], "pattern": QUANTITY_PATTERN})
                }
                (INT_OR_STRING, Dialect::Core) => {
                    json!({"type": ["integer", "string"], "minimum": i32::MIN, "maximum": i32::MAX})
                }
                (INT_OR_STRING, _) => json!({"type": ["integer", "string"]}),
                (OBJECT_META, Dialect::Embedded) => embedded_metadata(),
                (_, Dialect::Core) => core::strict(&name).map_or(Value::Bool(true), |s| {
                    let mut made = self.convert(&s, reading, false);
                    if made.get("required").is_none() && s.get("filled").is_none() {
                        allow_null(&mut made);
                    }
                    made
                }),
                _ => core::embedded(&name).map_or(Value::Bool(true), |s| self.convert(&s, reading, false)),
            };
            definitions.insert(key, made);
        }
        if let Some(root) = root.as_object_mut() {
            root.insert("$defs".to_owned(), Value::Object(definitions));
        }
        root
    }

    /// `nested` says that the schema stands in an `allOf`, `anyOf`, `oneOf` or `not`: it judges
    /// values and names no fields.
    fn convert(&mut self, schema: &Value, reading: Dialect, nested: bool) -> Value {
        let Some(from) = schema.as_object() else {
            return schema.clone();
        };
        let flag = |key: &str| from.get(key).and_then(Value::as_bool) == Some(true);
        let int_or_string = flag("x-kubernetes-int-or-string");
        let mut to = Map::new();
        for (key, value) in from {
            match key.as_str() {
                "$ref" => {
                    let name = value.as_str().unwrap_or_default();
                    to.insert(key.clone(), self.reference(name, reading));
                }
                "properties" => {
                    let fields = value.as_object().into_iter().flatten();
                    let fields = fields.map(|(n, s)| (n.clone(), self.convert(s, reading, nested))).collect();
                    to.insert(key.clone(), Value::Object(fields));
                }
                "items" => {
                    let mut items = self.convert(value, reading, nested);
                    if reading == Dialect::Core && !flag("filled") {
                        allow_null(&mut items);
                    }
                    to.insert(key.clone(), items);
                }
                "additionalProperties" => {
                    to.insert(key.clone(), self.convert(value, reading, nested));
                }
                "not" => {
                    to.insert(key.clone(), self.convert(value, reading, true));
                }
                // `anyOf` beside int-or-string only says the same once more.
                "allOf" | "anyOf" | "oneOf" if !(int_or_string && key == "anyOf") => {
                    let branches = value.as_array().into_iter().flatten();
                    let branches = branches.map(|s| self.convert(s, reading, true)).collect();
                    to.insert(key.clone(), Value::Array(branches));
                }
                "enum" | "pattern" | "minLength" | "maxLength" | "minItems" | "maxItems"
                | "minProperties" | "maxProperties" | "uniqueItems" | "multipleOf" => {
                    to.insert(key.clone(), value.clone());
                }
                "minimum" | "maximum" => {
                    let strict = if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
                    let key = if flag(strict) { strict } else { key };
                    to.insert(key.to_owned(), value.clone());
                }
                "exclusiveMinimum" | "exclusiveMaximum" if value.is_number() => {
                    to.insert(key.clone(), value.clone());
                }
                _ => {}
            }
        }
        self.add_types(from, &mut to, reading, int_or_string);
        if let Some(required) = required_fields(from) {
            to.insert("required".to_owned(), required);
        }
        add_list_type(from, &mut to, reading);
        let fields = to.contains_key("properties");
        let object = from.get("type").and_then(Value::as_str) == Some("object") || fields;
        let free = to.contains_key("additionalProperties")
            || flag("x-kubernetes-preserve-unknown-fields")
            || (reading != Dialect::Crd && !fields);
        if object && !free && !nested {
            to.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        if flag("x-kubernetes-embedded-resource") {
            let fields = to.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            if let Some(fields) = fields.as_object_mut() {
                for name in ["apiVersion", "kind", "metadata"] {
                    fields.entry(name).or_insert(Value::Bool(true));
                }
            }
        }
        Value::Object(to)
    }

    /// Types with their formats; `null` only stands in lists, because elsewhere it is absent.
    fn add_types(
        &self,
        from: &Map<String, Value>,
        to: &mut Map<String, Value>,
        reading: Dialect,
        int_or_string: bool,
    ) {
        let mut types: Vec<&str> = match from.get("type") {
            _ if int_or_string => vec!["integer", "string"],
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if from.get("nullable") == Some(&Value::Bool(true)) && !types.is_empty() {
            types.push("null");
        }
        match types.as_slice() {
            [] => {}
            [one] => {
                to.insert("type".to_owned(), Value::from(*one));
            }
            many => {
                to.insert("type".to_owned(), Value::from(many.to_vec()));
            }
        }
        // In a CRD formats bound nothing; a whole number past 64 bits is read as a float, and refused.
        if !self.bound_integers && types.contains(&"integer") {
            set_bounds(to, i64::MIN, i64::MAX);
        }
        match from.get("format").and_then(Value::as_str) {
            Some("int32") if self.bound_integers => set_bounds(to, i64::from(i32::MIN), i64::from(i32::MAX)),
            Some("int64") if self.bound_integers => set_bounds(to, i64::MIN, i64::MAX),
            Some("date-time") if reading != Dialect::Core && !self.bound_integers => {
                to.insert("format".to_owned(), Value::from(CRD_DATE_TIME));
            }
            Some(format @ ("date-time" | "duration" | "byte")) => {
                to.insert("format".to_owned(), Value::from(format));
            }
            _ => {}
        }
    }
}

/// Go reads null in a list as the empty value of the item's type. What has required fields is
/// refused then, and what has none is taken, but for what the overlay calls filled.
fn allow_null(schema: &mut Value) {
    if let Some(Value::String(one)) = schema.get("type") {
        let types = Value::from(vec![one.clone(), "null".to_owned()]);
        schema["type"] = types;
    }
}

fn set_bounds(to: &mut Map<String, Value>, least: i64, most: i64) {
    if !to.contains_key("minimum") && !to.contains_key("exclusiveMinimum") {
        to.insert("minimum".to_owned(), Value::from(least));
    }
    if !to.contains_key("maximum") && !to.contains_key("exclusiveMaximum") {
        to.insert("maximum".to_owned(), Value::from(most));
    }
}

/// The server writes defaults before it looks for what is missing.
fn required_fields(from: &Map<String, Value>) -> Option<Value> {
    let fields = from.get("properties");
    let defaulted = |name: &str| fields.is_some_and(|f| f[name].get("default").is_some());
    let required: Vec<Value> = from
        .get("required")?
        .as_array()?
        .iter()
        .filter(|name| !name.as_str().is_some_and(defaulted))
        .cloned()
        .collect();
    (!required.is_empty()).then_some(Value::Array(required))
}

/// List types. For core objects they only say how an apply merges; in a CRD they are law.
fn add_list_type(from: &Map<String, Value>, to: &mut Map<String, Value>, reading: Dialect) {
    if reading == Dialect::Core {
        return;
    }
    match from.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => {
            to.insert(super::check::LIST_TYPE_KEYWORD.to_owned(), json!({"keys": []}));
        }
        Some("map") => {
            let items = from.get("items");
            let named = items.and_then(|i| i.get("$ref")?.as_str()).and_then(core::embedded);
            let fields = named.as_ref().or(items).and_then(|i| i.get("properties"));
            let keys: Vec<&str> = from
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let defaults: Vec<Value> = keys
                .iter()
                .map(|k| fields.map_or(Value::Null, |f| f[*k].get("default").cloned().unwrap_or_default()))
                .collect();
            to.insert(
                super::check::LIST_TYPE_KEYWORD.to_owned(),
                json!({"keys": keys, "defaults": defaults}),
            );
        }
        _ => {}
    }
}

/// What CRD generators write for the metadata of an embedded template.
fn embedded_metadata() -> Value {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "properties": {
            "annotations": strings,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": strings,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
        "additionalProperties": false,
    })
}
