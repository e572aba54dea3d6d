//! Describes one field of an object by the schema of its kind, for editors: its subfields, their types and
//! their values.
//!
//! The schema is the one that the API server's validation is compiled from, with the checks in Go code as an
//! overlay. For kinds of operators without a schema, only the pod templates are described.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::facts::table;
use crate::kind::definitions::CustomResourceDefinitions;
use crate::kind::{self, KINDS};

use super::core;
use super::structural::{INT_OR_STRING, OBJECT_META, QUANTITY};
use super::table::SCHEMAS;

const POD_TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";

/// The part of a schema that describes one field.
#[derive(Clone, Copy, Debug)]
pub struct Outline<'s> {
    schema: &'s Value,
    /// The type that the field refers to.
    reference: Option<&'s str>,
    /// Whether this is the object itself.
    is_root: bool,
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlineShape {
    Map,
    List,
    /// A scalar, or any value.
    Scalar,
}

/// `metadata`, which every object has.
static METADATA: LazyLock<Value> = LazyLock::new(|| reference(OBJECT_META));
static TEMPLATE: LazyLock<Value> = LazyLock::new(|| reference(POD_TEMPLATE));
static SPEC: LazyLock<Value> = LazyLock::new(|| reference(POD_SPEC));
static TEXT: LazyLock<Value> = LazyLock::new(|| serde_json::json!({"type": "string"}));

static FIELDS_TSV: &str = include_str!("../../schemas/fields.tsv");

/// The descriptions that [`field_meaning`] returns, by kind and path.
static FIELDS: LazyLock<HashMap<(&str, &str), &str>> = LazyLock::new(|| {
    table::rows::<3>(FIELDS_TSV).map(|[kind, path, meaning]| ((kind, path), meaning)).collect()
});

/// The description of a field in a few words of Markdown. List indexes in `steps` are ignored.
pub fn field_meaning(kind: &str, steps: &[String]) -> Option<&'static str> {
    let names = steps.iter().map(String::as_str).filter(|step| step.parse::<usize>().is_err());
    let path = names.collect::<Vec<_>>().join(".");
    FIELDS.get(&(kind, path.as_str())).copied()
}

fn reference(name: &str) -> Value {
    serde_json::json!({ "$ref": name })
}

impl<'s> Outline<'s> {
    /// The outline of a field: `steps` are the field names and list indexes that lead to it. The schema of
    /// `definitions` comes first. Without an API version, the first schema of the kind is used. `None` if
    /// nothing is known.
    pub fn at(
        api_version: Option<&str>,
        kind: &str,
        steps: &[String],
        definitions: &'s CustomResourceDefinitions,
    ) -> Option<Outline<'s>> {
        let root = Outline::root(api_version, kind, definitions);
        if let Some(found) = root.and_then(|root| root.descend(steps)) {
            return Some(found);
        }
        match steps.split_first() {
            Some((first, rest)) if first == "metadata" => Outline::new(&METADATA).descend(rest),
            _ => Outline::of_template(api_version, kind, steps),
        }
    }

    fn new(schema: &'s Value) -> Outline<'s> {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let resolved = reference.and_then(core::strict_definition);
        Outline { schema: resolved.unwrap_or(schema), reference, is_root: false }
    }

    fn root(
        api_version: Option<&str>,
        kind: &str,
        definitions: &'s CustomResourceDefinitions,
    ) -> Option<Outline<'s>> {
        let (group, version) = match api_version {
            Some(text) => {
                let (group, version) = text.split_once('/').unwrap_or(("", text));
                (Some(group), Some(version))
            }
            None => (None, None),
        };
        let own = group.and_then(|group| definitions.find_named(group, kind, version));
        if let Some(own) = own {
            return Some(Outline { is_root: true, ..Outline::new(&own.schema) });
        }
        let is_kind = |entry: &&super::table::SchemaEntry| {
            entry.kind.kind == kind && group.is_none_or(|group| group == entry.kind.group)
        };
        let mut entries = SCHEMAS.iter().filter(is_kind);
        let entry = entries.find(|entry| version.is_none_or(|version| version == entry.version))?;
        let schema = entry.structural();
        let strict = match entry.source {
            crate::kind::SchemaSource::Core(name) => core::strict_definition(name),
            crate::kind::SchemaSource::Crd(_) | crate::kind::SchemaSource::Operator => None,
        };
        Some(Outline { is_root: true, ..Outline::new(strict.unwrap_or(schema)) })
    }

    /// The outline of a field in the pod template of a kind of the kind table.
    fn of_template(api_version: Option<&str>, kind: &str, steps: &[String]) -> Option<Outline<'s>> {
        let info = match api_version {
            Some(text) => kind::find(text.split_once('/').map_or("", |(group, _)| group), kind),
            None => KINDS.iter().find(|info| info.kind.kind == kind),
        };
        info?.workload.as_ref()?.templates.iter().find_map(|path| {
            let (path, schema) = match path.strip_suffix('!') {
                Some(path) => (path, &*SPEC),
                // The templates of a workflow have fields of a pod spec.
                None if path.ends_with('?') => (*path, &*SPEC),
                None => (*path, &*TEMPLATE),
            };
            let fits = |(pattern, step): (&str, &String)| match pattern {
                "[]" => step.parse::<usize>().is_ok(),
                "*" => true,
                name => name == step,
            };
            let (path, templates) = match path.strip_suffix('?') {
                Some(path) => (path, "templates.[]"),
                None => (path, ""),
            };
            let names = path.split('.').chain(templates.split('.'));
            let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
            let inside = steps.get(..names.len())?;
            if !names.into_iter().zip(inside).all(fits) {
                return None;
            }
            Outline::new(schema).descend(&steps[inside.len()..])
        })
    }

    fn descend(self, steps: &[String]) -> Option<Outline<'s>> {
        steps.iter().try_fold(self, |outline, step| outline.child(step))
    }

    /// The outline of a field, or of an item of a list.
    pub fn child(&self, step: &str) -> Option<Outline<'s>> {
        if self.is_root && step == "metadata" {
            return Some(Outline::new(&METADATA));
        }
        if self.is_root && matches!(step, "apiVersion" | "kind") {
            return Some(Outline::new(&TEXT));
        }
        let fields = self.schema.get("properties").and_then(|fields| fields.get(step));
        let item = || self.schema.get("items").filter(|_| step.parse::<usize>().is_ok());
        let other = || self.schema.get("additionalProperties").filter(|other| other.is_object());
        fields.or_else(item).or_else(other).map(Outline::new)
    }

    /// The fields of a mapping, required ones first. `status` is left out.
    pub fn fields(&self) -> Vec<(&'s str, Outline<'s>)> {
        let mut out: Vec<(&str, Outline<'s>)> = Vec::new();
        if self.is_root {
            out.push(("apiVersion", Outline::new(&TEXT)));
            out.push(("kind", Outline::new(&TEXT)));
            out.push(("metadata", Outline::new(&METADATA)));
        }
        let fields = self.schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, schema) in fields {
            let is_known =
                self.is_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status");
            if !is_known {
                out.push((name, Outline::new(schema)));
            }
        }
        out.sort_by_key(|(name, _)| !self.requires(name));
        out
    }

    pub fn requires(&self, field: &str) -> bool {
        if self.is_root && matches!(field, "apiVersion" | "kind" | "metadata") {
            return true;
        }
        let listed = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let has_default = |field: &str| self.child(field).is_some_and(|child| child.default().is_some());
        listed.into_iter().any(|name| name.as_str() == Some(field)) && !has_default(field)
    }

    /// The form of the value.
    pub fn shape(&self) -> OutlineShape {
        let of = self.schema.get("type").and_then(Value::as_str);
        match of {
            Some("object") => OutlineShape::Map,
            Some("array") => OutlineShape::List,
            None if self.schema.get("properties").is_some() => OutlineShape::Map,
            _ => OutlineShape::Scalar,
        }
    }

    /// The type in a word or two: `list of strings`, `quantity`.
    pub fn type_name(&self) -> String {
        let quoted = self.reference.map(|name| name.rsplit('.').next().unwrap_or(name));
        match (self.reference, self.shape()) {
            (Some(QUANTITY), _) => "quantity".to_owned(),
            (Some(INT_OR_STRING), _) => "integer or string".to_owned(),
            (_, OutlineShape::List) => match self.child("0").map(|item| item.type_name()) {
                Some(item) if item.starts_with(|c: char| c.is_ascii_uppercase()) => format!("list of {item}"),
                Some(item) => format!("list of {item}s"),
                None => "list".to_owned(),
            },
            (Some(_), OutlineShape::Map) => quoted.unwrap_or("map").to_owned(),
            (None, OutlineShape::Map) => "map".to_owned(),
            (_, OutlineShape::Scalar) => self.scalar_type(),
        }
    }

    fn scalar_type(&self) -> String {
        if self.schema.get("x-kubernetes-int-or-string").is_some() {
            return "integer or string".to_owned();
        }
        let format = self.schema.get("format").and_then(Value::as_str);
        let of = self.schema.get("type").and_then(Value::as_str);
        match (of, format) {
            (Some("string"), Some("date-time")) => "date".to_owned(),
            (Some(of), _) => of.to_owned(),
            (None, _) => "any value".to_owned(),
        }
    }

    /// The only valid values, if the schema lists them.
    pub fn values(&self) -> Vec<&'s str> {
        let listed = self.schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        let texts = listed.into_iter().filter_map(Value::as_str);
        texts.filter(|text| !text.is_empty()).collect()
    }

    pub fn is_boolean(&self) -> bool {
        self.schema.get("type").and_then(Value::as_str) == Some("boolean")
    }

    pub fn default(&self) -> Option<&'s Value> {
        self.schema.get("default")
    }

    pub fn description(&self) -> Option<&'s str> {
        self.schema.get("description").and_then(Value::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::{Outline, OutlineShape};
    use crate::kind::definitions::CustomResourceDefinitions;

    fn at(api_version: &str, kind: &str, path: &str) -> Option<Outline<'static>> {
        static NONE: std::sync::LazyLock<CustomResourceDefinitions> =
            std::sync::LazyLock::new(CustomResourceDefinitions::default);
        let steps: Vec<String> = path.split('.').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        Outline::at(Some(api_version), kind, &steps, &NONE)
    }

    #[test]
    fn places_have_fields_and_types() {
        let root = at("karpenter.sh/v1", "NodePool", "").expect("a schema");
        let names: Vec<&str> = root.fields().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["apiVersion", "kind", "metadata", "spec"]);
        for (kind, path, name) in [
            ("NodePool", "spec.template.spec.requirements", "list of maps"),
            ("NodePool", "spec.template.spec.requirements.0.values", "list of strings"),
            ("NodePool", "spec.limits.cpu", "integer or string"),
            ("NodePool", "metadata.labels", "map"),
            ("NodePool", "metadata.name", "string"),
        ] {
            assert_eq!(at("karpenter.sh/v1", kind, path).expect(path).type_name(), name, "{path}");
        }
        let pod = "spec.template.spec.containers.0.resources.limits";
        assert_eq!(at("apps/v1", "Deployment", &format!("{pod}.cpu")).expect(pod).type_name(), "quantity");
        let policy = at("apps/v1", "Deployment", "spec.template.spec.restartPolicy").expect("a field");
        assert_eq!(policy.values(), ["Always", "OnFailure", "Never"]);
        let spec = at("karpenter.sh/v1", "NodePool", "spec.template.spec").expect("a spec");
        assert!(spec.requires("nodeClassRef") && !spec.requires("taints"));
        assert_eq!(spec.shape(), OutlineShape::Map);
        assert!(at("karpenter.sh/v1", "NodePool", "spec.nonsense").is_none());
        assert!(at("karpenter.sh/v2", "NodePool", "spec").is_none());
    }

    #[test]
    fn meanings_are_of_fields_that_are_there() {
        let lines: Vec<&str> = super::FIELDS_TSV.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(super::FIELDS.len(), lines.len(), "a field has two lines");
        for line in lines {
            let [kind, path, meaning] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert!(!meaning.is_empty() && !meaning.ends_with('.'), "{line}");
            let mut outline = Outline::at(None, kind, &[], &CustomResourceDefinitions::default())
                .unwrap_or_else(|| panic!("no kind {kind}"))
                .schema
                .clone();
            for step in path.split('.') {
                let here = super::Outline { schema: &outline, reference: None, is_root: false };
                let item = if here.shape() == OutlineShape::List { here.child("0") } else { Some(here) };
                let next =
                    item.and_then(|item| item.child(step)).unwrap_or_else(|| panic!("no {path} in {kind}"));
                outline = next.schema.clone();
            }
        }
    }

    #[test]
    fn operators_have_pod_templates() {
        let group = "spec.workerGroupSpecs.0.template.spec.containers.0";
        let container = at("ray.io/v1", "RayCluster", group).expect("a container");
        assert!(container.requires("name"));
        assert_eq!(at("ray.io/v1", "RayCluster", "spec.rayVersion").expect("a field").type_name(), "string");
        // Without a schema, the pod template alone.
        assert!(at("argoproj.io/v1alpha1", "Rollout", "spec.template.spec.containers.0").is_some());
        assert!(at("argoproj.io/v1alpha1", "Rollout", "spec.replicas").is_none());
        let inline = at("serving.kserve.io/v1beta1", "InferenceService", "spec.predictor.nodeSelector");
        assert_eq!(inline.expect("a pod spec").type_name(), "map");
    }
}
