//! The schemas of custom resources as the API server publishes them, so that an object is judged by the definition that
//! the cluster has: that of another release of an operator may have fields and values that gpulint does not know.
//!
//! They are read from the OpenAPI documents, one per group and version, instead of from CustomResourceDefinitions:
//! every authenticated account may read these (the ClusterRole `system:discovery`), and the index has a hash of each
//! document, so that unchanged ones are not read again:
//! <https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition>.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulint_rules::{CustomResourceDefinitions, Kind, ServedSchema};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::served::get;

const KIND_OF_SCHEMA: &str = "x-kubernetes-group-version-kind";

/// The documents that were read, by their path in the index, such as `apis/karpenter.sh/v1`.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    documents: BTreeMap<String, Document>,
}

#[derive(Debug)]
struct Document {
    /// The address with the hash of the content.
    url: String,
    schemas: Vec<ServedSchema>,
}

#[derive(Deserialize)]
struct Index {
    paths: BTreeMap<String, IndexEntry>,
}

#[derive(Deserialize)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

/// What is read of a document. Its paths, which are most of it, are skipped.
#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    components: Components,
}

#[derive(Default, Deserialize)]
struct Components {
    #[serde(default)]
    schemas: BTreeMap<String, Value>,
}

impl OpenApi {
    /// Reads the documents of the groups of `kinds` that changed. Returns the definitions of all served versions of these
    /// kinds, and `None` if nothing changed since the last call.
    ///
    /// # Errors
    /// The API server did not answer one of the requests. The documents are read again at the next call.
    pub(crate) async fn read(
        &mut self,
        client: &Client,
        kinds: &[Kind],
    ) -> kube::Result<Option<CustomResourceDefinitions>> {
        let Some(index) = get::<Index>(client, "/openapi/v3".to_owned()).await? else {
            return Ok(None);
        };
        let of_kinds = |path: &str| {
            let group = path.strip_prefix("apis/").and_then(|rest| rest.split('/').next());
            group.is_some_and(|group| kinds.iter().any(|kind| kind.group == group))
        };
        let mut changed = false;
        let mut documents = BTreeMap::new();
        for (path, entry) in index.paths.into_iter().filter(|(path, _)| of_kinds(path)) {
            let document = match self.documents.get(&path) {
                Some(known) if known.url == entry.url => {
                    Document { url: entry.url, schemas: known.schemas.clone() }
                }
                _ => {
                    changed = true;
                    // Without the hash, because the API server redirects from one that is no longer the current one.
                    let address = entry.url.split('?').next().unwrap_or_default();
                    let content = get::<Content>(client, address.to_owned()).await?;
                    let schemas = content.map(|content| schemas_of(content, kinds)).unwrap_or_default();
                    Document { url: entry.url, schemas }
                }
            };
            documents.insert(path, document);
        }
        changed |= documents.len() != self.documents.len();
        self.documents = documents;
        let schemas = self.documents.values().flat_map(|document| document.schemas.iter().cloned());
        Ok(changed.then(|| CustomResourceDefinitions::served_by(schemas)))
    }
}

/// The schemas of the kinds among those of a document.
fn schemas_of(content: Content, kinds: &[Kind]) -> Vec<ServedSchema> {
    let schemas = content.components.schemas.into_values();
    schemas.filter_map(|schema| served_schema(schema, kinds)).collect()
}

fn served_schema(mut schema: Value, kinds: &[Kind]) -> Option<ServedSchema> {
    let of = schema[KIND_OF_SCHEMA].as_array()?.first()?;
    let text = |key: &str| of[key].as_str();
    let (group, version, kind) = (text("group")?, text("version")?.to_owned(), text("kind")?);
    let kind = *kinds.iter().find(|known| known.group == group && known.kind == kind)?;
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        // It is a reference to a type of Kubernetes, which a definition does not have.
        *metadata = json!({"type": "object"});
    }
    // A version without a schema accepts everything.
    let has_fields = schema.get("properties").is_some();
    let schema = Arc::new(if has_fields { schema } else { Value::Null });
    Some(ServedSchema { kind, plural: kind.info()?.plural, version, schema })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_of_the_kinds_are_taken() {
        let of = |group: &str, version: &str, kind: &str| json!([{"group": group, "version": version, "kind": kind}]);
        let content: Content = serde_json::from_value(json!({"paths": {}, "components": {"schemas": {
            "sh.karpenter.v1.NodePool": {
                "type": "object", "x-kubernetes-group-version-kind": of("karpenter.sh", "v1", "NodePool"),
                "properties": {
                    "metadata": {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
                    "spec": {"type": "object"},
                },
            },
            "sh.karpenter.v1.NodePoolList": {"x-kubernetes-group-version-kind": of("karpenter.sh", "v1", "NodePoolList")},
            "sh.karpenter.v1beta1.NodePool": {"type": "object",
                "x-kubernetes-group-version-kind": of("karpenter.sh", "v1beta1", "NodePool")},
            "io.k8s.api.apps.v1.Deployment": {"x-kubernetes-group-version-kind": of("apps", "v1", "Deployment")},
            "sh.karpenter.v1.Part": {"type": "object"},
        }}}))
        .unwrap();
        let found = schemas_of(content, &[Kind::NODE_POOL]);
        let versions: Vec<&str> = found.iter().map(|found| found.version.as_str()).collect();
        assert_eq!(versions, ["v1", "v1beta1"]);
        assert_eq!(found[0].plural, "nodepools");
        assert_eq!(found[0].schema["properties"]["metadata"], json!({"type": "object"}));
        assert_eq!(*found[1].schema, Value::Null);
    }
}
