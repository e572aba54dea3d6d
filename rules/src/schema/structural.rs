//! Compiles a structural schema, as in a CRD, to a JSON Schema that accepts the same values as the API
//! server.
//!
//! The two differ: in a structural schema undeclared fields are unknown fields, a field with a default is
//! never missing, `x-kubernetes-int-or-string` replaces the type, integer formats are bounds, and list types
//! forbid duplicates
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>). The
//! compiled schema states all of this explicitly. It names the types that it refers to, which are compiled on first use.

use serde_json::{Map, Value, json};

use super::keywords::{CRD_DATE_TIME, GO_QUANTITY, HISTORY_KEYWORD, LIST_TYPE_KEYWORD, TYPE_KEYWORD};
use super::{core, field_history};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Crd,
    /// A core type embedded in a CRD: only its generated schema applies, without the checks in Go code.
    Embedded,
    /// A core type in a core object: decoded into a Go struct, then validated by Go code.
    Core,
}

pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
pub(super) const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The pattern of quantities in published CRDs, as controller-gen writes it.
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The JSON Schema of a kind whose `openAPIV3Schema` is `schema`.
///
/// `decoded`: an admission webhook of the project decodes the object into Go structs, so integer formats are
/// bounds. The API server itself ignores them in CRDs.
pub(super) fn of_crd(schema: &Value, decoded: bool) -> Value {
    let compiler = StructuralCompiler { bound_integers: decoded };
    compiler.with_common_fields(compiler.convert(schema, Dialect::Crd, false))
}

/// The JSON Schema of the core kind with the type `name`.
pub(super) fn of_core(name: &str) -> Option<Value> {
    let compiler = StructuralCompiler { bound_integers: true };
    Some(compiler.with_common_fields(compiler.convert(&core::strict(name)?, Dialect::Core, false)))
}

/// The value of [`TYPE_KEYWORD`] for a type in a core object.
pub(super) fn core_reference(name: &str) -> String {
    format!("{name}{BOUNDED_SUFFIX}")
}

/// The JSON Schema of a type, by the value of [`TYPE_KEYWORD`] in a schema that refers to it.
pub(super) fn of_type(reference: &str) -> Value {
    let (reference, bound_integers) = match reference.strip_suffix(BOUNDED_SUFFIX) {
        Some(reference) => (reference, true),
        None => (reference, false),
    };
    let (name, dialect) = match reference.strip_suffix(EMBEDDED_SUFFIX) {
        Some(name) => (name, Dialect::Embedded),
        None => (reference, Dialect::Core),
    };
    StructuralCompiler { bound_integers }.definition(name, dialect)
}

/// Suffix of a type that is embedded in a CRD, as opposed to the same type in a core object.
const EMBEDDED_SUFFIX: &str = " embedded";
/// Suffix of a type in which integer formats are bounds.
const BOUNDED_SUFFIX: &str = " bounded";

struct StructuralCompiler {
    /// Whether integer formats are bounds.
    bound_integers: bool,
}

impl StructuralCompiler {
    /// The value of [`TYPE_KEYWORD`] for a type.
    fn reference(&self, name: &str, dialect: Dialect) -> Value {
        let embedded = if dialect == Dialect::Core { "" } else { EMBEDDED_SUFFIX };
        let bounded = if self.bound_integers { BOUNDED_SUFFIX } else { "" };
        Value::String(format!("{name}{embedded}{bounded}"))
    }

    /// Adds the fields that every object has. `status` is not checked: the API server ignores it on create.
    fn with_common_fields(&self, mut schema: Value) -> Value {
        let Some(root) = schema.as_object_mut() else {
            return schema;
        };
        let properties = root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
            properties.insert("kind".to_owned(), json!({"type": "string"}));
            let metadata = self.reference(OBJECT_META, Dialect::Core);
            properties.insert("metadata".to_owned(), json!({ TYPE_KEYWORD: metadata }));
            properties.insert("status".to_owned(), json!({}));
        }
        schema
    }

    /// The schema of a referenced type.
    fn definition(&self, name: &str, dialect: Dialect) -> Value {
        let mut schema = self.without_history(name, dialect);
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (field, of) in fields.into_iter().flatten() {
            if let (Some(_), Some(of)) = (field_history::of_field(name, field), of.as_object_mut()) {
                of.insert(HISTORY_KEYWORD.to_owned(), Value::from(vec![name, field]));
            }
        }
        schema
    }

    fn without_history(&self, name: &str, dialect: Dialect) -> Value {
        match (name, dialect) {
            (QUANTITY, Dialect::Core) => {
                json!({"type": ["integer", "number", "string"], "format": "quantity"})
            }
            // The pattern accepts more than Go's parser does.
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
            (_, Dialect::Core) => core::strict(name).map_or(Value::Bool(true), |s| {
                let mut made = self.convert(&s, dialect, false);
                if made.get("required").is_none() && s.get("filled").is_none() {
                    allow_null(&mut made);
                }
                made
            }),
            _ => core::embedded(name).map_or(Value::Bool(true), |s| self.convert(&s, dialect, false)),
        }
    }

    /// Converts a schema. `nested` is true inside `allOf`, `anyOf`, `oneOf` and `not`, which constrain values
    /// and do not declare fields.
    fn convert(&self, schema: &Value, dialect: Dialect, nested: bool) -> Value {
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
                    to.insert(TYPE_KEYWORD.to_owned(), self.reference(name, dialect));
                }
                "properties" => {
                    let fields = value.as_object().into_iter().flatten();
                    let fields = fields.map(|(n, s)| (n.clone(), self.convert(s, dialect, nested))).collect();
                    to.insert(key.clone(), Value::Object(fields));
                }
                "items" => {
                    let mut items = self.convert(value, dialect, nested);
                    if dialect == Dialect::Core && !flag("filled") {
                        allow_null(&mut items);
                    }
                    to.insert(key.clone(), items);
                }
                "additionalProperties" => {
                    to.insert(key.clone(), self.convert(value, dialect, nested));
                }
                "not" => {
                    to.insert(key.clone(), self.convert(value, dialect, true));
                }
                // The `anyOf` beside `x-kubernetes-int-or-string` repeats its two types.
                "allOf" | "anyOf" | "oneOf" if !(int_or_string && key == "anyOf") => {
                    let branches = value.as_array().into_iter().flatten();
                    let branches = branches.map(|s| self.convert(s, dialect, true)).collect();
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
        self.add_types(from, &mut to, dialect, int_or_string);
        if let Some(required) = required_fields(from) {
            to.insert("required".to_owned(), required);
        }
        add_list_type(from, &mut to, dialect);
        let fields = to.contains_key("properties");
        let object = from.get("type").and_then(Value::as_str) == Some("object") || fields;
        let free = to.contains_key("additionalProperties")
            || flag("x-kubernetes-preserve-unknown-fields")
            || (dialect != Dialect::Crd && !fields);
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

    /// Adds types and formats. The API server removes a null member of a map before validation, so `null`
    /// matters in lists only.
    fn add_types(
        &self,
        from: &Map<String, Value>,
        to: &mut Map<String, Value>,
        dialect: Dialect,
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
        // In CRDs, formats are not bounds, but an integer above 64 bits is decoded as a float and rejected.
        if !self.bound_integers && types.contains(&"integer") {
            set_bounds(to, i64::MIN, i64::MAX);
        }
        match from.get("format").and_then(Value::as_str) {
            Some("int32") if self.bound_integers => set_bounds(to, i64::from(i32::MIN), i64::from(i32::MAX)),
            Some("int64") if self.bound_integers => set_bounds(to, i64::MIN, i64::MAX),
            Some("date-time") if dialect != Dialect::Core && !self.bound_integers => {
                to.insert("format".to_owned(), Value::from(CRD_DATE_TIME));
            }
            Some(format @ ("date-time" | "duration" | "byte")) => {
                to.insert("format".to_owned(), Value::from(format));
            }
            _ => {}
        }
    }
}

/// Allows null as a list item. Go decodes it to the zero value of the item type, which is rejected only if
/// that type has required fields, or if the overlay marks it as `filled`.
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

/// The required fields without a default: the API server applies defaults before it checks for missing
/// fields.
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

/// Adds list types. In core objects they only guide server-side apply; in CRDs the API server rejects
/// duplicates.
fn add_list_type(from: &Map<String, Value>, to: &mut Map<String, Value>, dialect: Dialect) {
    if dialect == Dialect::Core {
        return;
    }
    match from.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => {
            to.insert(LIST_TYPE_KEYWORD.to_owned(), json!({"keys": []}));
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
            to.insert(LIST_TYPE_KEYWORD.to_owned(), json!({"keys": keys, "defaults": defaults}));
        }
        _ => {}
    }
}

/// The schema that controller-gen writes for `metadata` of an embedded template.
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
