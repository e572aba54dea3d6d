//! CustomResourceDefinitions that users provide or that a cluster serves, so that objects are checked against what
//! their own cluster accepts.
//!
//! Only what validation needs is stored: names, versions and schemas. The modules that compile a schema store the
//! result with it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Kind;
use crate::object::{Object, ObjectId};

/// A version of a kind that an API server serves, with its schema.
#[derive(Clone, Debug)]
pub struct ServedSchema {
    pub kind: Kind,
    /// The resource name in API paths.
    pub plural: &'static str,
    pub version: String,
    /// The structural schema; null if the version has none and accepts everything.
    pub schema: Arc<Value>,
}

/// The CustomResourceDefinitions of a configuration or of a cluster. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomResourceDefinitions(Arc<BTreeMap<(String, String), Definition>>);

#[derive(Debug, PartialEq, Eq)]
struct Definition {
    name: String,
    /// The file of the input in which it was found. `None` if the user or the cluster says that it holds.
    file: Option<String>,
    versions: Vec<ServedVersion>,
}

#[derive(Debug)]
pub(crate) struct ServedVersion {
    version: String,
    /// `openAPIV3Schema`; null if the version has none and accepts everything.
    pub(crate) schema: Arc<Value>,
    compiled: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl CustomResourceDefinitions {
    /// The definitions among `objects`; objects of other kinds are ignored.
    ///
    /// # Errors
    /// A definition that names no group, kind and version, one of an API that Kubernetes no longer serves, or two of
    /// the same kind: the number of the object in `objects`, and what is wrong with it, in lower case.
    pub fn new<'o>(
        objects: impl IntoIterator<Item = &'o Object>,
    ) -> Result<CustomResourceDefinitions, (usize, String)> {
        let mut definitions = BTreeMap::new();
        for (at, object) in objects.into_iter().enumerate() {
            let id = object.id();
            if id.group != "apiextensions.k8s.io" || id.kind != "CustomResourceDefinition" {
                continue;
            }
            let (key, definition) = Definition::read(object).map_err(|why| (at, why))?;
            if let Some(earlier) = definitions.insert(key.clone(), definition) {
                let why = format!("{} of `{}` is already defined by `{}`", key.1, key.0, earlier.name);
                return Err((at, why));
            }
        }
        Ok(CustomResourceDefinitions(Arc::new(definitions)))
    }

    /// The definitions among objects of the input. A cluster may have others; what is no valid definition is left out.
    pub fn found_in<'o>(objects: impl IntoIterator<Item = &'o Object>) -> CustomResourceDefinitions {
        let mut definitions = BTreeMap::new();
        for object in objects {
            let Ok((key, mut definition)) = Definition::read(object) else { continue };
            definition.file = object.origin().map(|origin| origin.source.path().to_owned());
            definitions.insert(key, definition);
        }
        CustomResourceDefinitions(Arc::new(definitions))
    }

    /// The definitions of the kinds that an API server serves.
    pub fn served_by(schemas: impl IntoIterator<Item = ServedSchema>) -> CustomResourceDefinitions {
        let mut definitions: BTreeMap<(String, String), Definition> = BTreeMap::new();
        for ServedSchema { kind, plural, version, schema } in schemas {
            let key = (kind.group.to_owned(), kind.kind.to_owned());
            let name = format!("{plural}.{}", kind.group);
            let new = || Definition { name, file: None, versions: Vec::new() };
            let served = ServedVersion { version, schema, compiled: OnceLock::new() };
            definitions.entry(key).or_insert_with(new).versions.push(served);
        }
        CustomResourceDefinitions(Arc::new(definitions))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a definition of an object's kind, in any version.
    pub(crate) fn define_kind(&self, id: &ObjectId) -> bool {
        self.definition(id).is_some()
    }

    /// The definition of an object's kind in its version.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<&ServedVersion> {
        self.definition(id)?.versions.iter().find(|served| served.version == id.version)
    }

    /// The definition of a kind in one version, or in its first version if `version` is `None`.
    pub(crate) fn find_named(
        &self,
        group: &str,
        kind: &str,
        version: Option<&str>,
    ) -> Option<&ServedVersion> {
        if self.0.is_empty() {
            return None;
        }
        let definition = self.0.get(&(group.to_owned(), kind.to_owned()))?;
        definition.versions.iter().find(|served| version.is_none_or(|version| served.version == version))
    }

    /// The defined groups, versions and kinds.
    pub fn served(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().flat_map(|((group, kind), definition)| {
            definition.versions.iter().map(|served| (group.as_str(), served.version.as_str(), kind.as_str()))
        })
    }

    /// The name of the CustomResourceDefinition of an object's kind, such as `nodepools.karpenter.sh`.
    pub(crate) fn name_of(&self, id: &ObjectId) -> Option<&str> {
        Some(&self.definition(id)?.name)
    }

    /// The file of the input that has the definition of an object's kind, if it was found there.
    pub(crate) fn file_of(&self, id: &ObjectId) -> Option<&str> {
        self.definition(id)?.file.as_deref()
    }

    /// An address that is unique among the definitions that exist at a time.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    fn definition(&self, id: &ObjectId) -> Option<&Definition> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(id.group.clone(), id.kind.clone()))
    }
}

impl Definition {
    fn read(object: &Object) -> Result<((String, String), Definition), String> {
        if object.version() != "v1" {
            let version = object.id().api_version();
            return Err(format!(
                "a CustomResourceDefinition of `{version}`; Kubernetes serves `apiextensions.k8s.io/v1`"
            ));
        }
        let text = |path: &[&str]| {
            let found = object.path(path).text().filter(|text| !text.is_empty());
            found.map(str::to_owned).ok_or_else(|| format!("`{}` is missing", path.join(".")))
        };
        let key = (text(&["spec", "group"])?, text(&["spec", "names", "kind"])?);
        let mut versions = Vec::new();
        for version in object.path(&["spec", "versions"]).items() {
            let Some(name) = version.get("name").text() else {
                return Err("a version has no `name`".to_owned());
            };
            if version.get("served").bool() == Some(false) {
                continue;
            }
            versions.push(ServedVersion {
                version: name.to_owned(),
                schema: Arc::new(version.path(&["schema", "openAPIV3Schema"]).to_json()),
                compiled: OnceLock::new(),
            });
        }
        if versions.is_empty() {
            return Err("`spec.versions` has no version that is served".to_owned());
        }
        Ok((key, Definition { name: object.name().to_owned(), file: None, versions }))
    }
}

/// What is compiled follows from the schema.
impl PartialEq for ServedVersion {
    fn eq(&self, other: &ServedVersion) -> bool {
        self.version == other.version && self.schema == other.schema
    }
}

impl Eq for ServedVersion {}

impl ServedVersion {
    /// The compiled schema, computed at the first call. All callers must use the same type.
    pub(crate) fn compiled<T: Any + Send + Sync>(&self, compile: impl FnOnce(&Value) -> T) -> Option<&T> {
        self.compiled.get_or_init(|| Box::new(compile(&self.schema))).downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::CustomResourceDefinitions;
    use crate::object::Object;

    fn definition(kind: &str, versions: Value) -> Object {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "names": {"kind": kind}, "versions": versions},
        });
        Object::from_json(&crd).expect("an object")
    }

    fn object(version: &str, kind: &str) -> Object {
        let api_version = format!("example.com/{version}");
        let thing = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        Object::from_json(&thing).expect("an object")
    }

    #[test]
    fn versions_that_are_served_are_found() {
        let crd = definition(
            "Thing",
            json!([{"name": "v1", "served": true}, {"name": "v1beta1", "served": false}, {"name": "v2"}]),
        );
        let crds = CustomResourceDefinitions::new([&crd]).expect("a definition");
        for (version, kind, known, found) in [
            ("v1", "Thing", true, true),
            ("v2", "Thing", true, true),
            ("v1beta1", "Thing", true, false),
            ("v1", "Other", false, false),
        ] {
            let object = object(version, kind);
            assert_eq!(crds.define_kind(object.id()), known, "{version} {kind}");
            assert_eq!(crds.find(object.id()).is_some(), found, "{version} {kind}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = definition("Thing", json!([{"name": "v1"}]));
        for (crds, why) in [
            (vec![definition("", json!([{"name": "v1"}]))], "`spec.names.kind` is missing"),
            (vec![definition("Thing", json!([]))], "no version that is served"),
            (vec![definition("Thing", json!([{}]))], "has no `name`"),
            (vec![good.clone(), good], "already defined by `things.example.com`"),
        ] {
            let (at, said) = CustomResourceDefinitions::new(&crds).expect_err(why);
            assert_eq!(at, crds.len() - 1);
            assert!(said.contains(why), "{said}");
        }
    }
}
